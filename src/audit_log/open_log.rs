//! Log files that are open in this process. A reload that keeps the path keeps the file
//! open.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use chained_log::{
    ChainHead, Durability, Log, LogEvent, LogNotice, LogObserver, OpenError, WriteOptions,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    http_sink::{SinkEndpoint, SinkTask, load_position},
    otlp::RecordExporter,
    rate_limit::RecordRateLimiter,
    record::AuditRecord,
};
use crate::{
    config::{AuditMode, AuditSettings},
    mutex::Mutex,
    observe::Metrics,
};

/// All log files that are open, by path.
#[derive(Debug, Default)]
pub struct OpenLogs {
    by_path: Mutex<HashMap<PathBuf, Weak<OpenLog>>>,
    sinks: Arc<SinkTasks>,
}

/// Running tasks that send lines, by path. A task may continue after its log was closed.
#[derive(Debug, Default)]
struct SinkTasks(Mutex<HashMap<PathBuf, CancellationToken>>);

/// An open log file. Its writer ends when this is dropped.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) file: Log,
    pub(super) observer: Arc<LogFileObserver>,
    pub(super) rejected_requests: RecordRateLimiter,
    /// The endpoint that receives the lines.
    sink: watch::Sender<Option<Arc<SinkEndpoint>>>,
    sinks: Arc<SinkTasks>,
}

/// Counts and logs what happens to a log file, writes its notices as records, and exports
/// its lines.
#[derive(Debug)]
pub(super) struct LogFileObserver {
    metrics: Arc<Metrics>,
    pub(super) exporter: Mutex<Option<Arc<RecordExporter>>>,
    /// Sequence number of the last written line; 0 before the first is written.
    written_seq: watch::Sender<u64>,
}

impl OpenLogs {
    /// Returns the log of these settings; opens it unless it is open. Blocks.
    pub(super) fn open(
        &self,
        settings: &AuditSettings,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<OpenLog>, OpenError> {
        let mut by_path = self.by_path.lock();
        if let Some(log) = by_path.get(&settings.path).and_then(Weak::upgrade) {
            return Ok(log);
        }
        by_path.retain(|_, log| log.strong_count() > 0);
        let observer = Arc::new(LogFileObserver {
            metrics: Arc::clone(metrics),
            exporter: Mutex::default(),
            written_seq: watch::Sender::default(),
        });
        let options = write_options(settings);
        let log = Arc::new(OpenLog {
            file: Log::open(&settings.path, options, Arc::clone(&observer) as _)?,
            observer,
            rejected_requests: RecordRateLimiter::default(),
            sink: watch::Sender::default(),
            sinks: Arc::clone(&self.sinks),
        });
        by_path.insert(settings.path.clone(), Arc::downgrade(&log));
        Ok(log)
    }
}

impl OpenLog {
    /// Sets which endpoint receives the lines from now on.
    pub(super) fn set_sink(&self, sink: Option<Arc<SinkEndpoint>>) {
        self.sink.send_if_modified(|current| {
            let before = current.as_ref().map(|endpoint| &endpoint.settings);
            let is_other = before != sink.as_ref().map(|endpoint| &endpoint.settings);
            if is_other {
                *current = sink;
            }
            is_other
        });
    }

    /// Returns the task that sends the lines, and counts those that earlier processes
    /// have left to it. It ends after the writer of the file. Ends an earlier task for the same
    /// path. Blocks.
    pub(super) fn sink_task(&self, path: &Path, shutdown: &CancellationToken) -> SinkTask {
        let mut task = SinkTask {
            end: self.sinks.replace(path),
            path: path.to_owned(),
            endpoint: self.sink.subscribe(),
            written: self.observer.written_seq.subscribe(),
            metrics: Arc::clone(&self.observer.metrics),
            position: load_position(path),
            is_failing: false,
            lag: 0,
            shutdown: shutdown.clone(),
        };
        if self.sink.borrow().is_some() {
            task.record_lag_behind(self.file.head().seq);
        }
        task
    }
}

impl SinkTasks {
    /// Returns the token of a new task, and cancels that of an earlier one.
    fn replace(&self, path: &Path) -> CancellationToken {
        let mut tokens = self.0.lock();
        tokens.retain(|_, token| !token.is_cancelled());
        let token = CancellationToken::new();
        if let Some(earlier) = tokens.insert(path.to_owned(), token.clone()) {
            earlier.cancel();
        }
        token
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        let requests = self.rejected_requests.take_suppressed();
        if requests > 0 {
            let record = AuditRecord::Suppressed { requests };
            self.file.push(record.to_line(""));
        }
    }
}

impl LogObserver for LogFileObserver {
    fn line(&self, notice: &LogNotice) -> Vec<u8> {
        AuditRecord::Log(notice.clone()).to_line("")
    }

    fn record(&self, event: LogEvent<'_>) {
        let metrics = &self.metrics;
        match event {
            LogEvent::Repaired { bytes } => tracing::warn!(
                audit.bytes = bytes,
                "decision log: moved incomplete lines aside"
            ),
            LogEvent::Written { lines } => drop(metrics.audit_lines.inc_by(lines)),
            LogEvent::Dropped => drop(metrics.audit_dropped_lines.inc()),
            LogEvent::Failed { error } => {
                tracing::error!(%error, "decision log: writing failed");
            }
            LogEvent::Recovered => tracing::info!("decision log: writing recovered"),
            LogEvent::Lost { lines } => {
                metrics.audit_dropped_lines.inc_by(lines);
                tracing::error!(audit.lines = lines, "decision log: records lost");
            }
        }
    }

    fn written(&self, lines: &[u8], head: &ChainHead) {
        self.written_seq.send_replace(head.seq);
        let exporter = self.exporter.lock().clone();
        if let Some(exporter) = exporter {
            exporter.export_lines(lines);
        }
    }
}

/// Returns how the records of these settings are written.
pub(super) const fn write_options(settings: &AuditSettings) -> WriteOptions {
    WriteOptions {
        durability: match settings.mode {
            AuditMode::Durable => Durability::Synced,
            AuditMode::BestEffort => Durability::Buffered,
        },
        max_file_bytes: settings.rotate.size,
        max_rotated_files: settings.rotate.keep,
    }
}
