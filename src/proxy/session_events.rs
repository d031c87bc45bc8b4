//! Session events: finds the request's session and fires what is new in it as `SessionStart`,
//! `BeforeAgent` and `AfterTool`. Then replays earlier decisions on the request's history.

mod history_replay;
mod tool_result;

use std::{
    ops::ControlFlow::{Break, Continue},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use tokio::task::coop::consume_budget;

use self::history_replay::DeniedRequests;
use super::{
    model_request::ModelRequest,
    reply::{HookReply, StageResult},
    request_body::too_large,
    transcript,
    turn_state::TurnState,
};
use crate::{
    dialect::{Api, History, ItemKind},
    error::ApiError,
    event::{AfterTool, BeforeAgent, EventName, FlowVerdict, Reason, ResultEdit, SessionStart},
    observe::recorder::{ExchangeAction, ExchangeEvent},
    session::{Item, ItemNote, Prompt, Session, SessionRequest},
    state::ReplayInput,
};

/// Maximum number of `AfterTool` events in flight. Most requests bring one or two results; a
/// history without a session may bring hundreds.
const MAX_CONCURRENT_TOOL_EVENTS: usize = 8;

/// Time between two saves while hooks decide about a long history.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Finds the session, fires new events and replays earlier decisions. Breaks if hooks deny the
/// request.
pub(super) async fn run(turn: &mut TurnState<'_>, request: &mut ModelRequest) -> StageResult {
    let (history, mut session) = match find_session(turn, request).await {
        Ok(found) => found,
        // No event needs the session; what later steps need of the request, they check.
        Err(_) if !turn.context.snapshot.derives_any => return Ok(Continue(())),
        Err(error) => return Err(error),
    };
    let counters = turn.context.snapshot.engine.counters();
    counters.read(&session.key.caller, &session.key.id, &session.state.usage);
    let mut flow = Continue(());
    if let Some(mut history) = history {
        flow = fire_new_events(turn, &mut session, &history).await?;
        let unchanged = (!session.state.notes.is_empty()).then(|| history.clone());
        history_replay::run(&session, turn.role, &mut history, DeniedRequests::Remove)?;
        // Hooks decide again about all of a request that contains nothing new.
        if let Some(unchanged) = unchanged.filter(|_| history.is_empty()) {
            history = unchanged;
            history_replay::run(&session, turn.role, &mut history, DeniedRequests::Keep)?;
        }
        if history.is_edited() {
            turn.context.record_action(ExchangeAction::Edit);
        }
        history.write(&mut request.document)?;
    }
    if flow.is_continue() {
        session.mark_last_step_seen();
    }
    session.save().await;
    if flow.is_continue() {
        transcript::record_request(turn, &session, request).await?;
    }
    turn.session = Some(session);
    Ok(flow)
}

async fn find_session(
    turn: &mut TurnState<'_>,
    request: &ModelRequest,
) -> Result<(Option<History>, Box<Session>), ApiError> {
    let context = turn.context;
    let history = History::read(&request.document)?;
    let caller = &turn.hook_context.caller;
    let named = request.session_name.as_ref();
    let replay = context.head.extensions.get::<ReplayInput>();
    let session_request = SessionRequest {
        caller: &caller.key,
        agent: &caller.agent,
        named: named.map(|name| (name.id.as_str(), name.source)),
        continued: request.continued.as_deref(),
        role: turn.role,
        recorded: replay.and_then(|replay| replay.session.as_deref()),
    };
    let sessions = &context.snapshot.sessions;
    let mut session = sessions.open(session_request, history.as_ref()).await?;
    if !session.state.started && turn.derives_in(&session, EventName::SessionStart) {
        sessions.wait_for_start(&mut session).await;
    }
    turn.hook_context.session_id.clone_from(&session.key.id);
    transcript::set_path(turn, &session).await;
    context.record(&ExchangeEvent::SessionFound {
        id: &session.key.id,
        match_kind: session.match_kind.as_str(),
        source: session.state.source.as_str(),
        parent: session.parent.as_deref(),
        reported: &session.state.reported,
        sub_agent: turn.hook_context.sub_agent.as_deref(),
    });
    Ok((history, session))
}

/// Fires what is new in the request and stores the outcomes.
async fn fire_new_events(
    turn: &mut TurnState<'_>,
    session: &mut Session,
    history: &History,
) -> StageResult {
    let prompt = session.prompts().last();
    // Without a prompt, the whole request is one turn.
    turn.prompt_item = prompt.map_or(0, |prompt| prompt.item);
    let fires_after_agent = turn.derives_in(session, EventName::AfterAgent);
    if let Some(prompt) = prompt.filter(|_| fires_after_agent) {
        turn.prompt = session.prompt_text(prompt, history)?;
    }
    reset_denied_calls(session);
    if let Some(reason) = stop_reason(turn, session) {
        turn.context.record_action(ExchangeAction::Stop);
        return Ok(Break(HookReply::Denied(reason)));
    }
    fire_session_start(turn, session).await;
    if let Break(reply) = fire_before_agent(turn, session, history).await? {
        return Ok(Break(reply));
    }
    fire_after_tool(turn, session, history).await
}

/// Clears the count of denied calls if the request starts its turn, once more or anew.
fn reset_denied_calls(session: &mut Session) {
    if let Some(prompt) = session.current_prompt()
        && let Some(item) = session.item(prompt.item).cloned()
        && let Some(note) = session.note(&item)
        && !note.denied_calls.is_empty()
    {
        session.note_mut(&item).denied_calls.clear();
    }
}

/// Returns the reason why the session is stopped until its next prompt, if it is.
fn stop_reason(turn: &TurnState<'_>, session: &Session) -> Option<Reason> {
    if session.current_prompt().is_some() {
        return None;
    }
    let note = session.note(session.item(turn.prompt_item)?)?;
    note.stopped.as_deref().map(|text| Reason::new(Some(text)))
}

async fn fire_session_start(turn: &TurnState<'_>, session: &mut Session) {
    if session.state.started || !turn.derives_in(session, EventName::SessionStart) {
        return;
    }
    let is_resumed = session.conversation.items.iter().any(|item| item.by_model);
    let source = if is_resumed { "resume" } else { "startup" };
    let source = source.to_owned();
    let outcome = turn.fire(SessionStart { source }).await;
    session.record_start(outcome.verdict).await;
}

/// Returns the prompts that hooks have not decided about, each with its last item.
fn new_prompts(session: &Session) -> Vec<(Prompt, Item)> {
    let prompts = session.prompts().iter();
    let with_items = prompts.filter_map(|prompt| {
        let item = session.item(prompt.item)?;
        Some((prompt.clone(), item.clone()))
    });
    with_items
        .filter(|(prompt, item)| !session.is_evaluated(item, prompt.last))
        .collect()
}

/// Fires `BeforeAgent` for each prompt that hooks have not decided about.
async fn fire_before_agent(
    turn: &TurnState<'_>,
    session: &mut Session,
    history: &History,
) -> StageResult {
    let prompts = if turn.derives_in(session, EventName::BeforeAgent) {
        new_prompts(session)
    } else {
        Vec::new()
    };
    let mut saved_at = Instant::now();
    for (prompt, item) in prompts {
        consume_budget().await;
        let text = session.prompt_text(&prompt, history)?;
        let outcome = turn.fire(BeforeAgent { prompt: text }).await;
        let denial = session.moved_denial(&prompt);
        record_prompt(session, &item, outcome.verdict);
        // INVARIANT: no text in front of a denied prompt ends its denial.
        if let Some(denial) = denial {
            let note = session.note_mut(&item);
            note.denied = denial.denied;
            note.response = note.response.take().or(denial.response);
            note.stopped = note.stopped.take().or(denial.stopped);
        }
        turn.context.reserve_memory(text_bytes(session, &item))?;
        save_progress(session, &mut saved_at).await;
    }
    // The turn of the last prompt is the current one, also behind tool results.
    let last = session.prompts().last();
    let asked = last.and_then(|prompt| session.item(prompt.item));
    let note = asked.and_then(|item| session.note(item));
    let Some((note, reason)) = note.and_then(|note| Some((note, note.response.as_deref()?))) else {
        return Ok(Continue(()));
    };
    let action = if note.stopped.is_some() {
        ExchangeAction::Stop
    } else {
        ExchangeAction::Deny
    };
    turn.context.record_action(action);
    Ok(Break(HookReply::Denied(Reason::new(Some(reason)))))
}

fn record_prompt(session: &mut Session, item: &Item, verdict: FlowVerdict<Option<String>>) {
    session.mark_evaluated(item);
    match verdict {
        FlowVerdict::Proceed(None) => (),
        FlowVerdict::Proceed(Some(context)) => session.note_mut(item).context = Some(context),
        FlowVerdict::Deny(reason) => {
            let note = session.note_mut(item);
            note.response = Some(reason.as_str().to_owned());
            note.denied.clone_from(&note.response);
        }
        // The prompt stays in the history (hook protocol, section 1), unless it is denied, too.
        FlowVerdict::Stop(reason, verdict) => {
            let note = session.note_mut(item);
            note.response = Some(reason.as_str().to_owned());
            note.stopped.clone_from(&note.response);
            if matches!(*verdict, FlowVerdict::Deny(_)) {
                note.denied.clone_from(&note.response);
            }
        }
    }
}

/// Returns the number of bytes of text that hooks have written about an item.
fn text_bytes(session: &Session, item: &Item) -> usize {
    session.note(item).map_or(0, ItemNote::text_bytes)
}

/// Records the verdict on a tool result. Returns the reason if it stops the session.
fn record_result(
    session: &mut Session,
    item: &Item,
    verdict: FlowVerdict<ResultEdit>,
) -> Option<Reason> {
    session.mark_evaluated(item);
    match verdict {
        FlowVerdict::Proceed(edit) if edit == ResultEdit::default() => (),
        FlowVerdict::Proceed(edit) => {
            let note = session.note_mut(item);
            (note.output, note.context) = (edit.replacement, edit.context);
        }
        FlowVerdict::Deny(reason) => {
            session.note_mut(item).replaced = Some(reason.as_str().to_owned());
        }
        FlowVerdict::Stop(reason, verdict) => {
            record_result(session, item, *verdict);
            return Some(reason);
        }
    }
    None
}

/// Returns the tool results that hooks have not decided about, and whether each is in the
/// last step.
fn new_results(session: &Session) -> Vec<(bool, Item)> {
    let last_step = session.conversation.last_step();
    let items = session.conversation.items.iter().enumerate();
    items
        .filter(|(_, item)| item.kind == ItemKind::Result)
        .map(|(index, item)| (last_step.contains(&index), item.clone()))
        .filter(|(in_last_step, item)| !session.is_evaluated(item, *in_last_step))
        .collect()
}

/// Fires `AfterTool` for each tool result that hooks have not decided about, here or in the agent.
async fn fire_after_tool(
    turn: &TurnState<'_>,
    session: &mut Session,
    history: &History,
) -> StageResult {
    let is_reported = session.state.reported.contains(&EventName::AfterTool);
    // Claude Code has another event for failed tools, whose hooks cannot hide a result.
    let may_be_derived = !is_reported || turn.context.dialect.api() == Api::Anthropic;
    if !turn.may_derive(EventName::AfterTool) || !may_be_derived {
        return Ok(Continue(()));
    }
    let mut new = new_results(session);
    let mut events = tool_result::events(history, new.iter().map(|(_, item)| item)).await?;
    if is_reported {
        let results = new.into_iter().zip(events);
        let (failed, reported): (Vec<_>, Vec<_>) =
            results.partition(|(_, event)| event.tool_response.contains_key("error"));
        for ((_, item), _) in &reported {
            session.mark_evaluated(item);
        }
        (new, events) = failed.into_iter().unzip();
    }
    let stopped = decide_results(turn, session, &new, events).await?;
    let Some(reason) = stopped else {
        return Ok(Continue(()));
    };
    turn.context.record_action(ExchangeAction::Stop);
    Ok(Break(HookReply::Denied(reason)))
}

/// Fires the events of new tool results and records the verdicts. Returns the reason if one stops
/// the session.
///
/// # Errors
///
/// If the texts that hooks add exceed `limits.body`, which the request would exceed, too, or if all
/// calls together exceed `limits.memory`.
async fn decide_results(
    turn: &TurnState<'_>,
    session: &mut Session,
    new: &[(bool, Item)],
    events: Vec<AfterTool>,
) -> Result<Option<Reason>, ApiError> {
    let fired = stream::iter(events).map(|event| async move { turn.fire(event).await.verdict });
    let mut verdicts = fired.buffered(MAX_CONCURRENT_TOOL_EVENTS);
    let limit = turn.context.snapshot.config.limits.body;
    let (mut added_bytes, mut stopped, mut saved_at) = (0, None, Instant::now());
    for (in_last_step, item) in new {
        let Some(verdict) = verdicts.next().await else {
            break;
        };
        let stop = record_result(session, item, verdict);
        let bytes = text_bytes(session, item);
        added_bytes += bytes;
        if added_bytes > limit {
            return Err(too_large(limit));
        }
        turn.context.reserve_memory(bytes)?;
        // An earlier step cannot be stopped any more.
        if let Some(reason) = stop.filter(|_| *in_last_step) {
            session.record_stop(turn.prompt_item, reason.as_str());
            stopped = Some(reason);
        }
        save_progress(session, &mut saved_at).await;
    }
    Ok(stopped)
}

/// Saves the decisions so far once a second, since the agent may give up before hooks have decided
/// about all items, and try again.
async fn save_progress(session: &mut Session, saved_at: &mut Instant) {
    if saved_at.elapsed() >= SAVE_INTERVAL {
        session.save().await;
        *saved_at = Instant::now();
    }
}
