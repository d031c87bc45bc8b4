//! One log that is open, whichever configs write it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    AuditError,
    file::LogFile,
    rate_limit::{Admitted, Flood},
    record::{Record, write},
    write_queue::{Manner, Queue},
    writer::{Progress, Writer},
};
use crate::{
    config::{AuditSettings, Rotation},
    observe::{Metrics, recorder::Unavailable},
};

/// How long to wait for one who is about to let go of a log: a gateway before
/// this one, or the last request of a config before this one.
const HANDOVER: Duration = Duration::from_secs(1);

/// The logs that are open, whichever config they are of.
#[derive(Debug, Default)]
pub struct Logs {
    by_path: Mutex<HashMap<PathBuf, Weak<Log>>>,
}

/// A log that is open. Writing ends when it is dropped.
#[derive(Debug)]
pub(super) struct Log {
    queue: Arc<Queue>,
    progress: watch::Receiver<Progress>,
    metrics: Arc<Metrics>,
    flood: Flood,
    /// Until writing begins.
    writer: Mutex<Option<Writer>>,
}

impl Logs {
    /// The log at `path`, which is opened unless it is open.
    pub(super) fn open(&self, path: &Path, metrics: &Arc<Metrics>) -> Result<Arc<Log>, AuditError> {
        let mut by_path = self.by_path.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = by_path.get(path).and_then(Weak::upgrade) {
            return Ok(log);
        }
        by_path.retain(|_, it| it.strong_count() > 0);
        let log = Arc::new(Log::open(path, metrics)?);
        by_path.insert(path.to_owned(), Arc::downgrade(&log));
        Ok(log)
    }
}

impl Log {
    fn open(path: &Path, metrics: &Arc<Metrics>) -> Result<Self, AuditError> {
        let since = Instant::now();
        let (file, head, torn) = loop {
            match LogFile::open(path) {
                Err(AuditError::Taken { .. }) if since.elapsed() < HANDOVER => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => break opened?,
            }
        };
        let (sender, progress) = watch::channel(Progress::default());
        // Nothing is written before the settings of a config are in force.
        let queue = Arc::new(Queue::new(Manner {
            mode: crate::config::AuditMode::Durable,
            rotation: Rotation::default(),
        }));
        Ok(Self {
            writer: Mutex::new(Some(Writer {
                queue: Arc::clone(&queue),
                progress: sender,
                metrics: Arc::clone(metrics),
                file,
                head,
                torn,
            })),
            queue,
            progress,
            flood: Flood::default(),
            metrics: Arc::clone(metrics),
        })
    }

    /// Who writes, once.
    pub(super) fn writer(&self) -> Option<Writer> {
        self.lock().take()
    }

    pub(super) fn keep_to(&self, settings: &AuditSettings) {
        self.queue.set_manner(Manner {
            mode: settings.mode,
            rotation: settings.rotate,
        });
    }

    pub(super) fn push(&self, line: Vec<u8>) {
        if !self.queue.push(line) {
            self.metrics.audit_dropped_lines.inc();
        }
    }

    /// What is to be told of one more request that was turned away.
    pub(super) fn admit(&self) -> Admitted {
        self.flood.admit(Instant::now())
    }

    /// How many lines were ever dropped.
    pub(super) fn lost(&self) -> u64 {
        self.queue.lost()
    }

    /// Waits until all that was told is written, unless anything was dropped since
    /// `lost` lines were.
    pub(super) async fn written(&self, lost: u64) -> Result<(), Unavailable> {
        let target = self.queue.want(lost).ok_or(Unavailable)?;
        let mut progress = self.progress.clone();
        let written = progress.wait_for(|it| it.written >= target || it.failing);
        match written.await {
            Ok(progress) if progress.written >= target => Ok(()),
            // The one who writes has ended.
            Ok(_) | Err(_) => Err(Unavailable),
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        self.progress.borrow().failing
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let requests = self.flood.rest();
        if requests > 0 {
            self.push(write(&Record::LeftOut { requests }, ""));
        }
        self.queue.close();
    }
}
