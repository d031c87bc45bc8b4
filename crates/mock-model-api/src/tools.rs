//! Function calls that a prompt requests by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{call::field, schema::Examples};

/// Thought signature, which only the API can verify.
pub(super) const SIGNATURE: &str = "bW9jay1zaWduYXR1cmU=";

/// Maximum number of calls in one answer.
const MAX_CALLS: usize = 100;

/// Maximum size of the texts in which names are searched for, in bytes. The text behind each call
/// counts once for each declared name.
const MAX_SEARCHED_BYTES: usize = 64 * 1024 * 1024;

/// Returns one `functionCall` part for each declared function that `prompt` names, in
/// order and within the bounds. A JSON object after the name becomes its arguments;
/// otherwise they are derived from the declaration.
pub(super) fn calls(request: &Value, prompt: &str, answer_id: &str) -> Vec<Value> {
    let callable = callable(request);
    let mut calls = Vec::new();
    let mut examples = Examples::new();
    let mut rest = prompt;
    let mut remaining_bytes = MAX_SEARCHED_BYTES;
    while calls.len() < MAX_CALLS
        && let Some(remaining) =
            remaining_bytes.checked_sub(rest.len().saturating_mul(callable.len()))
        && let Some((declaration, name, after)) = next_mention(rest, &callable)
    {
        remaining_bytes = remaining;
        let (given, after) = leading_object(after);
        let args = given.unwrap_or_else(|| arguments(declaration, &mut examples));
        let id = format!("{answer_id}-call-{}", calls.len());
        let call = json!({ "id": id, "name": name, "args": args });
        calls.push(if calls.is_empty() {
            json!({ "functionCall": call, "thoughtSignature": SIGNATURE })
        } else {
            json!({ "functionCall": call })
        });
        rest = after;
    }
    calls
}

/// Returns the declared functions that the tool config allows.
fn callable(request: &Value) -> Vec<&Value> {
    let config =
        field(request, "toolConfig").and_then(|config| field(config, "functionCallingConfig"));
    let mode = config.and_then(|config| field(config, "mode"));
    if mode.is_some_and(|mode| mode == "NONE") {
        return Vec::new();
    }
    let allowed = config
        .and_then(|config| field(config, "allowedFunctionNames")?.as_array())
        .filter(|names| !names.is_empty())
        .map(|names| names.iter().filter_map(Value::as_str));
    let allowed: Option<BTreeSet<&str>> = allowed.map(Iterator::collect);
    let tools = request.get("tools").and_then(Value::as_array);
    tools
        .into_iter()
        .flatten()
        .filter_map(|tool| field(tool, "functionDeclarations")?.as_array())
        .flatten()
        .filter(|declaration| {
            let name = declaration.get("name").and_then(Value::as_str);
            let allowed = allowed.as_ref();
            allowed.is_none_or(|names| name.is_some_and(|name| names.contains(name)))
        })
        .collect()
}

/// Returns the first word that is a declared name, and the text after it.
fn next_mention<'a, 'b>(
    text: &'a str,
    declarations: &[&'b Value],
) -> Option<(&'b Value, &'b str, &'a str)> {
    let named = |declaration: &'b Value| {
        let name = declaration.get("name")?.as_str()?;
        (!name.is_empty()).then_some((declaration, name))
    };
    declarations
        .iter()
        .filter_map(|declaration| named(declaration))
        .filter_map(|(declaration, name)| {
            let (before, after) = split_at_word(text, name)?;
            Some((before.len(), declaration, name, after))
        })
        .min_by_key(|found| found.0)
        .map(|(_, declaration, name, after)| (declaration, name, after))
}

fn split_at_word<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let in_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    text.match_indices(word).find_map(|(at, _)| {
        let (before, rest) = text.split_at_checked(at)?;
        let after = rest.strip_prefix(word)?;
        let alone = !before.ends_with(in_word) && !after.starts_with(in_word);
        alone.then_some((before, after))
    })
}

/// Returns a JSON object at the start of `text`, and the text after it.
fn leading_object(text: &str) -> (Option<Value>, &str) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    match values.next() {
        Some(Ok(object)) => {
            let after = text.get(values.byte_offset()..).unwrap_or_default();
            (Some(object.into()), after)
        }
        _ => (None, text),
    }
}

/// Returns examples of the required parameters.
fn arguments(declaration: &Value, examples: &mut Examples) -> Value {
    let schema =
        field(declaration, "parametersJsonSchema").or_else(|| declaration.get("parameters"));
    match schema {
        Some(schema) if schema.get("required").is_some() => examples.example(schema),
        _ => json!({}),
    }
}
