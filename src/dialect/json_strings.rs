//! Edits of the strings, numbers and keys in a JSON value.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Replaces every string, number and key in `value` for which `edit` returns a text. An
/// edited number becomes a string. Returns whether anything was replaced.
pub fn edit_json_strings(value: &mut Value, edit: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    let edited = match value {
        Value::Null | Value::Bool(_) => None,
        Value::String(text) => edit(text),
        Value::Number(number) => edit(&number.to_string()),
        Value::Array(items) => {
            let mut is_edited = false;
            for item in items {
                is_edited |= edit_json_strings(item, edit);
            }
            return is_edited;
        }
        Value::Object(fields) => return edit_fields(fields, edit),
    };
    let Some(text) = edited else {
        return false;
    };
    *value = Value::String(text);
    true
}

fn edit_fields(
    fields: &mut Map<String, Value>,
    edit: &mut dyn FnMut(&str) -> Option<String>,
) -> bool {
    let mut is_edited = false;
    for value in fields.values_mut() {
        is_edited |= edit_json_strings(value, edit);
    }
    let keys: Vec<Option<String>> = fields.keys().map(|key| edit(key)).collect();
    if keys.iter().all(Option::is_none) {
        return is_edited;
    }
    let old = std::mem::take(fields);
    let mut counters = HashMap::new();
    for ((old_key, value), new_key) in old.into_iter().zip(keys) {
        let mut key = new_key.unwrap_or(old_key);
        if fields.contains_key(&key) {
            key = numbered_key(fields, &key, &mut counters);
        }
        fields.insert(key, value);
    }
    true
}

/// Returns an unused key: `key 2`, `key 3`. The counters make this linear in the number of
/// equal keys.
fn numbered_key(
    fields: &Map<String, Value>,
    key: &str,
    counters: &mut HashMap<String, usize>,
) -> String {
    let counter = counters.entry(key.to_owned()).or_insert(1);
    loop {
        *counter += 1;
        let numbered = format!("{key} {counter}");
        if !fields.contains_key(&numbered) {
            return numbered;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_numbers_and_keys_are_edited() {
        let mut value = json!({ "a": ["s1", 41], "s2": { "s1": null }, "s1": true });
        let mask = |text: &str| (text.starts_with('s') || text == "41").then(|| "x".to_owned());

        assert!(edit_json_strings(&mut value, &mut { mask }));

        let expected = json!({ "a": ["x", "x"], "x": { "x": null }, "x 2": true });
        assert_eq!(value.to_string(), expected.to_string());
    }
}
