//! Policies, `AfterModel` hooks and `BeforeTool` hooks on one response, or one chunk of it.

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    config::{AskMode, HookView},
    dialect::{
        AllowedFunctions, CallDecision, DialectError, FunctionCall, PartialCalls, ResponseDocument,
    },
    error::ApiError,
    event::{
        AfterModel, ArgumentsEdit, BeforeTool, BeforeToolVerdict, Context, EventName, EventOrigin,
        FlowVerdict, HookOutput, HookRun, Reason, mcp_context,
    },
    hook::{EventScope, HeldBack, InspectedChunk, Plan, ResponsePolicies},
    model::CachedRequest,
    observe::recorder::{ExchangeAction, ExchangeEvent, Recorder},
    policy::{ChunkPosition, InspectionPass},
    proxy::reply::unreadable_response,
    state::Snapshot,
};

/// Filters one response between upstream and the agent.
#[derive(Debug)]
pub struct ResponseFilter {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) recorder: Recorder,
    pub(super) hook_context: Context,
    pub(super) plan: Plan,
    /// The model that was called.
    pub model: String,
    /// Policies that run before hooks.
    pub(super) first_policies: ResponsePolicies,
    /// Policies that inspect what hooks changed.
    pub(super) last_policies: ResponsePolicies,
    /// The request that was sent; empty without hooks.
    pub(super) llm_request: Arc<CachedRequest>,
    pub(super) allowed: AllowedFunctions,
    pub(super) partial_calls: PartialCalls,
    pub(super) fires_before_tool: bool,
    /// Number of inspected chunks that are not recorded yet.
    pub(super) unrecorded_chunks: u64,
}

/// Why a response is cut off.
#[derive(Debug)]
pub struct Refusal {
    pub reason: Reason,
    /// Whether the session stops, too.
    pub stops_session: bool,
}

/// A filtered response or chunk, or the refusal of it and of all that follows.
pub type Filtered = ControlFlow<Refusal, ResponseDocument>;

impl ResponseFilter {
    /// Returns whether any policy inspects the response.
    pub fn has_policies(&self) -> bool {
        !self.first_policies.is_empty() || !self.last_policies.is_empty()
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
    ) -> Result<Filtered, ApiError> {
        self.withhold_unselected(&mut chunk)
            .map_err(|error| unreadable_response(&error))?;
        let runs = self.first_policies.inspect(&mut chunk, position);
        let runs = self.record_policies(runs.map_err(|error| unreadable_response(&error))?);
        if self.has_policies() {
            self.unrecorded_chunks += 1;
        }
        match self
            .run_hooks(InspectedChunk { chunk, runs }, position)
            .await?
        {
            Continue(chunk) => self.fire_before_tool(chunk).await,
            refused @ Break(_) => Ok(refused),
        }
    }

    /// Filters what policies still hold back after the last chunk.
    pub async fn finish(&mut self) -> Result<Vec<Filtered>, ApiError> {
        self.record_unreported();
        let held = self
            .first_policies
            .finish()
            .map_err(|error| unreadable_response(&error))?;
        let mut filtered = Vec::new();
        for seen in self.record_held(held) {
            filtered.push(match self.run_hooks(seen, ChunkPosition::Chunk).await? {
                Continue(chunk) => self.fire_before_tool(chunk).await?,
                refused @ Break(_) => refused,
            });
        }
        let held = self
            .last_policies
            .finish()
            .map_err(|error| unreadable_response(&error))?;
        for seen in self.record_held(held) {
            filtered.push(self.conclude(seen)?);
        }
        Ok(filtered)
    }

    /// Runs `AfterModel` hooks, then the policies that inspect what they changed.
    async fn run_hooks(
        &mut self,
        seen: InspectedChunk,
        position: ChunkPosition,
    ) -> Result<Filtered, ApiError> {
        let InspectedChunk {
            mut chunk,
            mut runs,
        } = seen;
        if !self.plan.hooks.is_empty() && chunk.has_content() {
            // Boxed, because most chunks run no hooks and futures are moved as a whole.
            runs.extend(Box::pin(self.call_hooks(&chunk)).await?);
            self.recorder.record(&ExchangeEvent::ChunkToHooks);
            if let Break(refusal) = self.apply_outputs(&mut chunk, runs)? {
                return Ok(Break(refusal));
            }
            runs = Vec::new();
        }
        let inspected = self.last_policies.inspect(&mut chunk, position);
        runs.extend(self.record_policies(inspected.map_err(|error| unreadable_response(&error))?));
        self.conclude(InspectedChunk { chunk, runs })
    }

    async fn call_hooks(&self, chunk: &ResponseDocument) -> Result<Vec<HookRun>, ApiError> {
        let wants_document = self
            .plan
            .hooks
            .iter()
            .any(|hook| hook.sees == HookView::Document);
        let document = wants_document.then(|| chunk.to_raw()).flatten();
        let mut event = AfterModel {
            llm_request: Arc::clone(&self.llm_request),
            llm_response: chunk.read().map_err(|error| unreadable_response(&error))?,
        };
        let engine = &self.snapshot.engine;
        let runs = engine.run_hooks(&self.plan, self.scope(), &mut event, document.as_deref());
        Ok(runs.await)
    }

    fn conclude(&self, seen: InspectedChunk) -> Result<Filtered, ApiError> {
        let InspectedChunk { mut chunk, runs } = seen;
        if let Break(refusal) = self.apply_outputs(&mut chunk, runs)? {
            return Ok(Break(refusal));
        }
        if chunk.is_edited() {
            self.recorder
                .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
        }
        Ok(Continue(chunk))
    }

    /// Applies what policies and hooks decided about a chunk.
    fn apply_outputs(
        &self,
        chunk: &mut ResponseDocument,
        runs: Vec<HookRun>,
    ) -> Result<ControlFlow<Refusal>, ApiError> {
        if runs.is_empty() {
            return Ok(Continue(()));
        }
        let outcome = self.snapshot.engine.conclude_chunk(&self.recorder, runs);
        match outcome.verdict {
            FlowVerdict::Proceed(None) => (),
            FlowVerdict::Proceed(Some(mutation)) => {
                let diagnostics = chunk.write(&mutation);
                let diagnostics = diagnostics.map_err(|error| unreadable_response(&error))?;
                self.recorder
                    .record(&ExchangeEvent::OutputIgnored(&diagnostics));
                self.recorder
                    .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
            }
            FlowVerdict::Deny(reason) => {
                return Ok(Break(self.refuse(reason, ExchangeAction::Deny)));
            }
            FlowVerdict::Stop(reason) => {
                return Ok(Break(self.refuse(reason, ExchangeAction::Stop)));
            }
        }
        Ok(Continue(()))
    }

    /// Fires `BeforeTool` for each function call, before the agent receives any of them.
    async fn fire_before_tool(
        &mut self,
        mut chunk: ResponseDocument,
    ) -> Result<Filtered, ApiError> {
        if !self.fires_before_tool {
            return Ok(Continue(chunk));
        }
        let calls = chunk.calls().map_err(|error| unreadable_response(&error))?;
        let mut decisions = Vec::with_capacity(calls.len());
        for (candidate, call) in calls {
            match Box::pin(self.decide_call(candidate, call)).await {
                Continue(decision) => decisions.push(decision),
                Break(reason) => return Ok(Break(self.refuse(reason, ExchangeAction::Stop))),
            }
        }
        if decisions
            .iter()
            .all(|decision| *decision == CallDecision::Keep)
        {
            return Ok(Continue(chunk));
        }
        self.recorder
            .record(&ExchangeEvent::ActionTaken(ExchangeAction::Edit));
        let is_rewrite = |decision: &CallDecision| matches!(decision, CallDecision::Rewrite(_));
        let has_rewrites = decisions.iter().any(is_rewrite);
        chunk
            .decide_calls(decisions)
            .map_err(|error| unreadable_response(&error))?;
        if has_rewrites {
            self.inspect_rewritten(chunk)
        } else {
            Ok(Continue(chunk))
        }
    }

    /// Decides one function call. Breaks with the reason if the session stops.
    async fn decide_call(
        &mut self,
        candidate: u64,
        call: FunctionCall,
    ) -> ControlFlow<Reason, CallDecision> {
        if call.is_partial || call.name.is_empty() {
            let reason = "its arguments are streamed in parts, which hooks cannot inspect";
            let mut refuse = |_: &FunctionCall| Some(reason.to_owned());
            return Continue(self.partial_calls.decide(candidate, &call, &mut refuse));
        }
        let tool_input = match call.arguments {
            Value::Null => serde_json::Map::new(),
            Value::Object(arguments) => arguments,
            _ => {
                return Continue(CallDecision::Refuse(
                    "its arguments are not an object".to_owned(),
                ));
            }
        };
        let event = BeforeTool {
            mcp_context: mcp_context(&call.name),
            tool_name: call.name,
            tool_input: tool_input.clone(),
            original_request_name: None,
        };
        let engine = &self.snapshot.engine;
        let outcome = engine.fire(self.scope(), event, EventOrigin::Derived).await;
        let edit = match outcome.verdict {
            BeforeToolVerdict::Proceed(edit) => edit,
            BeforeToolVerdict::Ask(_) if self.snapshot.config.ask == AskMode::Allow => {
                ArgumentsEdit::from_output(&outcome.output)
            }
            BeforeToolVerdict::Ask(reason) | BeforeToolVerdict::Deny(reason) => {
                return Continue(CallDecision::Refuse(reason.as_str().to_owned()));
            }
            BeforeToolVerdict::Stop(reason) => return Break(reason),
        };
        let mut arguments = tool_input.clone();
        edit.apply(&mut arguments);
        Continue(if arguments == tool_input {
            CallDecision::Keep
        } else {
            CallDecision::Rewrite(arguments)
        })
    }

    /// Lets policies inspect calls that hooks rewrote. Each inspection is independent, because a
    /// call is complete.
    fn inspect_rewritten(&self, mut chunk: ResponseDocument) -> Result<Filtered, ApiError> {
        let engine = &self.snapshot.engine;
        let mut policies = engine.response_policies(
            &self.plan,
            self.scope(),
            &self.model,
            InspectionPass::Second,
        );
        let runs = policies.inspect(&mut chunk, ChunkPosition::Last);
        let runs = self.record_policies(runs.map_err(|error| unreadable_response(&error))?);
        self.conclude(InspectedChunk { chunk, runs })
    }

    /// Withholds calls of functions that were not selected.
    fn withhold_unselected(&mut self, chunk: &mut ResponseDocument) -> Result<(), DialectError> {
        if self.allowed == AllowedFunctions::All {
            return Ok(());
        }
        let mut refuse = |call: &FunctionCall| {
            let reason = || format!("`{}` is not allowed for this call", call.name);
            (!self.allowed.includes(&call.name)).then(reason)
        };
        chunk.withhold_calls(&mut self.partial_calls, &mut refuse)?;
        Ok(())
    }

    /// Records the inspected chunks, and the runs of policies that were not reported, since the
    /// last call.
    fn record_unreported(&mut self) {
        let chunks = std::mem::take(&mut self.unrecorded_chunks);
        if chunks > 0 {
            let unreported = self.first_policies.take_unreported();
            let runs = unreported.as_slice();
            self.recorder
                .record(&ExchangeEvent::ChunksPassed { chunks, runs });
        }
    }

    /// Records runs of policies. Returns those with an output, which are still to be applied.
    fn record_policies(&self, runs: Vec<HookRun>) -> Vec<HookRun> {
        self.record_runs(&runs);
        let has_output = |run: &HookRun| run.answer.output != HookOutput::default();
        if !runs.iter().any(has_output) {
            self.recorder.record(&ExchangeEvent::ChunkInspected(&runs));
            return Vec::new();
        }
        let (with_output, silent): (Vec<HookRun>, Vec<HookRun>) =
            runs.into_iter().partition(has_output);
        self.recorder
            .record(&ExchangeEvent::ChunkInspected(&silent));
        with_output
    }

    fn record_runs(&self, runs: &[HookRun]) {
        let event = EventName::AfterModel;
        for run in runs {
            self.recorder
                .record(&ExchangeEvent::HookFinished { event, run });
        }
    }

    fn scope(&self) -> EventScope<'_> {
        EventScope {
            context: &self.hook_context,
            recorder: &self.recorder,
        }
    }

    fn record_held(&self, held: HeldBack) -> Vec<InspectedChunk> {
        self.record_runs(&held.observed);
        self.recorder
            .record(&ExchangeEvent::ChunkInspected(&held.observed));
        let record = |InspectedChunk { chunk, runs }| {
            let runs = self.record_policies(runs);
            InspectedChunk { chunk, runs }
        };
        held.chunks.into_iter().map(record).collect()
    }

    fn refuse(&self, reason: Reason, action: ExchangeAction) -> Refusal {
        self.recorder.record(&ExchangeEvent::ActionTaken(action));
        Refusal {
            reason,
            stops_session: action == ExchangeAction::Stop,
        }
    }
}

/// A response may be dropped before its end.
impl Drop for ResponseFilter {
    fn drop(&mut self) {
        self.record_unreported();
    }
}
