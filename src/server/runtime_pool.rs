//! The threads that serve agents: an event loop on each.
//!
//! A connection stays on the thread that it was given, with all that is done for
//! it: its timers, its hooks, its connections to others. Threads that take work
//! from one another must wake one another for it, and that costs a small call
//! more than all that is done for it here.

use std::{
    io,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::runtime::{self, Handle};
use tokio_util::sync::CancellationToken;

/// A thread for each core that we may use. They end when this is dropped, and
/// with them what is left on them.
#[derive(Debug, Default)]
pub(super) struct Threads {
    loops: Vec<EventLoop>,
    running: Vec<JoinHandle<()>>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct EventLoop {
    handle: Handle,
    /// How many have a seat.
    taken: Arc<AtomicUsize>,
}

/// A connection's place on a thread.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) handle: Handle,
    taken: Arc<AtomicUsize>,
}

impl Threads {
    /// Starts them.
    pub(super) fn start() -> io::Result<Self> {
        let mut all = Self::default();
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        for number in 1..=count {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            all.loops.push(EventLoop {
                handle: runtime.handle().clone(),
                taken: Arc::default(),
            });
            let closed = all.closed.clone();
            let thread = thread::Builder::new()
                .name(format!("agents-{number}"))
                .spawn(move || runtime.block_on(closed.cancelled()))?;
            all.running.push(thread);
        }
        Ok(all)
    }

    /// A seat on the thread that has the fewest taken; none, if there is no thread.
    pub(super) fn seat(&self) -> Option<Seat> {
        let taken = |it: &&EventLoop| it.taken.load(Ordering::Relaxed);
        let quietest = self.loops.iter().min_by_key(taken)?;
        quietest.taken.fetch_add(1, Ordering::Relaxed);
        Some(Seat {
            handle: quietest.handle.clone(),
            taken: Arc::clone(&quietest.taken),
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.closed.cancel();
        for thread in self.running.drain(..) {
            // If it panicked, that was told when it did.
            thread.join().ok();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn connections_are_spread() {
        let threads = Threads::start().unwrap();
        let taken = || -> Vec<usize> {
            let loops = threads.loops.iter();
            loops.map(|it| it.taken.load(Ordering::Relaxed)).collect()
        };
        let seats: Vec<Seat> = (0..2 * threads.loops.len())
            .filter_map(|_| threads.seat())
            .collect();
        assert!(taken().iter().all(|it| *it == 2), "{:?}", taken());
        drop(seats);
        assert!(taken().iter().all(|it| *it == 0), "{:?}", taken());
    }

    #[test]
    fn what_is_left_ends_with_the_threads() {
        struct Tells(mpsc::Sender<()>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.send(()).ok();
            }
        }
        let threads = Threads::start().unwrap();
        let (ended, has_ended) = mpsc::channel();
        let (began, has_begun) = mpsc::channel();
        let seat = threads.seat().unwrap();
        seat.handle.spawn(async move {
            let _tells = Tells(ended);
            began.send(()).ok();
            std::future::pending::<()>().await;
        });
        has_begun.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(threads);
        has_ended.try_recv().unwrap();
    }
}
