//! Policies and `AfterModel` hooks on one answer or one chunk, and what it may
//! call.

use std::sync::Arc;

use bytes::Bytes;

use super::facts::{Did, Facts};
use crate::{
    app::{ApiError, ErrorReason, Snapshot},
    config::HookView,
    dialect::{Allowed, CallsInPieces, DialectError, FunctionCall, ResponseDocument},
    event::{AfterModel, Context, Flow, Reason},
    hook::{AnswerLook, Plan, Run, Seen},
    model::LlmRequest,
    policy::Extent,
    session::Memory,
};

/// Stands between upstream's answer and the agent.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) memory: Arc<Memory>,
    pub(super) context: Context,
    /// Who looks and runs on `AfterModel`; made once, for it has no subject.
    pub(super) plan: Plan,
    /// The policies that look before hooks, and at what hooks changed.
    pub(super) looks: [AnswerLook; 2],
    /// The request as it was sent; only hooks are shown it.
    pub(super) llm_request: Arc<LlmRequest>,
    /// What the answer may call.
    pub(super) allowed: Allowed,
    pub(super) pieces: CallsInPieces,
    pub(super) facts: Facts,
}

/// What is left of an answer or a chunk.
#[derive(Debug)]
pub(super) enum Judged {
    /// This goes to the agent.
    Pass(Bytes),
    /// Nothing of it goes to the agent, and nothing that follows.
    Refused(Reason),
}

impl Gate {
    /// Whether any policy looks at the answer.
    pub(super) fn has_policies(&self) -> bool {
        self.looks.iter().any(|it| !it.is_empty())
    }

    /// Judges one answer or chunk. INVARIANT: what cannot be read never passes.
    pub(super) async fn judge(&mut self, bytes: Bytes, extent: Extent) -> Result<Judged, ApiError> {
        let parsed = ResponseDocument::parse(bytes);
        let mut chunk = parsed.map_err(|it| self.report(&it))?;
        let select = self.withhold_unselected(&mut chunk);
        select.map_err(|it| self.report(&it))?;
        let [first, _] = &mut self.looks;
        let runs = first.chunk(&mut chunk, extent);
        let runs = runs.map_err(|it| self.report(&it))?;
        self.judge_seen(Seen { chunk, runs }, extent).await
    }

    /// What policies still hold back after the last chunk.
    pub(super) async fn end(&mut self) -> Result<Vec<Judged>, ApiError> {
        let [first, _] = &mut self.looks;
        let held = first.end().map_err(|it| self.report(&it))?;
        let mut judged = Vec::new();
        for seen in held {
            judged.push(self.judge_seen(seen, Extent::Chunk).await?);
        }
        let [_, again] = &mut self.looks;
        for seen in again.end().map_err(|it| self.report(&it))? {
            judged.push(self.conclude(seen)?);
        }
        Ok(judged)
    }

    /// Hooks, and policies again.
    async fn judge_seen(&mut self, seen: Seen, extent: Extent) -> Result<Judged, ApiError> {
        let Seen { mut chunk, runs } = seen;
        if self.plan.hooks.is_empty() || !chunk.carries_content() {
            return self.look_again(Seen { chunk, runs }, extent);
        }
        let mut all = runs;
        all.extend(self.run_hooks(&chunk).await?);
        self.facts.chunk();
        if let Some(refused) = self.apply(&mut chunk, all)? {
            return Ok(refused);
        }
        let runs = Vec::new();
        self.look_again(Seen { chunk, runs }, extent)
    }

    fn look_again(&mut self, seen: Seen, extent: Extent) -> Result<Judged, ApiError> {
        let Seen {
            mut chunk,
            mut runs,
        } = seen;
        let [_, again] = &mut self.looks;
        let said = again.chunk(&mut chunk, extent);
        runs.extend(said.map_err(|it| self.report(&it))?);
        self.conclude(Seen { chunk, runs })
    }

    fn conclude(&self, seen: Seen) -> Result<Judged, ApiError> {
        let Seen { mut chunk, runs } = seen;
        if let Some(refused) = self.apply(&mut chunk, runs)? {
            return Ok(refused);
        }
        if chunk.document().is_edited() {
            self.facts.did(Did::Edit);
        }
        Ok(Judged::Pass(chunk.to_bytes()))
    }

    async fn run_hooks(&self, chunk: &ResponseDocument) -> Result<Vec<Run>, ApiError> {
        let sees = |it: HookView| self.plan.hooks.iter().any(|hook| hook.sees == it);
        let raw = sees(HookView::Document).then(|| chunk.document().to_raw());
        let raw = raw.flatten();
        let mut event = AfterModel {
            llm_request: Arc::clone(&self.llm_request),
            llm_response: chunk.read().map_err(|it| self.report(&it))?,
        };
        let engine = &self.snapshot.engine;
        let runs = engine.run(&self.plan, &self.context, &mut event, raw.as_deref());
        Ok(runs.await)
    }

    /// What runs come to: a change of the chunk, or a refusal.
    fn apply(
        &self,
        chunk: &mut ResponseDocument,
        runs: Vec<Run>,
    ) -> Result<Option<Judged>, ApiError> {
        if runs.is_empty() {
            return Ok(None);
        }
        let fired = self.snapshot.engine.judge::<AfterModel>(runs);
        self.facts.note(&fired);
        match fired.verdict {
            Flow::Proceed(None) => Ok(None),
            Flow::Proceed(Some(mutation)) => {
                let diagnostics = chunk.write(&mutation).map_err(|it| self.report(&it))?;
                self.facts.note_diagnostics(&diagnostics);
                self.facts.did(Did::Edit);
                Ok(None)
            }
            Flow::Deny(reason) => Ok(Some(self.refuse(reason, Did::Deny))),
            Flow::Stop(reason) => Ok(Some(self.refuse(reason, Did::Stop))),
        }
    }

    /// Calls of functions that were not selected are taken out.
    fn withhold_unselected(&mut self, chunk: &mut ResponseDocument) -> Result<(), DialectError> {
        if self.allowed == Allowed::All {
            return Ok(());
        }
        let mut refuse = |call: &FunctionCall| {
            let reason = || format!("`{}` is not allowed for this call", call.name);
            (!self.allowed.includes(&call.name)).then(reason)
        };
        chunk.withhold_calls(&mut self.pieces, &mut refuse)?;
        Ok(())
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
