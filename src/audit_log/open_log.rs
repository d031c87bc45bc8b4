//! Logs that are open in this process. A reload that keeps the path keeps the log open.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    error::AuditError,
    log_file::LogFile,
    rate_limit::{Admission, RecordRateLimiter},
    record::AuditRecord,
    write_queue::{WriteMode, WriteQueue},
    writer::{LogWriter, WriteProgress},
};
use crate::{
    config::{AuditMode, AuditSettings, Rotation},
    observe::{Metrics, recorder::Unavailable},
};

/// How long to wait for another user of the log to close it: a process that is being
/// replaced, or the last request of a previous config.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// All logs that are open, by path.
#[derive(Debug, Default)]
pub struct OpenLogs {
    by_path: Mutex<HashMap<PathBuf, Weak<OpenLog>>>,
}

/// An open log. Its writer ends when this is dropped.
#[derive(Debug)]
pub(super) struct OpenLog {
    queue: Arc<WriteQueue>,
    rejected_requests: RecordRateLimiter,
    progress: watch::Receiver<WriteProgress>,
    metrics: Arc<Metrics>,
    /// Present until writing is started.
    writer: Mutex<Option<LogWriter>>,
}

impl OpenLogs {
    /// Returns the log at `path`; opens it unless it is open. Blocks.
    pub(super) fn open(
        &self,
        path: &Path,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<OpenLog>, AuditError> {
        let mut by_path = self.by_path.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = by_path.get(path).and_then(Weak::upgrade) {
            return Ok(log);
        }
        by_path.retain(|_, log| log.strong_count() > 0);
        let log = Arc::new(OpenLog::open(path, metrics)?);
        by_path.insert(path.to_owned(), Arc::downgrade(&log));
        Ok(log)
    }
}

impl OpenLog {
    fn open(path: &Path, metrics: &Arc<Metrics>) -> Result<Self, AuditError> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let (file, head, torn) = loop {
            match LogFile::open(path) {
                Err(AuditError::Locked { .. }) if Instant::now() < deadline => {
                    thread::sleep(LOCK_RETRY_INTERVAL);
                }
                opened => break opened?,
            }
        };
        let (progress_sender, progress) = watch::channel(WriteProgress::default());
        // Replaced by `set_settings` before writing is started.
        let queue = Arc::new(WriteQueue::new(WriteMode {
            mode: AuditMode::Durable,
            rotation: Rotation::default(),
        }));
        Ok(Self {
            writer: Mutex::new(Some(LogWriter {
                queue: Arc::clone(&queue),
                progress: progress_sender,
                metrics: Arc::clone(metrics),
                file,
                head,
                torn,
            })),
            queue,
            progress,
            rejected_requests: RecordRateLimiter::default(),
            metrics: Arc::clone(metrics),
        })
    }

    /// Returns the writer; `None` if it was taken before.
    pub(super) fn take_writer(&self) -> Option<LogWriter> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.take()
    }

    pub(super) fn set_settings(&self, settings: &AuditSettings) {
        self.queue.set_write_mode(WriteMode {
            mode: settings.mode,
            rotation: settings.rotate,
        });
    }

    /// Queues a line, or drops and counts it if the queue is full.
    pub(super) fn push(&self, line: Vec<u8>) {
        if !self.queue.push(line) {
            self.metrics.audit_dropped_lines.inc();
        }
    }

    /// Decides whether one more rejected request gets a record.
    pub(super) fn admit_rejected(&self) -> Admission {
        self.rejected_requests.admit(Instant::now())
    }

    /// Returns the number of lines dropped so far.
    pub(super) fn dropped_total(&self) -> u64 {
        self.queue.dropped_total()
    }

    /// Waits until all pushed lines are written.
    ///
    /// # Errors
    ///
    /// Fails if lines were dropped since `dropped_total` was read, or cannot be written.
    pub(super) async fn commit(&self, dropped_total: u64) -> Result<(), Unavailable> {
        let target = self
            .queue
            .request_commit(dropped_total)
            .ok_or(Unavailable)?;
        let mut progress = self.progress.clone();
        let is_settled =
            |progress: &WriteProgress| progress.written >= target || progress.is_failing;
        // An error means that the writer has ended.
        let progress = progress
            .wait_for(is_settled)
            .await
            .map_err(|_| Unavailable)?;
        if progress.written < target {
            return Err(Unavailable);
        }
        Ok(())
    }

    pub(super) fn is_failing(&self) -> bool {
        self.progress.borrow().is_failing
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        let requests = self.rejected_requests.take_suppressed();
        if requests > 0 {
            self.push(AuditRecord::Suppressed { requests }.to_line(""));
        }
        self.queue.close();
    }
}
