//! Equality of answers: the same texts and tool calls, however they are cut into chunks. Pure.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    dialect::{self, Api, Dialect, DialectError, ResponseDocument},
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

/// Returns whether the agent received the same in two exchanges, one of which may have been cut, as
/// far as it received anything. What cannot be read does not differ.
pub(super) fn same_beginning(before: &RecordedExchange, after: &RecordedExchange) -> bool {
    let (Some(old), Some(new)) = (before.answer_bytes(), after.answer_bytes()) else {
        return true;
    };
    if old.starts_with(&new) || new.starts_with(&old) {
        return true;
    }
    let [old, new] = [old, new].map(|body| {
        read_parts(&before.dialect, body.into(), |dialect, events| {
            Ok(read_beginning(dialect, events))
        })
    });
    let (Some(old), Some(new)) = (old, new) else {
        return true;
    };
    let candidates: BTreeSet<u64> = old.iter().map(|part| part.candidate).collect();
    candidates.into_iter().all(|candidate| {
        let of_candidate = |part: &&AnswerPart| part.candidate == candidate && part.kind != "error";
        let old = old.iter().filter(of_candidate);
        let pairs: Vec<_> = old.zip(new.iter().filter(of_candidate)).collect();
        let Some(((old, new), whole)) = pairs.split_last() else {
            return true;
        };
        whole.iter().all(|(old, new)| old == new) && (old.begins_as(new) || new.begins_as(old))
    })
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

/// Returns the parts of a whole answer; `None` if it cannot be read.
fn parts(api: &str, body: Bytes) -> Option<Vec<AnswerPart>> {
    read_parts(api, body, dialect::read_stream)
}

/// Reads the chunks of a stream.
type ReadStream = fn(&dyn Dialect, Vec<Bytes>) -> Result<Vec<ResponseDocument>, DialectError>;

/// Returns the chunks of a stream, up to the first one that cannot be read.
fn read_beginning(dialect: &dyn Dialect, events: Vec<Bytes>) -> Vec<ResponseDocument> {
    let mut reader = dialect.chunk_reader();
    let events = events.into_iter();
    let chunks = events.map_while(|event| reader.read(event).ok());
    chunks.flatten().collect()
}

fn read_parts(api: &str, body: Bytes, read: ReadStream) -> Option<Vec<AnswerPart>> {
    let dialect = dialect::of(Api::named(api)?);
    let documents = documents(dialect, body, read)?;
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

fn documents(
    dialect: &dyn Dialect,
    body: Bytes,
    read: ReadStream,
) -> Option<Vec<ResponseDocument>> {
    match body.trim_ascii_start().first() {
        Some(b'{') => {
            let document = dialect.open_response(body.clone());
            let document = document.or_else(|_| ResponseDocument::parse(body));
            Some(vec![document.ok()?])
        }
        Some(b'[') => {
            let closed = || dialect::elements(&[body.as_ref(), b"]"].concat().into());
            let elements = dialect::elements(&body).or_else(|_| closed());
            read(dialect, elements.ok()?).ok()
        }
        _ => {
            let mut events = SseReader::new(MAX_EVENT_BYTES);
            let mut data = events.push(&body).ok()?;
            data.extend(events.finish().ok()?);
            read(dialect, data).ok()
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

    /// Returns whether a part that may have been cut is the begin of another one.
    fn begins_as(&self, other: &Self) -> bool {
        (self.kind, &self.value) == (other.kind, &other.value) && other.text.starts_with(&self.text)
    }
}
