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

/// Termination of a process after its invocation.
enum Termination {
    /// The process exited or was killed.
    Exited,
    /// The process is not needed any more and may clean up.
    Graceful,
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
        self.shell.deps().tasks.spawn(async move {
            let termination = task.run(&mut process, invocation).await;
            drop(busy);
            match termination {
                Termination::Exited => process.reap().await,
                Termination::Graceful => process.terminate(TERMINATION_GRACE).await,
            }
            drop(slot);
        });
        complete
    }

    /// Runs a process to its complete output, and on to its exit if it continues.
    async fn run(&self, process: &mut Process, mut invocation: HookInvocation) -> Termination {
        let limit = self.shell.deps().output_limit;
        let completion = select! {
            completion = process.exchange(&mut invocation.input, limit, self.answer_by) => completion,
            () = invocation.output.closed() => return Termination::Graceful,
        };
        let output = match completion {
            Ok(Completion::FirstLine(line)) => {
                // The exit code and stderr do not count any more.
                let output = ProcessOutput::success(line);
                let HookInvocation {
                    input,
                    deadline,
                    output: sender,
                } = invocation;
                if sender.send(Ok(output)).is_err() {
                    return Termination::Graceful;
                }
                return self.drain_until_exit(process, input, deadline).await;
            }
            Ok(Completion::Exit(output)) => Ok(output),
            Err(error) => Err(error),
        };
        process.kill();
        invocation.output.send(output).ok();
        Termination::Exited
    }

    async fn drain_until_exit(
        &self,
        process: &mut Process,
        mut input: Bytes,
        deadline: Instant,
    ) -> Termination {
        let limit = self.shell.deps().output_limit;
        let exit = select! {
            exit = process.drain_until_exit(&mut input, limit) => exit,
            () = sleep_until(deadline) => {
                self.log_failure("timed out");
                return Termination::Graceful;
            }
            () = self.closed.cancelled() => return Termination::Graceful,
        };
        process.kill();
        match exit {
            Ok(ProcessExit::Code(0)) => (),
            Ok(exit) => self.log_failure(&exit.to_string()),
            Err(error) => self.log_failure(&error.to_string()),
        }
        Termination::Exited
    }

    fn log_failure(&self, error: &str) {
        tracing::warn!(
            hook.name = self.shell.hook(),
            error,
            "hook failed after responding"
        );
    }
}
