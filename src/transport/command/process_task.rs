//! Task that runs one invocation in a process and waits for the process to end.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use tokio::{
    select,
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::AnswerBy,
    protocol::{ProcessExit, ProcessOutput},
    transport::{
        error::TransportError,
        process::{Completion, Process, TERMINATION_GRACE},
        process_slots::SlotPermit,
        shell::ShellCommand,
    },
};

/// Shared settings of the processes of one hook.
#[derive(Debug)]
pub(super) struct ProcessTask {
    pub(super) shell: ShellCommand,
    /// End of a complete output.
    pub(super) answer_by: AnswerBy,
    /// Cancelled when the hook is dropped: processes without a waiting call end.
    pub(super) closed: CancellationToken,
}

/// One call of a hook.
#[derive(Debug)]
pub(super) struct HookInvocation {
    pub(super) input: Bytes,
    /// Time limit of a process that continues after its output.
    pub(super) deadline: Instant,
    /// Closed when the call is dropped.
    pub(super) output: oneshot::Sender<Result<ProcessOutput, TransportError>>,
}

impl ProcessTask {
    /// Runs an invocation in a task that outlives a dropped call, until the process
    /// has ended. The returned channel is closed when the invocation is complete.
    pub(super) fn spawn(
        self: &Arc<Self>,
        mut process: Process,
        slot: SlotPermit,
        invocation: HookInvocation,
    ) -> oneshot::Receiver<Infallible> {
        let (busy, complete) = oneshot::channel();
        let task = Arc::clone(self);
        self.shell.deps.tasks.spawn(async move {
            task.run(&mut process, invocation).await;
            drop(busy);
            process.terminate(TERMINATION_GRACE).await;
            drop(slot);
        });
        complete
    }

    /// Runs a process to its complete output, and on to its exit if it continues. Kills
    /// a process that exited or failed, with its children; any other may clean up.
    async fn run(&self, process: &mut Process, invocation: HookInvocation) {
        let HookInvocation {
            mut input,
            deadline,
            output: mut sender,
        } = invocation;
        let limit = self.shell.deps.output_limit;
        let completion = select! {
            completion = process.exchange(&mut input, limit, self.answer_by) => completion,
            () = sender.closed() => return,
        };
        let output = match completion {
            Ok(Completion::FirstLine(line)) => {
                // The exit code and stderr do not count any more.
                if sender.send(Ok(ProcessOutput::success(line))).is_ok() {
                    self.wait_for_exit(process, input, deadline).await;
                }
                return;
            }
            Ok(Completion::Exit(output)) => Ok(output),
            Err(error) => Err(error),
        };
        process.kill();
        sender.send(output).ok();
    }

    /// Waits for a process whose output is complete. Its pipes are served, so that it
    /// neither blocks nor fails on one.
    async fn wait_for_exit(&self, process: &mut Process, mut input: Bytes, deadline: Instant) {
        let limit = self.shell.deps.output_limit;
        let completion = select! {
            completion = process.exchange(&mut input, limit, AnswerBy::Exit) => completion,
            () = sleep_until(deadline) => return self.log_failure("timed out"),
            () = self.closed.cancelled() => return,
        };
        process.kill();
        match completion {
            Ok(Completion::Exit(output)) if output.exit != ProcessExit::Code(0) => {
                self.log_failure(&output.exit.to_string());
            }
            Ok(_) | Err(TransportError::OutputIncomplete) => (),
            Err(error) => self.log_failure(&error.to_string()),
        }
    }

    fn log_failure(&self, error: &str) {
        tracing::warn!(
            hook.name = self.shell.hook,
            error,
            "hook failed after responding"
        );
    }
}
