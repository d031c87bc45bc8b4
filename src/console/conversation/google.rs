//! Conversations of Google's APIs, and answers of all APIs, which are kept in the same form.

use serde_json::Value;

use super::turn::{ShownPart, ShownTurn, elements, field};

/// Returns the turns of a request.
pub(super) fn request(body: &Value) -> Vec<ShownTurn<'_>> {
    let system = either(body, ["systemInstruction", "system_instruction"]);
    let system = system.map(|system| ShownTurn {
        role: "system",
        parts: parts(system),
    });
    let contents = elements(body, "contents").iter().map(|content| ShownTurn {
        role: Some(field(content, "role"))
            .filter(|role| !role.is_empty())
            .unwrap_or("user"),
        parts: parts(content),
    });
    system.into_iter().chain(contents).collect()
}

/// Returns an answer, which is a list of chunks, as a turn of a role.
pub(super) fn answer<'a>(chunks: &'a Value, role: &'a str) -> Vec<ShownTurn<'a>> {
    let chunks = chunks.as_array().map_or(&[][..], Vec::as_slice);
    let contents = chunks.iter().filter_map(|chunk| {
        let chunk = chunk.get("response").unwrap_or(chunk);
        chunk.pointer("/candidates/0/content")
    });
    let parts: Vec<ShownPart<'_>> = contents.flat_map(parts).collect();
    let turn = (!parts.is_empty()).then_some(ShownTurn { role, parts });
    turn.into_iter().collect()
}

fn parts(content: &Value) -> Vec<ShownPart<'_>> {
    match content {
        Value::String(text) => vec![ShownPart::text(text)],
        content => elements(content, "parts").iter().map(part).collect(),
    }
}

fn part(part: &Value) -> ShownPart<'_> {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        return match part.get("thought") {
            Some(Value::Bool(true)) => ShownPart::thought(text),
            _ => ShownPart::text(text),
        };
    }
    if let Some(call) = either(part, ["functionCall", "function_call"]) {
        return ShownPart::call(field(call, "name"), call.get("args"));
    }
    if let Some(result) = either(part, ["functionResponse", "function_response"]) {
        let response = result.get("response").map(ShownPart::Json);
        let media = elements(result, "parts").iter().map(self::part);
        return ShownPart::Result {
            name: field(result, "name"),
            content: response.into_iter().chain(media).collect(),
        };
    }
    if let Some(data) = either(part, ["inlineData", "inline_data"]) {
        return ShownPart::media_of_data("", media_type(data), field(data, "data"));
    }
    if let Some(file) = either(part, ["fileData", "file_data"]) {
        let address = either(file, ["fileUri", "file_uri"]).and_then(Value::as_str);
        return ShownPart::media_at(media_type(file), address.unwrap_or_default());
    }
    ShownPart::Json(part)
}

fn media_type(data: &Value) -> &str {
    let media_type = either(data, ["mimeType", "mime_type"]).and_then(Value::as_str);
    media_type.unwrap_or_default()
}

/// Returns a field that has two spellings.
fn either<'a>(value: &'a Value, names: [&str; 2]) -> Option<&'a Value> {
    names.iter().find_map(|name| value.get(name))
}
