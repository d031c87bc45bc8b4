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

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy, sink},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use super::TransportError;
use crate::{
    config::AnswerBy,
    protocol::{Ended, Exit},
};
use strict_json::{self, Names};

/// How long the pipes of an ended process are waited for: its own children may
/// hold them open. Half of what the hook protocol allows, so that even on a busy
/// machine nobody waits for longer than that.
const PIPES_AFTER_END: Duration = Duration::from_millis(250);

/// How long a group may take to end when asked, unless something else is said.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a killed group is waited for: only a process that sleeps inside the
/// kernel, or a zombie whose parent is slow, takes longer.
const KILLED: Duration = Duration::from_millis(200);

/// Room for what is read of an output at once, at least.
const LEAST_READ: usize = 4096;

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

/// What a child had to say.
#[derive(Debug)]
pub(super) enum Said {
    /// A first line that is an answer. The child may go on.
    Line(Vec<u8>),
    /// All of it, and then it ended.
    All(Ended),
}

/// Why pipes are not read to their ends.
enum Cut {
    /// What was read is an answer.
    Answered,
    Failed(TransportError),
}

impl From<TransportError> for Cut {
    fn from(error: TransportError) -> Self {
        Self::Failed(error)
    }
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
    /// until the child has answered or ended.
    ///
    /// When dropped, the child goes on and its pipes stay open. What it was not fed
    /// is left in `input`.
    pub(super) async fn exchange(
        &mut self,
        input: &mut Bytes,
        limit: usize,
        answer_by: AnswerBy,
    ) -> Result<Said, TransportError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let pipes = async {
            tokio::try_join!(
                feed(&mut self.stdin, input),
                drain(self.stdout.as_mut(), &mut stdout, limit, answer_by),
                drain(self.stderr.as_mut(), &mut stderr, limit, AnswerBy::Exit),
            )
        };
        match wait(&mut self.child, pipes).await {
            Ok(exit) => Ok(Said::All(Ended {
                exit,
                stdout,
                stderr,
            })),
            Err(Cut::Answered) => Ok(Said::Line(stdout)),
            Err(Cut::Failed(error)) => Err(error),
        }
    }

    /// Waits until a child that has answered has ended. Feeds what is left of
    /// `input`, and reads at most `limit` further bytes of each output, so that
    /// the child is neither held up nor broken off.
    pub(super) async fn run_out(
        &mut self,
        input: &mut Bytes,
        limit: usize,
    ) -> Result<Exit, TransportError> {
        let pipes = async {
            tokio::try_join!(
                feed(&mut self.stdin, input),
                discard(self.stdout.as_mut(), limit),
                discard(self.stderr.as_mut(), limit),
            )
        };
        wait(&mut self.child, pipes).await
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
async fn wait<T, E: From<TransportError>>(
    child: &mut Child,
    pipes: impl Future<Output = Result<T, E>>,
) -> Result<Exit, E> {
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
    Ok(exit(status.map_err(TransportError::Process)?))
}

/// Writes what is left of `input`, and ends it.
async fn feed<E: From<TransportError>>(
    stdin: &mut Option<ChildStdin>,
    input: &mut Bytes,
) -> Result<(), E> {
    let Some(open) = stdin else {
        return Ok(());
    };
    let written = open.write_all_buf(input).await;
    *stdin = None;
    match written {
        // A hook need not read what it does not care for.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.map_err(TransportError::Process)?),
    }
}

/// Reads to the end, or to the end of a first line that is an answer.
async fn drain(
    output: Option<impl AsyncRead + Unpin>,
    buffer: &mut Vec<u8>,
    limit: usize,
    answer_by: AnswerBy,
) -> Result<(), Cut> {
    let Some(mut output) = output else {
        return Ok(());
    };
    let mut may_be_answer = answer_by == AnswerBy::Line;
    loop {
        let known = buffer.len();
        make_room(buffer, limit);
        let read = output.read_buf(buffer).await;
        if read.map_err(TransportError::Process)? == 0 {
            return Ok(());
        }
        if may_be_answer && let Some(length) = first_line(buffer, known) {
            may_be_answer = false;
            let line = buffer.get(..length).unwrap_or_default();
            if length <= limit && is_object(line) {
                buffer.truncate(length);
                return Err(Cut::Answered);
            }
        }
        if buffer.len() > limit {
            return Err(TransportError::TooMuchOutput.into());
        }
    }
}

/// Room for more, of which none is made beyond what is found to be too much. What
/// is large is moved once.
fn make_room(buffer: &mut Vec<u8>, limit: usize) {
    let known = buffer.len();
    if known == buffer.capacity() {
        let rest = limit.saturating_add(1).saturating_sub(known);
        let more = if known < limit / 4 { known } else { rest };
        buffer.reserve_exact(more.max(LEAST_READ));
    }
}

/// How long the first line is, with its end, if that is there. It is none of the
/// first `known` bytes. Pure.
fn first_line(text: &[u8], known: usize) -> Option<usize> {
    let at = memchr::memchr(b'\n', text.get(known..)?)?;
    Some(known + at + 1)
}

/// Whether a line is a JSON object that means one thing to everybody. Pure.
fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && strict_json::check(line, Names::Free).is_ok()
}

/// Reads to the end what nobody wants to know.
async fn discard(
    output: Option<impl AsyncRead + Unpin>,
    limit: usize,
) -> Result<(), TransportError> {
    let Some(output) = output else {
        return Ok(());
    };
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut output = output.take(limit.saturating_add(1));
    let read = copy(&mut output, &mut sink()).await;
    if read.map_err(TransportError::Process)? > limit {
        return Err(TransportError::TooMuchOutput);
    }
    Ok(())
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of an output that comes in two pieces, and whether it is an
    /// answer before its end.
    async fn read(pieces: (&[u8], &[u8]), limit: usize) -> Result<(Vec<u8>, bool), String> {
        let mut buffer = Vec::new();
        let output = pieces.0.chain(pieces.1);
        match drain(Some(output), &mut buffer, limit, AnswerBy::Line).await {
            Ok(()) => Ok((buffer, false)),
            Err(Cut::Answered) => Ok((buffer, true)),
            Err(Cut::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Checks what part of a text is an answer, in whichever two pieces it comes.
    async fn check_cuts(text: &str, answer: Option<&str>) {
        let expected = (answer.unwrap_or(text).into(), answer.is_some());
        for at in 0..=text.len() {
            let read = read(text.as_bytes().split_at(at), 100).await;
            assert_eq!(read.as_ref(), Ok(&expected), "{text} at {at}");
        }
    }

    #[tokio::test]
    async fn a_first_line_is_an_answer_however_it_is_cut() {
        for (text, answer) in [
            ("{}\n", Some("{}\n")),
            ("{\"a\":1}\r\n{\"b\":2}\n", Some("{\"a\":1}\r\n")),
            ("\t{} \ntext", Some("\t{} \n")),
            ("", None),
            ("{}", None),
            ("{\"a\":1", None),
            ("\n{}\n", None),
            ("text\n{}\n", None),
            ("\u{feff}{}\n", None),
            ("[{}]\n{}\n", None),
            ("\"{}\"\n", None),
            ("{}{}\n", None),
            ("{}//\n", None),
            ("{\n}\n", None),
            ("{\"a\":1,\"\\u0061\":2}\n", None),
            ("{\"a\":\"\\ud83d\"}\n", None),
        ] {
            check_cuts(text, answer).await;
        }
    }

    #[tokio::test]
    async fn a_line_may_be_as_long_as_an_output() {
        let lines = b"{\"a\":1}\n{}\n";
        for at in 0..=lines.len() {
            let fits = read(lines.split_at(at), 8).await.unwrap();
            let long = read(lines.split_at(at), 7).await.unwrap_err();

            assert_eq!(fits, (lines[..8].to_vec(), true));
            assert_eq!(long, "too much output");
        }
    }
}
