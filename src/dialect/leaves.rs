//! The texts inside a JSON value: strings, numbers and keys. Pure.

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
    for ((old_key, value), new_key) in old.into_iter().zip(keys) {
        let key = free_key(fields, new_key.unwrap_or(old_key));
        fields.insert(key, value);
    }
    true
}

/// Two keys that became the same stay two.
fn free_key(fields: &Map<String, Value>, key: String) -> String {
    if !fields.contains_key(&key) {
        return key;
    }
    let numbered = (2..).map(|it| format!("{key} {it}"));
    let mut free = numbered.filter(|it| !fields.contains_key(it));
    free.next().unwrap_or(key)
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
