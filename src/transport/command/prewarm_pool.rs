//! Prewarmed processes of a hook: started ahead of calls, they wait on stdin. A
//! call that finds none starts a process of its own.

use std::{
    collections::VecDeque,
    num::NonZero,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    select,
    sync::oneshot,
    time::{sleep, timeout},
};

use super::process_task::{HookInvocation, ProcessTask};
use crate::{
    mutex::Mutex,
    transport::{backoff::start_backoff, process::Process, process_slots::SlotPermit},
};

/// Age at which an idle process is replaced, because files that it read at its start
/// may have changed.
const MAX_IDLE_TIME: Duration = Duration::from_mins(1);

/// Time between SIGTERM and SIGKILL for an idle process.
const IDLE_TERMINATION_GRACE: Duration = Duration::from_secs(1);

/// Delay of the next start while a dispatched process responds and exits. Starting
/// an interpreter occupies a core that the response needs, and a process started now
/// is of no use to calls within this time.
const BUSY_START_DELAY: Duration = Duration::from_millis(50);

/// Further delay of the next start, so that the rest of the call has the core.
const START_DELAY: Duration = Duration::from_millis(5);

/// Idle processes of one hook. They end when the hook is closed.
#[derive(Debug)]
pub(super) struct PrewarmPool {
    task: Arc<ProcessTask>,
    count: NonZero<u32>,
    max_idle_time: Duration,
    started: Once,
    /// Idle processes, oldest first; some may have ended.
    idle: Mutex<VecDeque<oneshot::Sender<HookInvocation>>>,
    /// True if the last process failed. Of consecutive failures, only the first is logged.
    is_failing: AtomicBool,
}

impl PrewarmPool {
    /// Returns a pool of `count` processes. Starts nothing.
    pub(super) fn new(task: &Arc<ProcessTask>, count: NonZero<u32>) -> Self {
        Self {
            task: Arc::clone(task),
            count,
            max_idle_time: MAX_IDLE_TIME,
            started: Once::new(),
            idle: Mutex::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Starts the processes, once.
    pub(super) fn start(self: &Arc<Self>) {
        self.started.call_once(|| {
            for _ in 0..self.count.get() {
                let tasks = &self.task.shell.deps.tasks;
                tasks.spawn(Arc::clone(self).maintain());
            }
        });
    }

    /// Dispatches an invocation to the oldest idle process; returns it if there is
    /// none. A process that ends at this moment drops the invocation.
    pub(super) fn dispatch(&self, mut invocation: HookInvocation) -> Result<(), HookInvocation> {
        loop {
            let Some(process) = self.idle.lock().pop_front() else {
                return Err(invocation);
            };
            match process.send(invocation) {
                Ok(()) => return Ok(()),
                Err(returned) => invocation = returned,
            }
        }
    }

    /// Maintains one idle process after the other, until the hook is closed.
    async fn maintain(self: Arc<Self>) {
        let mut backoff = start_backoff();
        loop {
            let slot = select! {
                biased;
                () = self.task.closed.cancelled() => return,
                slot = self.task.shell.deps.slots.acquire_idle() => slot,
            };
            let Ok(slot) = slot else { return };
            if self.run_one(slot).await {
                self.is_failing.store(false, Ordering::Relaxed);
                backoff.reset();
            } else {
                backoff.wait(&self.task.closed).await;
            }
        }
    }

    /// Runs one process until it is not idle any more. Returns whether the next one
    /// is to be started at once.
    async fn run_one(&self, mut slot: SlotPermit) -> bool {
        let mut process = match self.task.shell.start(None) {
            Ok(process) => process,
            Err(error) => {
                self.log_failure(&error.to_string());
                return false;
            }
        };
        let invocation = self.offer();
        let error = select! {
            biased;
            () = self.task.closed.cancelled() => {
                process.terminate(IDLE_TERMINATION_GRACE).await;
                return true;
            }
            error = process.exited() => error,
            () = sleep(self.max_idle_time) => {
                self.stop(process, slot);
                return true;
            }
            invocation = invocation => match invocation {
                Ok(invocation) if process.is_running() => {
                    let complete = self.task.spawn(process, slot, invocation);
                    timeout(BUSY_START_DELAY, complete).await.ok();
                    sleep(START_DELAY).await;
                    return true;
                }
                Ok(_) | Err(_) => process.exited().await,
            },
            () = slot.reclaimed() => {
                self.stop(process, slot);
                return false;
            }
        };
        self.log_failure(&error);
        process.kill();
        process.terminate(IDLE_TERMINATION_GRACE).await;
        false
    }

    /// Adds an idle process; returns the receiver of its invocation.
    fn offer(&self) -> oneshot::Receiver<HookInvocation> {
        let (sender, invocation) = oneshot::channel();
        let mut idle = self.idle.lock();
        idle.retain(|process| !process.is_closed());
        idle.push_back(sender);
        invocation
    }

    /// Terminates an idle process in the background.
    fn stop(&self, process: Process, slot: SlotPermit) {
        self.task.shell.deps.tasks.spawn(async move {
            process.terminate(IDLE_TERMINATION_GRACE).await;
            drop(slot);
        });
    }

    /// Logs the first of consecutive failures: a hook that cannot wait on stdin would
    /// fail forever.
    fn log_failure(&self, error: &str) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            let hook = &self.task.shell.hook;
            tracing::warn!(hook.name = hook, error, "prewarmed process failed");
        }
    }
}

#[cfg(test)]
mod tests;
