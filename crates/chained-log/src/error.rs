//! Errors of opening and writing a log.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Error of opening, locking or repairing a log.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A file of the log could not be opened, read or repaired.
    #[error("failed to open `{}`: {cause}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// Another process holds the log's lock file.
    #[error("`{}` is in use by another process", path.display())]
    Locked {
        /// Path of the log.
        path: PathBuf,
    },
    /// The file has content that is not a log.
    #[error("`{}` does not end with a line of a log; move it away", path.display())]
    NotALog {
        /// Path of the file.
        path: PathBuf,
    },
}

/// The lines of a commit cannot be written, or some were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("log not writable")]
pub struct CommitError;

impl OpenError {
    pub(crate) fn io(path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        Self::Io { path, cause }
    }

    pub(crate) fn not_a_log(path: &Path) -> Self {
        let path = path.to_owned();
        Self::NotALog { path }
    }
}
