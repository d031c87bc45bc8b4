//! Laws that hold for every dialect, and what tests of several dialects use.

mod answer_texts;
mod malformed_streams;
mod many_elements;
mod recording_editor;

use serde_json::Value;

use crate::dialect::document::Document;

/// Puts `*` behind every text of the content form. Returns the number of texts.
pub(super) fn mark_texts(form: &mut Value) -> usize {
    let mut contents: Vec<&mut Value> = Vec::new();
    for (key, value) in form.as_object_mut().unwrap() {
        match (key.as_str(), value) {
            ("contents", Value::Array(list)) => contents.extend(list),
            ("systemInstruction", value) => contents.push(value),
            _ => (),
        }
    }
    let mut count = 0;
    for content in contents {
        for part in content["parts"].as_array_mut().unwrap() {
            if let Some(Value::String(text)) = part.get_mut("text") {
                text.push('*');
                count += 1;
            }
        }
    }
    count
}

/// Edits the fields of a document that are different or absent in `value`.
pub(super) fn set_fields(document: &mut Document, value: &Value) {
    let fields = value.as_object().unwrap();
    let names: Vec<String> = document.fields().map(|(key, _)| key.into_owned()).collect();
    for name in names.iter().filter(|name| !fields.contains_key(*name)) {
        document.remove(&[name]).unwrap();
    }
    for (name, value) in fields {
        if document.get(&[name]).unwrap().as_ref() != Some(value) {
            document.set(&[name], value).unwrap();
        }
    }
}
