//! Mistakes in a request for which the Messages API answers 400.

use serde_json::Value;

use crate::content::{list, string};

use super::{
    block::{blocks, kind},
    request::thinks,
};

/// Returns the first mistake of a `messages` request.
pub(crate) fn check(body: &Value) -> Result<(), String> {
    if string(body, "model").is_empty() {
        return Err("model: Field required".to_owned());
    }
    if !body.get("max_tokens").is_some_and(Value::is_u64) {
        return Err("max_tokens: Field required".to_owned());
    }
    if list(body, "messages").next().is_none() {
        return Err("messages: at least one message is required".to_owned());
    }
    check_choice(body)?;
    check_messages(body)
}

fn check_choice(body: &Value) -> Result<(), String> {
    let Some(choice) = body.get("tool_choice") else {
        return Ok(());
    };
    if list(body, "tools").next().is_none() {
        return Err("tool_choice may only be specified while providing tools.".to_owned());
    }
    if thinks(body) && matches!(kind(choice), "any" | "tool") {
        return Err("Thinking may not be enabled when tool_choice forces tool use.".to_owned());
    }
    Ok(())
}

fn check_messages(body: &Value) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    for (index, message) in list(body, "messages").enumerate() {
        let role = string(message, "role");
        let blocks = blocks(message);
        match role {
            "user" => check_results(index, &blocks, &open)?,
            "assistant" if !open.is_empty() => return Err(unanswered(index, &open)),
            "assistant" => {}
            "system" => continue,
            _ => {
                return Err(format!(
                    "messages.{index}.role: Input should be 'user' or 'assistant'"
                ));
            }
        }
        let empty = |block: &Value| kind(block) == "text" && string(block, "text").is_empty();
        if blocks.iter().any(empty) {
            return Err("messages: text content blocks must be non-empty".to_owned());
        }
        open = match role {
            "assistant" => ids(&blocks, "tool_use", "id"),
            _ => Vec::new(),
        };
    }
    match open.as_slice() {
        [] => Ok(()),
        open => Err(unanswered(list(body, "messages").count(), open)),
    }
}

/// Checks that the results at the start of a user message are those of the calls before it.
fn check_results(index: usize, blocks: &[Value], open: &[String]) -> Result<(), String> {
    let leading = blocks
        .iter()
        .position(|block| kind(block) != "tool_result")
        .unwrap_or(blocks.len());
    let given = ids(blocks, "tool_result", "tool_use_id");
    if let Some(unknown) = given.iter().find(|id| !open.contains(id)) {
        return Err(format!(
            "messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {unknown}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ));
    }
    let first: Vec<_> = given.iter().take(leading).collect();
    if open.iter().any(|id| !first.contains(&id)) {
        return Err(unanswered(index, open));
    }
    Ok(())
}

fn unanswered(index: usize, open: &[String]) -> String {
    format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        index.saturating_sub(1),
        open.join(", ")
    )
}

fn ids(blocks: &[Value], wanted: &str, field: &str) -> Vec<String> {
    let of_kind = blocks.iter().filter(|block| kind(block) == wanted);
    of_kind
        .map(|block| string(block, field).to_owned())
        .collect()
}
