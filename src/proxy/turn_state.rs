//! State of one call so far: its session, its retries, and what the agent has received.

use std::collections::BTreeSet;

use super::{
    model_request::ModelRequest, request_context::RequestContext,
    response_filter::hosted_calls::HostedCalls, step_recorder::StepRecorder,
};
use crate::{
    dialect::{
        self, AllowedFunctions, ComputerUse, DialectError, ResponseDocument, ResponseExpectation,
    },
    event::{Context, EventKind, EventName, EventOrigin, HookRun},
    hook::{EventOutcome, EventScope, Plan, run_hooks},
    model::LlmRequest,
    session::{CallRole, Item, ResponseFingerprinter, Session},
};

/// State of one call, updated as the call proceeds.
#[derive(Debug)]
pub(super) struct TurnState<'a> {
    pub(super) context: &'a RequestContext,
    /// Fields shared by the hook inputs of this call.
    pub(super) hook_context: Context,
    pub(super) role: CallRole,
    /// Kind of answer that the agent expects.
    pub(super) expectation: ResponseExpectation,
    /// `None` if the session could not be looked up and no event needs it.
    pub(super) session: Option<Box<Session>>,
    /// Functions that the response may call, as hooks selected them.
    pub(super) allowed: AllowedFunctions,
    /// The user's prompt, if `AfterAgent` is derived.
    pub(super) prompt: String,
    /// Index of the last conversation item of the prompt. Identifies the turn.
    pub(super) prompt_item: usize,
    /// Indexes of the candidates of which the agent has text, if another answer, or a reply of
    /// hooks, follows.
    pub(super) sent_texts: BTreeSet<u64>,
    /// True once calls of an answer may be denied: what the agent receives is fingerprinted.
    pub(super) may_deny_calls: bool,
    /// Number of times the model was asked again because its tool calls were denied.
    pub(super) denied_rounds: u32,
    /// Limit of `denied_rounds`; 0 for a stored response, for which no model can be asked again.
    pub(super) max_denied_rounds: u32,
    /// Number of times `AfterAgent` asked for another answer.
    pub(super) answer_retries: u32,
    /// Hosted calls of earlier answers whose result the next answer may have.
    pub(super) hosted_calls: HostedCalls,
    /// Steps of the call for sinks that need them.
    pub(super) steps: StepRecorder,
    fingerprinter: Option<ResponseFingerprinter>,
}

impl<'a> TurnState<'a> {
    /// Returns the state before the first event.
    ///
    /// # Errors
    ///
    /// Fails if the tools of the request cannot be read.
    pub(super) fn new(
        context: &'a RequestContext,
        request: &ModelRequest,
    ) -> Result<Self, DialectError> {
        let mut hook_context = context.hook_context.clone();
        hook_context.computer_use = ComputerUse::read(&request.document)?;
        if let Some(name) = &request.session_name {
            name.write_to(&mut hook_context);
        }
        if let Some(call) = &mut hook_context.call {
            // Only the body of some calls shows whether they stream.
            call.operation = request.call.operation.as_str();
        }
        Ok(Self {
            context,
            role: CallRole::of(
                &request.call,
                request.expectation,
                &hook_context.caller.agent,
            ),
            expectation: request.expectation,
            hook_context,
            session: None,
            allowed: AllowedFunctions::default(),
            prompt: String::new(),
            prompt_item: 0,
            sent_texts: BTreeSet::new(),
            denied_rounds: 0,
            max_denied_rounds: if request.call.retrieves() {
                0
            } else {
                context.snapshot.config.events.max_denied_rounds
            },
            may_deny_calls: false,
            answer_retries: 0,
            hosted_calls: HostedCalls::default(),
            steps: StepRecorder::new(context, request),
            fingerprinter: None,
        })
    }

    /// Returns whether the model is asked again.
    pub(super) const fn is_retry(&self) -> bool {
        self.denied_rounds > 0 || self.answer_retries > 0
    }

    /// Context and recorder of the call's hook events.
    pub(super) const fn scope(&self) -> EventScope<'_> {
        EventScope::new(&self.hook_context, &self.context.recorder)
    }

    /// Selects the policies and hooks that run on an event of the request.
    pub(super) fn plan(&self, event: EventName, request: &ModelRequest) -> Plan {
        let engine = &self.context.snapshot.engine;
        engine.plan(event, self.scope(), request.subject())
    }

    /// Runs the hooks of a plan on an event of the request, built from its stable form.
    pub(super) async fn run_hooks<E: EventKind>(
        &self,
        plan: &Plan,
        request: &ModelRequest,
        event: impl FnOnce(LlmRequest) -> E,
    ) -> Result<Vec<HookRun>, DialectError> {
        if plan.hooks.is_empty() {
            return Ok(Vec::new());
        }
        let mut event = event(request.stable_form(plan.detail(E::NAME))?);
        let document = plan.shows_document().then(|| request.document.to_raw());
        let document = document.flatten().and_then(dialect::shown_to_hooks);
        Ok(run_hooks(plan, self.scope(), &mut event, document.as_deref()).await)
    }

    /// Fires an event that is derived from the call.
    pub(super) async fn fire<E: EventKind>(&self, event: E) -> EventOutcome<E::Verdict> {
        let engine = &self.context.snapshot.engine;
        engine.fire(self.scope(), event, EventOrigin::Derived).await
    }

    /// Returns whether `event` is derived from this call, once its session is known.
    pub(super) fn derives(&self, event: EventName) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| self.derives_in(session, event))
    }

    /// Returns whether `event` is derived from this call in `session`.
    pub(super) fn derives_in(&self, session: &Session, event: EventName) -> bool {
        self.may_derive(event) && !session.state.reported.contains(&event)
    }

    /// Returns whether `event` is derived from this call unless the agent reports it.
    ///
    /// Helper calls fire no agent or session events. Tool events are fired for them, because
    /// only the agent's own word makes a call a helper call.
    pub(super) fn may_derive(&self, event: EventName) -> bool {
        let is_tool_event = matches!(event, EventName::BeforeTool | EventName::AfterTool);
        (is_tool_event || self.role == CallRole::Main) && self.context.snapshot.derives(event)
    }

    /// The session and the last item of the request's conversation.
    pub(super) fn last_item(&mut self) -> Option<(&mut Session, Item)> {
        let session = self.session.as_deref_mut()?;
        let item = session.conversation.items.last().cloned()?;
        Some((session, item))
    }

    /// Stops the session until its next prompt.
    pub(super) fn stop_session(&mut self, reason: &str) {
        if let Some(session) = &mut self.session {
            session.record_stop(self.prompt_item, reason);
        }
    }

    /// Records a chunk that goes to the agent.
    pub(super) fn record_emitted(&mut self, chunk: &ResponseDocument) -> Result<(), DialectError> {
        let is_needed = |session: &&Session| self.may_deny_calls || session.is_found_by_history();
        let Some(session) = self.session.as_deref().filter(is_needed) else {
            return Ok(());
        };
        let start = || session.response_fingerprinter();
        self.fingerprinter
            .get_or_insert_with(start)
            .push_chunk(chunk)
    }

    /// Saves what hooks decided, and policies counted, for later calls of the session.
    pub(super) async fn save_session(&mut self) {
        self.write_counters();
        if let Some(session) = &mut self.session {
            session.save().await;
        }
    }

    /// Saves the session if policies have counted more than is saved, since the agent may
    /// disconnect before the response ends.
    pub(super) async fn save_counters(&mut self) {
        if self.write_counters()
            && let Some(session) = &mut self.session
        {
            session.save().await;
        }
    }

    /// Writes the counters of policies into the state of the session. Returns whether they have
    /// changed.
    fn write_counters(&mut self) -> bool {
        let counters = self.context.snapshot.engine.counters();
        let session = self.session.as_deref_mut();
        session.is_some_and(|session| {
            let (key, usage) = (&session.key, &mut session.state.usage);
            counters.write(&key.caller, &key.id, usage)
        })
    }

    /// Saves what the agent was given before the last of it goes out, so that its next request
    /// finds the session. `by_model` is false if a hook's text replaces the model's response.
    pub(super) async fn finish_response(&mut self, by_model: bool) {
        let mut fingerprinter = self.fingerprinter.take();
        self.write_counters();
        if let Some(fingerprinter) = fingerprinter.as_mut().filter(|_| self.denied_rounds > 0)
            && let Some((session, item)) = self.last_item()
        {
            let first = fingerprinter.first_item().iter();
            session.note_mut(&item).hidden_before = first.map(|own| own.short()).collect();
        }
        if let Some(session) = &mut self.session {
            let fingerprinter = fingerprinter.unwrap_or_else(|| session.response_fingerprinter());
            session.record_response(fingerprinter, by_model).await;
        }
    }
}
