//! Search for an object anywhere in JSON.

use memchr::memmem;
use serde_json::{Map, Value};

use crate::dialect::{document::Document, error::Result};

/// Returns whether any object below a field of a body has the key `key` and `holds`. The values
/// of the field `skipped`, whose keys are free, are not searched.
///
/// # Errors
///
/// Fails if the field is ambiguous.
pub fn any_object_with(
    body: &Document,
    field: &[&str],
    key: &str,
    skipped: &str,
    holds: &dyn Fn(&Map<String, Value>) -> bool,
) -> Result<bool> {
    if !may_hold(body, &[key]) {
        return Ok(false);
    }
    let value = body.get(field)?.unwrap_or_default();
    let holds = |fields: &Map<String, Value>| fields.contains_key(key) && holds(fields);
    Ok(any_object(&value, skipped, &holds))
}

/// Returns whether any of these texts may be in a body. Most bodies have none, and need no search.
/// Texts may be escaped.
pub fn may_hold(body: &Document, texts: &[&str]) -> bool {
    let bytes = body.to_bytes();
    let mut texts = texts.iter().chain(&["\\u"]);
    texts.any(|text| memmem::find(&bytes, text.as_bytes()).is_some())
}

/// Returns whether any object in a value `holds`. The values of the field `skipped`, whose keys are
/// free, are not searched.
pub fn any_object(
    value: &Value,
    skipped: &str,
    holds: &dyn Fn(&Map<String, Value>) -> bool,
) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| any_object(value, skipped, holds)),
        Value::Object(fields) => {
            let mut inner = fields.iter().filter(|(key, _)| *key != skipped);
            holds(fields) || inner.any(|(_, value)| any_object(value, skipped, holds))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns whether an object has an id, or a list of ids, under a key.
pub fn holds_id(fields: &Map<String, Value>, key: &str) -> bool {
    match fields.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::Array(ids)) => !ids.is_empty(),
        Some(_) => true,
    }
}
