//! Errors of the decision log.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::observe::otlp::ClientError;

/// Why a decision log could not be opened.
#[derive(Debug, Error)]
pub enum AuditError {
    /// A file of the log could not be opened, read or repaired.
    #[error("failed to open decision log `{}`: {cause}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// Another process holds the log's lock file.
    #[error("decision log `{}` is in use by another process", path.display())]
    Locked {
        /// Path of the log.
        path: PathBuf,
    },
    /// The file has content that is not a decision log.
    #[error("`{}` does not end with a decision log record; move it away", path.display())]
    NotALog {
        /// Path of the file.
        path: PathBuf,
    },
    /// The HTTP client for the collector could not be built.
    #[error(transparent)]
    Collector(#[from] ClientError),
}

impl AuditError {
    pub(super) fn open(path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        Self::Open { path, cause }
    }

    pub(super) fn not_a_log(path: &Path) -> Self {
        let path = path.to_owned();
        Self::NotALog { path }
    }
}
