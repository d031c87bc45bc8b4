//! Data of a call that no stage of a hooked call changes.

use std::sync::Arc;

use http::request::Parts;

use super::session_name::SessionName;
use crate::{
    auth::Identity,
    dialect::Dialect,
    error::ApiError,
    event::Context,
    middleware::reserve_memory,
    observe::recorder::{ExchangeAction, ExchangeEvent, Recorder},
    state::{ContentOwners, Snapshot},
    upstream::Upstream,
};

/// Data of a call that no stage of a hooked call changes.
#[derive(Debug)]
pub(super) struct RequestContext {
    /// Config and everything built from it, fixed for this call.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) identity: Arc<Identity>,
    pub(super) cached_content: Arc<ContentOwners>,
    pub(super) earlier_responses: Arc<ContentOwners>,
    /// True if responses are recorded, because later requests may refer to them.
    pub(super) records_responses: bool,
    pub(super) recorder: Recorder,
    /// The head of the agent's request.
    pub(super) head: Parts,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) upstream: Arc<Upstream>,
    /// The session named in path or header.
    pub(super) session_name: Option<SessionName>,
    /// Fields of hook inputs that are known before the body is read.
    pub(super) hook_context: Context,
}

impl RequestContext {
    pub(super) fn record(&self, event: &ExchangeEvent<'_>) {
        self.recorder.record(event);
    }

    /// Counts bytes that are buffered for the call.
    ///
    /// # Errors
    ///
    /// If all calls together exceed `limits.memory`.
    pub(super) fn reserve_memory(&self, bytes: usize) -> Result<(), ApiError> {
        reserve_memory(&self.head, bytes, self.snapshot.config.limits.memory)
    }

    /// Records what policies and hooks did with the call.
    pub(super) fn record_action(&self, action: ExchangeAction) {
        self.record(&ExchangeEvent::ActionTaken(action));
    }
}
