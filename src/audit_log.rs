//! The decision log: what was fired, asked, refused and told, one JSON line
//! each, in a chain of hashes.
//!
//! Whoever has something to say makes a [`Record`] and tells an [`Audit`]; that
//! never waits. One thread writes what is waiting, all at once. Where the log is
//! durable, [`Audit::commit`] waits until all that was told is on the disk. What
//! a line holds, `record` says; how lines hang together, `chain`; which files
//! there are, `file`; what a collector is told, `export`. Must not know hooks,
//! documents or HTTP, and holds no credential. To add a kind of line: a variant
//! of [`Record`], and `docs/audit.md`.

mod body_digest;
mod file;
mod hash_chain;
mod log;
mod otlp;
mod rate_limit;
mod reader;
mod record;
mod recorder_sink;
mod response_tail;
mod run_stats;
mod write_queue;
mod writer;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio_util::task::TaskTracker;

pub use self::{
    body_digest::{BodyDigester, Sample},
    log::Logs,
    reader::{Broken, Line, Verified, lines, verify},
    record::{
        CallRecord, CallerRecord, DigestRecord, EventRecord, HookRecord, OutcomeRecord, Period,
        Record, RefusedRecord, RequestRecord, Usage, short,
    },
    recorder_sink::DecisionLogSink,
};
use self::{log::Log, otlp::Export, record::write};
use crate::{
    config::{AuditMode, AuditSettings, OtlpSettings},
    event::Trace,
    observe::{Metrics, otlp::ClientError, recorder::Unavailable},
};

/// How long a call waits for the disk before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// The decision log of one config, and the collector that is told of it; at least
/// one of them.
#[derive(Clone)]
pub struct Audit {
    config: Arc<str>,
    file: Option<File>,
    export: Option<Arc<Export>>,
}

/// The decision log.
#[derive(Clone)]
struct File {
    settings: AuditSettings,
    log: Arc<Log>,
}

/// Why a decision log cannot be opened.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The system said no.
    #[error("the decision log `{}` cannot be opened: {cause}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Another gateway writes it.
    #[error("the decision log `{}` belongs to another gateway that runs", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// There is no client for the collector.
    #[error(transparent)]
    Collector(#[from] ClientError),
    /// There is something else in it.
    #[error(
        "`{}` does not end with a line of a decision log, so none is added to it; move it away",
        path.display()
    )]
    Alien {
        /// The file.
        path: PathBuf,
    },
}

/// A place in a decision log: how many lines it lacked there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl Audit {
    /// Opens the log, or goes on with it if it is open: mends what a crash left,
    /// and keeps others away. Writes nothing before [`Self::begin`]. `config` is
    /// the version that its lines name. Blocks.
    pub fn open(
        settings: &AuditSettings,
        config: &str,
        logs: &Logs,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let log = logs.open(&settings.path, metrics)?;
        let settings = settings.clone();
        Ok(Self {
            file: Some(File { settings, log }),
            ..Self::nowhere(config)
        })
    }

    /// One that nobody is told of, until a collector is.
    pub fn nowhere(config: &str) -> Self {
        Self {
            config: config.into(),
            file: None,
            export: None,
        }
    }

    /// The same, with a collector. If `old` has the same, it goes on.
    pub fn exported(
        mut self,
        settings: &OtlpSettings,
        old: Option<&Self>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let old = old.and_then(|it| it.export.as_ref());
        self.export = Some(match old.filter(|it| it.settings == *settings) {
            Some(same) => Arc::clone(same),
            None => Arc::new(Export::new(settings, metrics)?),
        });
        Ok(self)
    }

    /// Its settings are in force from now on. Writing begins, if it has not.
    pub fn begin(&self, tasks: &TaskTracker) {
        if let Some(export) = &self.export {
            export.exporter.start(tasks);
        }
        let Some(File { settings, log }) = &self.file else {
            return;
        };
        log.keep_to(settings);
        if let Some(writer) = log.writer() {
            let start = Record::Start {
                version: env!("CARGO_PKG_VERSION"),
                mode: settings.mode,
                content: settings.content,
            };
            log.push(write(&start, &self.config));
            tasks.spawn_blocking(move || writer.run());
        }
    }

    /// Adds a line. Never waits. If too much is waiting already, the line is
    /// counted as dropped, and the log will say so.
    pub fn tell(&self, record: &Record) {
        if let Some(file) = &self.file {
            file.log.push(write(record, &self.config));
        }
        if let Some(export) = &self.export {
            export.tell(record, &self.config);
        }
    }

    /// Adds a line for a request that was turned away; of very many, only their
    /// number.
    pub fn refused(&self, mut record: RefusedRecord) {
        let admitted = match (&self.file, &self.export) {
            (Some(file), _) => file.log.admit(),
            (None, Some(export)) => export.admit(),
            (None, None) => return,
        };
        if admitted.left_out > 0 {
            let requests = admitted.left_out;
            self.tell(&Record::LeftOut { requests });
        }
        if admitted.line {
            if !self.holds_content() {
                record.path.text = None;
            }
            self.tell(&Record::Refused(Box::new(record)));
        }
    }

    /// Where the log is now: what a commit of all that is told from here on needs.
    pub fn mark(&self) -> Mark {
        Mark(self.file.as_ref().map_or(0, |it| it.log.lost()))
    }

    /// Waits until all that was told is on the disk; not at all if the log is not
    /// durable. `since` is from before the first of the lines that must be there:
    /// if any line was dropped meanwhile, it may be one of them.
    pub async fn commit(&self, since: Mark) -> Result<(), Unavailable> {
        let Some(log) = self.durable() else {
            return Ok(());
        };
        let written = tokio::time::timeout(PATIENCE, log.written(since.0));
        written.await.unwrap_or(Err(Unavailable))
    }

    /// Whether calls may be taken: a durable log that cannot be written says no.
    pub fn check(&self) -> Result<(), Unavailable> {
        match self.durable() {
            Some(log) if log.is_failing() => Err(Unavailable),
            _ => Ok(()),
        }
    }

    /// Takes the print of something as it passes; the thing itself, too, if the
    /// log is to hold content.
    pub fn sampler(&self) -> BodyDigester {
        BodyDigester::new(self.holds_content())
    }

    /// A reason as the log may hold it.
    pub fn reason(&self, text: &str) -> DigestRecord {
        DigestRecord::new(text, self.holds_content())
    }

    /// Whether the log is to hold content.
    pub fn holds_content(&self) -> bool {
        self.file.as_ref().is_some_and(|it| it.settings.content)
    }

    /// The span of a request whose agent sends this as `traceparent`; none if no
    /// collector is told of spans.
    pub fn trace(&self, traceparent: Option<&str>) -> Trace {
        match &self.export {
            Some(export) if export.exporter.exports_traces() => otlp::begun(traceparent),
            _ => Trace::default(),
        }
    }

    /// Returns whether requests wait for their records to be stored.
    pub fn is_durable(&self) -> bool {
        self.durable().is_some()
    }

    fn durable(&self) -> Option<&Log> {
        let file = self.file.as_ref()?;
        (file.settings.mode == AuditMode::Durable).then_some(&*file.log)
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.file.as_ref().map(|it| &it.settings.path);
        f.debug_tuple("Audit").field(&path).finish()
    }
}

/// The error for a file of the log.
fn cannot_open(path: &Path, cause: io::Error) -> AuditError {
    let path = path.to_owned();
    AuditError::Open { path, cause }
}

#[cfg(test)]
mod tests;
