//! Conversations of the Chat Completions API.

use std::slice;

use serde_json::Value;

use super::turn::{NamesOfCalls, ShownPart, ShownTurn, elements, field, text_or_parts};

/// Returns the turns of a request.
pub(super) fn request(body: &Value) -> Vec<ShownTurn<'_>> {
    let messages = elements(body, "messages");
    let mut names = NamesOfCalls::default();
    for message in messages {
        for call in elements(message, "tool_calls") {
            let (name, _) = name_and_arguments(call);
            names.add(field(call, "id"), name);
        }
    }
    let turns = messages.iter().map(|message| ShownTurn {
        role: field(message, "role"),
        parts: parts(message, &names),
    });
    turns.collect()
}

fn parts<'a>(message: &'a Value, names: &NamesOfCalls<'a>) -> Vec<ShownPart<'a>> {
    let content = text_or_parts(message.get("content"), part);
    match field(message, "role") {
        "tool" => {
            let name = names.name(field(message, "tool_call_id"));
            return vec![ShownPart::Result { name, content }];
        }
        "function" => {
            let name = field(message, "name");
            return vec![ShownPart::Result { name, content }];
        }
        _ => (),
    }
    // Compatible servers name thoughts in two ways.
    let thought = ["reasoning_content", "reasoning"].map(|name| field(message, name));
    let thought = thought.into_iter().find(|thought| !thought.is_empty());
    let refusal = Some(field(message, "refusal")).filter(|refusal| !refusal.is_empty());
    let former = message
        .get("function_call")
        .map_or(&[][..], slice::from_ref);
    let calls = elements(message, "tool_calls").iter().chain(former);
    let thought = thought.map(ShownPart::thought).into_iter();
    thought
        .chain(content)
        .chain(refusal.map(ShownPart::text))
        .chain(calls.map(call))
        .collect()
}

fn call(call: &Value) -> ShownPart<'_> {
    let (name, arguments) = name_and_arguments(call);
    ShownPart::call_of_text(name, arguments)
}

/// Returns name and arguments of a call of a function, of a custom tool, or in the former form.
fn name_and_arguments(call: &Value) -> (&str, &str) {
    if let Some(custom) = call.get("custom") {
        return (field(custom, "name"), field(custom, "input"));
    }
    let function = call.get("function").unwrap_or(call);
    (field(function, "name"), field(function, "arguments"))
}

fn part(part: &Value) -> ShownPart<'_> {
    let inner = |name: &str| part.get(name).unwrap_or(&Value::Null);
    match field(part, "type") {
        "text" => ShownPart::text(field(part, "text")),
        "refusal" => ShownPart::text(field(part, "refusal")),
        "image_url" => ShownPart::media_at("image", field(inner("image_url"), "url")),
        "input_audio" => {
            let audio = inner("input_audio");
            ShownPart::media_of_data("audio", field(audio, "format"), field(audio, "data"))
        }
        "file" if inner("file").get("file_data").is_some() => {
            let file = inner("file");
            ShownPart::media_at(field(file, "filename"), field(file, "file_data"))
        }
        _ => ShownPart::Json(part),
    }
}
