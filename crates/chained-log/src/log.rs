//! The handle of a log, through which lines are pushed and committed.

use std::{
    fmt,
    io::{self, ErrorKind},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    error::{CommitError, OpenError},
    hash_chain::ChainHead,
    log_file::LogFile,
    observer::{LogEvent, LogObserver},
    write_options::WriteOptions,
    write_queue::WriteQueue,
    writer::{LogWriter, WriteProgress},
};

/// Maximum wait for another user of the log to close it: a process that is being replaced,
/// or an earlier handle.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// An open log. Its writer ends when this is dropped.
pub struct Log {
    queue: Arc<WriteQueue>,
    progress: watch::Sender<WriteProgress>,
    head: watch::Receiver<ChainHead>,
    observer: Arc<dyn LogObserver>,
    /// Present until writing is started.
    writer: Mutex<Option<LogWriter>>,
}

impl Log {
    /// Opens the log at `path` and locks it. Writes no line, and leaves incomplete lines at its
    /// end where they are, before [`LogWriter::run`]. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, is locked, or is not a log.
    pub fn open(
        path: &Path,
        options: WriteOptions,
        observer: Arc<dyn LogObserver>,
    ) -> Result<Self, OpenError> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let (file, head) = loop {
            match LogFile::open(path) {
                Err(OpenError::Locked { .. }) if Instant::now() < deadline => {
                    thread::sleep(LOCK_RETRY_INTERVAL);
                }
                opened => break opened?,
            }
        };
        let progress = watch::Sender::new(WriteProgress::default());
        let (head_sender, written_head) = watch::channel(head.clone());
        let queue = Arc::new(WriteQueue::new(options));
        let writer = LogWriter {
            queue: Arc::clone(&queue),
            progress: progress.clone(),
            observer: Arc::clone(&observer),
            file,
            head,
            written_head: head_sender,
            repaired: None,
            has_failed: false,
        };
        Ok(Self {
            queue,
            progress,
            head: written_head,
            observer,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Returns the writer; `None` if it was taken before.
    pub fn take_writer(&self) -> Option<LogWriter> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.take()
    }

    /// Sets how lines are written from now on.
    pub fn set_options(&self, options: WriteOptions) {
        self.queue.set_options(options);
    }

    /// Queues a line, or drops it if the queue is full. Never waits. `fields` is a JSON
    /// object without its braces.
    pub fn push(&self, fields: Vec<u8>) {
        if !self.queue.push(fields) {
            self.observer.record(LogEvent::Dropped);
        }
    }

    /// Returns the number of lines dropped so far.
    pub fn dropped_total(&self) -> u64 {
        self.queue.dropped_total()
    }

    /// Waits until all pushed lines are written. If no line is written within the timeout, as on
    /// a disk that hangs, the log counts as failing until one is.
    ///
    /// # Errors
    ///
    /// Fails if lines were dropped since `dropped_total` was read, or are not written in time.
    pub async fn commit(&self, dropped_total: u64, timeout: Duration) -> Result<(), CommitError> {
        let target = self.queue.request_commit(dropped_total);
        let target = target.ok_or(CommitError)?;
        let mut progress = self.progress.subscribe();
        let written_before = progress.borrow().written;
        let is_settled =
            |progress: &WriteProgress| progress.written >= target || progress.is_failing;
        let settled = tokio::time::timeout(timeout, progress.wait_for(is_settled)).await;
        match settled {
            Ok(Ok(progress)) if progress.written >= target => Ok(()),
            Ok(_) => Err(CommitError),
            Err(_elapsed) => {
                self.fail_unless_written_since(written_before, timeout);
                Err(CommitError)
            }
        }
    }

    /// Marks the log as failing, unless lines were written during the timeout of a commit.
    fn fail_unless_written_since(&self, written_before: u64, timeout: Duration) {
        let is_stalled = self.progress.send_if_modified(|progress| {
            let is_stalled = progress.written == written_before && !progress.is_failing;
            progress.is_failing |= is_stalled;
            is_stalled
        });
        if is_stalled {
            let message = format!("no line was written for {timeout:?}");
            let error = &io::Error::new(ErrorKind::TimedOut, message);
            self.observer.record(LogEvent::Failed { error });
        }
    }

    /// Returns the last line that was written.
    pub fn head(&self) -> ChainHead {
        self.head.borrow().clone()
    }

    /// Returns whether the next lines cannot be written.
    pub fn is_failing(&self) -> bool {
        self.progress.borrow().is_failing
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::mpsc::{Receiver, Sender, channel},
    };

    use tempfile::TempDir;

    use super::*;
    use crate::observer::LogNotice;

    /// Timeout of a commit that fails.
    const SHORT_TIMEOUT: Duration = Duration::from_millis(500);

    /// Deadline of what does not hang.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// Blocks the writer with each batch until it receives a message or has no sender. Sends a
    /// description of each event.
    struct HangingDisk {
        releases: Mutex<Receiver<()>>,
        events: Sender<String>,
    }

    impl LogObserver for HangingDisk {
        fn line(&self, notice: &LogNotice) -> Vec<u8> {
            format!("\"notice\":\"{notice:?}\"").into_bytes()
        }

        fn record(&self, event: LogEvent<'_>) {
            // A test may end before the writer.
            let _ended = self.events.send(format!("{event:?}"));
            if matches!(event, LogEvent::Written { .. }) {
                let _no_sender = self.releases.lock().unwrap().recv();
            }
        }
    }

    /// A log on a disk that hangs, with a running writer.
    struct HangingLog {
        log: Log,
        events: Receiver<String>,
        releases: Sender<()>,
        _folder: TempDir,
    }

    impl HangingLog {
        fn start() -> Self {
            let folder = TempDir::new().unwrap();
            let (releases, disk_releases) = channel();
            let (disk_events, events) = channel();
            let disk = HangingDisk {
                releases: Mutex::new(disk_releases),
                events: disk_events,
            };
            let path = folder.path().join("log");
            let log = Log::open(&path, WriteOptions::default(), Arc::new(disk)).unwrap();
            let writer = log.take_writer().unwrap();
            thread::spawn(|| writer.run());
            Self {
                log,
                events,
                releases,
                _folder: folder,
            }
        }

        fn push(&self) {
            self.log.push(b"\"a\":1".to_vec());
        }

        fn next_event(&self) -> String {
            self.events.recv_timeout(TEST_TIMEOUT).unwrap()
        }
    }

    #[tokio::test]
    async fn a_disk_that_hangs_fails_the_log_until_a_line_is_written() {
        let hanging = HangingLog::start();
        hanging.push();
        assert!(hanging.next_event().starts_with("Written"));

        let committed = hanging.log.commit(0, SHORT_TIMEOUT).await;

        assert_eq!(committed, Err(CommitError));
        assert!(hanging.log.is_failing());
        let event = hanging.next_event();
        assert!(event.contains("no line was written for 500ms"), "{event}");
        hanging.releases.send(()).unwrap();
        assert_eq!(hanging.next_event(), "Recovered");
        assert!(!hanging.log.is_failing());
        assert_eq!(hanging.log.commit(0, TEST_TIMEOUT).await, Ok(()));
    }

    #[tokio::test]
    async fn a_commit_that_is_late_on_a_slow_disk_does_not_fail_the_log() {
        let hanging = HangingLog::start();
        hanging.push();
        assert!(hanging.next_event().starts_with("Written"));
        hanging.push();

        let commit = hanging.log.commit(0, SHORT_TIMEOUT);
        let release = async { hanging.releases.send(()).unwrap() };
        let (committed, ()) = tokio::join!(commit, release);

        assert_eq!(committed, Err(CommitError));
        assert!(!hanging.log.is_failing());
    }

    #[tokio::test]
    async fn the_first_error_behind_a_disk_that_hangs_is_recorded() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("logs/log");
        fs::create_dir(folder.path().join("logs")).unwrap();
        let (disk_events, events) = channel();
        let disk = HangingDisk {
            releases: Mutex::new(channel().1),
            events: disk_events,
        };
        let log = Log::open(&path, WriteOptions::default(), Arc::new(disk)).unwrap();
        log.push(b"\"a\":1".to_vec());
        assert_eq!(log.commit(0, SHORT_TIMEOUT).await, Err(CommitError));
        let hang = events.recv_timeout(TEST_TIMEOUT).unwrap();
        assert!(hang.contains("no line was written"), "{hang}");

        fs::rename(folder.path().join("logs"), folder.path().join("gone")).unwrap();
        let writer = log.take_writer().unwrap();
        thread::spawn(|| writer.run());

        let error = events.recv_timeout(TEST_TIMEOUT).unwrap();
        assert!(error.contains("NotFound"), "{error}");
    }

    #[tokio::test]
    async fn a_log_without_a_writer_is_failing() {
        let folder = TempDir::new().unwrap();
        let (events, _events) = channel();
        let disk = HangingDisk {
            releases: Mutex::new(channel().1),
            events,
        };
        let path = folder.path().join("log");
        let log = Log::open(&path, WriteOptions::default(), Arc::new(disk)).unwrap();
        log.push(b"\"a\":1".to_vec());

        drop(log.take_writer());

        assert!(log.is_failing());
        assert_eq!(log.commit(0, TEST_TIMEOUT).await, Err(CommitError));
    }
}
