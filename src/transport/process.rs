//! A child process in a process group of its own: start, exchange, termination.
//!
//! The whole group is killed, because a shell's children outlive the shell. A child
//! that leaves the group, as by `setsid` or GNU `timeout` without `--foreground`, cannot be found
//! again.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use futures_util::TryFutureExt;
use prometheus_client::metrics::gauge::Gauge;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid},
};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use super::{
    error::TransportError,
    pipes::{EarlyEnd, drain, feed},
};
use crate::{
    config::AnswerBy,
    protocol::{ProcessExit, ProcessOutput},
};

/// Time that the pipes of an exited process are read, because its children may hold
/// them open. Half of the 500 ms of the hook protocol (section 2), to stay below
/// them on a busy machine.
pub(super) const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Default time between SIGTERM and SIGKILL (hook protocol, section 2).
pub(super) const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Time that a killed group is waited for. Only a process in uninterruptible sleep,
/// or a zombie whose parent is slow, takes longer.
const KILL_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which a group is polled for its end: the kernel reports the end of
/// own children only.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running child process and its group, which is killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// `None` once the group is gone: the id may be reused.
    group: Option<Pid>,
    /// True if the group has received SIGKILL.
    is_killed: bool,
    /// Number of running processes.
    running: Gauge,
}

/// Complete output of a process.
#[derive(Debug)]
pub(super) enum Completion {
    /// First line of standard output, with `answer: line`. The process may continue.
    FirstLine(Vec<u8>),
    /// Output and exit status.
    Exit(ProcessOutput),
}

impl Process {
    /// Starts `command` in a new group, with pipes for all standard streams.
    /// `running` counts it.
    pub(super) fn start(mut command: Command, running: &Gauge) -> io::Result<Self> {
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        running.inc();
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            group: child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
            is_killed: false,
            running: running.clone(),
            child,
        })
    }

    /// Writes the rest of `input`, reads at most `limit` further bytes of each output,
    /// and waits for the complete output. If a child holds stdout open after exit code 0, only
    /// JSON shows whether it is complete.
    ///
    /// Dropping the future keeps the process running and its pipes open; `input` holds the
    /// unwritten rest.
    pub(super) async fn exchange(
        &mut self,
        input: &mut Bytes,
        limit: usize,
        answer_by: AnswerBy,
    ) -> Result<Completion, TransportError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut is_stdout_open = true;
        let pipes = async {
            tokio::try_join!(
                feed(&mut self.stdin, input),
                drain(self.stdout.as_mut(), &mut stdout, limit, answer_by)
                    .inspect_ok(|()| is_stdout_open = false),
                drain(self.stderr.as_mut(), &mut stderr, limit, AnswerBy::Exit),
            )
        };
        match wait_with_pipes(&mut self.child, pipes).await {
            // The beginning of an object is malformed JSON, and fails as such.
            Ok(ProcessExit::Code(0))
                if is_stdout_open && !stdout.trim_ascii_start().starts_with(b"{") =>
            {
                Err(TransportError::OutputIncomplete)
            }
            Ok(exit) => Ok(Completion::Exit(ProcessOutput {
                exit,
                stdout,
                stderr,
            })),
            Err(EarlyEnd::FirstLine) => Ok(Completion::FirstLine(stdout)),
            Err(EarlyEnd::Failed(error)) => Err(error),
        }
    }

    /// Waits for the exit of an idle process; returns a description of it.
    pub(super) async fn exited(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => process_exit(status).to_string(),
            Err(error) => TransportError::ProcessLost(error).to_string(),
        }
    }

    /// Returns whether the process has not exited.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Takes stdin, stdout and stderr.
    pub(super) fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        Some((self.stdin.take()?, self.stdout.take()?, self.stderr.take()?))
    }

    /// Waits for the exit of a group whose input is closed, then terminates it.
    pub(super) async fn wait_or_terminate(mut self) {
        if !self.is_gone_within(TERMINATION_GRACE).await {
            self.terminate(TERMINATION_GRACE).await;
        }
    }

    /// Sends SIGTERM to the group, and SIGKILL after `grace`. A killed group is only
    /// waited for.
    pub(super) async fn terminate(mut self, grace: Duration) {
        if !self.is_killed {
            self.signal(Signal::TERM);
            if self.is_gone_within(grace).await {
                return;
            }
            self.kill();
        }
        self.is_gone_within(KILL_TIMEOUT).await;
    }

    /// Sends SIGKILL to the group.
    pub(super) fn kill(&mut self) {
        self.is_killed = true;
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone needs no signal.
            kill_process_group(group, signal).ok();
        }
    }

    async fn is_gone_within(&mut self, time: Duration) -> bool {
        timeout(time, self.wait_for_group()).await.is_ok()
    }

    /// Waits until all processes of the group are gone.
    async fn wait_for_group(&mut self) {
        // The leader stays in the group until it is reaped.
        self.child.wait().await.ok();
        while let Some(group) = self.group {
            if test_kill_process_group(group) == Err(Errno::SRCH) {
                self.group = None;
                return;
            }
            // As first process of a container the gateway inherits orphans.
            if !matches!(waitpgid(group, WaitOptions::NOHANG), Ok(Some(_))) {
                sleep(POLL_INTERVAL).await;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.running.dec();
    }
}

/// Waits for the exit of a child and the end of its pipes.
async fn wait_with_pipes<T>(
    child: &mut Child,
    pipes: impl Future<Output = Result<T, EarlyEnd>>,
) -> Result<ProcessExit, EarlyEnd> {
    tokio::pin!(pipes);
    let status = tokio::select! {
        closed = &mut pipes => {
            closed?;
            child.wait().await
        }
        status = child.wait() => {
            if let Ok(closed) = timeout(PIPE_DRAIN_TIMEOUT, pipes).await {
                closed?;
            }
            status
        }
    };
    Ok(process_exit(status.map_err(TransportError::ProcessLost)?))
}

fn process_exit(status: ExitStatus) -> ProcessExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, signal) => ProcessExit::Signal(signal.unwrap_or_default()),
    }
}
