//! Gives a process of a hook its job, and sees it end.

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
    protocol::{Ended, Exit},
    transport::{
        TransportError,
        process::{self, Process, Said},
        process_slots::Place,
        shell::Shell,
    },
};

/// What the processes of one hook have in common.
#[derive(Debug)]
pub(super) struct Employer {
    pub(super) shell: Shell,
    /// When an answer is complete.
    pub(super) answer_by: AnswerBy,
    /// No call will come, and what no call waits for ends.
    pub(super) closed: CancellationToken,
}

/// What a process is started for.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) input: Bytes,
    /// When a process that has answered must have ended.
    pub(super) deadline: Instant,
    /// Takes what came of it; closed when nobody waits.
    pub(super) told: oneshot::Sender<Result<Ended, TransportError>>,
}

/// What is left of a process that has no job any more.
enum Left {
    /// It has ended, or must at once.
    Over,
    /// It may clean up.
    Unwanted,
}

impl Employer {
    /// Lets a process do a job, in a task that outlives a dropped call: it sees the
    /// processes end. What is returned is closed when the job is done.
    pub(super) fn employ(
        self: &Arc<Self>,
        (mut process, place): (Process, Place),
        job: Job,
    ) -> oneshot::Receiver<Infallible> {
        let (busy, idle) = oneshot::channel();
        let employer = Arc::clone(self);
        self.shell.toolbox().tasks.spawn(async move {
            let left = employer.work(&mut process, job).await;
            drop(busy);
            match left {
                Left::Over => process.gone().await,
                Left::Unwanted => process.terminate(process::PATIENCE).await,
            }
            drop(place);
        });
        idle
    }

    /// Runs a hook to its answer, and further if that is complete before its end.
    async fn work(&self, process: &mut Process, mut job: Job) -> Left {
        let limit = self.shell.toolbox().output_limit;
        let said = select! {
            said = process.exchange(&mut job.input, limit, self.answer_by) => said,
            () = job.told.closed() => return Left::Unwanted,
        };
        let ended = match said {
            Ok(Said::Line(line)) => {
                // From here on its exit code and its stderr have no say.
                let answer = Ended {
                    exit: Exit::Code(0),
                    stdout: line,
                    stderr: Vec::new(),
                };
                if job.told.send(Ok(answer)).is_err() {
                    return Left::Unwanted;
                }
                return self.run_out(process, job.input, job.deadline).await;
            }
            Ok(Said::All(ended)) => Ok(ended),
            Err(error) => Err(error),
        };
        process.kill();
        job.told.send(ended).ok();
        Left::Over
    }

    /// Lets a process that has answered come to its end.
    async fn run_out(&self, process: &mut Process, mut input: Bytes, deadline: Instant) -> Left {
        let limit = self.shell.toolbox().output_limit;
        let end = select! {
            end = process.run_out(&mut input, limit) => end,
            () = sleep_until(deadline) => {
                self.complain("no end in time");
                return Left::Unwanted;
            }
            () = self.closed.cancelled() => return Left::Unwanted,
        };
        process.kill();
        match end {
            Ok(Exit::Code(0)) => (),
            Ok(exit) => self.complain(&exit.to_string()),
            Err(error) => self.complain(&error.to_string()),
        }
        Left::Over
    }

    fn complain(&self, error: &str) {
        tracing::warn!(
            hook.name = self.shell.hook(),
            error,
            "hook failed after responding"
        );
    }
}
