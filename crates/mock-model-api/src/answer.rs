//! Responses derived from a request, as the chunks that Gemini would send.

use serde_json::{Map, Value, json};

use super::{
    call::{Asked, Framing, field},
    config::MockConfig,
    schema::Examples,
    tools::{self, SIGNATURE},
};

const THOUGHT: &str =
    "**Considering the request**\n\nThe agent has said something, so it gets an answer.\n";

/// Content of a response, except thoughts.
enum ResponseContent {
    Text(String),
    Calls(Vec<Value>),
}

/// Returns the chunks of response `number`, each one JSON text, or what is wrong with
/// the request. A response that is not streamed has one chunk.
pub(super) fn chunks(
    asked: &Asked<'_>,
    number: u64,
    config: &MockConfig,
) -> Result<Vec<String>, &'static str> {
    let id = format!("mock-{number}");
    let streaming = asked.line.framing != Framing::Object;
    let mut pieces: Vec<Vec<Value>> = Vec::new();
    if wants_thoughts(asked.request) {
        pieces.push(vec![json!({
            "text": THOUGHT, "thought": true, "thoughtSignature": SIGNATURE
        })]);
    }
    match respond(asked.request, &id)? {
        ResponseContent::Calls(calls) => pieces.push(calls),
        ResponseContent::Text(text) => {
            let count = if streaming { config.chunks.max(1) } else { 1 };
            let texts = match config.chunk_bytes {
                Some(bytes) => vec!["x".repeat(bytes); count],
                None => cut(&text, count),
            };
            pieces.extend(texts.iter().map(|piece| vec![json!({ "text": piece })]));
        }
    }
    if !streaming {
        pieces = vec![pieces.concat()];
    }
    Ok(envelopes(pieces, asked, &id))
}

/// Returns the number of tokens of a text of this length.
pub(super) fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

/// Returns a small vector that depends only on the content.
pub(super) fn embedding(request: &Value) -> Value {
    let text = request.get("content").unwrap_or(request).to_string();
    let mut values = [0.0_f64; 8];
    for (index, letter) in text.bytes().enumerate() {
        if let Some(value) = values.get_mut(index % 8) {
            *value = (*value + f64::from(letter) / 256.0).fract();
        }
    }
    json!({ "values": values })
}

/// Returns one vector for each request of a batch.
pub(super) fn embeddings(document: &Value) -> Value {
    let requests = document.get("requests").and_then(Value::as_array);
    requests.into_iter().flatten().map(embedding).collect()
}

fn respond(request: &Value, id: &str) -> Result<ResponseContent, &'static str> {
    let contents = request.get("contents").and_then(Value::as_array);
    let Some(last) = contents.and_then(|contents| contents.last()) else {
        return Err("* GenerateContentRequest.contents: contents is not specified");
    };
    let results: Vec<String> = parts(last)
        .filter_map(|part| field(part, "functionResponse"))
        .map(|result| result.get("response").unwrap_or(&Value::Null))
        .map(|response| format!("The tool returned: {response}"))
        .collect();
    let prompt = last_prompt(contents.into_iter().flatten());
    if results.is_empty() {
        let calls = tools::calls(request, prompt, id);
        if !calls.is_empty() {
            return Ok(ResponseContent::Calls(calls));
        }
    }
    let text = match wanted_json(request) {
        Some(json) => json.to_string(),
        None if results.is_empty() => format!("You said: {prompt}"),
        None => results.join("\n"),
    };
    Ok(ResponseContent::Text(text))
}

/// Returns the last text of the user's last content.
fn last_prompt<'a>(contents: impl DoubleEndedIterator<Item = &'a Value>) -> &'a str {
    let of_user = |content: &&Value| content.get("role").is_none_or(|role| role == "user");
    let content = contents.rev().find(of_user);
    let texts = content.into_iter().flat_map(parts);
    let texts = texts.filter_map(|part| part.get("text").and_then(Value::as_str));
    texts.last().unwrap_or_default()
}

fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    let parts = content.get("parts").and_then(Value::as_array);
    parts.into_iter().flatten()
}

fn wants_thoughts(request: &Value) -> bool {
    let config =
        field(request, "generationConfig").and_then(|config| field(config, "thinkingConfig"));
    config.and_then(|config| field(config, "includeThoughts")) == Some(&Value::Bool(true))
}

/// Returns a document that fits the requested schema, if JSON is requested.
fn wanted_json(request: &Value) -> Option<Value> {
    let config = field(request, "generationConfig")?;
    let schemas = ["responseJsonSchema", "responseSchema"];
    if let Some(schema) = schemas.iter().find_map(|name| field(config, name)) {
        return Some(Examples::new().example(schema));
    }
    let mime_type = field(config, "responseMimeType")?;
    (mime_type == "application/json").then(|| json!({ "answer": "example" }))
}

/// Splits a text into `count` chunks of nearly equal length, none of them empty.
fn cut(text: &str, count: usize) -> Vec<String> {
    let length = text.chars().count();
    let count = count.min(length).max(1);
    let mut letters = text.chars();
    (0..count)
        .map(|index| {
            let size = (index + 1) * length / count - index * length / count;
            letters.by_ref().take(size).collect()
        })
        .collect()
}

/// Wraps each chunk as Gemini does. Token counts grow from chunk to chunk.
fn envelopes(pieces: Vec<Vec<Value>>, asked: &Asked<'_>, id: &str) -> Vec<String> {
    let last = pieces.len().saturating_sub(1);
    let prompt = tokens(asked.bytes);
    let (mut thoughts, mut candidates) = (0, 0);
    let envelope = |(index, piece): (usize, Vec<Value>)| {
        for part in &piece {
            let count = tokens(part.to_string().len());
            match part.get("thought") {
                Some(_) => thoughts += count,
                None => candidates += count,
            }
        }
        let mut candidate = Map::new();
        candidate.insert(
            "content".to_owned(),
            json!({ "parts": piece, "role": "model" }),
        );
        if index == last {
            candidate.insert("finishReason".to_owned(), "STOP".into());
        }
        candidate.insert("index".to_owned(), 0.into());
        let mut usage = Map::new();
        usage.insert("promptTokenCount".to_owned(), prompt.into());
        usage.insert("candidatesTokenCount".to_owned(), candidates.into());
        usage.insert(
            "totalTokenCount".to_owned(),
            (prompt + candidates + thoughts).into(),
        );
        if thoughts > 0 {
            usage.insert("thoughtsTokenCount".to_owned(), thoughts.into());
        }
        json!({
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": asked.model,
            "responseId": id,
        })
        .to_string()
    };
    pieces.into_iter().enumerate().map(envelope).collect()
}
