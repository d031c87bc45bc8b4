//! The texts inside a JSON value: strings, numbers and keys. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Puts in the place of every text in `value` what `edit` makes of it; a number
/// is its digits, and becomes a string if it is edited. Whether anything was.
pub fn edit(value: &mut Value, edit: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    let edited = match value {
        Value::Null | Value::Bool(_) => None,
        Value::String(text) => edit(text),
        Value::Number(number) => edit(&number.to_string()),
        Value::Array(items) => {
            let mut edited = false;
            for item in items {
                edited |= self::edit(item, edit);
            }
            return edited;
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
    let mut edited = false;
    for value in fields.values_mut() {
        edited |= self::edit(value, edit);
    }
    let keys: Vec<Option<String>> = fields.keys().map(|it| edit(it)).collect();
    if keys.iter().all(Option::is_none) {
        return edited;
    }
    let old = std::mem::take(fields);
    let mut numbers = HashMap::new();
    for ((old_key, value), new_key) in old.into_iter().zip(keys) {
        let mut key = new_key.unwrap_or(old_key);
        if fields.contains_key(&key) {
            key = free_key(fields, &key, &mut numbers);
        }
        fields.insert(key, value);
    }
    true
}

/// Keys that became the same stay as many: `key`, `key 2`, `key 3`. `numbers`
/// are those given so far, so that many keys take no longer than they are many.
fn free_key(
    fields: &Map<String, Value>,
    key: &str,
    numbers: &mut HashMap<String, usize>,
) -> String {
    let number = numbers.entry(key.to_owned()).or_insert(1);
    loop {
        *number += 1;
        let numbered = format!("{key} {number}");
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
    fn strings_numbers_and_keys_are_texts() {
        let mut value = json!({ "a": ["s1", 41], "s2": { "s1": null }, "s1": true });
        let mask = |text: &str| (text.starts_with('s') || text == "41").then(|| "x".to_owned());

        assert!(edit(&mut value, &mut { mask }));

        let expected = json!({ "a": ["x", "x"], "x": { "x": null }, "x 2": true });
        assert_eq!(value.to_string(), expected.to_string());
    }
}
