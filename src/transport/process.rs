//! A child in a process group of its own: start, feed, drain, end.
//!
//! The group is what is killed, because a shell's children outlive the shell.
//! A child that leaves the group by `setsid` cannot be found again.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use prometheus_client::metrics::gauge::Gauge;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use super::TransportError;
use crate::protocol::{Ended, Exit};

/// How long the pipes of an ended process are waited for: its own children may
/// hold them open. Half of what the hook protocol allows, so that even on a busy
/// machine nobody waits for longer than that.
const PIPES_AFTER_END: Duration = Duration::from_millis(250);

/// How long a group may take to end when asked, unless something else is said.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a killed group is waited for: only a process that sleeps inside the
/// kernel, or a zombie whose parent is slow, takes longer.
const KILLED: Duration = Duration::from_millis(200);

/// How often a group is looked at: the kernel tells of children only.
const LOOK: Duration = Duration::from_millis(10);

/// A running child and all that it started.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    group: Group,
    _counted: Counted,
}

/// Counts a process for as long as this is held.
#[derive(Debug)]
struct Counted(Gauge);

impl Counted {
    fn by(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Process {
    /// Starts `command` in a group of its own, with pipes for all it reads and
    /// writes. `alive` counts it.
    pub(super) fn start(mut command: Command, alive: &Gauge) -> io::Result<Self> {
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let id = child.id().and_then(|it| Pid::from_raw(it.cast_signed()));
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            group: Group { id },
            _counted: Counted::by(alive),
            child,
        })
    }

    /// Feeds `input`, reads at most `limit` bytes of each output, and waits
    /// until the child has ended.
    ///
    /// When dropped, the child goes on and its outputs stay open.
    pub(super) async fn exchange(
        &mut self,
        input: &[u8],
        limit: usize,
    ) -> Result<Ended, TransportError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let pipes = async {
            tokio::try_join!(
                feed(self.stdin.take(), input),
                drain(self.stdout.as_mut(), &mut stdout, limit),
                drain(self.stderr.as_mut(), &mut stderr, limit),
            )
        };
        let status = wait(&mut self.child, pipes).await?;
        Ok(Ended {
            exit: exit(status),
            stdout,
            stderr,
        })
    }

    /// Waits for the end of a child that is told nothing, and says how it ended.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => exit(status).to_string(),
            Err(error) => TransportError::Process(error).to_string(),
        }
    }

    /// Whether the child has not yet ended.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its stdin, stdout and stderr, for one who speaks with it as it runs.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        Some((self.stdin.take()?, self.stdout.take()?, self.stderr.take()?))
    }

    /// Waits for the end of a group that has nothing more to read, then asks
    /// for it.
    pub(super) async fn finish(mut self) {
        if !self.is_gone_within(PATIENCE).await {
            self.terminate(PATIENCE).await;
        }
    }

    /// Asks the group to end, then kills it.
    pub(super) async fn terminate(mut self, patience: Duration) {
        self.group.signal(Signal::TERM);
        if !self.is_gone_within(patience).await {
            self.kill();
            self.gone().await;
        }
    }

    /// Kills the group without waiting for its end.
    pub(super) fn kill(&self) {
        self.group.signal(Signal::KILL);
    }

    /// Waits for the end of a killed group.
    pub(super) async fn gone(mut self) {
        self.is_gone_within(KILLED).await;
    }

    async fn is_gone_within(&mut self, time: Duration) -> bool {
        let gone = self.group.gone(&mut self.child);
        timeout(time, gone).await.is_ok()
    }
}

/// A process group; killed when dropped before it is gone.
#[derive(Debug)]
struct Group {
    /// None once it is gone: the number may then belong to others.
    id: Option<Pid>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // It may be gone already, which is what is wanted.
            kill_process_group(id, signal).ok();
        }
    }

    async fn gone(&mut self, leader: &mut Child) {
        // Only a reaped leader leaves its group.
        leader.wait().await.ok();
        while let Some(id) = self.id {
            if test_kill_process_group(id) == Err(Errno::SRCH) {
                self.id = None;
                return;
            }
            // As first process of a container the gateway inherits orphans.
            if !matches!(waitpgid(id, WaitOptions::NOHANG), Ok(Some(_))) {
                sleep(LOOK).await;
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Waits for a child and its pipes.
async fn wait<T>(
    child: &mut Child,
    pipes: impl Future<Output = Result<T, TransportError>>,
) -> Result<ExitStatus, TransportError> {
    tokio::pin!(pipes);
    let status = tokio::select! {
        closed = &mut pipes => {
            closed?;
            child.wait().await
        }
        status = child.wait() => {
            if let Ok(closed) = timeout(PIPES_AFTER_END, pipes).await {
                closed?;
            }
            status
        }
    };
    status.map_err(TransportError::Process)
}

async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), TransportError> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(input).await {
        // A hook need not read what it does not care for.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(TransportError::Process),
    }
}

async fn drain(
    output: Option<impl AsyncRead + Unpin>,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> Result<(), TransportError> {
    let Some(mut output) = output else {
        return Ok(());
    };
    loop {
        let read = output.read_buf(buffer).await;
        if read.map_err(TransportError::Process)? == 0 {
            return Ok(());
        }
        if buffer.len() > limit {
            return Err(TransportError::TooMuchOutput);
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
