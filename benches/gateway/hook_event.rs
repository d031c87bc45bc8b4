//! Minimal construction of a hook's input: the request is parsed, and its stable form is
//! serialised (hook protocol, sections 1 and 6).

use serde_json::{Map, Value, json};

use crate::Result;

/// Generation parameters in the stable form.
const PARAMETERS: [&str; 5] = [
    "temperature",
    "maxOutputTokens",
    "topP",
    "topK",
    "stopSequences",
];

/// The input of a `BeforeModel` hook.
pub(crate) fn event(body: &[u8]) -> Result<Vec<u8>> {
    let request: Value = serde_json::from_slice(body)?;
    let contents = request.get("contents").and_then(Value::as_array);
    let messages: Vec<Value> = contents.into_iter().flatten().filter_map(message).collect();
    let generation = request.get("generationConfig").and_then(Value::as_object);
    let config: Map<String, Value> = generation
        .into_iter()
        .flatten()
        .filter(|(key, _)| PARAMETERS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let event = json!({
        "session_id": "s",
        "transcript_path": "",
        "cwd": "/",
        "hook_event_name": "BeforeModel",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "llm_request": { "model": "bench", "messages": messages, "config": config },
    });
    Ok(serde_json::to_vec(&event)?)
}

/// The message of a content: its texts without thoughts, joined; none if it has no text.
fn message(content: &Value) -> Option<Value> {
    let parts = content.get("parts")?.as_array()?;
    let visible = parts
        .iter()
        .filter(|part| part.get("thought") != Some(&Value::Bool(true)));
    let texts: Vec<&str> = visible
        .filter_map(|part| part.get("text")?.as_str())
        .collect();
    let role = content
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or("user");
    (!texts.is_empty()).then(|| json!({ "role": role, "content": texts.concat() }))
}
