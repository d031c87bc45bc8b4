//! What a request brings along: its session, and what hooks said before of the
//! history that it carries. What is new in it brings about `SessionStart`,
//! `BeforeAgent` and `AfterTool`.

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};

use super::{
    before_model::Step,
    exchange::Exchange,
    outcome::Did,
    reply::{Reply, is_helper},
};
use crate::{
    dialect::{Document, History, ItemKind, ToolResult},
    event::{
        AfterTool, BeforeAgent, EventName, Flow, Reason, SessionStart, ToolResponse, mcp_context,
    },
    hook::{EventOutcome, Origin},
    session::{CallRole, Item, Session, SessionRequest, YieldBudget},
    state::ApiError,
};

/// How many tool results hooks are asked about at once. Most requests bring one
/// or two; a history that nobody remembers may bring hundreds.
const AT_ONCE: usize = 8;

impl Exchange {
    /// Recognises the session, brings about what is new in the request, and lets
    /// everything that was said of its history take effect.
    pub(super) async fn arrive(&mut self, mut document: Document) -> Result<Step, ApiError> {
        let (history, mut session) = match self.recognise(&document).await {
            Ok(recognised) => recognised,
            // Nobody acts on it; what must be read is refused by who reads it.
            Err(_) if !self.snapshot.derives_any() => return Ok(Step::Go(document)),
            Err(error) => return Err(error),
        };
        let told = match history {
            Some(mut history) => {
                let told = self.bring_about(&mut session, &history).await?;
                let is_noted = !session.state.notes.is_empty();
                let untouched = is_noted.then(|| history.clone());
                apply(&session, self.role, &mut history, Denied::TakeOut)?;
                // Of a request that holds nothing new hooks judge all of it again.
                if let Some(untouched) = untouched.filter(|_| history.is_empty()) {
                    history = untouched;
                    apply(&session, self.role, &mut history, Denied::Keep)?;
                }
                history.write(&mut document)?;
                told
            }
            None => None,
        };
        session.save().await;
        if told.is_none() {
            self.transcribe(&session, &document).await?;
        }
        self.session = Some(session);
        Ok(told.map_or(Step::Go(document), Step::Tell))
    }

    async fn recognise(
        &mut self,
        document: &Document,
    ) -> Result<(Option<History>, Box<Session>), ApiError> {
        let history = History::read(document)?;
        let agent = &self.context.caller.agent;
        let operation = self.call.operation;
        self.role = if operation.generates() && !is_helper(operation, self.wish, agent) {
            CallRole::Main
        } else {
            CallRole::Helper
        };
        let visit = SessionRequest {
            caller: &self.context.caller.key,
            agent: &self.context.caller.agent,
            named: self.named.as_ref().map(|it| (it.id.as_str(), it.source)),
            role: self.role,
        };
        let session = self.snapshot.sessions.open(visit, history.as_ref()).await?;
        self.point_to_transcript(&session).await;
        self.context.session_id.clone_from(&session.key.id);
        self.facts.session(&session);
        Ok((history, session))
    }

    /// Whether an event is read off this call, once its session is known.
    pub(super) fn derives(&self, event: EventName) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|it| self.wants(it, event))
    }

    /// Helper calls fire no events of agents and sessions. That a call is one, its
    /// agent says; so tools are guarded there, too.
    fn wants(&self, session: &Session, event: EventName) -> bool {
        let of_tools = matches!(event, EventName::BeforeTool | EventName::AfterTool);
        (of_tools || self.role == CallRole::Main)
            && self.snapshot.derives(event)
            && !session.state.reported.contains(&event)
    }

    /// Fires what is new, and remembers what hooks say of it. What the agent is
    /// told, if the request goes no further.
    async fn bring_about(
        &mut self,
        session: &mut Session,
        history: &History,
    ) -> Result<Option<Reply>, ApiError> {
        let prompt = session.prompts().last();
        // Where nobody asks for anything, the turn is all there is.
        self.turn.item = prompt.map_or(0, |it| it.item);
        if let Some(prompt) = prompt.filter(|_| self.wants(session, EventName::AfterAgent)) {
            self.turn.prompt = session.prompt_text(prompt, history)?;
        }
        begin_turn(session);
        if let Some(reply) = self.stopped(session) {
            return Ok(Some(reply));
        }
        self.session_start(session).await;
        if let Some(reply) = self.before_agent(session, history).await? {
            return Ok(Some(reply));
        }
        self.after_tool(session, history).await
    }

    /// A stopped session waits for its next prompt.
    fn stopped(&self, session: &Session) -> Option<Reply> {
        if session.current_prompt().is_some() {
            return None;
        }
        let note = session.note(session.item(self.turn.item)?)?;
        let reason = note.stopped.as_deref()?;
        self.facts.did(Did::Stop);
        Some(Reply::Denied(Reason::new(Some(reason))))
    }

    async fn session_start(&self, session: &mut Session) {
        if session.state.started || !self.wants(session, EventName::SessionStart) {
            return;
        }
        let goes_on = session.conversation.items.iter().any(|it| it.by_model);
        let source = if goes_on { "resume" } else { "startup" };
        let source = source.to_owned();
        let fired = self.derive(SessionStart { source }).await;
        session.record_start(fired.verdict);
    }

    /// `BeforeAgent`, of each prompt that hooks were not asked about.
    async fn before_agent(
        &self,
        session: &mut Session,
        history: &History,
    ) -> Result<Option<Reply>, ApiError> {
        let prompts = if self.wants(session, EventName::BeforeAgent) {
            session.prompts().to_vec()
        } else {
            Vec::new()
        };
        let mut turns = YieldBudget::default();
        for prompt in prompts {
            turns.step().await;
            let Some(item) = session.item(prompt.item).cloned() else {
                continue;
            };
            if !session.is_evaluated(&item, prompt.last) {
                let prompt = session.prompt_text(&prompt, history)?;
                let fired = self.derive(BeforeAgent { prompt }).await;
                judge_prompt(session, &item, fired.verdict);
            }
        }
        let asked = session
            .current_prompt()
            .and_then(|it| session.item(it.item));
        let note = asked.and_then(|it| session.note(it));
        let Some((note, told)) = note.and_then(|it| Some((it, it.response.as_deref()?))) else {
            return Ok(None);
        };
        self.facts.did(match note.stopped {
            Some(_) => Did::Stop,
            None => Did::Deny,
        });
        Ok(Some(Reply::Denied(Reason::new(Some(told)))))
    }

    /// `AfterTool`, of each result that hooks were not asked about.
    async fn after_tool(
        &self,
        session: &mut Session,
        history: &History,
    ) -> Result<Option<Reply>, ApiError> {
        if !self.wants(session, EventName::AfterTool) {
            return Ok(None);
        }
        let last_step = session.conversation.last_step();
        let new = session.conversation.items.iter().enumerate();
        let new: Vec<(bool, Item)> = new
            .filter(|(_, it)| it.kind == ItemKind::Result)
            .map(|(at, it)| (last_step.contains(&at), it.clone()))
            .filter(|(last, it)| !session.is_evaluated(it, *last))
            .collect();
        let mut events = Vec::with_capacity(new.len());
        let mut results = Vec::new();
        let mut turns = YieldBudget::default();
        for (_, item) in &new {
            turns.step().await;
            let place = |it: &ToolResult| (it.content, it.part);
            let here = (item.content, item.part);
            // Those of a step are read together: it may have very many.
            if results.last().is_none_or(|it| place(it) < here) {
                results = history.results(item.content)?;
            }
            let at = results.binary_search_by_key(&here, place).ok();
            let result = at.and_then(|it| results.get(it)).cloned();
            events.push(after_tool(result.unwrap_or_default()));
        }
        let fired = stream::iter(events).map(|it| self.derive(it));
        let fired: Vec<_> = fired.buffered(AT_ONCE).collect().await;
        let mut stopped = None;
        for ((last, item), fired) in new.iter().zip(fired) {
            session.mark_evaluated(item);
            match fired.verdict {
                Flow::Proceed(Some(context)) => session.note_mut(item).context = Some(context),
                Flow::Deny(reason) => {
                    session.note_mut(item).replaced = Some(reason.as_str().to_owned());
                }
                // What ended long ago cannot be ended.
                Flow::Stop(reason) if *last => stopped = Some(reason),
                Flow::Proceed(None) | Flow::Stop(_) => (),
            }
        }
        let Some(reason) = stopped else {
            return Ok(None);
        };
        self.facts.did(Did::Stop);
        session.record_stop(self.turn.item, reason.as_str());
        Ok(Some(Reply::Denied(reason)))
    }

    /// Fires an event that was read off this call.
    pub(super) async fn derive<E: crate::event::EventKind>(
        &self,
        event: E,
    ) -> EventOutcome<E::Verdict> {
        let engine = &self.snapshot.engine;
        let fired = engine.fire(&self.context, event, Origin::Derived).await;
        self.facts.note(&fired);
        fired
    }
}

/// A turn that begins, again or anew, has had no calls so far.
fn begin_turn(session: &mut Session) {
    let item = session
        .current_prompt()
        .and_then(|it| session.item(it.item).cloned());
    let counted = |it: &Item| {
        session
            .note(it)
            .is_some_and(|it| !it.denied_calls.is_empty())
    };
    if let Some(item) = item.filter(counted) {
        session.note_mut(&item).denied_calls.clear();
    }
}

fn judge_prompt(session: &mut Session, item: &Item, verdict: Flow<Option<String>>) {
    session.mark_evaluated(item);
    match verdict {
        Flow::Proceed(None) => (),
        Flow::Proceed(Some(context)) => session.note_mut(item).context = Some(context),
        Flow::Deny(reason) => {
            let note = session.note_mut(item);
            note.response = Some(reason.as_str().to_owned());
            note.denied.clone_from(&note.response);
        }
        // The prompt stays in the history (hook protocol, section 1).
        Flow::Stop(reason) => {
            let note = session.note_mut(item);
            note.response = Some(reason.as_str().to_owned());
            note.stopped.clone_from(&note.response);
        }
    }
}

/// What becomes of requests that were denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    /// They go.
    TakeOut,
    /// They stay.
    Keep,
}

/// Lets what is remembered of a history take effect on it.
fn apply(
    session: &Session,
    role: CallRole,
    history: &mut History,
    denied: Denied,
) -> Result<(), ApiError> {
    let conversation = &session.conversation;
    let turn = session.prompts().last().map(|it| it.item);
    let last = history.contents().len().saturating_sub(1);
    let mut done = 0;
    let is_noted = !session.state.notes.is_empty();
    let items = conversation.items.iter().enumerate();
    for (at, item) in items.filter(|_| is_noted) {
        let Some(note) = session.note(item) else {
            continue;
        };
        let is_result = item.kind == ItemKind::Result;
        if let Some(reason) = note.replaced.as_deref().filter(|_| is_result) {
            history.replace_result(item.content, item.part, reason)?;
        }
        match note.context.as_deref() {
            Some(context) if is_result => {
                history.append_to_result(item.content, item.part, context)?;
            }
            Some(context) if turn == Some(at) => history.add_part(item.content, context)?,
            Some(_) | None => (),
        }
        if item.content < last {
            history.insert_after(item.content, &note.hidden_contents)?;
        }
        // The request itself is judged again.
        let earlier = at + 1 < conversation.items.len() && denied == Denied::TakeOut;
        if let (Some(told), true) = (&note.denied, earlier) {
            let next = history.turn(item.content + 1)?;
            let heard = next.is_some_and(|it| it.by_model && it.text == *told);
            let to = item.content + 1 + usize::from(heard);
            // An agent may keep a denied prompt and add the next one to it.
            let from = conversation.step_of(at).max(done);
            history.take_out(from, to)?;
            done = to;
        }
    }
    if let (Some(context), CallRole::Main) = (&session.state.context, role) {
        history.lead(context)?;
    }
    Ok(())
}

/// A tool's result as an event.
fn after_tool(result: ToolResult) -> AfterTool {
    let tool_input = match result.args {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    AfterTool {
        mcp_context: mcp_context(&result.name),
        tool_name: result.name,
        tool_input,
        tool_response: tool_response(result.response, result.media),
        original_request_name: None,
    }
}

/// What a tool returned, as hooks are shown it: of what agents send back only
/// what is for the model is known, a text, or a list of parts if there are media.
fn tool_response(response: Value, media: Vec<Value>) -> ToolResponse {
    let mut shown = ToolResponse::new();
    let content = match response {
        Value::Object(mut fields) => {
            if let Some(error) = fields.get("error") {
                shown.insert("error".to_owned(), json!({ "message": text_of(error) }));
            }
            let only = ["output", "result", "content", "error"];
            let only = only
                .iter()
                .find(|it| fields.len() == 1 && fields.contains_key(**it));
            match only {
                Some(key) => fields.remove(*key).unwrap_or_default(),
                None => Value::Object(fields),
            }
        }
        other => other,
    };
    let display = text_of(&content);
    let content = if media.is_empty() {
        content
    } else {
        let text = std::iter::once(json!({ "text": display }));
        Value::Array(text.chain(media).collect())
    };
    shown.insert("llmContent".to_owned(), content);
    shown.insert("returnDisplay".to_owned(), Value::String(display));
    shown
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
