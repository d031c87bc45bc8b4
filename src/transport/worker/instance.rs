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
    line, log,
    queue::{Job, Queue, Told},
};
use crate::{
    telemetry::WorkerFailed,
    transport::{TransportError, process::Process, shell::Shell},
};

/// The pause before a failed process is started again; it doubles with every
/// failure until a call is answered.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long an answer may take that nobody waits for any more. An agent that
/// leaves should not cost others a worker that is about to answer.
const LATE: Duration = Duration::from_secs(2);

/// How long the last words of an ended process are waited for: its children may
/// hold its stderr open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What an instance starts.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) shell: Shell,
    /// What the hook is called in logs.
    pub(super) hook: String,
}

/// One place of a worker.
#[derive(Debug)]
pub(super) struct Instance {
    launch: Arc<Launch>,
    queue: Arc<Queue>,
    pause: Duration,
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
    pub(super) const fn new(launch: Arc<Launch>, queue: Arc<Queue>) -> Self {
        Self {
            launch,
            queue,
            pause: FIRST_PAUSE,
        }
    }

    /// Answers calls until no further one will come.
    pub(super) async fn run(mut self) {
        while let Some(job) = self.queue.next().await {
            let end = match self.launch.shell.start(None) {
                Ok(process) => self.attend(process, job).await,
                Err(error) => fail(job.told, error),
            };
            match end {
                End::Closed => return,
                End::Late => (),
                End::Failed(cause) => {
                    let hook = &self.launch.hook;
                    WorkerFailed {
                        hook,
                        cause: &cause,
                    }
                    .emit();
                    self.rest().await;
                }
            }
        }
    }

    /// Lets a process answer calls, logs what it complains of, and sees its
    /// end.
    async fn attend(&mut self, mut process: Process, job: Job) -> End {
        let launch = Arc::clone(&self.launch);
        let toolbox = launch.shell.toolbox();
        let Some((stdin, stdout, stderr)) = process.pipes() else {
            return fail(job.told, lost());
        };
        let pipes = Pipes {
            stdin,
            stdout: BufReader::new(stdout),
            limit: toolbox.output_limit,
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
                () = log::lines(stderr, &launch.hook) => (),
                () = async { over.cancelled().await; sleep(LAST_WORDS).await } => (),
            }
        };
        toolbox.alive.inc();
        let (end, ()) = tokio::join!(life, complaints);
        toolbox.alive.dec();
        end
    }

    async fn converse(&mut self, mut pipes: Pipes, first: Job) -> End {
        let mut job = first;
        loop {
            if let Err(end) = self.answer(&mut pipes, job).await {
                return end;
            }
            self.pause = FIRST_PAUSE;
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

    async fn rest(&mut self) {
        select! {
            () = sleep(self.pause) => (),
            () = self.queue.closed.cancelled() => (),
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
        let question = line::write(&id, input);
        let (stdin, stdout, limit) = (&mut self.stdin, &mut self.stdout, self.limit);
        let ask = async {
            let written = stdin.write_all(question.as_bytes()).await;
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
            line::read(&id, &answer)
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
