//! Spares: processes of a hook that are started before there is a call for
//! them, and wait on stdin. A call that finds none starts a process as usual.

use std::{
    collections::VecDeque,
    num::NonZero,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    select,
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{Employer, Job};
use crate::transport::{backoff::Pause, process::Process, process_slots::Place};

/// How long a spare may wait for a call: what it has read at its start, such as
/// its own rules, should not be old.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How long a spare that is not needed may take to end when asked.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the next spare is not started while one that was hired is about to
/// answer and to end. To start an interpreter keeps a core busy, which the answer needs; and
/// a spare that starts now is of no use to whoever asks within this time.
const NOT_NOW: Duration = Duration::from_millis(50);

/// How long it is not started after that, so that the rest of the call has the core.
const A_MOMENT: Duration = Duration::from_millis(5);

/// The spares of one hook. They end when that is closed.
#[derive(Debug)]
pub(super) struct Spares {
    stock: Arc<Stock>,
    count: NonZero<u32>,
    /// Whether there is somebody to keep them.
    kept: AtomicBool,
}

/// What the keepers of one hook's spares share.
#[derive(Debug)]
struct Stock {
    employer: Arc<Employer>,
    longest_wait: Duration,
    /// Those that wait for a job, the oldest first, and some that do no more.
    ready: Mutex<VecDeque<oneshot::Sender<Job>>>,
    /// Whether the last one failed, which is said once.
    failing: AtomicBool,
}

/// Why a spare waits no longer.
enum End {
    /// There is a call for it.
    Hired(Job),
    /// It has waited too long.
    Old,
    /// Its place is needed.
    Wanted,
    /// It has ended.
    Failed(String),
    /// No call will come.
    Closed,
}

impl Spares {
    /// Starts nothing.
    pub(super) fn new(employer: &Arc<Employer>, count: NonZero<u32>) -> Self {
        Self::waiting(employer, count, LONGEST_WAIT)
    }

    fn waiting(employer: &Arc<Employer>, count: NonZero<u32>, longest_wait: Duration) -> Self {
        Self {
            count,
            kept: AtomicBool::new(false),
            stock: Arc::new(Stock {
                employer: Arc::clone(employer),
                longest_wait,
                ready: Mutex::default(),
                failing: AtomicBool::new(false),
            }),
        }
    }

    /// From now on there are spares.
    pub(super) fn begin(&self) {
        if self.kept.swap(true, Ordering::Relaxed) {
            return;
        }
        let tasks = &self.stock.employer.shell.toolbox().tasks;
        for _ in 0..self.count.get() {
            tasks.spawn(Arc::clone(&self.stock).keep());
        }
    }

    /// Hands a job to the spare that waits longest; gives it back if none does.
    /// A spare that ends at this moment drops it.
    pub(super) fn hand(&self, mut job: Job) -> Result<(), Job> {
        loop {
            let Some(spare) = self.stock.ready().pop_front() else {
                return Err(job);
            };
            match spare.send(job) {
                Ok(()) => return Ok(()),
                Err(back) => job = back,
            }
        }
    }
}

impl Stock {
    /// Keeps one spare after the other, until no call will come.
    async fn keep(self: Arc<Self>) {
        let mut pause = Pause::new();
        loop {
            let place = select! {
                biased;
                () = self.employer.closed.cancelled() => return,
                place = self.employer.shell.toolbox().places.take_spare() => place,
            };
            let is_well = match place {
                Ok(place) => self.keep_one(place).await,
                Err(_) => return,
            };
            if is_well {
                self.failing.store(false, Ordering::Relaxed);
                pause = Pause::new();
            } else {
                pause.rest(&self.employer.closed).await;
            }
        }
    }

    /// Keeps a spare for as long as it waits. Says whether the next one should
    /// be started at once.
    async fn keep_one(&self, mut place: Place) -> bool {
        let mut process = match self.employer.shell.start(None) {
            Ok(process) => process,
            Err(error) => {
                self.complain(&error.to_string());
                return false;
            }
        };
        match self.wait(&mut process, &mut place).await {
            End::Hired(job) => {
                let answered = self.employer.employ((process, place), job);
                timeout(NOT_NOW, answered).await.ok();
                sleep(A_MOMENT).await;
            }
            End::Old => self.dismiss(process, place),
            End::Wanted => {
                self.dismiss(process, place);
                return false;
            }
            End::Failed(cause) => {
                self.complain(&cause);
                process.kill();
                process.gone().await;
                return false;
            }
            End::Closed => process.terminate(PATIENCE).await,
        }
        true
    }

    /// Waits until something becomes of a spare.
    async fn wait(&self, process: &mut Process, place: &mut Place) -> End {
        let (ready, hired) = oneshot::channel();
        self.wait_in_line(ready);
        select! {
            biased;
            () = self.employer.closed.cancelled() => End::Closed,
            cause = process.ended() => End::Failed(cause),
            () = sleep(self.longest_wait) => End::Old,
            job = hired => match job {
                Ok(job) if process.is_alive() => End::Hired(job),
                Ok(_) | Err(_) => End::Failed(process.ended().await),
            },
            () = place.wanted() => End::Wanted,
        }
    }

    fn wait_in_line(&self, ready: oneshot::Sender<Job>) {
        let mut line = self.ready();
        line.retain(|it| !it.is_closed());
        line.push_back(ready);
    }

    /// Ends a spare without waiting for its end.
    fn dismiss(&self, process: Process, place: Place) {
        self.employer.shell.toolbox().tasks.spawn(async move {
            process.terminate(PATIENCE).await;
            drop(place);
        });
    }

    /// Says it once: a hook that cannot wait would fail for ever.
    fn complain(&self, error: &str) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            let hook = self.employer.shell.hook();
            tracing::warn!(hook.name = hook, error, "prewarmed process failed");
        }
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Job>>> {
        // Nothing that holds it can leave it half changed.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
