//! Log lines on their way out: gathered, and written together by a thread of
//! their own.
//!
//! A line for each would be a system call and a lock held across it for each,
//! which requests on other cores would have to wait for.

use std::{
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// How long a line may wait for others. The thread is woken by the first and again to
/// write; where there is one core, the next call waits for both.
const GATHERED_FOR: Duration = Duration::from_millis(50);

/// How much may wait, in bytes. Who writes more waits until there is room: no
/// line is lost to a reader that is slow.
const LONGEST_QUEUE: usize = 1024 * 1024;

/// Where lines are gathered.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// There is something to write, or nothing will come any more.
    filled: Condvar,
    /// There is room.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    is_over: bool,
}

/// The log is open as long as this is there. Dropping it waits until all is written;
/// what is logged after that is lost.
#[derive(Debug)]
#[must_use = "nothing is logged once this is dropped"]
pub struct Logging {
    log: Log,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Starts the thread that writes to `target`.
    pub(super) fn start(&self, target: impl Write + Send + 'static) -> io::Result<Logging> {
        let log = self.clone();
        let thread = thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || log.run(target))?;
        Ok(Logging {
            log: self.clone(),
            thread: Some(thread),
        })
    }

    /// Writes what comes until nothing will.
    fn run(&self, mut target: impl Write) {
        let mut lines = Vec::new();
        while self.take(&mut lines) {
            // Who would be told that the log cannot be written?
            let _nobody_left = target.write_all(&lines).and_then(|()| target.flush());
            lines.clear();
            lines.shrink_to(LONGEST_QUEUE / 16);
        }
    }

    /// Waits for lines, and takes them. There are none any more if it is false.
    fn take(&self, lines: &mut Vec<u8>) -> bool {
        let Queue {
            filled, emptied, ..
        } = &*self.0;
        let mut waiting = self.lock();
        while waiting.lines.is_empty() && !waiting.is_over {
            waiting = filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.is_over {
            let more = |it: &mut Waiting| !it.is_over && it.lines.len() < LONGEST_QUEUE;
            (waiting, _) = filled
                .wait_timeout_while(waiting, GATHERED_FOR, more)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut waiting.lines, lines);
        emptied.notify_all();
        !(lines.is_empty() && waiting.is_over)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lock();
        while waiting.lines.len() >= LONGEST_QUEUE && !waiting.is_over {
            let woken = self.0.emptied.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        // Whoever writes lines looks again when it has waited for a while, unless
        // it waits for the first.
        let before = waiting.lines.len();
        waiting.lines.extend_from_slice(line);
        if before == 0 || waiting.lines.len() >= LONGEST_QUEUE {
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.log.lock().is_over = true;
        self.log.0.filled.notify_one();
        self.log.0.emptied.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; if it did, there is nobody to tell.
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes what is written once it is let to.
    struct Slow {
        let_go: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.let_go.recv().map_err(io::Error::other)?;
            self.written
                .send(bytes.to_vec())
                .map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Slow, Sender<()>, Receiver<Vec<u8>>) {
        let (go, let_go) = channel();
        let (written, read) = channel();
        (Slow { let_go, written }, go, read)
    }

    #[test]
    fn every_line_is_written_whole_and_in_order_before_the_end() {
        let (target, go, read) = slow();
        drop((0..100).map(|_| go.send(())).collect::<Vec<_>>());
        let log = Log::default();
        let logging = log.start(target).unwrap();
        let write = |name: &str| {
            for number in 0..500 {
                let line = format!("{name} {number}\n");
                (&log).write_all(line.as_bytes()).unwrap();
            }
        };
        thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                scope.spawn(move || write(name));
            }
        });
        drop(logging);
        let all = String::from_utf8(read.try_iter().flatten().collect()).unwrap();
        for name in ["a", "b", "c"] {
            let of_one = all.lines().filter_map(|it| it.strip_prefix(name));
            let numbers: Vec<usize> = of_one.map(|it| it.trim().parse().unwrap()).collect();
            assert_eq!(numbers, (0..500).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lines_are_written_together() {
        let (target, go, read) = slow();
        let log = Log::default();
        let logging = log.start(target).unwrap();
        for _ in 0..100 {
            (&log).write_all(b"line\n").unwrap();
        }
        drop((0..100).map(|_| go.send(())).collect::<Vec<_>>());
        drop(logging);
        // Those of fifty milliseconds; a slow machine may need several times as long.
        assert!(read.try_iter().count() < 50);
    }

    #[test]
    fn who_writes_faster_than_is_read_waits_and_loses_nothing() {
        let (target, go, read) = slow();
        let log = Log::default();
        let logging = log.start(target).unwrap();
        let line = vec![b'x'; LONGEST_QUEUE / 8];
        let write = || {
            for _ in 0..40 {
                (&log).write_all(&line).unwrap();
            }
        };
        thread::scope(|scope| {
            let writer = scope.spawn(write);
            while log.lock().lines.len() < LONGEST_QUEUE {
                thread::yield_now();
            }
            assert!(!writer.is_finished());
            assert!(log.lock().lines.len() <= LONGEST_QUEUE + line.len());
            drop((0..100).map(|_| go.send(())).collect::<Vec<_>>());
        });
        drop(logging);
        let written: usize = read.try_iter().map(|it| it.len()).sum();
        assert_eq!(written, 40 * line.len());
    }
}
