//! Failures of commands, and their exit codes.

use std::{fmt::Display, io, path::Path, process::ExitCode};

use tokio::signal::unix::SignalKind;

use super::output::print_error;
use crate::{
    bundle::{BundleCheckError, ReplicaError},
    config::{ConfigError, Problem},
    observe::InvalidFilter,
    replay::ReplayError,
    server::ServerError,
    state::{BuildError, RevisionError, SourceError},
    trial::TrialError,
};

/// The exit code for an invalid config: `EX_CONFIG` of sysexits.h.
const EXIT_CONFIG: u8 = 78;

/// The exit code of a command that a signal ended, less the number of the signal, as in shells.
const EXIT_SIGNAL: u32 = 128;

/// The reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command failed: exit code 1.
    Failed(String),
    /// A gateway cannot be reached, or cannot do its work now: exit code 1.
    Unavailable(String),
    /// The config is invalid: exit code 78.
    BadConfig(ConfigError),
    /// A signal ended the command: exit code 128 and the number of the signal.
    Interrupted(SignalKind),
}

impl Failure {
    /// Failure with the text of an error.
    pub(super) fn of(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// Failure that names a file.
    pub(super) fn at(path: &Path, error: impl Display) -> Self {
        Self::Failed(format!("`{}`: {error}", path.display()))
    }

    /// Prints the failure to stderr and returns its exit code.
    pub(super) fn report(&self) -> ExitCode {
        match self {
            Self::Failed(message) | Self::Unavailable(message) => {
                print_error(&format!("hookgate: {message}"));
                ExitCode::FAILURE
            }
            Self::BadConfig(error) => {
                print_error(&error.to_string());
                ExitCode::from(EXIT_CONFIG)
            }
            Self::Interrupted(signal) => {
                print_error("hookgate: interrupted");
                let code = EXIT_SIGNAL.saturating_add_signed(signal.as_raw_value());
                u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
            }
        }
    }
}

/// Converts errors of which one variant may be about the config. The others are plain failures.
macro_rules! from_errors {
    ($($error:ident::$of_config:ident,)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                match error {
                    $error::$of_config(error) => error.into(),
                    error => Self::Failed(error.to_string()),
                }
            }
        })*
    };
}

from_errors! {
    BundleCheckError::Config,
    TrialError::Build,
    ReplayError::Build,
    ReplicaError::Source,
    ServerError::Build,
    SourceError::File,
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Config(error) | BuildError::Proof(error) => Self::BadConfig(error),
            BuildError::Rollout {
                span,
                error: error @ RevisionError::Unknown(_),
            } => Self::BadConfig(Problem::at(&span, format!("rollout: {error}")).into()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<InvalidFilter> for Failure {
    fn from(error: InvalidFilter) -> Self {
        Self::BadConfig(Problem::without_span(error.to_string()).into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::BadConfig(error)
    }
}
