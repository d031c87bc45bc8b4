//! The handle of a log, through which lines are pushed and committed.

use std::{
    fmt,
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
    progress: watch::Receiver<WriteProgress>,
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
        let (progress_sender, progress) = watch::channel(WriteProgress::default());
        let (head_sender, written_head) = watch::channel(head.clone());
        let queue = Arc::new(WriteQueue::new(options));
        let writer = LogWriter {
            queue: Arc::clone(&queue),
            progress: progress_sender,
            observer: Arc::clone(&observer),
            file,
            head,
            written_head: head_sender,
            repaired: None,
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

    /// Waits until all pushed lines are written. Has no timeout.
    ///
    /// # Errors
    ///
    /// Fails if lines were dropped since `dropped_total` was read, or cannot be written.
    pub async fn commit(&self, dropped_total: u64) -> Result<(), CommitError> {
        let target = self.queue.request_commit(dropped_total);
        let target = target.ok_or(CommitError)?;
        let mut progress = self.progress.clone();
        let is_settled =
            |progress: &WriteProgress| progress.written >= target || progress.is_failing;
        // An error means that the writer has ended.
        let progress = progress.wait_for(is_settled).await;
        match progress {
            Ok(progress) if progress.written >= target => Ok(()),
            Ok(_) | Err(_) => Err(CommitError),
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
