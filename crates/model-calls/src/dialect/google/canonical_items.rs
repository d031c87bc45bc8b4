//! Canonical form of a conversation: what stays equal however often agents send it, and in
//! whatever spelling.
//!
//! Thoughts, signatures, ids, empty texts and repeated tool results are omitted. A result without an
//! id repeats none: calls may have equal results.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    dialect::{
        document::{Document, read_json},
        error::Result,
        google::{
            content::Content,
            fields::{
                ARGUMENTS, FUNCTION_CALL, FUNCTION_RESPONSE, IS_REFUSAL, PHASE, PRECEDING,
                RESPONSE, SOURCE, STARTS_TEXT,
            },
            part::{Part, is_agent_context, is_introduction},
        },
    },
    model::Role,
};

const MEDIA: &[&str] = &["parts"];

/// One item of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalItem {
    /// Index of the part in the content.
    pub part: usize,
    /// Kind of the item.
    pub kind: ItemKind,
    /// True if the model produced it.
    pub by_model: bool,
    /// The text, or for other kinds a text that is equal for equal items.
    pub text: String,
    /// Id of a call or a result.
    pub id: Option<String>,
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// Plain text without thoughts.
    Text,
    /// Text of the user in the form of gemini-cli's introduction.
    Introduction,
    /// Text that an agent adds around prompts: reminders, the environment.
    Context,
    /// A function call of the model.
    Call,
    /// The result of a function call.
    Result,
    /// Media, code and everything else.
    Other,
}

impl ItemKind {
    /// Returns whether the item is a text.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Introduction | Self::Context)
    }

    /// Returns whether an agent adds the item without the user.
    pub const fn is_added(self) -> bool {
        matches!(self, Self::Introduction | Self::Context)
    }
}

/// Returns the items of a content.
pub fn canonical_items(content: &Bytes) -> Result<Vec<CanonicalItem>> {
    let content = Content::from_bytes(content.clone())?;
    Ok(ContentItems::read(&content.parts, content.role())?.items)
}

/// The items of one content.
#[derive(Debug, Default)]
pub struct ContentItems {
    pub items: Vec<CanonicalItem>,
    /// Part indexes of repeated results, each with the index of the first equal one.
    pub repeats: Vec<(usize, usize)>,
}

impl ContentItems {
    pub fn read<'a>(parts: impl IntoIterator<Item = &'a Part>, role: Role) -> Result<Self> {
        let mut read = Self::default();
        let mut results = HashMap::new();
        for (index, part) in parts.into_iter().enumerate() {
            let Some(item) = read_item(index, part, role)? else {
                continue;
            };
            match first_equal(&mut results, &item) {
                Some(first) => read.repeats.push((index, first)),
                None => read.items.push(item),
            }
        }
        Ok(read)
    }
}

/// Returns the index of the first result that this one repeats: one with the same id and text.
fn first_equal(
    results: &mut HashMap<(String, String), usize>,
    item: &CanonicalItem,
) -> Option<usize> {
    let id = item.id.clone().filter(|_| item.kind == ItemKind::Result)?;
    let first = *results.entry((id, item.text.clone())).or_insert(item.part);
    (first != item.part).then_some(first)
}

fn read_item(index: usize, part: &Part, role: Role) -> Result<Option<CanonicalItem>> {
    let by_model = role == Role::Model;
    let item = |kind, text, id| CanonicalItem {
        part: index,
        kind,
        by_model,
        text,
        id,
    };
    if let Some(result) = part.document.child(FUNCTION_RESPONSE)? {
        let text = canonical_call(&result, RESPONSE)?;
        return Ok(Some(item(ItemKind::Result, text, result.string(&["id"])?)));
    }
    if let Some(call) = part.document.child(FUNCTION_CALL)? {
        let text = canonical_call(&call, ARGUMENTS)?;
        return Ok(Some(item(ItemKind::Call, text, call.string(&["id"])?)));
    }
    // Only the model has thoughts, even if a part of the user is marked as one.
    if by_model && part.is_thought {
        return Ok(None);
    }
    if let Some(text) = part.text.clone().filter(|text| !text.is_empty()) {
        let is_added = !by_model && part.document.has(&[SOURCE]) && is_agent_context(&text);
        let kind = if is_added {
            ItemKind::Context
        } else if !by_model && is_introduction(&text) {
            ItemKind::Introduction
        } else {
            ItemKind::Text
        };
        return Ok(Some(item(kind, text, None)));
    }
    // Pieces of a streamed block, such as its citations, are none in the history.
    if by_model && part.document.has(&["block"]) && part.document.has(&["event"]) {
        return Ok(None);
    }
    let text = canonical_fields(&part.document)?;
    Ok((!text.is_empty()).then(|| item(ItemKind::Other, text, None)))
}

/// Returns the canonical text of a call or a result: name, arguments or response, media.
fn canonical_call(item: &Document, field: &[&str]) -> Result<String> {
    let name = item.string(&["name"])?.unwrap_or_default();
    let mut text = Value::String(name).to_string();
    match item.get(field)? {
        None | Some(Value::Null) => text.push_str("{}"),
        Some(value) => write_canonical(&mut text, &value, KeyStyle::FreeForm),
    }
    match item.get(MEDIA)? {
        Some(Value::Array(parts)) if !parts.is_empty() => {
            write_canonical(&mut text, &Value::Array(parts), KeyStyle::Api);
        }
        Some(_) | None => (),
    }
    Ok(text)
}

/// Returns the canonical text of all fields that identify a part; empty if there are none.
fn canonical_fields(part: &Document) -> Result<String> {
    let mut fields = Map::new();
    for (key, json) in part.fields() {
        let name = camel_case(&key);
        let hidden = [
            "thoughtSignature",
            "thought",
            "text",
            IS_REFUSAL,
            PHASE,
            PRECEDING,
            SOURCE,
            STARTS_TEXT,
        ];
        if !hidden.contains(&name.as_str()) {
            fields.insert(name, read_json(&json)?);
        }
    }
    fields.retain(|_, value| !value.is_null());
    let mut text = String::new();
    if !fields.is_empty() {
        write_canonical(&mut text, &Value::Object(fields), KeyStyle::Api);
    }
    Ok(text)
}

#[derive(Debug, Clone, Copy)]
enum KeyStyle {
    /// Keys of the user, which keep their spelling.
    FreeForm,
    /// Keys of the API, which accepts two spellings of each.
    Api,
}

/// Writes keys sorted and numbers by value. The text is no JSON, but equal for equal values
/// only.
fn write_canonical(out: &mut String, value: &Value, style: KeyStyle) {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| match style {
                KeyStyle::FreeForm => (key.clone(), value),
                KeyStyle::Api => (camel_case(key), value),
            });
            let mut fields: Vec<(String, &Value)> = fields.collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            out.push('{');
            for (key, value) in fields {
                out.push_str(&Value::String(key).to_string());
                write_canonical(out, value, style);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for value in list {
                write_canonical(out, value, style);
                out.push(',');
            }
            out.push(']');
        }
        Value::Number(number) => out.push_str(&canonical_number(&number.to_string())),
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// Returns the same text for `1.0` and `1`: clients that parse a response serialize its
/// numbers anew.
fn canonical_number(number: &str) -> String {
    let mut bytes = number.bytes();
    let is_integer = bytes.all(|byte| byte.is_ascii_digit() || byte == b'-');
    match number.parse::<f64>() {
        Ok(float) if !is_integer && float.is_finite() => float.to_string(),
        Ok(_) | Err(_) => number.to_owned(),
    }
}

/// Converts `inline_data` to `inlineData`.
pub fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(content: &str) -> Vec<CanonicalItem> {
        canonical_items(&Bytes::from(content.to_owned())).unwrap()
    }

    #[track_caller]
    fn same(one: &str, other: &str) {
        let plain = |text: &str| {
            let all = items(text).into_iter();
            all.map(|item| (item.kind, item.text)).collect::<Vec<_>>()
        };
        assert_eq!(plain(one), plain(other));
    }

    #[test]
    fn thoughts_signatures_ids_and_empty_texts_are_ignored() {
        same(
            r#"{"role":"model","parts":[{"text":"hm","thought":true},{"text":"a","thoughtSignature":"s"},{"text":""},{"functionCall":{"id":"1","name":"f","args":{"a":1,"b":2}},"thoughtSignature":"s"},{"text":"","thoughtSignature":"t"},{"thoughtSignature":"u"}]}"#,
            r#"{"role":"model","parts":[{"text":"a"},{"function_call":{"args":{"b":2.0,"a":1},"name":"f","id":"f__1"}}]}"#,
        );
    }

    #[test]
    fn media_are_equal_in_both_spellings() {
        same(
            r#"{"parts":[{"inlineData":{"mimeType":"image/png","data":"aa_b"}}]}"#,
            r#"{"parts":[{"inline_data":{"data":"aa_b","mime_type":"image/png"},"text":null}]}"#,
        );
    }

    #[test]
    fn free_form_keys_keep_their_spelling() {
        let one = items(r#"{"parts":[{"functionResponse":{"name":"f","response":{"a_b":1}}}]}"#);
        let other = items(r#"{"parts":[{"functionResponse":{"name":"f","response":{"aB":1}}}]}"#);
        assert_ne!(one, other);
    }

    #[test]
    fn nothing_and_an_empty_object_are_the_same_arguments() {
        same(
            r#"{"role":"model","parts":[{"functionCall":{"name":"f"}}]}"#,
            r#"{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}"#,
        );
    }

    #[test]
    fn a_repeated_result_is_one_item() {
        let result = |id: &str, says: &str| {
            format!(r#"{{"functionResponse":{{{id}"name":"f","response":{{"output":"{says}"}}}}}}"#)
        };
        let (one, two) = (result(r#""id":"1","#, "x"), result(r#""id":"2","#, "x"));
        let content = |parts: &[&String]| {
            let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
            format!(r#"{{"role":"user","parts":[{}]}}"#, parts.join(","))
        };
        same(&content(&[&one, &two, &one, &two]), &content(&[&one, &two]));
        assert_eq!(items(&content(&[&one, &two])).len(), 2);
        let bare = result("", "x");
        assert_eq!(items(&content(&[&bare, &bare])).len(), 2);
    }

    #[test]
    fn only_a_user_text_is_an_introduction() {
        let kind = |role: &str| {
            let text = "<session_context>x</session_context>";
            items(&format!(
                r#"{{"role":"{role}","parts":[{{"text":"{text}"}}]}}"#
            ))[0]
                .kind
        };
        assert_eq!(kind("user"), ItemKind::Introduction);
        assert_eq!(kind("model"), ItemKind::Text);
    }
}
