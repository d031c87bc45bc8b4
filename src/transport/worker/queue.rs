//! Calls that wait for a free instance of a worker.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::transport::TransportError;

/// How many calls may wait.
const LONGEST: usize = 1024;

/// One call.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) input: Bytes,
    /// Takes the output as the worker wrote it; closed when nobody waits.
    pub(super) told: Told,
}

pub(super) type Told = oneshot::Sender<Result<Vec<u8>, TransportError>>;

/// First in, first out, to whichever instance is free.
#[derive(Debug)]
pub(super) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    /// A permit for each job, and perhaps for some that are gone.
    ready: Semaphore,
    /// Cancelled when no further call will come.
    pub(super) closed: CancellationToken,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            jobs: Mutex::default(),
            ready: Semaphore::new(0),
            closed: CancellationToken::new(),
        }
    }

    pub(super) fn push(&self, job: Job) -> Result<(), TransportError> {
        let mut jobs = self.jobs();
        if jobs.len() >= LONGEST {
            jobs.retain(|it| !it.told.is_closed());
        }
        if jobs.len() >= LONGEST {
            return Err(TransportError::Busy);
        }
        jobs.push_back(job);
        self.ready.add_permits(1);
        Ok(())
    }

    /// The next call that somebody still waits for; nothing if the queue is
    /// closed. Dropping the future loses no call.
    pub(super) async fn next(&self) -> Option<Job> {
        loop {
            let permit = tokio::select! {
                biased;
                () = self.closed.cancelled() => return None,
                permit = self.ready.acquire() => permit.ok()?,
            };
            permit.forget();
            let job = self.jobs().pop_front();
            if let Some(job) = job.filter(|it| !it.told.is_closed()) {
                return Some(job);
            }
        }
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Nothing that holds it can leave it half changed.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Waiting = oneshot::Receiver<Result<Vec<u8>, TransportError>>;

    fn job(input: &'static str) -> (Job, Waiting) {
        let (told, waiting) = oneshot::channel();
        let input = Bytes::from_static(input.as_bytes());
        (Job { input, told }, waiting)
    }

    #[tokio::test]
    async fn calls_keep_their_order_and_those_given_up_are_skipped() {
        let queue = Queue::new();
        let (first, _first) = job("first");
        let (left, given_up) = job("given up");
        let (last, _last) = job("last");
        for job in [first, left, last] {
            queue.push(job).unwrap();
        }
        drop(given_up);

        assert_eq!(queue.next().await.unwrap().input, "first");
        assert_eq!(queue.next().await.unwrap().input, "last");
        queue.closed.cancel();
        assert!(queue.next().await.is_none());
    }

    #[test]
    fn a_full_queue_refuses_until_a_call_is_given_up() {
        let queue = Queue::new();
        let mut waiting = Vec::new();
        for _ in 0..LONGEST {
            let (job, caller) = job("");
            queue.push(job).unwrap();
            waiting.push(caller);
        }
        let refused = queue.push(job("").0);

        waiting.pop();
        let (next, _next) = job("");
        let taken = queue.push(next);

        assert!(matches!(refused, Err(TransportError::Busy)));
        assert!(taken.is_ok());
    }
}
