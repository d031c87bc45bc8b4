//! Kept content of a call, rendered as a conversation. All of it is hostile.

use maud::{Markup, html};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

use super::format::bytes;
use crate::observe::trace::{MaskedBody, StoredContent};

/// Characters of one text that are shown.
const MAX_TEXT_CHARS: usize = 200 * 1024;

/// Time after which a difference may be coarser than the smallest one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(8);

/// Returns the content of a call: what the agent and the model API sent, side by side.
pub(super) fn conversation(content: &StoredContent) -> Markup {
    html! {
        p { "Kept because: " (because(content)) ", until " (content.until) ". Secrets and personal "
            "data were masked before it was kept." }
        div.columns {
            section {
                h3 { "Agent" }
                (side("Request of the agent", content.request.as_ref()))
                (side("Answer that the agent received",
                    content.agent_answer.as_ref().or(content.answer.as_ref())))
            }
            section {
                h3 { "Model API" }
                (side("Request that was sent",
                    content.upstream_request.as_ref().or(content.request.as_ref())))
                (side("Answers of the model", content.answer.as_ref()))
            }
        }
        (edits("What was changed in the request", content.request.as_ref(), content.upstream_request.as_ref()))
        (edits("What was changed in the answer", content.answer.as_ref(), content.agent_answer.as_ref()))
    }
}

fn because(content: &StoredContent) -> String {
    // The name in JSON, which is one word for each reason.
    let name = serde_json::to_value(content.because).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

fn side(title: &str, body: Option<&MaskedBody>) -> Markup {
    let Some(body) = body else {
        return html! {};
    };
    let value = body_value(body);
    html! {
        h4 { (title) " " span.muted { (bytes(body.bytes)) } }
        @if !body.masked.is_empty() {
            p.muted { "Masked: " @for (detector, count) in &body.masked { (detector) " × " (count) " " } }
        }
        @match &value {
            None => p { "Not kept: it is too large or no JSON." },
            Some(value) => {
                @for turn in turns(value) { (turn) }
                details { summary { "Raw JSON" } pre tabindex="0" { (shown(&format!("{value:#}"))) } }
            }
        }
    }
}

fn body_value(body: &MaskedBody) -> Option<Value> {
    serde_json::from_str(body.body.as_ref()?.get()).ok()
}

/// Returns the turns of a request, an answer or a list of chunks.
fn turns(value: &Value) -> Vec<Markup> {
    let system = ["systemInstruction", "system_instruction"];
    let system = system.iter().find_map(|key| value.get(key));
    let contents = value.get("contents").and_then(Value::as_array);
    let mut turns: Vec<Markup> = system
        .map(|system| turn("system", &parts(system)))
        .into_iter()
        .collect();
    turns.extend(contents.into_iter().flatten().map(|content| {
        let role = content.get("role").and_then(Value::as_str);
        turn(role.unwrap_or("user"), &parts(content))
    }));
    let chunks = match value {
        Value::Array(chunks) => chunks.as_slice(),
        one => std::slice::from_ref(one),
    };
    let answers = chunks.iter().filter_map(|chunk| {
        let chunk = chunk.get("response").unwrap_or(chunk);
        chunk.pointer("/candidates/0/content")
    });
    let answer: Vec<&Value> = answers.flat_map(parts).collect();
    if !answer.is_empty() {
        turns.push(turn("model", &answer));
    }
    turns
}

fn parts(content: &Value) -> Vec<&Value> {
    let parts = content.get("parts").and_then(Value::as_array);
    parts.into_iter().flatten().collect()
}

fn turn(role: &str, parts: &[&Value]) -> Markup {
    let has = |camel: &str, snake: &str| {
        let mut parts = parts.iter();
        parts.any(|part| part.get(camel).or_else(|| part.get(snake)).is_some())
    };
    let class = match role {
        _ if has("functionResponse", "function_response") => "turn tool-turn",
        "model" => "turn model-turn",
        _ => "turn user-turn",
    };
    html! {
        div class=(class) {
            strong { (role) }
            // Pieces of one text that came in many chunks are joined.
            @for piece in pieces(parts) { (piece) }
        }
    }
}

fn pieces(parts: &[&Value]) -> Vec<Markup> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    for part in parts {
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        match part.get("text").and_then(Value::as_str) {
            Some(more) if !is_thought => text.push_str(more),
            Some(thought) => {
                flush(&mut text, &mut pieces);
                pieces.push(html! { details { summary { "thought" } p { (shown(thought)) } } });
            }
            None => {
                flush(&mut text, &mut pieces);
                pieces.push(part_without_text(part));
            }
        }
    }
    flush(&mut text, &mut pieces);
    pieces
}

fn flush(text: &mut String, pieces: &mut Vec<Markup>) {
    if !text.is_empty() {
        pieces.push(html! { p { (shown(text)) } });
        text.clear();
    }
}

fn part_without_text(part: &Value) -> Markup {
    let of = |camel: &str, snake: &str| part.get(camel).or_else(|| part.get(snake)).cloned();
    if let Some(call) = of("functionCall", "function_call") {
        return tool(&call, "calls", "args");
    }
    if let Some(result) = of("functionResponse", "function_response") {
        return tool(&result, "result of", "response");
    }
    html! { details { summary { "other part" } pre tabindex="0" { (shown(&format!("{part:#}"))) } } }
}

fn tool(value: &Value, verb: &str, field: &str) -> Markup {
    let name = value
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let content = value.get(field).unwrap_or(&Value::Null);
    html! {
        p { (verb) " " code { (name) } }
        pre tabindex="0" { (shown(&format!("{content:#}"))) }
    }
}

/// Returns the changed lines of two bodies.
fn edits(title: &str, before: Option<&MaskedBody>, after: Option<&MaskedBody>) -> Markup {
    let bodies = before.and_then(body_value).zip(after.and_then(body_value));
    let Some((before, after)) = bodies else {
        return html! {};
    };
    let (before, after) = (lines(&before), lines(&after));
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(&before, &after);
    html! {
        h3 { (title) }
        pre.diff tabindex="0" {
            @for group in diff.grouped_ops(1) {
                @for op in &group {
                    @for change in diff.iter_changes(op) {
                        @match change.tag() {
                            ChangeTag::Delete => del { "- " (change.value()) },
                            ChangeTag::Insert => ins { "+ " (change.value()) },
                            ChangeTag::Equal => { "  " (change.value()) },
                        }
                    }
                }
            }
        }
    }
}

fn lines(value: &Value) -> String {
    let text = format!("{value:#}\n");
    shown(&text).to_owned()
}

/// Returns the begin of a text that is too long for a page.
fn shown(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_TEXT_CHARS);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
