//! Policies, `AfterModel` hooks and `BeforeTool` hooks on one response, or one chunk of it.

mod records;
mod tool_calls;

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
};

use stream_redact::NextText;

use super::refusal::{Filtered, Refusal};
use crate::{
    dialect::{
        self, AllowedFunctions, DialectError, EditedCandidates, FinishEdits, PartialCalls,
        ResponseDocument,
    },
    error::ApiError,
    event::{AfterModel, Context, EventName, FlowVerdict, HookRun, Reason},
    hook::{EventScope, Plan, ResponsePolicies, conclude, run_response_hooks},
    model::{CachedRequest, ResponseMutation},
    observe::recorder::{ExchangeAction, ExchangeEvent},
    policy::ChunkPosition,
    proxy::{model_request::ModelRequest, request_context::RequestContext, turn_state::TurnState},
    session::CallRole,
};

/// Filters one response between upstream and the agent.
#[derive(Debug)]
pub struct ResponseFilter<'a> {
    context: &'a RequestContext,
    hook_context: Context,
    /// Policies and hooks on `AfterModel`. Planned once, because the event has no subject.
    plan: Plan,
    /// Hooks of a locked bundle, which inspect what other hooks changed.
    locked_plan: Option<Plan>,
    /// The model that was called.
    pub model: String,
    /// Policies that run before hooks.
    first_policies: ResponsePolicies,
    /// Policies that inspect what hooks changed.
    second_policies: ResponsePolicies,
    /// The request that was sent; empty without hooks.
    llm_request: Arc<CachedRequest>,
    allowed: AllowedFunctions,
    partial_calls: PartialCalls,
    /// Finish reasons of hooks for the end of the response.
    finish_edits: FinishEdits,
    /// Candidates whose texts hooks have edited.
    edited_candidates: EditedCandidates,
    fires_before_tool: bool,
    /// Bytes of the reasons and edits of `BeforeTool` hooks.
    pub decision_bytes: usize,
    /// True if the response may have calls of a shell that runs upstream.
    may_have_hosted_shell: bool,
    /// Number of inspected chunks that are not recorded yet.
    unrecorded_chunks: u64,
    /// False if the response may pass as it is.
    pub is_required: bool,
}

impl<'a> ResponseFilter<'a> {
    /// Builds the filter for the response to `request`, before upstream is called. Returns
    /// `None` for calls that do not generate.
    pub fn new(turn: &TurnState<'a>, request: &ModelRequest) -> Result<Option<Self>, ApiError> {
        if !request.call.operation.generates() {
            return Ok(None);
        }
        let context = turn.context;
        let mut plan = turn.plan(EventName::AfterModel, request);
        let allowed = turn.allowed.clone();
        let fires_before_tool = turn.derives(EventName::BeforeTool);
        let is_hooked = !plan.is_empty()
            || fires_before_tool
            || turn.derives(EventName::AfterAgent)
            || !allowed.is_all();
        // A summary of the conversation replaces it in later requests, which are matched to the
        // session by the summary.
        let is_summary = turn.role == CallRole::Helper && context.snapshot.derives_any;
        // The agent has a filtered part, perhaps by another call, so the rest must be filtered.
        let is_rest = turn.is_retry() || request.call.retrieves();
        let (call, document) = (&request.call, &request.document);
        let (original, engine) = (request.original.as_ref(), &context.snapshot.engine);
        let scope = turn.scope();
        let (event, subject) = (EventName::AfterModel, request.subject());
        let locked_plan = engine.plan_locked_hooks(&mut plan, event, scope, subject);
        let locked_plan = locked_plan.filter(|locked| !locked.hooks.is_empty());
        let second_policies = plan
            .has_second_pass()
            .then(|| engine.second_pass_policies(&plan, scope, call.model_name()));
        let mut llm_request = CachedRequest::default();
        if !plan.hooks.is_empty() {
            // Streams may be long, so the form holds media only for hooks that receive it.
            llm_request = request.stable_form(plan.detail(event))?.into();
        }
        Ok(Some(Self {
            context,
            hook_context: turn.hook_context.clone(),
            model: call.model_name().to_owned(),
            first_policies: engine.response_policies(&plan, scope, call, document),
            second_policies: second_policies.unwrap_or_default(),
            llm_request: Arc::new(llm_request),
            allowed,
            partial_calls: PartialCalls::default(),
            finish_edits: FinishEdits::default(),
            edited_candidates: EditedCandidates::default(),
            fires_before_tool,
            decision_bytes: 0,
            may_have_hosted_shell: dialect::may_have_hosted_shell(call, original, document)?,
            unrecorded_chunks: 0,
            is_required: is_hooked || is_summary || is_rest || context.records_responses,
            plan,
            locked_plan,
        }))
    }

    /// Returns whether any policy inspects the response.
    pub fn has_policies(&self) -> bool {
        !self.first_policies.is_empty() || !self.second_policies.is_empty()
    }

    /// Returns the number of bytes that policies hold back.
    pub fn held_bytes(&self) -> usize {
        self.first_policies.held_bytes() + self.second_policies.held_bytes()
    }

    /// Returns whether policies find a secret that the text so far, with `rest` behind it, and the
    /// text behind that have together; `None` if text to come decides it.
    pub fn joins_text(&self, rest: &str, next: NextText<'_>) -> Option<bool> {
        let first = self.first_policies.join_text(rest, next)?;
        Some(first || self.second_policies.join_text(rest, next)?)
    }

    /// Returns whether a call in the response may be denied.
    pub fn may_deny_calls(&self) -> bool {
        self.fires_before_tool || !self.allowed.is_all() || self.first_policies.withhold_calls()
    }

    /// Returns whether a chunk passes without waiting for hooks.
    pub fn is_immediate(&self, chunk: &ResponseDocument) -> bool {
        self.plan.hooks.is_empty() && chunk.is_text()
    }

    /// Filters a response or chunk.
    ///
    /// INVARIANT: a response that cannot be parsed is never passed on.
    pub async fn filter(
        &mut self,
        mut chunk: ResponseDocument,
        position: ChunkPosition,
    ) -> Result<Filtered, DialectError> {
        if !self.may_have_hosted_shell {
            dialect::refuse_hosted_shell(&chunk)?;
        }
        self.withhold_unselected(&mut chunk)?;
        let runs = self.first_policies.inspect(&mut chunk, position)?;
        let runs = self.record_policies(runs);
        if self.has_policies() {
            self.unrecorded_chunks += 1;
        }
        self.run_hooks(chunk, runs, position).await
    }

    /// Filters what policies still hold back after the last chunk.
    pub async fn finish(&mut self) -> Result<Vec<Filtered>, DialectError> {
        self.record_unreported();
        let mut filtered = Vec::new();
        let held = self.first_policies.finish()?;
        self.record_observed(&held.observed);
        for (chunk, runs) in held.chunks {
            let runs = self.record_policies(runs);
            filtered.push(self.run_hooks(chunk, runs, ChunkPosition::Chunk).await?);
        }
        let held = self.second_policies.finish()?;
        self.record_observed(&held.observed);
        for (chunk, runs) in held.chunks {
            let runs = self.record_policies(runs);
            filtered.push(self.apply_runs(chunk, runs)?);
        }
        Ok(filtered)
    }

    /// Runs `AfterModel` hooks, then the policies that inspect what they changed, then
    /// `BeforeTool`.
    async fn run_hooks(
        &mut self,
        mut chunk: ResponseDocument,
        mut runs: Vec<HookRun>,
        position: ChunkPosition,
    ) -> Result<Filtered, DialectError> {
        self.finish_edits.write(&mut chunk)?;
        if !self.plan.hooks.is_empty() && chunk.is_shown_to_hooks()? {
            self.context.record(&ExchangeEvent::ChunkToHooks);
            // Boxed, because most chunks run no hooks and futures are moved as a whole.
            let (scope, request) = (self.scope(), &self.llm_request);
            let called = Box::pin(run_response_hooks(&self.plan, scope, request, &chunk));
            runs.extend(called.await?);
            let verdict = self.record_verdict(&self.plan, runs);
            let mut applied = self.apply(&mut chunk, verdict)?;
            if let Some(locked) = &self.locked_plan {
                let request = &self.llm_request;
                let called = Box::pin(run_response_hooks(locked, self.scope(), request, &chunk));
                let verdict = self.record_verdict(locked, called.await?);
                applied = stricter(applied, self.apply(&mut chunk, verdict)?);
            }
            if let Break(refusal) = applied {
                return Ok(Break(refusal));
            }
            runs = Vec::new();
        }
        self.edited_candidates.remove_copies(&mut chunk)?;
        let inspected = self.second_policies.inspect(&mut chunk, position)?;
        runs.extend(self.record_second_pass(inspected));
        match self.apply_runs(chunk, runs)? {
            Continue(chunk) => self.fire_before_tool(chunk).await,
            refused @ Break(_) => Ok(refused),
        }
    }

    fn apply_runs(
        &mut self,
        mut chunk: ResponseDocument,
        runs: Vec<HookRun>,
    ) -> Result<Filtered, DialectError> {
        let verdict = self.record_verdict(&self.plan, runs);
        Ok(self.apply(&mut chunk, verdict)?.map_continue(|()| chunk))
    }

    /// Records what policies and the hooks of a plan decided about a chunk, if any did.
    fn record_verdict(
        &self,
        plan: &Plan,
        runs: Vec<HookRun>,
    ) -> FlowVerdict<Option<ResponseMutation>> {
        if runs.is_empty() {
            return FlowVerdict::Proceed(None);
        }
        conclude::<AfterModel>(&self.context.recorder, plan.summary(), runs)
    }

    fn apply(
        &mut self,
        chunk: &mut ResponseDocument,
        verdict: FlowVerdict<Option<ResponseMutation>>,
    ) -> Result<ControlFlow<Refusal>, DialectError> {
        match verdict {
            FlowVerdict::Proceed(None) => Ok(Continue(())),
            FlowVerdict::Proceed(Some(mut mutation)) => {
                self.finish_edits.take(chunk, &mut mutation)?;
                let ignored = self.edited_candidates.write(chunk, &mutation)?;
                self.context.record(&ExchangeEvent::EditsIgnored(&ignored));
                self.context.record_action(ExchangeAction::Edit);
                Ok(Continue(()))
            }
            FlowVerdict::Deny(reason) => Ok(Break(self.refuse(reason, ExchangeAction::Deny))),
            FlowVerdict::Stop(reason, _) => Ok(Break(self.refuse(reason, ExchangeAction::Stop))),
        }
    }

    fn scope(&self) -> EventScope<'_> {
        EventScope::new(&self.hook_context, &self.context.recorder)
    }

    fn refuse(&self, reason: Reason, action: ExchangeAction) -> Refusal {
        self.context.record_action(action);
        Refusal {
            reason,
            stops_session: action == ExchangeAction::Stop,
            passed: None,
        }
    }
}

/// Returns the stricter of two decisions about a chunk: one that stops the session, else the first
/// that refuses it.
fn stricter(first: ControlFlow<Refusal>, second: ControlFlow<Refusal>) -> ControlFlow<Refusal> {
    match (first, second) {
        (Break(first), Break(second)) if second.stops_session && !first.stops_session => {
            Break(second)
        }
        (Break(refusal), _) | (Continue(()), Break(refusal)) => Break(refusal),
        (Continue(()), Continue(())) => Continue(()),
    }
}
