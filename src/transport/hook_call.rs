//! The interface of a transport.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::error::TransportError;
use crate::{
    event::{Context, DiagnosticCode, EventName, HookResult},
    protocol::{ProcessOutput, Protocol},
};

/// One event for one hook.
#[derive(Debug, Clone)]
pub struct HookCall<'a> {
    /// Base fields of the event.
    pub context: &'a Context,
    /// Name of the event.
    pub event: EventName,
    /// Hook input, encoded by the protocol.
    pub input: Bytes,
    /// Protocol of the hook.
    pub protocol: &'static dyn Protocol,
    /// End of the hook's timeout. The caller enforces it for the call; the transport
    /// for a process that continues after its output.
    pub deadline: Instant,
    /// True if the call belongs to the proof of the hook, which must not wait for calls of agents:
    /// a wait would fail it.
    pub is_proof: bool,
}

impl HookCall<'_> {
    /// Reads the text of a hook without an exit code, or an empty one, as of a process that
    /// exited with code 0.
    pub(super) fn read_text(&self, output: Vec<u8>) -> HookResult {
        self.protocol
            .read(&ProcessOutput::success(output), self.event)
    }

    /// Reads the output of a hook without an exit code: as of a process that exited
    /// with code 0, but it must be a JSON object.
    pub(super) fn read_object(&self, output: Vec<u8>) -> Result<HookResult, TransportError> {
        // Empty output counts only with an exit code.
        if !output.contains(&b'{') {
            return Err(TransportError::NotAnObject);
        }
        let process = ProcessOutput::success(output);
        let result = self.protocol.read(&process, self.event);
        let is_object = result.diagnostics.iter().all(|diagnostic| {
            !matches!(
                diagnostic.code,
                DiagnosticCode::PlainText | DiagnosticCode::NonObjectJson
            )
        });
        is_object
            .then_some(result)
            .ok_or(TransportError::NotAnObject)
    }
}

/// Connection to one hook.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends one event to the hook and waits for its output without a time limit:
    /// the caller enforces the deadline.
    ///
    /// Dropping the future cancels the call and ends its process. A process that
    /// continues after its output ends at the call's deadline, or when the transport
    /// is dropped.
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<HookResult, TransportError>>;

    /// Starts processes ahead of the first call. Called whenever a config with the
    /// hook becomes active.
    fn start(&self) {}

    /// Returns whether each call starts a process, or takes a prewarmed one.
    fn starts_processes(&self) -> bool {
        false
    }

    /// Returns whether its results are recorded ones, which were restored to the names on the
    /// wire when they were recorded.
    fn is_recorded(&self) -> bool {
        false
    }

    /// Returns the number of processes it reserves.
    fn instances(&self) -> u32 {
        0
    }
}
