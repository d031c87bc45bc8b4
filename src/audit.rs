//! The decision log: what was fired, asked, refused and told, one JSON line
//! each, in a chain of hashes.
//!
//! Whoever has something to say makes a [`Record`] and tells an [`Audit`]; that
//! never waits. One thread writes what is waiting, all at once. Where the log is
//! durable, [`Audit::commit`] waits until all that was told is on the disk. What
//! a line holds, `record` says; how lines hang together, `chain`; which files
//! there are, `file`. Must not know hooks, documents or HTTP, and holds no
//! credential. To add a kind of line: a variant of [`Record`], and
//! `docs/audit.md`.

mod chain;
mod file;
mod flood;
mod log;
mod queue;
mod reading;
mod record;
mod sample;
mod writer;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio_util::task::TaskTracker;

use self::{log::Log, record::write};
pub use self::{
    log::Logs,
    reading::{Broken, Line, Verified, lines, verify},
    record::{
        CallerRecord, EventRecord, HookRecord, OutcomeRecord, Record, RefusedRecord, RequestRecord,
        Usage, WordsRecord, short,
    },
    sample::{Sample, Sampler},
};
use crate::{
    config::{AuditMode, AuditSettings},
    telemetry::Metrics,
};

/// How long a call waits for the disk before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// The decision log of one config.
#[derive(Clone)]
pub struct Audit {
    settings: AuditSettings,
    config: Arc<str>,
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

/// The decision log cannot be written, so that nothing may happen that belongs
/// into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the decision log cannot be written")]
pub struct Unavailable;

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
        Ok(Self {
            log: logs.open(&settings.path, metrics)?,
            settings: settings.clone(),
            config: config.into(),
        })
    }

    /// Its settings are in force from now on. Writing begins, if it has not.
    pub fn begin(&self, tasks: &TaskTracker) {
        self.log.keep_to(&self.settings);
        if let Some(writer) = self.log.writer() {
            self.tell(&Record::Start {
                version: env!("CARGO_PKG_VERSION"),
                mode: self.settings.mode,
                content: self.settings.content,
            });
            tasks.spawn_blocking(move || writer.run());
        }
    }

    /// Adds a line. Never waits. If too much is waiting already, the line is
    /// counted as dropped, and the log will say so.
    pub fn tell(&self, record: &Record) {
        self.log.push(write(record, &self.config));
    }

    /// Adds a line for a request that was turned away; of very many, only their
    /// number.
    pub fn refused(&self, mut record: RefusedRecord) {
        let admitted = self.log.admit();
        if admitted.left_out > 0 {
            let requests = admitted.left_out;
            self.tell(&Record::LeftOut { requests });
        }
        if admitted.line {
            if !self.settings.content {
                record.path.text = None;
            }
            self.tell(&Record::Refused(Box::new(record)));
        }
    }

    /// Where the log is now: what a commit of all that is told from here on needs.
    pub fn mark(&self) -> Mark {
        Mark(self.log.lost())
    }

    /// Waits until all that was told is on the disk; not at all if the log is not
    /// durable. `since` is from before the first of the lines that must be there:
    /// if any line was dropped meanwhile, it may be one of them.
    pub async fn commit(&self, since: Mark) -> Result<(), Unavailable> {
        match self.settings.mode {
            AuditMode::BestEffort => Ok(()),
            AuditMode::Durable => {
                let written = tokio::time::timeout(PATIENCE, self.log.written(since.0));
                written.await.unwrap_or(Err(Unavailable))
            }
        }
    }

    /// Whether calls may be taken: a durable log that cannot be written says no.
    pub fn check(&self) -> Result<(), Unavailable> {
        match self.settings.mode {
            AuditMode::Durable if self.log.is_failing() => Err(Unavailable),
            AuditMode::Durable | AuditMode::BestEffort => Ok(()),
        }
    }

    /// Takes the print of something as it passes; the thing itself, too, if the
    /// log is to hold content.
    pub fn sampler(&self) -> Sampler {
        Sampler::new(self.settings.content)
    }

    /// A reason as the log may hold it.
    pub fn reason(&self, text: &str) -> WordsRecord {
        WordsRecord::new(text, self.settings.content)
    }

    /// Whether the log is to hold content.
    pub const fn holds_content(&self) -> bool {
        self.settings.content
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Audit").field(&self.settings.path).finish()
    }
}

/// The error for a file of the log.
fn cannot_open(path: &Path, cause: io::Error) -> AuditError {
    let path = path.to_owned();
    AuditError::Open { path, cause }
}

#[cfg(test)]
mod tests;
