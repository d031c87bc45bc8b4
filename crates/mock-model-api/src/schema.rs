//! Example values for JSON Schema and for Gemini schemas with upper-case types.

use serde_json::{Map, Value};

use super::call::field;

/// Maximum nesting, which ends recursive schemas.
const MAX_DEPTH: usize = 8;

/// Maximum number of items and of characters that a schema can require.
const MAX_LENGTH: u64 = 100;

/// Returns the simplest value that fits: required properties only, or all of them if
/// none is marked as required.
pub(super) fn example(schema: &Value) -> Value {
    value(schema, schema, 0)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    let inner = |schema| value(schema, root, depth + 1);
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#'));
        return target.map_or(Value::Null, inner);
    }
    if let Some(fixed) = schema.get("const").or_else(|| first(schema, "enum")) {
        return fixed.clone();
    }
    let choices = ["anyOf", "oneOf", "allOf"];
    if let Some(choice) = choices.into_iter().find_map(|name| first(schema, name)) {
        return inner(choice);
    }
    match kind(schema).as_str() {
        "string" => text(schema).into(),
        "integer" | "number" => number(schema),
        "boolean" => true.into(),
        "array" => {
            let item = schema.get("items").map_or(Value::Null, inner);
            let count = length(schema, "minItems").max(1);
            (0..count).map(|_| item.clone()).collect()
        }
        "object" => properties(schema)
            .map(|(name, property)| (name.to_owned(), inner(property)))
            .collect::<Map<_, _>>()
            .into(),
        _ => Value::Null,
    }
}

/// Returns the type in lower case: the first of several; `object` if only properties
/// are given.
fn kind(schema: &Value) -> String {
    let named = match schema.get("type") {
        Some(Value::Array(_)) => first(schema, "type"),
        other => other,
    };
    match named.and_then(Value::as_str) {
        Some(name) => name.to_ascii_lowercase(),
        None if schema.get("properties").is_some() => "object".to_owned(),
        None => "string".to_owned(),
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let required = schema.get("required").and_then(Value::as_array);
    let all = schema.get("properties").and_then(Value::as_object);
    all.into_iter()
        .flatten()
        .filter_map(move |(name, property)| {
            let wanted = required.is_none_or(|names| names.iter().any(|other| other == name));
            wanted.then_some((name.as_str(), property))
        })
}

fn text(schema: &Value) -> String {
    let mut text = "example".to_owned();
    for _ in text.len() as u64..length(schema, "minLength") {
        text.push('.');
    }
    text
}

/// Returns 1, or a bound of the schema that excludes it.
fn number(schema: &Value) -> Value {
    let minimum = schema.get("minimum").filter(|bound| bound.is_number());
    let low_maximum = schema
        .get("maximum")
        .filter(|bound| bound.as_f64().is_some_and(|bound| bound < 1.0));
    minimum.or(low_maximum).cloned().unwrap_or_else(|| 1.into())
}

/// Returns a length; Gemini's schemas write it as a string.
fn length(schema: &Value, name: &str) -> u64 {
    let length = field(schema, name).and_then(|found| match found {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_u64(),
    });
    length.unwrap_or(0).min(MAX_LENGTH)
}

fn first<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    field(schema, name)?.as_array()?.first()
}
