//! Equality of answers: the same texts and tool calls, however they are cut into chunks. Pure.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    dialect::{self, Api, Dialect, ResponseDocument},
    recording::RecordedExchange,
    upstream::sse::SseReader,
};

/// Most bytes of one event of an answer.
const MAX_EVENT_BYTES: usize = 256 * 1024 * 1024;

/// Texts of one kind, or one tool call, of one candidate.
#[derive(Debug, PartialEq)]
struct AnswerPart {
    candidate: u64,
    kind: &'static str,
    text: String,
    value: Value,
}

/// Returns whether the agent received the same in two exchanges. Answers that are not recorded
/// do not differ.
pub(super) fn same_answer(before: &RecordedExchange, after: &RecordedExchange) -> bool {
    let (Some(old), Some(new)) = (&before.answer, &after.answer) else {
        return before.answer.is_none() == after.answer.is_none();
    };
    let (Some(old_bytes), Some(new_bytes)) = (before.answer_bytes(), after.answer_bytes()) else {
        return true;
    };
    if old.status != new.status {
        return false;
    }
    if old_bytes == new_bytes {
        return true;
    }
    let old = parts(&before.dialect, old_bytes.into());
    old.is_some() && old == parts(&before.dialect, new_bytes.into())
}

/// Returns the names of the tools that the model called in an answer.
pub(super) fn called_tools(dialect: &str, body: &[u8]) -> Vec<String> {
    let mut marks = ["functionCall", "_call", "tool_use"].iter();
    if !marks.any(|mark| memchr::memmem::find(body, mark.as_bytes()).is_some()) {
        return Vec::new();
    }
    let parts = parts(dialect, Bytes::copy_from_slice(body)).into_iter();
    let calls = parts.flatten().filter(|part| part.kind == "call");
    let names = calls.filter_map(|part| Some(part.value.get("name")?.as_str()?.to_owned()));
    names.collect()
}

/// Returns the parts of an answer; `None` if it cannot be read.
fn parts(api: &str, body: Bytes) -> Option<Vec<AnswerPart>> {
    let dialect = dialect::of(Api::named(api)?);
    let documents = documents(dialect, body)?;
    let mut parts: Vec<AnswerPart> = Vec::new();
    for document in &documents {
        let json = dialect::without_private_fields(&document.to_bytes());
        let value: Value = serde_json::from_slice(&json).ok()?;
        let candidates = value.get("candidates").and_then(Value::as_array);
        if candidates.is_none() && value.get("error").is_some() {
            parts.push(AnswerPart::of(0, "error", value.clone()));
        }
        for (position, candidate) in candidates.into_iter().flatten().enumerate() {
            let index = candidate.get("index").and_then(Value::as_u64);
            add(&mut parts, index.unwrap_or(position as u64), candidate);
        }
    }
    parts.sort_by_key(|part| part.candidate);
    Some(parts)
}

fn documents(dialect: &dyn Dialect, body: Bytes) -> Option<Vec<ResponseDocument>> {
    match body.trim_ascii_start().first() {
        Some(b'{') => {
            let document = dialect.open_response(body.clone());
            let document = document.or_else(|_| ResponseDocument::parse(body));
            Some(vec![document.ok()?])
        }
        Some(b'[') => dialect::read_stream(dialect, dialect::elements(&body).ok()?).ok(),
        _ => {
            let mut events = SseReader::new(MAX_EVENT_BYTES);
            let mut data = events.push(&body).ok()?;
            data.extend(events.finish().ok()?);
            dialect::read_stream(dialect, data).ok()
        }
    }
}

fn add(parts: &mut Vec<AnswerPart>, candidate: u64, value: &Value) {
    let content = value.pointer("/content/parts").and_then(Value::as_array);
    for part in content.into_iter().flatten() {
        if let Some(call) = part.get("functionCall") {
            parts.push(AnswerPart::of(candidate, "call", call.clone()));
            continue;
        }
        let Some(text) = part.get("text").and_then(Value::as_str) else {
            parts.push(AnswerPart::of(candidate, "other", part.clone()));
            continue;
        };
        let is_thought = part.get("thought").and_then(Value::as_bool) == Some(true);
        let kind = if is_thought { "thought" } else { "text" };
        let last = parts.iter_mut().rfind(|part| part.candidate == candidate);
        match last {
            Some(last) if last.kind == kind => last.text.push_str(text),
            _ if text.is_empty() => (),
            _ => parts.push(AnswerPart {
                text: text.to_owned(),
                ..AnswerPart::of(candidate, kind, Value::Null)
            }),
        }
    }
}

impl AnswerPart {
    const fn of(candidate: u64, kind: &'static str, value: Value) -> Self {
        Self {
            candidate,
            kind,
            text: String::new(),
            value,
        }
    }
}
