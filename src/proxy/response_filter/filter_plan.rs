//! Decides, before upstream is called, whether and how its response is filtered.

use std::sync::Arc;

use super::filter::ResponseFilter;
use crate::{
    dialect::{AllowedFunctions, PartialCalls},
    error::ApiError,
    event::EventName,
    hook::{Plan, ResponsePolicies},
    model::CachedRequest,
    policy::InspectionPass,
    proxy::{model_request::ModelRequest, request_context::RequestContext, turn_state::TurnState},
    session::CallRole,
};

/// What must be done with a response, decided before upstream is called.
#[derive(Debug)]
pub struct FilterPlan {
    /// Policies and hooks on `AfterModel`. Planned once, because the event has no subject.
    plan: Plan,
    allowed: AllowedFunctions,
    fires_before_tool: bool,
}

impl FilterPlan {
    /// Returns `None` if the response may pass as it is.
    pub fn new(context: &RequestContext, turn: &TurnState, request: &ModelRequest) -> Option<Self> {
        if !request.call.operation.generates() {
            return None;
        }
        let engine = &context.snapshot.engine;
        let subject = request.subject();
        let plan = engine.plan(EventName::AfterModel, turn.scope(context), subject);
        let allowed = turn.allowed_functions();
        let fires_before_tool = turn.derives(context, EventName::BeforeTool);
        let is_hooked = !plan.is_empty()
            || fires_before_tool
            || turn.derives(context, EventName::AfterAgent)
            || allowed != AllowedFunctions::All;
        // A summary of the conversation replaces it in later requests, which are matched to the
        // session by the summary.
        let is_summary = turn.role == CallRole::Helper && context.snapshot.derives_any();
        // The agent has received a filtered part, so the rest must be filtered, too.
        (is_hooked || turn.is_retry() || is_summary).then_some(Self {
            plan,
            allowed,
            fires_before_tool,
        })
    }

    /// Builds the filter for the response to `request`.
    pub fn start(
        self,
        context: &RequestContext,
        turn: &TurnState,
        request: &ModelRequest,
    ) -> Result<ResponseFilter, ApiError> {
        let Self {
            plan,
            allowed,
            fires_before_tool,
        } = self;
        let has_hooks = !plan.hooks.is_empty();
        let llm_request = if has_hooks {
            // Streams may be long, so the form that hooks receive holds no media.
            request.stable_form(plan.detail())?.into()
        } else {
            CachedRequest::default()
        };
        let (engine, model) = (&context.snapshot.engine, request.call.model_name());
        let policies = |pass| engine.response_policies(&plan, turn.scope(context), model, pass);
        Ok(ResponseFilter {
            first_policies: policies(InspectionPass::First),
            last_policies: if has_hooks {
                policies(InspectionPass::Second)
            } else {
                ResponsePolicies::default()
            },
            snapshot: Arc::clone(&context.snapshot),
            recorder: context.recorder.clone(),
            hook_context: turn.hook_context.clone(),
            model: model.to_owned(),
            llm_request: Arc::new(llm_request),
            partial_calls: PartialCalls::default(),
            unrecorded_chunks: 0,
            plan,
            allowed,
            fires_before_tool,
        })
    }
}
