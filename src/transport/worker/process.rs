//! One place of a worker: starts a process, hands it one call at a time, and
//! ends it when it fails or is not needed any more.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    select,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    framing,
    queue::{Job, Queue, Told},
    stderr,
};
use crate::transport::{TransportError, backoff::Pause, process::Process, shell::Shell};

/// How long an answer may take that nobody waits for any more. An agent that
/// leaves should not cost others a worker that is about to answer.
const LATE: Duration = Duration::from_secs(2);

/// How long the last words of an ended process are waited for: its children may
/// hold its stderr open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// One place of a worker.
#[derive(Debug)]
pub(super) struct Instance {
    shell: Arc<Shell>,
    queue: Arc<Queue>,
    pause: Pause,
}

/// Why a process is not spoken with any more.
enum End {
    /// No call will come.
    Closed,
    /// It takes too long over a call that was given up.
    Late,
    /// It ended, or wrote what it should not.
    Failed(String),
}

impl Instance {
    pub(super) const fn new(shell: Arc<Shell>, queue: Arc<Queue>) -> Self {
        Self {
            shell,
            queue,
            pause: Pause::new(),
        }
    }

    /// Answers calls until no further one will come.
    pub(super) async fn run(mut self) {
        while let Some(job) = self.queue.next().await {
            let end = match self.shell.start(None) {
                Ok(process) => self.attend(process, job).await,
                Err(error) => fail(job.told, error),
            };
            match end {
                End::Closed => return,
                End::Late => (),
                End::Failed(error) => {
                    tracing::warn!(hook.name = self.shell.hook(), error, "worker failed");
                    self.pause.rest(&self.queue.closed).await;
                }
            }
        }
    }

    /// Lets a process answer calls, logs what it complains of, and sees its
    /// end.
    async fn attend(&mut self, mut process: Process, job: Job) -> End {
        let shell = Arc::clone(&self.shell);
        let Some((stdin, stdout, stderr)) = process.pipes() else {
            return fail(job.told, lost());
        };
        let pipes = Pipes {
            stdin,
            stdout: BufReader::new(stdout),
            limit: shell.toolbox().output_limit,
        };
        let over = CancellationToken::new();
        let life = async {
            let end = self.converse(pipes, job).await;
            match end {
                End::Closed => process.finish().await,
                End::Late | End::Failed(_) => {
                    process.kill();
                    process.gone().await;
                }
            }
            over.cancel();
            end
        };
        let complaints = async {
            select! {
                () = stderr::lines(stderr, shell.hook()) => (),
                () = async { over.cancelled().await; sleep(LAST_WORDS).await } => (),
            }
        };
        let (end, ()) = tokio::join!(life, complaints);
        end
    }

    async fn converse(&mut self, mut pipes: Pipes, first: Job) -> End {
        let mut job = first;
        loop {
            if let Err(end) = self.answer(&mut pipes, job).await {
                return end;
            }
            self.pause = Pause::new();
            job = select! {
                biased;
                // Between two calls it has nothing to say.
                said = pipes.stdout.fill_buf() => {
                    let is_alive = said.is_ok_and(|it| !it.is_empty());
                    let error = if is_alive { TransportError::Unasked } else { lost() };
                    return End::Failed(error.to_string());
                }
                next = self.queue.next() => match next {
                    Some(job) => job,
                    None => return End::Closed,
                },
            };
        }
    }

    async fn answer(&self, pipes: &mut Pipes, job: Job) -> Result<(), End> {
        let Job { input, mut told } = job;
        let exchange = pipes.exchange(&input);
        tokio::pin!(exchange);
        let output = select! {
            output = &mut exchange => output,
            () = told.closed() => select! {
                output = timeout(LATE, exchange) => output.map_err(|_elapsed| End::Late)?,
                () = self.queue.closed.cancelled() => return Err(End::Closed),
            },
        };
        match output {
            Ok(output) => {
                told.send(Ok(output)).ok();
                Ok(())
            }
            Err(error) => Err(fail(told, error)),
        }
    }
}

/// What a process is spoken with.
struct Pipes {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The longest answer, in bytes.
    limit: usize,
}

impl Pipes {
    /// Asks, and listens at the same time: what does not answer the question
    /// fails it before the process has read all of it.
    async fn exchange(&mut self, input: &[u8]) -> Result<Vec<u8>, TransportError> {
        let id = Uuid::new_v4().simple().to_string();
        let question = framing::write(&id, input);
        let (stdin, stdout, limit) = (&mut self.stdin, &mut self.stdout, self.limit);
        let ask = async {
            let written = stdin.write_all(&question).await;
            written.map_err(TransportError::Process)
        };
        let listen = async {
            let mut answer = Vec::new();
            let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
            let read = stdout.take(most).read_until(b'\n', &mut answer).await;
            read.map_err(TransportError::Process)?;
            if answer.len() > limit {
                return Err(TransportError::TooMuchOutput);
            }
            if !answer.ends_with(b"\n") {
                return Err(lost());
            }
            framing::read(&id, &answer)
        };
        let ((), output) = tokio::try_join!(ask, listen)?;
        Ok(output)
    }
}

fn lost() -> TransportError {
    TransportError::Process(io::ErrorKind::UnexpectedEof.into())
}

/// Tells the caller, and why the process must end.
fn fail(told: Told, error: TransportError) -> End {
    let cause = error.to_string();
    told.send(Err(error)).ok();
    End::Failed(cause)
}
