//! Conversations of the Messages API.

use serde_json::Value;

use super::turn::{NamesOfCalls, ShownPart, ShownTurn, elements, field, text_or_parts};

/// Returns the turns of a request.
pub(super) fn request(body: &Value) -> Vec<ShownTurn<'_>> {
    let messages = elements(body, "messages");
    let mut names = NamesOfCalls::default();
    for message in messages {
        for block in elements(message, "content") {
            names.add(field(block, "id"), field(block, "name"));
        }
    }
    let system = body.get("system").map(|system| ShownTurn {
        role: "system",
        parts: content(Some(system), &names),
    });
    let messages = messages.iter().map(|message| ShownTurn {
        role: field(message, "role"),
        parts: content(message.get("content"), &names),
    });
    system.into_iter().chain(messages).collect()
}

fn content<'a>(value: Option<&'a Value>, names: &NamesOfCalls<'a>) -> Vec<ShownPart<'a>> {
    text_or_parts(value, |block| part(block, names))
}

fn part<'a>(block: &'a Value, names: &NamesOfCalls<'a>) -> ShownPart<'a> {
    match field(block, "type") {
        "text" => ShownPart::text(field(block, "text")),
        "thinking" => ShownPart::thought(field(block, "thinking")),
        "redacted_thinking" => ShownPart::thought(""),
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            ShownPart::call(field(block, "name"), block.get("input"))
        }
        kind if kind.ends_with("tool_result") => ShownPart::Result {
            name: names.name(field(block, "tool_use_id")),
            content: content(block.get("content"), names),
        },
        kind @ ("image" | "document") => media(kind, block),
        _ => ShownPart::Json(block),
    }
}

fn media<'a>(kind: &str, block: &'a Value) -> ShownPart<'a> {
    let Some(source) = block.get("source") else {
        return ShownPart::Json(block);
    };
    match field(source, "type") {
        "base64" => {
            ShownPart::media_of_data(kind, field(source, "media_type"), field(source, "data"))
        }
        "url" => ShownPart::media_at(kind, field(source, "url")),
        "text" => ShownPart::text(field(source, "data")),
        _ => ShownPart::Json(block),
    }
}
