//! The handle through which records are appended and committed.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use chained_log::{ChainHead, Log, OpenError};
use thiserror::Error;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    body_digest::BodyHasher,
    http_sink::SinkEndpoint,
    open_log::{OpenLog, OpenLogs, write_options},
    otlp::{self, RecordExporter},
    rate_limit::RecordRateLimiter,
    record::{AuditRecord, RejectionRecord, TextDigest},
};
use crate::{
    config::{AuditMode, AuditSettings, OtlpSettings},
    event::Trace,
    observe::{Metrics, recorder::Unavailable},
    service_client::ClientError,
};

/// Time that a request waits for its records to reach the disk. If none is written meanwhile, the
/// log counts as failing.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The decision log of one config: a file, a collector, or both.
#[derive(Debug, Clone)]
pub struct AuditLog {
    /// Version of the config, which records name.
    config: Arc<str>,
    file: Option<FileSink>,
    exporter: Option<Arc<RecordExporter>>,
}

/// Error of opening a decision log.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The log file could not be opened.
    #[error("decision log: {0}")]
    File(#[from] OpenError),
    /// The HTTP client for the collector or the sink could not be built.
    #[error("decision log: {0}")]
    Client(#[from] ClientError),
}

#[derive(Debug, Clone)]
struct FileSink {
    settings: AuditSettings,
    log: Arc<OpenLog>,
    sink: Option<Arc<SinkEndpoint>>,
}

/// A position in the log, from before the records that a commit needs: the number of
/// records dropped until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint(u64);

impl AuditLog {
    /// Opens the log file and locks it, or shares it if it is open. Writes no record, and
    /// repairs nothing that a crash left, before [`Self::start`]. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, is locked, or is not a decision log, or if the
    /// HTTP client of its sink cannot be built.
    pub fn open(
        settings: &AuditSettings,
        config: &str,
        logs: &OpenLogs,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let sink = settings.sink.as_ref().map(SinkEndpoint::new).transpose()?;
        let file = FileSink {
            log: logs.open(settings, metrics)?,
            sink: sink.map(Arc::new),
            settings: settings.clone(),
        };
        Ok(Self {
            file: Some(file),
            ..Self::without_file(config)
        })
    }

    /// Creates a log without a file, for [`Self::with_collector`].
    pub fn without_file(config: &str) -> Self {
        Self {
            config: config.into(),
            file: None,
            exporter: None,
        }
    }

    /// Adds a collector. The exporter of `previous` is kept if its settings are equal.
    ///
    /// # Errors
    ///
    /// Fails if the HTTP client cannot be built.
    pub fn with_collector(
        mut self,
        settings: &OtlpSettings,
        previous: Option<&Self>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let previous = previous.and_then(|log| log.exporter.as_ref());
        let exporter = match previous.filter(|exporter| exporter.settings == *settings) {
            Some(same) => Arc::clone(same),
            None => Arc::new(RecordExporter::new(settings, metrics)?),
        };
        self.exporter = Some(exporter);
        Ok(self)
    }

    /// Returns the same log for another config, whose version its records name.
    #[must_use]
    pub fn for_config(&self, config: &str) -> Self {
        Self {
            config: config.into(),
            ..self.clone()
        }
    }

    /// Puts the settings into force, and starts writing unless it was started before. Lines are
    /// sent until they are accepted, or until shortly after `shutdown`.
    pub fn start(&self, tasks: &TaskTracker, shutdown: &CancellationToken) {
        if let Some(exporter) = &self.exporter {
            exporter.start(tasks);
        }
        let Some(file) = &self.file else {
            return;
        };
        let (settings, log) = (&file.settings, &file.log);
        log.file.set_options(write_options(settings));
        log.observer.exporter.lock().clone_from(&self.exporter);
        log.set_sink(file.sink.clone());
        if let Some(writer) = log.file.take_writer() {
            let start = AuditRecord::Start {
                version: env!("CARGO_PKG_VERSION"),
                mode: settings.mode,
                content: settings.content,
            };
            log.file.push(start.to_line(&self.config));
            tasks.spawn_blocking(move || writer.run());
            tasks.spawn(log.sink_task(&settings.path, shutdown).run());
        }
    }

    /// Queues a record; never waits. A record that does not fit into the queue is
    /// counted, and the log has a `dropped` record in its place.
    pub fn append(&self, record: &AuditRecord) {
        if let Some(limiter) = self.rejected_requests() {
            self.push_suppressed(limiter.take_past(Instant::now()));
        }
        self.push(record);
    }

    fn push_suppressed(&self, requests: u64) {
        if requests > 0 {
            self.push(&AuditRecord::Suppressed { requests });
        }
    }

    fn push(&self, record: &AuditRecord) {
        if let Some(exporter) = &self.exporter {
            exporter.export_spans(record);
        }
        match (&self.file, &self.exporter) {
            // Its lines are exported when they have their place in the chain.
            (Some(file), _) => file.log.file.push(record.to_line(&self.config)),
            (None, Some(exporter)) => {
                let line = [b"{", record.to_line(&self.config).as_slice(), b"}"].concat();
                exporter.export_lines(&line);
            }
            (None, None) => (),
        }
    }

    /// Queues the record of a rejected request, subject to a rate limit.
    pub fn append_rejection(&self, mut record: RejectionRecord) {
        let Some(limiter) = self.rejected_requests() else {
            return;
        };
        let now = Instant::now();
        // Before the next window begins.
        self.push_suppressed(limiter.take_past(now));
        if !limiter.admit(now) {
            return;
        }
        if !self.stores_content() {
            record.path.text = None;
        }
        self.push(&AuditRecord::Rejected(Box::new(record)));
    }

    fn rejected_requests(&self) -> Option<&RecordRateLimiter> {
        match (&self.file, &self.exporter) {
            (Some(file), _) => Some(&file.log.rejected_requests),
            (None, Some(exporter)) => Some(&exporter.rejected_requests),
            (None, None) => None,
        }
    }

    /// Returns the current position, for a commit of all records from here on.
    pub fn checkpoint(&self) -> Checkpoint {
        let file = self.file.as_ref();
        Checkpoint(file.map_or(0, |file| file.log.file.dropped_total()))
    }

    /// Waits until all queued records are on disk; returns at once if the log is not
    /// durable. `since` is from before the first record that must be there.
    ///
    /// # Errors
    ///
    /// Fails if any record was dropped since the checkpoint, or cannot be written in
    /// time.
    pub async fn commit(&self, since: Checkpoint) -> Result<(), Unavailable> {
        match self.durable_log() {
            Some(log) => commit_to(log, since).await,
            None => Ok(()),
        }
    }

    /// Waits like [`Self::commit`], also if the log is not durable.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::commit`].
    pub async fn commit_always(&self, since: Checkpoint) -> Result<(), Unavailable> {
        match &self.file {
            Some(file) => commit_to(&file.log.file, since).await,
            None => Ok(()),
        }
    }

    /// Checks that requests may be accepted.
    ///
    /// # Errors
    ///
    /// Fails if the log is durable and cannot be written.
    pub fn ensure_writable(&self) -> Result<(), Unavailable> {
        match self.durable_log() {
            Some(log) if log.is_failing() => Err(Unavailable),
            _ => Ok(()),
        }
    }

    /// Returns whether the log file cannot be written.
    pub fn is_failing(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|file| file.log.file.is_failing())
    }

    /// Returns the path of the log file and the last line that was written to it.
    pub fn file_head(&self) -> Option<(&Path, ChainHead)> {
        let file = self.file.as_ref()?;
        Some((&file.settings.path, file.log.file.head()))
    }

    /// Returns a hasher for one body, which stores its content if the log does.
    pub fn body_hasher(&self) -> BodyHasher {
        BodyHasher::new(self.stores_content())
    }

    /// Returns the digest of a text, with the text if the log stores content.
    pub fn text_digest(&self, text: &str) -> TextDigest {
        if self.stores_content() {
            TextDigest::with_text(text)
        } else {
            TextDigest::new(text)
        }
    }

    /// Returns whether the log file stores content.
    pub fn stores_content(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.settings.content)
    }

    /// Starts the span of a request with this `traceparent` header; off if spans are
    /// not exported.
    pub fn start_trace(&self, traceparent: Option<&str>) -> Trace {
        match &self.exporter {
            Some(exporter) if exporter.traces.is_some() => otlp::start_trace(traceparent),
            _ => Trace::default(),
        }
    }

    /// Returns whether requests wait until their records are on disk.
    pub fn is_durable(&self) -> bool {
        self.durable_log().is_some()
    }

    fn durable_log(&self) -> Option<&Log> {
        let file = self.file.as_ref()?;
        (file.settings.mode == AuditMode::Durable).then_some(&file.log.file)
    }
}

/// Waits until all records that are queued in a log are written.
async fn commit_to(log: &Log, since: Checkpoint) -> Result<(), Unavailable> {
    let committed = log.commit(since.0, COMMIT_TIMEOUT).await;
    committed.map_err(|_| Unavailable)
}
