//! One process of a worker: started by the first call, restarted after failures.

use std::{io, pin::pin, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    select,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    framing::{self, WorkerOutputs},
    queue::{CallQueue, OutputSender, QueuedCall},
    stderr,
};
use crate::{
    backoff::Backoff,
    transport::{
        backoff::start_backoff,
        error::TransportError,
        process::{PIPE_DRAIN_TIMEOUT, Process, TERMINATION_GRACE},
        shell::ShellCommand,
    },
};

/// Time that the output of a dropped call may take. An agent that disconnects should
/// not cost others a worker that is about to respond.
const LATE_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time that the first output of a process may take after its call was dropped. A process
/// that starts slowly would otherwise never respond.
const LATE_START_TIMEOUT: Duration = Duration::from_mins(1);

/// Time that stderr of an ended process is read: its children may hold it open.
const STDERR_DRAIN_TIME: Duration = Duration::from_millis(500);

/// One process of a worker.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    shell: Arc<ShellCommand>,
    queue: Arc<CallQueue>,
    backoff: Backoff,
    /// Time that the first output of the next process may take after its call was dropped.
    late_start_timeout: Duration,
}

/// Reason for the end of a process.
enum WorkerEnd {
    /// The hook was dropped.
    Closed,
    /// The output of a dropped call took too long.
    Late,
    /// The process exited or wrote unexpected output.
    Failed(String),
}

impl WorkerEnd {
    /// Waits for the process, or kills one that did not do its work.
    async fn stop(&self, mut process: Process) {
        match self {
            Self::Closed => process.wait_or_terminate().await,
            Self::Late | Self::Failed(_) => {
                process.kill();
                process.terminate(TERMINATION_GRACE).await;
            }
        }
    }
}

impl WorkerProcess {
    pub(super) const fn new(shell: Arc<ShellCommand>, queue: Arc<CallQueue>) -> Self {
        Self {
            shell,
            queue,
            backoff: start_backoff(),
            late_start_timeout: LATE_START_TIMEOUT,
        }
    }

    /// Handles calls until the queue is closed.
    pub(super) async fn run(mut self) {
        while let Some(call) = self.queue.next().await {
            let end = match self.shell.start(None) {
                Ok(process) => self.supervise(process, call).await,
                Err(error) => fail(call.output, error),
            };
            match end {
                WorkerEnd::Closed => return,
                WorkerEnd::Late => {
                    let error = "answer too late";
                    tracing::warn!(hook.name = self.shell.hook, error, "worker failed");
                }
                WorkerEnd::Failed(error) => {
                    tracing::warn!(hook.name = self.shell.hook, error, "worker failed");
                    self.backoff.wait(&self.queue.closed).await;
                }
            }
        }
    }

    /// Runs a process to its end, and logs its stderr.
    async fn supervise(&mut self, mut process: Process, first: QueuedCall) -> WorkerEnd {
        let shell = Arc::clone(&self.shell);
        let Some((stdin, stdout, stderr)) = process.take_pipes() else {
            return fail(first.output, lost());
        };
        let pipes = WorkerPipes {
            stdin,
            stdout: BufReader::new(stdout),
            output_limit: shell.deps.output_limit,
        };
        let ended = CancellationToken::new();
        let calls = async {
            let end = self.handle_calls(&mut process, pipes, first).await;
            end.stop(process).await;
            ended.cancel();
            end
        };
        let log = async {
            select! {
                () = stderr::log_lines(stderr, &shell.hook) => (),
                () = async { ended.cancelled().await; sleep(STDERR_DRAIN_TIME).await } => (),
            }
        };
        let (end, ()) = tokio::join!(calls, log);
        end
    }

    /// Handles calls, from `call` on, until the process is to end.
    async fn handle_calls(
        &mut self,
        process: &mut Process,
        mut pipes: WorkerPipes,
        mut call: QueuedCall,
    ) -> WorkerEnd {
        let mut started = Some(Instant::now());
        let mut late_timeout = self.late_start_timeout;
        // Without an answer of this process, the next one may start on a machine that is slower now.
        self.late_start_timeout = (late_timeout * 2).min(LATE_START_TIMEOUT);
        loop {
            let QueuedCall {
                input,
                output: mut sender,
            } = call;
            let mut exchange = Box::pin(until_exit(process, pipes.exchange(&input)));
            let output = select! {
                output = &mut exchange => output,
                () = sender.closed() => select! {
                    output = timeout(late_timeout, &mut exchange) => match output {
                        Ok(output) => output,
                        Err(_elapsed) => return WorkerEnd::Late,
                    },
                    () = self.queue.closed.cancelled() => return WorkerEnd::Closed,
                },
            };
            drop(exchange);
            match output {
                Ok(output) => sender.send(Ok(output)).ok(),
                Err(error) => return fail(sender, error),
            };
            self.backoff.reset();
            if let Some(started) = started.take() {
                // A process that hangs later is replaced by one that starts as fast.
                let start_timeout = started.elapsed() + LATE_OUTPUT_TIMEOUT;
                self.late_start_timeout = start_timeout.min(LATE_START_TIMEOUT);
                late_timeout = LATE_OUTPUT_TIMEOUT;
            }
            call = select! {
                biased;
                // There must be no output between two calls.
                read = pipes.stdout.fill_buf() => {
                    let has_output = read.is_ok_and(|bytes| !bytes.is_empty());
                    let error = if has_output { TransportError::UnexpectedLine } else { lost() };
                    return WorkerEnd::Failed(error.to_string());
                }
                // Its children may hold the pipes open.
                _ = process.exited() => return WorkerEnd::Failed(lost().to_string()),
                next = self.queue.next() => match next {
                    Some(call) => call,
                    None => return WorkerEnd::Closed,
                },
            };
        }
    }
}

struct WorkerPipes {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Limit in bytes on a line.
    output_limit: usize,
}

impl WorkerPipes {
    /// Writes a call and reads its output at the same time: an unexpected line fails
    /// the call before the process has read all of it.
    async fn exchange(&mut self, input: &[u8]) -> Result<WorkerOutputs, TransportError> {
        let id = Uuid::new_v4().simple().to_string();
        let request = framing::write(&id, input);
        let (stdin, stdout, limit) = (&mut self.stdin, &mut self.stdout, self.output_limit);
        let write = async {
            let written = stdin.write_all(request.as_bytes()).await;
            written.map_err(TransportError::ProcessLost)
        };
        let read = async {
            let mut line = Vec::new();
            let max_bytes = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
            let read = stdout.take(max_bytes).read_until(b'\n', &mut line).await;
            read.map_err(TransportError::ProcessLost)?;
            if line.len() > limit {
                return Err(TransportError::OutputLimit);
            }
            if !line.ends_with(b"\n") {
                return Err(lost());
            }
            framing::read(&id, &line)
        };
        let ((), output) = tokio::try_join!(write, read)?;
        Ok(output)
    }
}

/// Waits for the output of a call. That of an exited process is complete, although its children
/// may hold the pipes open.
async fn until_exit(
    process: &mut Process,
    exchange: impl Future<Output = Result<WorkerOutputs, TransportError>>,
) -> Result<WorkerOutputs, TransportError> {
    let mut exchange = pin!(exchange);
    select! {
        biased;
        output = &mut exchange => output,
        _ = process.exited() => {
            let output = timeout(PIPE_DRAIN_TIMEOUT, exchange).await;
            output.unwrap_or_else(|_elapsed| Err(lost()))
        }
    }
}

fn lost() -> TransportError {
    TransportError::ProcessLost(io::ErrorKind::UnexpectedEof.into())
}

/// Fails the call, and with it the process.
fn fail(sender: OutputSender, error: TransportError) -> WorkerEnd {
    let cause = error.to_string();
    sender.send(Err(error)).ok();
    WorkerEnd::Failed(cause)
}
