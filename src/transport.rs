//! Transports: ways to send an event to a hook and to receive its output.
//!
//! To add a transport, write one file here and add one line to [`ALL`].

mod backoff;
mod command;
mod deps;
mod error;
mod hook_call;
mod http;
mod pipes;
mod process;
mod process_slots;
mod recorded_runs;
mod shell;
mod worker;

use std::sync::Arc;

pub use self::{
    deps::{TransportConfig, TransportDeps},
    error::TransportError,
    hook_call::{HookCall, Transport},
    process_slots::ProcessSlots,
    recorded_runs::{RecordedRuns, RequestRuns, RunKey},
};

/// Constructor of a transport, which starts nothing.
type BuildTransport = fn(TransportConfig<'_>) -> Result<Arc<dyn Transport>, TransportError>;

/// All transports: the `type` of their hooks in the config, and their constructors.
pub const ALL: &[(&str, BuildTransport)] = &[
    ("command", |config| {
        Ok(Arc::new(command::CommandTransport::new(config)?))
    }),
    ("http", |config| {
        Ok(Arc::new(http::HttpTransport::new(config)?))
    }),
    ("worker", |config| {
        Ok(Arc::new(worker::WorkerTransport::new(config)?))
    }),
];

/// Builds the transport named `kind`.
///
/// # Errors
///
/// Unknown names and invalid settings.
pub fn build(
    kind: &str,
    config: TransportConfig<'_>,
) -> Result<Arc<dyn Transport>, TransportError> {
    let found = ALL.iter().find(|(name, _)| *name == kind);
    let (_, build) = found.ok_or_else(|| TransportError::UnknownKind(kind.to_owned()))?;
    build(config)
}

#[cfg(test)]
mod tests;
