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
    deps::{BuildTransport, TransportConfig, TransportDeps, TransportKind},
    error::TransportError,
    hook_call::{HookCall, Transport},
    process_slots::ProcessSlots,
    recorded_runs::{RecordedRuns, RequestRuns, RunKey},
};

/// All transports, by name.
pub const ALL: &[TransportKind] = &[command::KIND, http::KIND, worker::KIND];

/// Builds the transport named `kind`.
///
/// # Errors
///
/// Unknown names and invalid settings.
pub fn build(
    kind: &str,
    config: TransportConfig<'_>,
) -> Result<Arc<dyn Transport>, TransportError> {
    let found = ALL.iter().find(|transport| transport.name == kind);
    let kind = found.ok_or_else(|| TransportError::UnknownKind(kind.to_owned()))?;
    (kind.build)(config)
}

/// Returns the names of all transports.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|transport| transport.name).collect()
}

#[cfg(test)]
mod tests;
