//! Reason why there is no config.

use thiserror::Error;

use crate::{config::ConfigError, state::revision_store::RevisionError};

/// Reason why there is no config.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The config file has problems.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The config file has problems, also with the bundles in use.
    #[error(transparent)]
    FileOfBundles(ConfigError),
    /// The revision cannot be stored or read.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The stored revision has problems.
    #[error("revision `{version}`: {source}")]
    Stored {
        /// Version of the revision.
        version: String,
        /// Its problems, with positions in its stored files.
        source: ConfigError,
    },
}
