//! Mistakes in a request for which Chat Completions answers 400.

use serde_json::Value;

use crate::content::{list, string};

/// Returns the first mistake of a request.
pub(crate) fn check(body: &Value) -> Result<(), String> {
    if string(body, "model").is_empty() {
        return Err("you must provide a model parameter".to_owned());
    }
    if list(body, "messages").next().is_none() {
        return Err("Missing required parameter: 'messages'.".to_owned());
    }
    let given = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    if given("max_tokens") && given("max_completion_tokens") {
        return Err(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
                .to_owned(),
        );
    }
    for name in ["tool_choice", "parallel_tool_calls"] {
        if given(name) && list(body, "tools").next().is_none() {
            return Err(format!(
                "Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            ));
        }
    }
    check_messages(body)
}

/// Checks that the messages after tool calls are their results.
fn check_messages(body: &Value) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in list(body, "messages").enumerate() {
        let role = string(message, "role");
        if role == "tool" {
            let id = string(message, "tool_call_id");
            let Some(at) = open.iter().position(|known| *known == id) else {
                return Err("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.".to_owned());
            };
            open.remove(at);
            continue;
        }
        if !open.is_empty() {
            return Err(unanswered(&open));
        }
        match role {
            "assistant" => {
                open = list(message, "tool_calls")
                    .map(|call| string(call, "id"))
                    .collect();
            }
            "user" if message.get("content").is_none_or(Value::is_null) => {
                return Err(format!(
                    "Invalid value for 'content': expected a string, got null. (messages.[{index}])"
                ));
            }
            "user" | "system" | "developer" | "function" => {}
            other => {
                return Err(format!(
                    "Invalid value: '{other}'. (messages[{index}].role)"
                ));
            }
        }
    }
    match open.as_slice() {
        [] => Ok(()),
        open => Err(unanswered(open)),
    }
}

fn unanswered(open: &[&str]) -> String {
    format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    )
}
