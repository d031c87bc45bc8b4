//! Output items of a response.

use serde_json::{Map, Value, json};

use crate::{
    blocks::{Block, BlockAnswer, ToolCall},
    content::{list, string},
    tools::SIGNATURE,
};

use super::request::{declarations, namespace};

/// An output item as it is while it is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Begun,
    Complete,
}

/// Returns an item of the output.
pub(super) fn item(
    answer: &BlockAnswer,
    index: usize,
    block: &Block,
    request: &Value,
    progress: Progress,
) -> Value {
    let id = |prefix: &str| item_id(answer, prefix, index);
    let whole = progress == Progress::Complete;
    match block {
        Block::Thought(pieces) => {
            let has_summary = whole && has_summary(answer, request);
            let summary = has_summary.then(|| summary_part(&pieces.concat()));
            let mut item = Map::new();
            item.insert("id".to_owned(), id("rs").into());
            item.insert("type".to_owned(), "reasoning".into());
            item.insert("summary".to_owned(), summary.into_iter().collect());
            if includes_encrypted(request) {
                item.insert("encrypted_content".to_owned(), SIGNATURE.into());
            }
            item.into()
        }
        Block::Text(pieces) => {
            let part = whole.then(|| text_part(&pieces.concat()));
            json!({
                "id": id("msg"),
                "type": "message",
                "status": status(progress),
                "role": "assistant",
                "content": part.into_iter().collect::<Value>(),
            })
        }
        Block::Call(call) if is_custom(request, call) => json!({
            "id": id("ctc"),
            "type": "custom_tool_call",
            "status": status(progress),
            "call_id": call_id(call),
            "name": call.name,
            "input": if whole { custom_input(call) } else { "" },
        }),
        Block::Call(call) => {
            let mut item = json!({
                "id": id("fc"),
                "type": "function_call",
                "status": status(progress),
                "call_id": call_id(call),
                "name": call.name,
                "arguments": if whole { call.args.to_string() } else { String::new() },
            });
            if let (Some(fields), Some(name)) =
                (item.as_object_mut(), namespace(request, &call.name))
            {
                fields.insert("namespace".to_owned(), name.clone());
            }
            item
        }
    }
}

/// Returns the identifier of an item, with the prefix of its kind.
pub(super) fn item_id(answer: &BlockAnswer, prefix: &str, index: usize) -> String {
    format!("{prefix}_{}-{index}", answer.id)
}

/// Returns a text part of a message.
pub(super) fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

/// Returns a part of a summary of reasoning.
pub(super) fn summary_part(text: &str) -> Value {
    json!({ "type": "summary_text", "text": text })
}

/// Reports whether a response has summaries of reasoning: if it is scripted, or if the request asks
/// for them.
pub(super) fn has_summary(answer: &BlockAnswer, request: &Value) -> bool {
    let summary = request.pointer("/reasoning/summary");
    answer.is_scripted || summary.is_some_and(Value::is_string)
}

/// Reports whether a call is one of a tool whose input is text.
pub(super) fn is_custom(request: &Value, call: &ToolCall) -> bool {
    let mut tools = declarations(request).into_iter();
    tools.any(|tool| string(tool, "type") == "custom" && string(tool, "name") == call.name)
}

/// Returns the text for a custom tool.
pub(super) fn custom_input(call: &ToolCall) -> &str {
    string(&call.args, "input")
}

fn call_id(call: &ToolCall) -> String {
    format!("call_{}", call.id)
}

fn status(progress: Progress) -> &'static str {
    match progress {
        Progress::Begun => "in_progress",
        Progress::Complete => "completed",
    }
}

fn includes_encrypted(request: &Value) -> bool {
    list(request, "include").any(|name| name == "reasoning.encrypted_content")
}
