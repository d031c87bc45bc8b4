//! What one call has learned so far: its session, its retries, and what the agent has received.

use super::{model_request::ModelRequest, request_context::RequestContext};
use crate::{
    dialect::{AllowedFunctions, AppliedSelection, DialectError, Document, ResponseDocument},
    event::{Context, EventName},
    hook::EventScope,
    session::{CallRole, Item, ResponseFingerprinter, Session},
};

/// What one call has learned so far.
#[derive(Debug)]
pub(super) struct TurnState {
    /// Fields shared by the hook inputs of this call.
    pub(super) hook_context: Context,
    pub(super) role: CallRole,
    /// `None` if the session could not be looked up and no event needs it.
    pub(super) session: Option<Box<Session>>,
    /// Tools selected by hooks.
    pub(super) selected: AppliedSelection,
    /// The request as it was before `BeforeModel`, the base of the next retry.
    pub(super) retry_base: Option<Document>,
    /// The user's prompt, if `AfterAgent` is derived.
    pub(super) prompt: String,
    /// Index of the last conversation item of the prompt. Identifies the turn.
    pub(super) prompt_item: usize,
    /// Whether the agent has received text of an answer that another one follows.
    pub(super) has_emitted_text: bool,
    /// Number of times the model was asked again because its tool calls were denied.
    pub(super) denied_rounds: u32,
    /// Number of times `AfterAgent` asked for another answer.
    pub(super) answer_retries: u32,
    fingerprinter: Option<ResponseFingerprinter>,
}

impl TurnState {
    pub(super) fn new(context: &RequestContext, request: &ModelRequest) -> Self {
        let mut hook_context = context.hook_context.clone();
        if let Some(name) = &request.session_name {
            hook_context.session_named = true;
            hook_context.session_id.clone_from(&name.id);
        }
        Self {
            role: request.role(&hook_context.caller.agent),
            hook_context,
            session: None,
            selected: AppliedSelection::None,
            retry_base: None,
            prompt: String::new(),
            prompt_item: 0,
            has_emitted_text: false,
            denied_rounds: 0,
            answer_retries: 0,
            fingerprinter: None,
        }
    }

    /// Context and recorder of the call's hook events.
    pub(super) const fn scope<'a>(&'a self, context: &'a RequestContext) -> EventScope<'a> {
        EventScope {
            context: &self.hook_context,
            recorder: &context.recorder,
        }
    }

    /// Returns whether the model was asked more than once.
    pub(super) const fn is_retry(&self) -> bool {
        self.denied_rounds > 0 || self.answer_retries > 0
    }

    /// Functions that the response may call.
    pub(super) fn allowed_functions(&self) -> AllowedFunctions {
        match &self.selected {
            AppliedSelection::Restricted(allowed) => allowed.clone(),
            AppliedSelection::None => AllowedFunctions::All,
        }
    }

    /// Returns whether `event` is derived from this call, once its session is known.
    pub(super) fn derives(&self, context: &RequestContext, event: EventName) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| self.derives_in(context, session, event))
    }

    /// Returns whether `event` is derived from this call in `session`.
    ///
    /// Helper calls fire no agent or session events. Tool events are fired for them, because
    /// only the agent's own word makes a call a helper call.
    pub(super) fn derives_in(
        &self,
        context: &RequestContext,
        session: &Session,
        event: EventName,
    ) -> bool {
        let is_tool_event = matches!(event, EventName::BeforeTool | EventName::AfterTool);
        (is_tool_event || self.role == CallRole::Main)
            && context.snapshot.derives(event)
            && !session.state.reported.contains(&event)
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
        match self.fingerprinter() {
            Some(fingerprinter) => fingerprinter.push_chunk(chunk),
            None => Ok(()),
        }
    }

    /// Saves what the agent was given before the last of it goes out, so that its next request
    /// finds the session. `by_model` is false if a hook's text replaces the model's response.
    pub(super) async fn finish_response(&mut self, by_model: bool) {
        if let Some(session) = &mut self.session {
            let fingerprinter = self.fingerprinter.take();
            let fingerprinter = fingerprinter.unwrap_or_else(|| session.response_fingerprinter());
            session.record_response(fingerprinter, by_model).await;
        }
    }

    fn fingerprinter(&mut self) -> Option<&mut ResponseFingerprinter> {
        let session = self
            .session
            .as_ref()
            .filter(|session| session.is_found_by_history())?;
        let start = || session.response_fingerprinter();
        Some(self.fingerprinter.get_or_insert_with(start))
    }
}
