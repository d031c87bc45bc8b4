//! Configs that were in use since the start, and the last one that was refused.

use std::{collections::VecDeque, fmt, sync::Arc};

use jiff::Timestamp;
use thiserror::Error;

use super::{config_source::SourceError, revision_store::RevisionError, snapshot::BuildError};
use crate::{
    config::{Config, ConfigError, PolicyLayer, Problem},
    event::EventName,
};

/// Revisions that are kept, the current one included.
const MAX_REVISIONS: usize = 20;

/// Reason why a config was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReloadError {
    /// Every problem of the config.
    #[error("{0}")]
    Rejected(String),
    /// A reason that is not in the config and may pass, such as a full disk.
    #[error("{0}")]
    Transient(String),
}

/// Reason why a config was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadCause {
    /// The start of the process.
    Start,
    /// The signal SIGHUP was received.
    Signal,
    /// A file of the config changed.
    FileChange,
    /// The server of a bundle has another one.
    Bundle,
    /// A user of the admin listener asked for it.
    User(Arc<str>),
    /// A user promoted a stored revision.
    Promotion(Arc<str>),
    /// A user went back to the revision before.
    Rollback(Arc<str>),
}

/// A config that is or was in use.
#[derive(Debug, Clone)]
pub struct ConfigRevision {
    /// Time since which it is or was in use.
    pub applied: Timestamp,
    /// Reason why it was loaded.
    pub cause: ReloadCause,
    /// Config with all of its settings.
    pub config: Arc<Config>,
}

impl ConfigRevision {
    /// Creates the revision of a config that is taken into use now.
    pub fn new(config: &Arc<Config>, cause: ReloadCause) -> Self {
        Self {
            applied: Timestamp::now(),
            cause,
            config: Arc::clone(config),
        }
    }
}

/// A config that was refused.
#[derive(Debug, Clone)]
pub struct RefusedReload {
    /// Time of the attempt.
    pub time: Timestamp,
    /// Reason of the attempt.
    pub cause: ReloadCause,
    /// Every problem of the config.
    pub error: ReloadError,
}

/// The last configs, newest last.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    pub(super) applied: VecDeque<ConfigRevision>,
    pub(super) refused: Option<RefusedReload>,
}

impl ReloadError {
    /// The same error with the name of each bundle instead of the folder of its files.
    #[must_use]
    pub(super) fn named_by_layers(self, layers: &[PolicyLayer]) -> Self {
        let named = |message: String| {
            layers.iter().fold(message, |message, layer| {
                message.replace(&layer.directory.display().to_string(), &layer.name)
            })
        };
        match self {
            Self::Rejected(message) => Self::Rejected(named(message)),
            Self::Transient(message) => Self::Transient(named(message)),
        }
    }
}

impl ReloadCause {
    /// Returns the name of the user who asked for it; empty for other causes.
    pub fn user(&self) -> &str {
        match self {
            Self::Start | Self::Signal | Self::FileChange | Self::Bundle => "",
            Self::User(name) | Self::Promotion(name) | Self::Rollback(name) => name,
        }
    }
}

impl fmt::Display for ReloadCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Signal => f.write_str("signal"),
            Self::FileChange => f.write_str("file change"),
            Self::Bundle => f.write_str("bundle"),
            Self::User(name) => write!(f, "user {name}"),
            Self::Promotion(name) => write!(f, "promotion by {name}"),
            Self::Rollback(name) => write!(f, "rollback by {name}"),
        }
    }
}

impl From<ConfigError> for ReloadError {
    fn from(error: ConfigError) -> Self {
        Self::Rejected(error.to_string())
    }
}

impl From<BuildError> for ReloadError {
    fn from(error: BuildError) -> Self {
        let message = error.to_string();
        match error {
            BuildError::Revision(error) => error.into(),
            // A hook may need a program or a server that this machine does not have now.
            BuildError::Audit(_) | BuildError::Proof(_) => Self::Transient(message),
            BuildError::Config(_) | BuildError::Upstream(_) | BuildError::Rollout { .. } => {
                Self::Rejected(message)
            }
        }
    }
}

impl From<SourceError> for ReloadError {
    fn from(error: SourceError) -> Self {
        let message = error.to_string();
        match error {
            SourceError::FileOfBundles(_) => Self::Transient(message),
            SourceError::File(_) | SourceError::Revision(_) | SourceError::Stored { .. } => {
                Self::Rejected(message)
            }
        }
    }
}

impl From<RevisionError> for ReloadError {
    fn from(error: RevisionError) -> Self {
        let message = error.to_string();
        match error {
            RevisionError::Locked(_) | RevisionError::Bundles(_) | RevisionError::Io { .. } => {
                Self::Transient(message)
            }
            RevisionError::NotKept | RevisionError::Unknown(_) | RevisionError::Damaged { .. } => {
                Self::Rejected(message)
            }
        }
    }
}

/// Logs warnings about settings that are valid but probably not intended.
pub(super) fn log_warnings(problems: &[Problem]) {
    for problem in problems {
        tracing::warn!(problem = problem.to_string(), "config warning");
    }
}

/// Checks that a config does not open the listeners that are bound since the start, and logs which
/// of its settings need a restart.
pub(super) fn check_start_settings(start: &Config, config: &Config) -> Result<(), ReloadError> {
    let bound = (start.listen, start.admin.listen);
    config.check_bound_addresses(bound.0, bound.1)?;
    let changed = config.settings_for_restart(start);
    if !changed.is_empty() {
        let settings = changed.join(", ");
        tracing::warn!(settings, "settings changed; restart to apply");
    }
    Ok(())
}

/// Logs the guards of the config in use that the next one does not have.
pub(super) fn log_removed_guards(current: &Config, next: &Config) {
    for (event, name) in current.strict_guards().difference(&next.strict_guards()) {
        let event = event.map(EventName::as_str).unwrap_or_default();
        tracing::warn!(hook.name = name, event, "guard removed");
    }
}

impl Revisions {
    /// Adds the config that is in use now, unless it is the same as before. The last refused one
    /// no longer matters.
    pub(super) fn add(&mut self, revision: ConfigRevision) {
        self.refused = None;
        if let Some(current) = self.applied.back_mut()
            && current.config.version == revision.config.version
        {
            // Its lines and secrets may be others.
            current.config = revision.config;
            return;
        }
        if self.applied.len() == MAX_REVISIONS {
            self.applied.pop_front();
        }
        self.applied.push_back(revision);
    }
}
