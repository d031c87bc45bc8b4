//! A child process in a process group of its own: start, exchange, termination.
//!
//! The whole group is killed, because a shell's children outlive the shell. A child
//! that leaves the group by `setsid` cannot be found again.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use rustix::process::Signal;
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{
    error::TransportError,
    pipes::{EarlyEnd, discard, drain, feed},
    process_group::ProcessGroup,
};
use crate::{
    config::AnswerBy,
    protocol::{ProcessExit, ProcessOutput},
};

/// Time that the pipes of an exited process are read, because its children may hold
/// them open. Half of the 500 ms of the hook protocol (section 2), to stay below
/// them on a busy machine.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Default time between SIGTERM and SIGKILL (hook protocol, section 2).
pub(super) const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Time that a killed group is waited for. Only a process in uninterruptible sleep,
/// or a zombie whose parent is slow, takes longer.
const KILL_TIMEOUT: Duration = Duration::from_millis(200);

/// A running child process and its group.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    group: ProcessGroup,
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
            group: ProcessGroup::new(&child),
            running: running.clone(),
            child,
        })
    }

    /// Writes `input`, reads at most `limit` bytes of each output, and waits for the
    /// complete output.
    ///
    /// When dropped, the process continues and its pipes stay open. `input` keeps the
    /// unwritten rest.
    pub(super) async fn exchange(
        &mut self,
        input: &mut Bytes,
        limit: usize,
        answer_by: AnswerBy,
    ) -> Result<Completion, TransportError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let pipes = async {
            tokio::try_join!(
                feed(&mut self.stdin, input),
                drain(self.stdout.as_mut(), &mut stdout, limit, answer_by),
                drain(self.stderr.as_mut(), &mut stderr, limit, AnswerBy::Exit),
            )
        };
        match wait_with_pipes(&mut self.child, pipes).await {
            Ok(exit) => Ok(Completion::Exit(ProcessOutput {
                exit,
                stdout,
                stderr,
            })),
            Err(EarlyEnd::FirstLine) => Ok(Completion::FirstLine(stdout)),
            Err(EarlyEnd::Failed(error)) => Err(error),
        }
    }

    /// Waits for the exit of a process whose output is complete. Writes the rest of
    /// `input` and discards at most `limit` further bytes of each output, so that
    /// the process neither blocks nor fails on a pipe.
    pub(super) async fn drain_until_exit(
        &mut self,
        input: &mut Bytes,
        limit: usize,
    ) -> Result<ProcessExit, TransportError> {
        let pipes = async {
            tokio::try_join!(
                feed(&mut self.stdin, input),
                discard(self.stdout.as_mut(), limit),
                discard(self.stderr.as_mut(), limit),
            )
        };
        wait_with_pipes(&mut self.child, pipes).await
    }

    /// Waits for the exit of an idle process; returns a description of it.
    pub(super) async fn exited(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => process_exit(status).to_string(),
            Err(error) => TransportError::ProcessLost(error).to_string(),
        }
    }

    /// Whether the process has not exited.
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

    /// Sends SIGTERM to the group, and SIGKILL after `grace`.
    pub(super) async fn terminate(mut self, grace: Duration) {
        self.group.signal(Signal::TERM);
        if !self.is_gone_within(grace).await {
            self.kill();
            self.reap().await;
        }
    }

    /// Sends SIGKILL to the group.
    pub(super) fn kill(&self) {
        self.group.signal(Signal::KILL);
    }

    /// Waits for the end of a killed group.
    pub(super) async fn reap(mut self) {
        self.is_gone_within(KILL_TIMEOUT).await;
    }

    async fn is_gone_within(&mut self, time: Duration) -> bool {
        let gone = self.group.wait(&mut self.child);
        timeout(time, gone).await.is_ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.dec();
    }
}

/// Waits for the exit of a child and the end of its pipes.
async fn wait_with_pipes<T, E: From<TransportError>>(
    child: &mut Child,
    pipes: impl Future<Output = Result<T, E>>,
) -> Result<ProcessExit, E> {
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
