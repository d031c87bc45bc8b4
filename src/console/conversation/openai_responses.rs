//! Conversations of the Responses API, and texts of its embeddings.

use serde_json::Value;

use super::turn::{NamesOfCalls, ShownPart, ShownTurn, elements, field, text_or_parts};

/// Role of items that only the model makes.
const ASSISTANT: &str = "assistant";

/// Returns the turns of a request.
pub(super) fn request(body: &Value) -> Vec<ShownTurn<'_>> {
    let mut turns = Vec::new();
    if let Some(instructions) = body.get("instructions").and_then(Value::as_str) {
        turns.push(turn("system", vec![ShownPart::text(instructions)]));
    }
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        turns.push(turn("user", vec![ShownPart::text(text)]));
    }
    let items = elements(body, "input");
    let mut names = NamesOfCalls::default();
    for item in items {
        names.add(field(item, "call_id"), field(item, "name"));
    }
    for item in items {
        add_item(&mut turns, item, &names);
    }
    turns
}

/// Adds an item. A thought and the calls after it are one turn.
fn add_item<'a>(turns: &mut Vec<ShownTurn<'a>>, item: &'a Value, names: &NamesOfCalls<'a>) {
    let new = read_item(item, names);
    match turns.last_mut() {
        Some(last) if last.role == ASSISTANT && new.role == ASSISTANT => {
            last.parts.extend(new.parts);
        }
        _ => turns.push(new),
    }
}

fn read_item<'a>(item: &'a Value, names: &NamesOfCalls<'a>) -> ShownTurn<'a> {
    if let Value::String(text) = item {
        return turn("user", vec![ShownPart::text(text)]);
    }
    let name = field(item, "name");
    match field(item, "type") {
        "message" | "" => turn(
            field(item, "role"),
            text_or_parts(item.get("content"), part),
        ),
        "reasoning" => turn(ASSISTANT, thoughts(item)),
        "function_call" => {
            let call = ShownPart::call_of_text(name, field(item, "arguments"));
            turn(ASSISTANT, vec![call])
        }
        "custom_tool_call" => turn(ASSISTANT, vec![ShownPart::call(name, item.get("input"))]),
        "local_shell_call" | "shell_call" => turn(
            ASSISTANT,
            vec![ShownPart::call("shell", item.get("action"))],
        ),
        kind if kind.ends_with("_output") => {
            let result = ShownPart::Result {
                name: names.name(field(item, "call_id")),
                content: text_or_parts(item.get("output"), part),
            };
            turn("tool", vec![result])
        }
        _ => turn(ASSISTANT, vec![ShownPart::Json(item)]),
    }
}

const fn turn<'a>(role: &'a str, parts: Vec<ShownPart<'a>>) -> ShownTurn<'a> {
    ShownTurn { role, parts }
}

/// Returns the texts of a thought. Encrypted ones have none.
fn thoughts(item: &Value) -> Vec<ShownPart<'_>> {
    let texts = ["summary", "content"].map(|name| elements(item, name));
    let texts = texts.into_iter().flatten();
    let thoughts = texts.map(|text| ShownPart::thought(field(text, "text")));
    let mut thoughts: Vec<ShownPart<'_>> = thoughts.collect();
    if thoughts.is_empty() {
        thoughts.push(ShownPart::thought(""));
    }
    thoughts
}

fn part(part: &Value) -> ShownPart<'_> {
    match field(part, "type") {
        "input_text" | "output_text" | "text" => ShownPart::text(field(part, "text")),
        "refusal" => ShownPart::text(field(part, "refusal")),
        "input_image" if part.get("image_url").is_some() => {
            ShownPart::media_at("image", field(part, "image_url"))
        }
        "input_file" if part.get("file_data").is_some() => {
            ShownPart::media_at(field(part, "filename"), field(part, "file_data"))
        }
        "input_file" if part.get("file_url").is_some() => {
            ShownPart::media_at("file", field(part, "file_url"))
        }
        _ => ShownPart::Json(part),
    }
}
