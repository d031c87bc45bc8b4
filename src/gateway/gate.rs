//! `AfterModel` on one answer or one chunk, and what it may call.

use std::sync::Arc;

use bytes::Bytes;

use super::facts::{Did, Facts};
use crate::{
    app::{ApiError, ErrorReason, Snapshot},
    config::HookView,
    dialect::{Allowed, DialectError, FunctionCall, ResponseDocument},
    event::{AfterModel, Context, Flow, Reason},
    hook::Plan,
    model::LlmRequest,
    session::Memory,
};

/// Stands between upstream's answer and the agent.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) memory: Arc<Memory>,
    pub(super) context: Context,
    /// The hooks on `AfterModel`; made once, for it has no subject.
    pub(super) plan: Plan,
    /// The request as it was sent.
    pub(super) llm_request: Arc<LlmRequest>,
    /// What the answer may call.
    pub(super) allowed: Allowed,
    pub(super) facts: Facts,
}

/// What is left of an answer or a chunk.
#[derive(Debug)]
pub(super) enum Judged {
    /// This goes to the agent.
    Pass(Bytes),
    /// Nothing of it goes to the agent.
    Refused(Reason),
}

impl Gate {
    /// Judges one answer or chunk. INVARIANT: what cannot be read never passes.
    pub(super) async fn judge(&mut self, bytes: Bytes) -> Result<Judged, ApiError> {
        let mut document = ResponseDocument::parse(bytes).map_err(|it| self.report(&it))?;
        if !document.carries_content() {
            return Ok(Judged::Pass(document.to_bytes()));
        }
        let allowed = &self.allowed;
        let refuse = |call: &FunctionCall| {
            let reason = || format!("`{}` is not allowed for this call", call.name);
            (!allowed.includes(&call.name)).then(reason)
        };
        let withheld = document.withhold_calls(&mut { refuse });
        if !withheld.map_err(|it| self.report(&it))?.is_empty() {
            self.facts.did(Did::Edit);
        }
        if self.plan.is_empty() {
            return Ok(Judged::Pass(document.to_bytes()));
        }
        let sees = |it: HookView| self.plan.hooks.iter().any(|hook| hook.sees == it);
        let raw = sees(HookView::Document).then(|| document.document().to_raw());
        let raw = raw.flatten();
        let event = AfterModel {
            llm_request: Arc::clone(&self.llm_request),
            llm_response: document.read().map_err(|it| self.report(&it))?,
        };
        let engine = &self.snapshot.engine;
        let fired = engine.fire_plan(&self.plan, &self.context, event, raw.as_deref());
        let fired = fired.await;
        self.facts.note(&fired);
        self.facts.chunk();
        match fired.verdict {
            Flow::Proceed(None) => (),
            Flow::Proceed(Some(mutation)) => {
                let diagnostics = document.write(&mutation).map_err(|it| self.report(&it))?;
                self.facts.note_diagnostics(&diagnostics);
                self.facts.did(Did::Edit);
            }
            Flow::Deny(reason) => return Ok(self.refuse(reason, Did::Deny)),
            Flow::Stop(reason) => return Ok(self.refuse(reason, Did::Stop)),
        }
        Ok(Judged::Pass(document.to_bytes()))
    }

    fn refuse(&self, reason: Reason, did: Did) -> Judged {
        self.facts.did(did);
        if did == Did::Stop {
            let (caller, session_id) = (&self.context.caller.key, &self.context.session_id);
            self.memory
                .stop(caller.as_bytes(), session_id, reason.as_str());
        }
        Judged::Refused(reason)
    }

    fn report(&self, error: &DialectError) -> ApiError {
        let request_id = self.facts.request_id();
        tracing::warn!(request.id = request_id, %error, "the answer cannot be read");
        unreadable()
    }
}

/// The error for an answer that hooks cannot see through.
pub(super) fn unreadable() -> ApiError {
    let message = "the model API's answer cannot be read";
    ApiError::new(ErrorReason::UpstreamUnreadable, message)
}
