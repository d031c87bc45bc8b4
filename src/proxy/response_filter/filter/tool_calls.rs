//! Function calls in a response: selected or withheld, then decided by `BeforeTool` hooks.

use std::ops::ControlFlow::{self, Break, Continue};

use super::ResponseFilter;
use crate::{
    config::AskMode,
    dialect::{CallDecision, DialectError, FunctionCall, ResponseDocument},
    event::{BeforeTool, Decision, EventDefinition, EventOrigin, Reason},
    observe::recorder::ExchangeAction,
    policy::ChunkPosition,
    proxy::response_filter::refusal::Filtered,
    session::MAX_HOOK_TEXT_BYTES,
};

/// Reason of a call whose own reason or edit is beyond the limit.
const BEYOND_LIMIT: &str = "the reasons and edits of hooks for the calls of this answer are too \
                            long; ask for fewer calls at once";

impl ResponseFilter<'_> {
    /// Fires `BeforeTool` for each function call, before the agent receives any of them.
    pub(super) async fn fire_before_tool(
        &mut self,
        mut chunk: ResponseDocument,
    ) -> Result<Filtered, DialectError> {
        if !self.fires_before_tool {
            return Ok(Continue(chunk));
        }
        let mut decisions = Vec::new();
        for (candidate, call) in chunk.calls()? {
            match Box::pin(self.decide_call(candidate, call)).await {
                Continue(decision) => decisions.push(self.bounded(decision)),
                Break(reason) => {
                    let mut refusal = self.refuse(reason, ExchangeAction::Stop);
                    refusal.passed = Some(Box::new(chunk));
                    return Ok(Break(refusal));
                }
            }
        }
        if decisions.iter().all(|one| *one == CallDecision::Keep) {
            return Ok(Continue(chunk));
        }
        self.context.record_action(ExchangeAction::Edit);
        let is_rewrite = |decision: &CallDecision| matches!(decision, CallDecision::Rewrite(_));
        let has_rewrites = decisions.iter().any(is_rewrite);
        chunk.decide_calls(decisions)?;
        if has_rewrites {
            return self.inspect_rewritten(chunk);
        }
        Ok(Continue(chunk))
    }

    /// Withholds calls of functions that were not selected.
    pub(super) fn withhold_unselected(
        &mut self,
        chunk: &mut ResponseDocument,
    ) -> Result<(), DialectError> {
        if self.allowed.is_all() {
            return Ok(());
        }
        let mut refuse = |call: &FunctionCall| {
            let reason = || format!("`{}` is not allowed for this call", call.name);
            (!self.allowed.includes(call)).then(reason)
        };
        chunk.withhold_calls(&mut self.partial_calls, &mut refuse)
    }

    /// Decides one function call. Breaks with the reason if the session stops.
    async fn decide_call(
        &mut self,
        candidate: u64,
        call: FunctionCall,
    ) -> ControlFlow<Reason, CallDecision> {
        if let Some(reason) = call.refusal() {
            let mut refuse = |_: &FunctionCall| Some(reason.to_owned());
            return Continue(self.partial_calls.decide(candidate, &call, &mut refuse));
        }
        self.decide_tool(call.into()).await
    }

    /// Decides a complete call with the output of `BeforeTool`: keep, rewrite or refuse.
    async fn decide_tool(&self, event: BeforeTool) -> ControlFlow<Reason, CallDecision> {
        let mut edited = event.clone();
        let (snapshot, scope) = (&self.context.snapshot, self.scope());
        let fired = snapshot.engine.fire(scope, event, EventOrigin::Derived);
        let output = fired.await.output;
        if let Some(reason) = output.stop() {
            return Break(reason);
        }
        match output.decision {
            Some(Decision::Allow) | None => (),
            Some(Decision::Ask) if snapshot.config.ask == AskMode::Allow => (),
            Some(Decision::Ask | Decision::Deny) => {
                let reason = Reason::new(output.reason.as_deref());
                return Continue(CallDecision::Refuse(reason.as_str().to_owned()));
            }
        }
        let tool_input = edited.tool_input.clone();
        edited.apply(&output);
        Continue(if edited.tool_input == tool_input {
            CallDecision::Keep
        } else {
            CallDecision::Rewrite(edited.tool_input)
        })
    }

    /// Counts the text of a decision. A call is refused with a short reason if the decisions on all
    /// calls of the response have more text than a session keeps.
    fn bounded(&mut self, decision: CallDecision) -> CallDecision {
        let bytes = match &decision {
            CallDecision::Keep | CallDecision::Drop => return decision,
            CallDecision::Refuse(reason) => reason.len(),
            // Serialization of JSON values cannot fail.
            CallDecision::Rewrite(arguments) => {
                serde_json::to_string(arguments).unwrap_or_default().len()
            }
        };
        if self.decision_bytes + bytes > MAX_HOOK_TEXT_BYTES {
            return CallDecision::Refuse(BEYOND_LIMIT.to_owned());
        }
        self.decision_bytes += bytes;
        decision
    }

    /// Lets policies inspect calls that hooks rewrote. Each inspection is independent, because a
    /// call is complete.
    fn inspect_rewritten(&mut self, mut chunk: ResponseDocument) -> Result<Filtered, DialectError> {
        let engine = &self.context.snapshot.engine;
        let mut policies = engine.second_pass_policies(&self.plan, self.scope(), &self.model);
        let runs = policies.inspect(&mut chunk, ChunkPosition::Last)?;
        let runs = self.record_policies(runs);
        self.apply_runs(chunk, runs)
    }
}
