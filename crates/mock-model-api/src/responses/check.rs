//! Mistakes in a request for which the Responses API answers 400.

use serde_json::Value;

use crate::content::{list, string};

/// Returns the first mistake of a request.
pub(crate) fn check(body: &Value) -> Result<(), String> {
    if string(body, "model").is_empty() {
        return Err("Missing required parameter: 'model'.".to_owned());
    }
    let items: Vec<&Value> = list(body, "input").collect();
    if items.is_empty() && string(body, "input").is_empty() {
        return Err("Missing required parameter: 'input'.".to_owned());
    }
    if let Some(id) = body.get("previous_response_id").and_then(Value::as_str) {
        return Err(format!("Previous response with id '{id}' not found."));
    }
    let choice = body.get("tool_choice");
    let forced = choice.is_some_and(|choice| choice == "required" || choice.is_object());
    if forced
        && super::request::declarations(body).is_empty()
        && list(body, "tools").next().is_none()
    {
        return Err("Tool choice 'required' must be specified with 'tools' parameter.".to_owned());
    }
    check_pairs(&items)?;
    check_reasoning(&items)
}

/// Checks that each call has its result, and each result its call.
fn check_pairs(items: &[&Value]) -> Result<(), String> {
    let ids = |of_kind: fn(&str) -> bool| {
        let matching = items
            .iter()
            .filter(move |item| of_kind(string(item, "type")));
        matching.map(|item| string(item, "call_id")).collect()
    };
    let calls: Vec<&str> = ids(is_call);
    let outputs: Vec<&str> = ids(is_output);
    if let Some(id) = outputs.iter().find(|id| !calls.contains(id)) {
        return Err(format!(
            "No tool call found for function call output with call_id {id}."
        ));
    }
    if let Some(id) = calls.iter().find(|id| !outputs.contains(id)) {
        return Err(format!("No tool output found for function call {id}."));
    }
    Ok(())
}

/// Checks that reasoning is followed by what it led to.
fn check_reasoning(items: &[&Value]) -> Result<(), String> {
    for (index, item) in items.iter().enumerate() {
        if string(item, "type") != "reasoning" {
            continue;
        }
        let follows = |next: &&Value| {
            string(next, "role") == "assistant"
                || (string(next, "role").is_empty() && !is_output(string(next, "type")))
        };
        if !items.get(index + 1).is_some_and(follows) {
            return Err(format!(
                "Item '{}' of type 'reasoning' was provided without its required following item.",
                string(item, "id")
            ));
        }
    }
    Ok(())
}

fn is_call(kind: &str) -> bool {
    matches!(kind, "function_call" | "custom_tool_call")
}

fn is_output(kind: &str) -> bool {
    matches!(kind, "function_call_output" | "custom_tool_call_output")
}
