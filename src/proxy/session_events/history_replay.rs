//! Applies earlier decisions of hooks to the history that a request sends again.

use crate::{
    dialect::{DialectError, History, ItemKind},
    session::{CallRole, Session},
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
        let is_result = item.kind == ItemKind::Result;
        if let Some(reason) = note.replaced.as_deref().filter(|_| is_result) {
            history
                .edit(item.content)?
                .replace_result(item.part, reason)?;
        } else if let Some(text) = note.output.as_deref().filter(|_| is_result) {
            history
                .edit(item.content)?
                .set_result_text(item.part, text)?;
        }
        match note.context.as_deref() {
            Some(context) if is_result => {
                history
                    .edit(item.content)?
                    .append_to_result(item.part, context)?;
            }
            Some(context) if prompt == Some(index) => {
                history.edit(item.content)?.append_text(context)?;
            }
            Some(_) | None => (),
        }
        if item.content < last_content {
            history
                .edit(item.content)?
                .insert_after(&note.hidden_contents)?;
        }
        // Hooks decide again about the request itself, which is the last item.
        let is_earlier = index + 1 < conversation.items.len();
        if denied == DeniedRequests::Remove
            && is_earlier
            && let Some(text) = &note.denied
        {
            let next = history.message(item.content + 1)?;
            let is_answered = next.is_some_and(|turn| turn.by_model && turn.text == *text);
            let to = item.content + 1 + usize::from(is_answered);
            // An agent may keep a denied prompt and append the next one to it.
            let from = conversation.step_of(index).max(removed_to);
            history.remove_contents(from, to)?;
            removed_to = to;
        }
    }
    if let (Some(context), CallRole::Main) = (&session.state.context, role) {
        history.prepend_text(context)?;
    }
    Ok(())
}
