//! Example values for JSON Schema and for Gemini schemas with upper-case types.

use serde_json::{Map, Number, Value};

use super::call::field;

/// Maximum nesting, which ends recursive schemas.
const MAX_DEPTH: usize = 8;

/// Maximum number of items and of characters that a schema can require.
const MAX_LENGTH: u64 = 100;

/// Maximum size of a number that a schema requires, in bytes. Longer ones have no effect: they
/// would be parsed for each value.
const MAX_NUMBER_BYTES: usize = 30;

/// Types of values, by their names in JSON Schema.
const KINDS: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// Bound of the examples of one answer: bytes of memory, and comparisons made for them.
const MAX_EXAMPLE_BYTES: usize = 1024 * 1024;

/// Memory of one value, with the text of a string, in bytes.
const VALUE_BYTES: usize = 100;

/// Creates the examples of one answer. All of them have one bound, because a schema may
/// multiply its values at each level.
#[derive(Debug)]
pub(super) struct Examples {
    remaining_bytes: usize,
}

impl Examples {
    pub(super) const fn new() -> Self {
        Self {
            remaining_bytes: MAX_EXAMPLE_BYTES,
        }
    }

    /// Returns the simplest value that fits: required properties only, or all of them if
    /// none is marked as required. Items and properties beyond the bound are omitted.
    pub(super) fn example(&mut self, schema: &Value) -> Value {
        self.value(schema, schema, 0)
    }

    fn value(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let is_within_bound = self.reserve(reference.len());
            let pointer = reference.trim_start_matches('#');
            let target = root.pointer(pointer).filter(|_| is_within_bound);
            return target.map_or(Value::Null, |target| self.value(target, root, depth + 1));
        }
        if let Some(fixed) = schema.get("const").or_else(|| first(schema, "enum")) {
            return self.copy(fixed);
        }
        let choices = ["anyOf", "oneOf", "allOf"];
        if let Some(choice) = choices.into_iter().find_map(|name| first(schema, name)) {
            return self.value(choice, root, depth + 1);
        }
        match kind(schema) {
            "string" => text(schema).into(),
            "integer" | "number" => {
                bound(schema).map_or_else(|| Value::from(1), |bound| self.copy(bound))
            }
            "boolean" => true.into(),
            "array" => self.array(schema, root, depth),
            "object" => self.object(schema, root, depth),
            _ => Value::Null,
        }
    }

    fn array(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let items = schema.get("items");
        let mut array = Vec::new();
        for _ in 0..length(schema, "minItems").max(1) {
            if !self.reserve(VALUE_BYTES) {
                break;
            }
            array.push(items.map_or(Value::Null, |items| self.value(items, root, depth + 1)));
        }
        array.into()
    }

    fn object(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let all = schema.get("properties").and_then(Value::as_object);
        let mut object = Map::new();
        for (name, property) in all.into_iter().flatten() {
            // Each property is compared with all required names.
            let comparisons = required.map_or(0, Vec::len);
            if !self.reserve(VALUE_BYTES + name.len() + comparisons) {
                break;
            }
            if required.is_none_or(|names| names.iter().any(|other| other == name)) {
                object.insert(name.clone(), self.value(property, root, depth + 1));
            }
        }
        object.into()
    }

    /// Returns a copy of a value of the schema; `null` beyond the bound.
    fn copy(&mut self, fixed: &Value) -> Value {
        if self.reserve(bytes(fixed)) {
            fixed.clone()
        } else {
            Value::Null
        }
    }

    /// Takes bytes of memory, or comparisons, from the bound. Returns whether they are within it;
    /// beyond it, nothing more is.
    fn reserve(&mut self, bytes: usize) -> bool {
        let remaining = self.remaining_bytes.checked_sub(bytes);
        self.remaining_bytes = remaining.unwrap_or(0);
        remaining.is_some()
    }
}

/// Returns the type in lower case: the first of several; `object` if only properties
/// are given, and `null` for an unknown one.
fn kind(schema: &Value) -> &'static str {
    let named = match schema.get("type") {
        Some(Value::Array(_)) => first(schema, "type"),
        other => other,
    };
    match named.and_then(Value::as_str) {
        Some(name) => {
            let mut kinds = KINDS.into_iter();
            let kind = kinds.find(|kind| kind.eq_ignore_ascii_case(name));
            kind.unwrap_or("null")
        }
        None if schema.get("properties").is_some() => "object",
        None => "string",
    }
}

fn text(schema: &Value) -> String {
    let mut text = "example".to_owned();
    for _ in text.len() as u64..length(schema, "minLength") {
        text.push('.');
    }
    text
}

/// Returns the bound that a number needs: the minimum, or a maximum that excludes 1.
fn bound(schema: &Value) -> Option<&Value> {
    let minimum = schema.get("minimum").filter(|bound| bound.is_number());
    let excludes_one = |maximum: &&Value| {
        let number = maximum.as_number();
        let number = number.filter(|number| number.as_str().len() <= MAX_NUMBER_BYTES);
        let maximum = number.and_then(Number::as_f64);
        maximum.is_some_and(|maximum| maximum < 1.0)
    };
    minimum.or_else(|| schema.get("maximum").filter(excludes_one))
}

/// Returns a length; Gemini's schemas write it as a string.
fn length(schema: &Value, name: &str) -> u64 {
    let length = field(schema, name).and_then(|found| match found {
        Value::String(digits) if digits.len() <= MAX_NUMBER_BYTES => digits.parse().ok(),
        other => other.as_u64(),
    });
    length.unwrap_or(0).min(MAX_LENGTH)
}

fn first<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    field(schema, name)?.as_array()?.first()
}

/// Returns the approximate memory of a value in bytes.
fn bytes(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(name, value)| name.len() + bytes(value)).sum()
        }
    };
    VALUE_BYTES + inner
}
