//! Thread-per-core runtimes that serve agents.
//!
//! A connection stays on its thread with all of its timers, hooks and upstream
//! connections. With work stealing, threads would have to wake each other, which costs a
//! small call more than all the rest of its work.

use std::{
    io,
    num::NonZero,
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::runtime::{self, Handle};
use tokio_util::sync::CancellationToken;

/// One thread per available core, each with a runtime. Dropping the pool ends the threads
/// and aborts their tasks. It does not wait for blocking tasks.
#[derive(Debug, Default)]
pub(super) struct RuntimePool {
    runtimes: Vec<RuntimeGuard>,
    threads: Vec<JoinHandle<()>>,
    close: CancellationToken,
}

/// One of the runtimes. Each clone counts as a connection until it is dropped.
#[derive(Debug, Clone)]
pub(super) struct RuntimeGuard {
    pub(super) handle: Handle,
    connections: Arc<()>,
}

impl RuntimePool {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no more threads or file descriptors.
    pub(super) fn start() -> io::Result<Self> {
        let mut pool = Self::default();
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        for number in 1..=count {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            pool.runtimes.push(RuntimeGuard {
                handle: runtime.handle().clone(),
                connections: Arc::default(),
            });
            let close = pool.close.clone();
            let thread = thread::Builder::new()
                .name(format!("agents-{number}"))
                .spawn(move || {
                    runtime.block_on(close.cancelled());
                    // Does not wait for blocking tasks, such as a lookup in DNS that hangs.
                    runtime.shutdown_background();
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Returns the runtime with the fewest connections; `None` if the pool is empty.
    pub(super) fn least_loaded(&self) -> Option<RuntimeGuard> {
        let load = |runtime: &&RuntimeGuard| Arc::strong_count(&runtime.connections);
        self.runtimes.iter().min_by_key(load).cloned()
    }
}

impl Drop for RuntimePool {
    fn drop(&mut self) {
        self.close.cancel();
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn connections_are_spread_evenly() {
        let pool = RuntimePool::start().unwrap();
        let load = || -> Vec<usize> {
            let runtimes = pool.runtimes.iter();
            runtimes
                .map(|runtime| Arc::strong_count(&runtime.connections) - 1)
                .collect()
        };
        let guards: Vec<RuntimeGuard> = (0..2 * pool.runtimes.len())
            .filter_map(|_| pool.least_loaded())
            .collect();
        assert!(load().iter().all(|count| *count == 2), "{:?}", load());
        drop(guards);
        assert!(load().iter().all(|count| *count == 0), "{:?}", load());
    }

    #[test]
    fn tasks_are_aborted_when_the_pool_is_dropped() {
        struct NotifyOnDrop(mpsc::Sender<()>);
        impl Drop for NotifyOnDrop {
            fn drop(&mut self) {
                self.0.send(()).ok();
            }
        }
        let pool = RuntimePool::start().unwrap();
        let (ended, has_ended) = mpsc::channel();
        let (started, has_started) = mpsc::channel();
        let guard = pool.least_loaded().unwrap();
        guard.handle.spawn(async move {
            let _notify = NotifyOnDrop(ended);
            started.send(()).ok();
            std::future::pending::<()>().await;
        });
        has_started.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(pool);
        has_ended.try_recv().unwrap();
    }

    #[test]
    fn a_blocking_task_does_not_delay_the_end_of_the_pool() {
        let pool = RuntimePool::start().unwrap();
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let guard = pool.least_loaded().unwrap();
        guard.handle.spawn_blocking(move || {
            started.send(()).ok();
            released.recv_timeout(Duration::from_secs(20)).ok();
        });
        has_started.recv_timeout(Duration::from_secs(10)).unwrap();

        let dropped = Instant::now();
        drop(pool);

        assert!(dropped.elapsed() < Duration::from_secs(10));
        drop(release);
    }
}
