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

impl SourceError {
    /// Returns whether no revision of a version is kept here.
    pub const fn is_unknown_version(&self) -> bool {
        matches!(self, Self::Revision(RevisionError::Unknown(_)))
    }

    /// Returns whether a text that an operator has written is wrong: a config, or its `rollout.to`.
    pub const fn is_invalid_config(&self) -> bool {
        match self {
            Self::File(_)
            | Self::FileOfBundles(_)
            | Self::Stored { .. }
            | Self::Revision(RevisionError::Unknown(_)) => true,
            Self::Revision(
                RevisionError::NotKept
                | RevisionError::Locked(_)
                | RevisionError::Bundles(_)
                | RevisionError::Io { .. }
                | RevisionError::Damaged { .. },
            ) => false,
        }
    }
}
