//! Edits of the strings, numbers and keys in a JSON value.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Ciphertext of the model API, which it could not decrypt if it changed.
const ENCRYPTED: &[&str] = &["encrypted_content", "encrypted_index", "encrypted_stdout"];

/// Fields of calls and results whose keys are free.
const FREE_FORM: &[&str] = &["args", "arguments", "input", "response"];

/// Edit of a text, which returns what replaces it.
pub type EditText<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// Replaces every string, number and key in `value` for which `edit` returns a text. An
/// edited number becomes a string. Returns whether anything was replaced.
pub fn edit_json_strings(value: &mut Value, edit: EditText<'_>) -> bool {
    edit_strings(value, &[], edit)
}

/// Replaces strings as [`edit_json_strings`] does in the value of a field, but for ciphertext, and
/// for the `ids` of the value.
pub fn edit_field_strings(key: &str, value: &mut Value, ids: &[&str], edit: EditText<'_>) -> bool {
    let except = except_in(key, ENCRYPTED);
    match value {
        Value::String(_) if except.contains(&key) => false,
        Value::Object(fields) => {
            let skipped = [ids, except].concat();
            edit_fields(fields, &skipped, except, edit)
        }
        value => edit_strings(value, except, edit),
    }
}

/// Returns the keys that are skipped in a field.
fn except_in<'a>(key: &str, except: &'a [&'a str]) -> &'a [&'a str] {
    if FREE_FORM.contains(&key) {
        return &[];
    }
    except
}

fn edit_strings(value: &mut Value, except: &[&str], edit: EditText<'_>) -> bool {
    let edited = match value {
        Value::Null | Value::Bool(_) => None,
        Value::String(text) => edit(text),
        Value::Number(number) => edit(&number.to_string()),
        Value::Array(items) => {
            let mut is_edited = false;
            for item in items {
                is_edited |= edit_strings(item, except, edit);
            }
            return is_edited;
        }
        Value::Object(fields) => return edit_fields(fields, except, except, edit),
    };
    let Some(text) = edited else {
        return false;
    };
    *value = Value::String(text);
    true
}

/// Edits the fields of an object but for the texts under `skipped` keys, and under keys in `except`
/// in the objects below.
fn edit_fields(
    fields: &mut Map<String, Value>,
    skipped: &[&str],
    except: &[&str],
    edit: EditText<'_>,
) -> bool {
    let mut is_edited = false;
    for (key, value) in fields.iter_mut() {
        if !(skipped.contains(&key.as_str()) && value.is_string()) {
            is_edited |= edit_strings(value, except_in(key, except), edit);
        }
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

    #[test]
    fn ciphertext_and_ids_are_skipped_outside_of_arguments() {
        let mask = |text: &str| (text == "s").then(|| "x".to_owned());
        let edited = |key: &str, mut value: Value| {
            edit_field_strings(key, &mut value, &["id"], &mut { mask });
            value
        };
        let block = json!({
            "id": "s", "encrypted_index": "s", "title": "s",
            "content": [{ "id": "s", "encrypted_content": "s" }],
            "input": { "id": "s", "encrypted_content": "s" },
        });
        let expected = json!({
            "id": "s", "encrypted_index": "s", "title": "x",
            "content": [{ "id": "x", "encrypted_content": "s" }],
            "input": { "id": "x", "encrypted_content": "x" },
        });
        assert_eq!(edited("block", block), expected);
        assert_eq!(edited("encrypted_content", json!("s")), "s");
        assert_eq!(edited("encrypted_content", json!(["s"])), json!(["x"]));
        let arguments = json!({ "encrypted_content": "s" });
        for key in ["args", "response"] {
            assert_eq!(
                edited(key, arguments.clone()),
                json!({ "encrypted_content": "x" })
            );
        }
        let mut value = arguments;
        assert!(edit_json_strings(&mut value, &mut { mask }));
    }
}
