//! Applies earlier decisions of hooks to the history that a request sends again.

use crate::{
    dialect::{DialectError, History, ItemKind},
    session::{CallRole, Item, ItemNote, Session},
};

/// Treatment of requests that were denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedRequests {
    Remove,
    Keep,
}

/// Applies the session's notes to `history`: removes denied requests, replaces denied tool
/// results, inserts hidden steps and adds context.
pub fn run(
    session: &Session,
    role: CallRole,
    history: &mut History,
    denied: DeniedRequests,
) -> Result<(), DialectError> {
    let conversation = &session.conversation;
    let prompt = session.prompts().last().map(|prompt| prompt.item);
    let last_content = history.contents().len().saturating_sub(1);
    let mut removed_to = 0;
    let has_notes = !session.state.notes.is_empty();
    for (index, item) in conversation.items.iter().enumerate().filter(|_| has_notes) {
        let Some(note) = session.note(item) else {
            continue;
        };
        if item.kind == ItemKind::Result {
            replay_result(history, item, note)?;
        } else if let Some(context) = note.context.as_deref().filter(|_| prompt == Some(index)) {
            history.edit(item.content)?.append_text(context)?;
        }
        let answer = conversation.items.get(index + 1);
        if item.content < last_content && is_hidden_before(note, answer) {
            let edit = history.edit(item.content)?;
            edit.insert_after(&note.hidden_contents)?;
        }
        // Hooks decide again about the request itself, which is the last item.
        let is_earlier = index + 1 < conversation.items.len();
        if denied == DeniedRequests::Remove
            && is_earlier
            && let Some(text) = &note.denied
        {
            let to = end_of_denied(session, history, index, text)?;
            let (from, kept) = start_of_denied(session, index, note);
            // An agent may keep a denied prompt and append the next one to it.
            history.remove_contents(from.max(removed_to), to, &kept)?;
            removed_to = to;
        }
    }
    if let (Some(context), CallRole::Main) = (&session.state.context, role) {
        history.prepend_text(context)?;
    }
    Ok(())
}

/// Returns whether a note has contents that are hidden in front of this item. Agents with equal
/// requests share a note, and only one of them has the answer behind these contents.
fn is_hidden_before(note: &ItemNote, answer: Option<&Item>) -> bool {
    let is_theirs = |item: &Item| note.hidden_before.contains(&item.own.short());
    !note.hidden_contents.is_empty()
        && (note.hidden_before.is_empty() || answer.is_some_and(is_theirs))
}

/// Applies a note to the tool result that it is about.
fn replay_result(history: &mut History, item: &Item, note: &ItemNote) -> Result<(), DialectError> {
    let (content, part) = (item.content, item.part);
    if let Some(reason) = &note.replaced {
        history.edit(content)?.replace_result(part, reason)?;
    } else if let Some(text) = &note.output {
        history.edit(content)?.set_result_text(part, text)?;
    }
    if let Some(context) = &note.context {
        history.edit(content)?.append_to_result(part, context)?;
    }
    Ok(())
}

/// Returns the content in which a denied request begins, and the parts of it that stay. Hooks on
/// `BeforeAgent` decide about a prompt without what the agent adds to it, those on `BeforeModel`
/// about the whole step, of which only an introduction stays.
fn start_of_denied(
    session: &Session,
    index: usize,
    note: &ItemNote,
) -> (usize, Vec<(usize, usize)>) {
    let mut prompts = session.prompts().iter();
    let prompt = prompts.find(|prompt| prompt.items.contains(&index));
    if let Some(prompt) = prompt.filter(|_| note.response.is_some()) {
        return (prompt.contents.start, session.added_parts(prompt));
    }
    let conversation = &session.conversation;
    let introduction = conversation.introduction(index);
    let kept = introduction.into_iter().collect();
    (conversation.step_of(index), kept)
}

/// Returns the end of a denied request, with the refusal that answers it. A prompt with tool calls
/// ends with its turn, because an API refuses these without the prompt.
fn end_of_denied(
    session: &Session,
    history: &History,
    index: usize,
    refusal: &str,
) -> Result<usize, DialectError> {
    let items = &session.conversation.items;
    let mut later = session.prompts().iter();
    let next_prompt = later.find(|prompt| prompt.items.start > index);
    let next_item = next_prompt.map_or(items.len(), |prompt| prompt.items.start);
    let turn = items.get(index..next_item).unwrap_or_default();
    let Some((item, rest)) = turn.split_first() else {
        return Ok(0);
    };
    if item.kind != ItemKind::Result && rest.iter().any(|item| item.kind == ItemKind::Call) {
        let next = items.get(next_item).map(|item| item.content);
        return Ok(next.unwrap_or(history.contents().len()));
    }
    let next = history.message(item.content + 1)?;
    let is_answered = next.is_some_and(|turn| turn.by_model && turn.text == refusal);
    Ok(item.content + 1 + usize::from(is_answered))
}
