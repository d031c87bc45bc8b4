//! What stays the same of a conversation however often agents send it, and
//! however they spell it. Pure.
//!
//! Thoughts, signatures, ids and empty texts are left out; so is a tool result
//! that some agents say twice.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    DialectError, Document, ResponseDocument,
    contents::Content,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part, introduces},
};
use crate::model::Role;

const ARGUMENTS: &[&str] = &["args"];
const RESPONSE: &[&str] = &["response"];
const MEDIA: &[&str] = &["parts"];

/// One thing that is said in a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalItem {
    /// Its part's place in the content.
    pub part: usize,
    /// What it is.
    pub kind: ItemKind,
    /// Whether the model says it.
    pub by_model: bool,
    /// A text as it is; of anything else a text that is equal for equal things.
    pub text: String,
    /// A call's or a result's id.
    pub id: Option<String>,
}

/// What an item of a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// Text.
    Text,
    /// What gemini-cli tells of itself in front of the first prompt, or what looks
    /// like it.
    Introduction,
    /// A function call.
    Call,
    /// A function response.
    Result,
    /// Media, code and whatever else there is.
    Other,
}

/// What a content holds, item by item.
pub fn canonical_items(content: &Bytes) -> Result<Vec<CanonicalItem>, DialectError> {
    let content = Content::read(Document::split(content.clone())?)?;
    Ok(Items::of(&content.parts, content.role())?.items)
}

impl ResponseDocument {
    /// What the first candidate says here, item by item. Calls whose arguments
    /// come in pieces are none.
    pub fn canonical_items(&self) -> Result<Vec<CanonicalItem>, DialectError> {
        let mut whole = Vec::new();
        for part in self.first_parts() {
            if !comes_in_pieces(part)? {
                whole.push(part.clone());
            }
        }
        Ok(Items::of(&whole, Role::Model)?.items)
    }

    /// Whether the first candidate calls a function here whose arguments come in
    /// pieces.
    pub fn has_calls_in_pieces(&self) -> Result<bool, DialectError> {
        for part in self.first_parts() {
            if comes_in_pieces(part)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn first_parts(&self) -> impl Iterator<Item = &Part> {
        let mut candidates = self.candidates.iter();
        let first = candidates.find(|it| it.number == 0);
        let content = first.and_then(|it| it.content.as_ref());
        content.into_iter().flat_map(|it| &it.parts)
    }
}

fn comes_in_pieces(part: &Part) -> Result<bool, DialectError> {
    Ok(part.call()?.is_some_and(|it| it.in_pieces))
}

/// The parts of one content as items.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) items: Vec<CanonicalItem>,
    /// The places of results that were said before in this content, and the place
    /// of the first that says the same.
    pub(super) repeats: Vec<(usize, usize)>,
}

impl Items {
    pub(super) fn of(parts: &[Part], role: Role) -> Result<Self, DialectError> {
        let mut read = Self::default();
        let mut said = HashMap::new();
        for (place, part) in parts.iter().enumerate() {
            let Some(item) = item_of(place, part, role)? else {
                continue;
            };
            match first_of(&mut said, &item) {
                Some(first) => read.repeats.push((place, first)),
                None => read.items.push(item),
            }
        }
        Ok(read)
    }
}

/// Results by id and text: the first place of each, and the latest.
type Results = HashMap<(Option<String>, String), (usize, usize)>;

/// The place of the first result that says the same: with the same id, or right in
/// front of this one if they have none.
fn first_of(said: &mut Results, item: &CanonicalItem) -> Option<usize> {
    if item.kind != ItemKind::Result {
        return None;
    }
    let places = said.entry((item.id.clone(), item.text.clone()));
    let (first, latest) = places.or_insert((item.part, item.part));
    let is_first = *latest == item.part;
    let repeats = item.id.is_some() || *latest + 1 == item.part;
    if !repeats {
        *first = item.part;
    }
    *latest = item.part;
    (repeats && !is_first).then_some(*first)
}

fn item_of(part: usize, said: &Part, role: Role) -> Result<Option<CanonicalItem>, DialectError> {
    let by_model = role == Role::Model;
    let mut item = CanonicalItem {
        part,
        kind: ItemKind::Other,
        by_model,
        text: String::new(),
        id: None,
    };
    if let Some(result) = said.document.child(FUNCTION_RESPONSE)? {
        item.kind = ItemKind::Result;
        item.text = named(&result, RESPONSE)?;
        item.id = result.string(&["id"])?;
    } else if let Some(call) = said.document.child(FUNCTION_CALL)? {
        item.kind = ItemKind::Call;
        item.text = named(&call, ARGUMENTS)?;
        item.id = call.string(&["id"])?;
    } else if by_model && said.thought {
        // A user has none, whatever a part says of itself.
        return Ok(None);
    } else if let Some(text) = said.text.as_ref().filter(|it| !it.is_empty()) {
        item.kind = if !by_model && introduces(text) {
            ItemKind::Introduction
        } else {
            ItemKind::Text
        };
        item.text.clone_from(text);
    } else {
        item.text = other(&said.document)?;
        if item.text.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(item))
}

/// A call or a result: its name, what it holds, and its media.
fn named(item: &Document, field: &[&str]) -> Result<String, DialectError> {
    let name = item.string(&["name"])?.unwrap_or_default();
    let mut text = Value::String(name).to_string();
    match item.get(field)? {
        None | Some(Value::Null) => text.push_str("{}"),
        Some(value) => write_sorted(&mut text, &value, Keys::AsTheyAre),
    }
    match item.get(MEDIA)? {
        Some(Value::Array(parts)) if !parts.is_empty() => {
            write_sorted(&mut text, &Value::Array(parts), Keys::Camel);
        }
        Some(_) | None => (),
    }
    Ok(text)
}

/// Every field but what may change; empty if there is none.
fn other(part: &Document) -> Result<String, DialectError> {
    let mut fields = Map::new();
    for (key, _) in part.fields() {
        let name = camel(&key);
        if !["thoughtSignature", "thought", "text"].contains(&name.as_str()) {
            let value = part.get(&[&key])?.unwrap_or_default();
            fields.insert(name, value);
        }
    }
    fields.retain(|_, it| !it.is_null());
    let mut text = String::new();
    if !fields.is_empty() {
        write_sorted(&mut text, &Value::Object(fields), Keys::Camel);
    }
    Ok(text)
}

/// How keys are written.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// They are a user's.
    AsTheyAre,
    /// They are the API's, which knows two spellings of each.
    Camel,
}

/// Sorted keys, and numbers by their value. Not JSON, but equal for equal values
/// alone.
fn write_sorted(out: &mut String, value: &Value, keys: Keys) {
    match value {
        Value::Object(fields) => {
            let named = |(key, value)| match keys {
                Keys::AsTheyAre => (String::clone(key), value),
                Keys::Camel => (camel(key), value),
            };
            let mut fields: Vec<(String, &Value)> = fields.iter().map(named).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            out.push('{');
            for (key, value) in fields {
                out.push_str(&Value::String(key).to_string());
                write_sorted(out, value, keys);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for value in list {
                write_sorted(out, value, keys);
                out.push(',');
            }
            out.push(']');
        }
        Value::Number(number) => out.push_str(&by_value(&number.to_string())),
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// `1.0` and `1` are one number: a client that parses an answer writes it anew.
fn by_value(number: &str) -> String {
    let whole = number.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    match number.parse::<f64>() {
        Ok(float) if !whole && float.is_finite() => float.to_string(),
        Ok(_) | Err(_) => number.to_owned(),
    }
}

/// `inline_data` as `inlineData`.
fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|it| it.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(content: &str) -> Vec<CanonicalItem> {
        canonical_items(&Bytes::from(content.to_owned())).unwrap()
    }

    /// What is said twice in other words is the same to the letter.
    #[track_caller]
    fn same(one: &str, other: &str) {
        let plain = |it: &str| {
            let all = items(it).into_iter();
            all.map(|it| (it.kind, it.text)).collect::<Vec<_>>()
        };
        assert_eq!(plain(one), plain(other));
    }

    #[test]
    fn thoughts_signatures_ids_and_empty_texts_are_left_out() {
        same(
            r#"{"role":"model","parts":[{"text":"hm","thought":true},{"text":"a","thoughtSignature":"s"},{"text":""},{"functionCall":{"id":"1","name":"f","args":{"a":1,"b":2}},"thoughtSignature":"s"},{"text":"","thoughtSignature":"t"},{"thoughtSignature":"u"}]}"#,
            r#"{"role":"model","parts":[{"text":"a"},{"function_call":{"args":{"b":2.0,"a":1},"name":"f","id":"f__1"}}]}"#,
        );
    }

    #[test]
    fn media_are_known_in_both_spellings() {
        same(
            r#"{"parts":[{"inlineData":{"mimeType":"image/png","data":"aa_b"}}]}"#,
            r#"{"parts":[{"inline_data":{"data":"aa_b","mime_type":"image/png"},"text":null}]}"#,
        );
    }

    #[test]
    fn what_a_user_wrote_is_not_respelled() {
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
    fn a_result_said_twice_is_one() {
        let result = |id: &str, says: &str| {
            format!(r#"{{"functionResponse":{{{id}"name":"f","response":{{"output":"{says}"}}}}}}"#)
        };
        let (one, two) = (result(r#""id":"1","#, "x"), result(r#""id":"2","#, "x"));
        let content = |parts: &[&String]| {
            let parts: Vec<&str> = parts.iter().map(|it| it.as_str()).collect();
            format!(r#"{{"role":"user","parts":[{}]}}"#, parts.join(","))
        };
        same(&content(&[&one, &two, &one, &two]), &content(&[&one, &two]));
        assert_eq!(items(&content(&[&one, &two])).len(), 2);
        let (bare, other) = (result("", "x"), result("", "y"));
        same(
            &content(&[&bare, &bare, &other]),
            &content(&[&bare, &other]),
        );
        assert_eq!(items(&content(&[&bare, &other, &bare])).len(), 3);
    }

    #[test]
    fn only_a_user_introduces_itself() {
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
