//! Kept content of a call, rendered as a conversation. All of it is hostile.
//!
//! Requests are in the form of their API, and each has a reader of its turns. Answers are in
//! the form of the Gemini API.

mod anthropic;
mod google;
mod openai_chat;
mod openai_responses;
mod turn;

use maud::{Markup, html};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use std::{collections::BTreeMap, time::Duration};

use self::turn::{ShownPart, ShownTurn};
use super::format::bytes;
use crate::{
    dialect::Api,
    observe::trace::{CallRecord, MaskedBody, StoredContent},
    timestamp::rfc3339_ms,
};

/// Characters of one text that are shown.
const MAX_TEXT_CHARS: usize = 200 * 1024;

/// Time after which a difference may be coarser than the smallest one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(8);

/// Bytes of a system prompt beyond which it is folded.
const MAX_OPEN_SYSTEM_BYTES: usize = 600;

/// Returns the content of a call: what the agent and the model API sent, side by side.
pub(super) fn conversation(call: &CallRecord, content: &StoredContent) -> Markup {
    let api = Api::named(call.dialect);
    let is_google = api.is_none_or(Api::is_google);
    let role = if is_google { "model" } else { "assistant" };
    let request = |title, body| side(title, body, |value| request_turns(api, value));
    let answer = |title, body| side(title, body, |value| google::answer(value, role));
    let (from_agent, sent) = (content.request.as_ref(), content.upstream_request.as_ref());
    let (answered, received) = (content.answer.as_ref(), content.agent_answer.as_ref());
    // The same text in other chunks is no change.
    let is_moved = call
        .detail
        .as_ref()
        .is_some_and(|detail| detail.answer_diff.is_some())
        && !call.has_edited_answer();
    html! {
        p { "Kept because: " (reason_text(content)) ", until " (rfc3339_ms(content.until_ms)) ". Secrets and personal "
            "data were masked before it was kept." }
        div.columns {
            section {
                h3 { "Agent" }
                (request("Request of the agent", from_agent))
                @if received.and_then(MaskedBody::value) == Some(json!([])) {
                    p { "No answer of the model reached the agent." }
                } @else {
                    (answer("Answer that the agent received", received.or(answered)))
                }
            }
            section {
                h3 { "Model API" }
                @if call.rounds == 0 {
                    p { "No request was sent to the model API." }
                } @else {
                    (request("Request that was sent", sent.or(from_agent)))
                }
                (answer("Answers of the model", answered))
            }
        }
        (edits("What was changed in the request", from_agent, sent))
        @if !is_moved { (edits("What was changed in the answer", answered, received)) }
    }
}

fn reason_text(content: &StoredContent) -> String {
    // The name in JSON, which is one word for each reason.
    let name = serde_json::to_value(content.because).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

fn side(
    title: &str,
    body: Option<&MaskedBody>,
    read: impl Fn(&Value) -> Vec<ShownTurn<'_>>,
) -> Markup {
    let Some(body) = body else {
        return html! {};
    };
    let value = body.value();
    html! {
        h4 { (title) " " span.muted { (bytes(body.bytes)) } }
        @if !body.masked.is_empty() {
            p.muted { "Masked: " @for (detector, count) in &body.masked { (detector) " × " (count) " " } }
        }
        @match &value {
            None => p { "Not kept: it is too large, has too many strings, or there was no memory for it." },
            Some(value) => {
                @for shown in read(value) { (turn(shown)) }
                details { summary { "Raw JSON" } pre tabindex="0" { (shown(&format!("{value:#}"))) } }
            }
        }
    }
}

/// Returns the turns of a request.
fn request_turns(api: Option<Api>, body: &Value) -> Vec<ShownTurn<'_>> {
    match api {
        Some(Api::Anthropic) => anthropic::request(body),
        Some(Api::OpenAiResponses) => openai_responses::request(body),
        Some(Api::OpenAiChat) => openai_chat::request(body),
        Some(Api::Gemini | Api::Vertex | Api::CodeAssist) | None => google::request(body),
    }
}

fn turn(turn: ShownTurn<'_>) -> Markup {
    let is_result = |part: &ShownPart<'_>| matches!(part, ShownPart::Result { .. });
    let class = match turn.role {
        _ if turn.parts.iter().any(is_result) => "turn tool-turn",
        "model" | "assistant" => "turn model-turn",
        "system" | "developer" => "turn system-turn",
        _ => "turn user-turn",
    };
    let parts = joined(turn.parts);
    let lengths = parts.iter().map(|part| match part {
        ShownPart::Text(text) => text.len(),
        _ => 0,
    });
    let length: usize = lengths.sum();
    html! {
        div class=(class) {
            @if class == "turn system-turn" && length > MAX_OPEN_SYSTEM_BYTES {
                details {
                    summary { strong { (turn.role) } " " span.muted { (bytes(length as u64)) } }
                    @for part in &parts { (part_markup(part)) }
                }
            } @else {
                strong { (turn.role) }
                @for part in &parts { (part_markup(part)) }
            }
        }
    }
}

/// Joins pieces of one text or thought that came in many chunks.
fn joined<'a>(parts: Vec<ShownPart<'a>>) -> Vec<ShownPart<'a>> {
    let mut joined: Vec<ShownPart<'a>> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(ShownPart::Text(text)), ShownPart::Text(more))
            | (Some(ShownPart::Thought(text)), ShownPart::Thought(more)) => {
                text.to_mut().push_str(&more);
            }
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn part_markup(part: &ShownPart<'_>) -> Markup {
    html! {
        @match part {
            ShownPart::Text(text) => p { (shown(text)) },
            ShownPart::Thought(text) if text.is_empty() => p.muted { "thought that only the model API can read" },
            ShownPart::Thought(text) => details { summary { "thought" } p { (shown(text)) } },
            ShownPart::Call { name, arguments } => {
                p { "calls " code { (name) } }
                pre tabindex="0" {
                    @match &**arguments {
                        Value::String(text) => (shown(text)),
                        arguments => (shown(&format!("{arguments:#}"))),
                    }
                }
            }
            ShownPart::Result { name, content } => {
                p { "result of " code { (name) } }
                @for part in content { (result_markup(part)) }
            }
            ShownPart::Media(description) => p.muted { (description) },
            ShownPart::Json(value) => details {
                summary { "other part" }
                pre tabindex="0" { (shown(&format!("{value:#}"))) }
            },
        }
    }
}

/// Returns a part of a tool's result, of which texts keep their lines.
fn result_markup(part: &ShownPart<'_>) -> Markup {
    html! {
        @match part {
            ShownPart::Text(text) => pre tabindex="0" { (shown(text)) },
            ShownPart::Json(value) => pre tabindex="0" { (shown(&format!("{value:#}"))) },
            other => (part_markup(other)),
        }
    }
}

/// Returns the changes between two bodies.
fn edits(title: &str, before: Option<&MaskedBody>, after: Option<&MaskedBody>) -> Markup {
    let before = before.and_then(MaskedBody::value);
    let Some((before, after)) = before.zip(after.and_then(MaskedBody::value)) else {
        return html! {};
    };
    html! {
        h3 { (title) }
        @if before == after {
            p { "The kept texts are equal: only masked ones differ, or the form of the JSON." }
        } @else {
            (changed_lines(&format!("{before:#}\n"), &format!("{after:#}\n")))
        }
    }
}

/// Returns the changed lines of two texts. Each side is cut if it is too long for a page.
fn changed_lines(before: &str, after: &str) -> Markup {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(before, after);
    let (groups, is_cut) = shown_changes(&diff);
    html! {
        pre.diff tabindex="0" {
            @for (index, lines) in groups.iter().enumerate() {
                @if index > 0 { "  …\n" }
                @for (tag, line) in lines {
                    @match tag {
                        ChangeTag::Delete => del { "- " (line) },
                        ChangeTag::Insert => ins { "+ " (line) },
                        ChangeTag::Equal => { "  " (line) },
                    }
                    @if !line.ends_with('\n') { "…\n" }
                }
            }
        }
        @if is_cut { p.muted { "Each side is cut at " (MAX_TEXT_CHARS) " characters." } }
    }
}

/// Returns the lines of each group of changes, and whether a side is cut.
fn shown_changes<'a>(diff: &TextDiff<'a, 'a, '_, str>) -> (Vec<Vec<(ChangeTag, &'a str)>>, bool) {
    let mut chars: BTreeMap<ChangeTag, usize> = BTreeMap::new();
    let (mut groups, mut is_cut) = (Vec::new(), false);
    for group in diff.grouped_ops(1) {
        let mut lines = Vec::new();
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let so_far = chars.entry(change.tag()).or_default();
            let line = begin(change.value(), MAX_TEXT_CHARS - *so_far);
            *so_far += line.chars().count();
            is_cut |= line.len() < change.value().len();
            if !line.is_empty() {
                lines.push((change.tag(), line));
            }
        }
        groups.push(lines);
    }
    (groups, is_cut)
}

/// Returns the begin of a text that is too long for a page.
fn shown(text: &str) -> &str {
    begin(text, MAX_TEXT_CHARS)
}

fn begin(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
