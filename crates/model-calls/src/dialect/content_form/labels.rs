//! Free texts beside the conversation: labels, a predicted answer and fields that hookgate does
//! not interpret. Policies on texts see them as `labels`.
//!
//! Every object of a request or an answer may have such fields. Of answers, policies also remove
//! tokens, which spell texts in pieces.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, first_byte, read_json},
    error::Result,
    google::fields::{HAS_MEDIA, LABELS, LOGPROBS_RESULT},
};

/// Tokens of a text with their probabilities.
const LOGPROBS: &[&str] = &["logprobs"];

/// Fields beside ids that hold no content of an answer: types, reasons for its end, ratings,
/// padding, ciphertext, measurements, names and versions of the service, times of expiry, and
/// settings of the request.
const FIELDS_WITHOUT_CONTENT: &[&str] = &[
    "amazon-bedrock-guardrailAction",
    "blockReason",
    "block_reason",
    "content_filter_raw",
    "content_filter_result",
    "content_filter_results",
    "content_filters",
    "encrypted_content",
    "expires_at",
    "matched_stop",
    "modelStatus",
    "model_status",
    "moderation_hit_type",
    "native_finish_reason",
    "overwrittenThreshold",
    "overwritten_threshold",
    "p",
    "padding",
    "perf_metrics",
    "plan_type",
    "prompt_filter_results",
    "provider",
    "reasoning_opaque",
    "safetyRatings",
    "safety_ratings",
    "search_context_size",
    "service_tier",
    "service_tier_used",
    "stop_reason",
    "stop_sequence",
    "thought_signature",
    "thought_signatures",
    "token_type",
    "type",
    "version",
    "vertex_ai_safety_ratings",
    "vertex_ai_safety_results",
];

/// Acts on an object. The names are those of the fields that hold no text, or
/// that hooks and policies see otherwise.
pub type ActOnObject<'a> = &'a mut dyn FnMut(&mut Document, &[&str]) -> Result<()>;

/// Calls a function for each object of a body or an event that may have labels. Objects that
/// policies see whole are left out.
pub type VisitObjects = fn(&mut Document, ActOnObject<'_>) -> Result<()>;

/// The fields of an API's requests that are labels: of the body, and of the objects in one of its
/// fields.
#[derive(Debug)]
pub struct RequestLabels {
    /// Fields of the body that hooks and policies see otherwise, or that hold no text.
    pub known: &'static [&'static str],
    /// One of them, whose objects may have labels. In the content form, their labels have its name.
    pub inner: &'static str,
    pub visit: VisitObjects,
}

impl RequestLabels {
    /// Returns the labels of a body, with a list of those of its objects, in the order of the
    /// visit; `None` if there are none.
    pub fn read(&self, body: &Document) -> Result<Option<Map<String, Value>>> {
        let mut labels = read_labels(body, self.known)?;
        let mut objects = Vec::new();
        (self.visit)(&mut body.clone(), &mut |object, known| {
            let labels = read_labels(object, known)?;
            objects.extend((!labels.is_empty()).then_some(labels));
            Ok(())
        })?;
        if !objects.is_empty() {
            labels.insert(self.inner.to_owned(), objects.into());
        }
        Ok(Some(labels).filter(|labels| !labels.is_empty()))
    }

    /// Writes the labels of an edited request in the content form into its body, before any object
    /// of the body is removed or inserted.
    pub fn write(&self, body: &mut Document, before: &Document, after: &Document) -> Result<()> {
        let objects_of = |form: &Document| -> Result<Vec<Map<String, Value>>> {
            let labels = form.child(LABELS)?.unwrap_or_default();
            let objects = labels.bytes_of(&[self.inner])?;
            let objects = objects.map(|objects| read_json(&objects)).transpose()?;
            Ok(objects.unwrap_or_default())
        };
        let edited = objects_of(after)?;
        if objects_of(before)? != edited {
            let mut edited = edited.iter();
            (self.visit)(body, &mut |object, known| {
                write_next_labels(object, known, &mut edited)
            })?;
        }
        let mut before = before.clone();
        before.edit_child(LABELS, |labels| labels.remove(&[self.inner]))?;
        write_labels(body, &before, after)
    }
}

/// The labels of a whole answer, or of the events of a chunk.
#[derive(Debug, Default)]
pub struct AnswerLabels {
    /// For each event, the labels of the objects that have any, in the order of the visit.
    events: Vec<Vec<Map<String, Value>>>,
    has_tokens: bool,
    has_media: bool,
}

impl AnswerLabels {
    /// Reads the labels of a body or of one event.
    pub fn of(event: &Document, visit: VisitObjects) -> Result<Self> {
        let mut labels = Self::default();
        let mut objects = Vec::new();
        visit(&mut event.clone(), &mut |object, known| {
            objects.extend(Some(read_labels(object, known)?).filter(|labels| !labels.is_empty()));
            labels.has_tokens |= has_tokens(object)?;
            labels.has_media |= has_media(object);
            Ok(())
        })?;
        labels.events.push(objects);
        Ok(labels)
    }

    /// Adds the labels of later events.
    pub fn append(&mut self, later: Self) {
        self.events.extend(later.events);
        self.has_tokens |= later.has_tokens;
        self.has_media |= later.has_media;
    }

    /// Returns the fields of the content form that show the labels, or that there are tokens or
    /// media; none if there are none.
    pub fn to_fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        if !self.events.iter().all(Vec::is_empty) {
            fields.insert("labels".to_owned(), json!(self.events));
        }
        if self.has_tokens {
            // The tokens themselves stay in the answer.
            fields.insert(LOGPROBS_RESULT.to_owned(), json!({}));
        }
        if self.has_media {
            fields.insert(HAS_MEDIA.to_owned(), true.into());
        }
        fields
    }

    /// Reads the labels of an edited answer in the content form.
    pub fn of_form(form: &Document) -> Result<Self> {
        let labels = form.bytes_of(LABELS)?;
        let events = labels.map(|labels| read_json(&labels)).transpose()?;
        Ok(Self {
            events: events.unwrap_or_default(),
            has_tokens: form.has(&[LOGPROBS_RESULT]),
            has_media: form.has(&[HAS_MEDIA]),
        })
    }

    /// Returns the last label with a name.
    pub fn last(&self, name: &str) -> Option<&Value> {
        let mut objects = self.events.iter().flatten().rev();
        objects.find_map(|labels| labels.get(name))
    }

    /// Returns the events of a chunk with its labels.
    pub fn write_all(&self, events: &[Bytes], visit: VisitObjects) -> Result<Vec<Bytes>> {
        let events = events.iter().enumerate().map(|(position, data)| {
            let mut event = Document::from_checked(data.clone())?;
            self.write(position, &mut event, visit)?;
            Ok(event.to_bytes())
        });
        events.collect()
    }

    /// Writes the labels into the event at a position. Fields of which the name was edited are
    /// removed, and tokens that policies removed.
    pub fn write(&self, position: usize, event: &mut Document, visit: VisitObjects) -> Result<()> {
        let mut objects = self.events.get(position).into_iter().flatten();
        visit(event, &mut |object, known| {
            write_next_labels(object, known, &mut objects)?;
            if self.has_tokens || !has_tokens(object)? {
                return Ok(());
            }
            let is_list = first_byte(object, LOGPROBS)? == Some(b'[');
            let empty = if is_list { json!([]) } else { Value::Null };
            object.set(LOGPROBS, &empty)
        })
    }
}

/// Returns the fields of a request that are not among the `known` ones.
pub fn read_labels(body: &Document, known: &[&str]) -> Result<Map<String, Value>> {
    let mut labels = Map::new();
    for (key, value) in body.fields() {
        // A value without a text needs no inspection.
        if !known.contains(&&*key) && value.contains(&b'"') {
            labels.insert(key.into_owned(), read_json(&value)?);
        }
    }
    Ok(labels)
}

/// Returns whether an object has content in other fields than the `known` ones: a text, but for
/// ids and `FIELDS_WITHOUT_CONTENT`.
pub fn has_other_content(object: &Document, known: &[&str]) -> Result<bool> {
    let labels = read_labels(object, known)?;
    Ok(labels.iter().any(|(name, value)| is_content(name, value)))
}

/// Adds the labels of an object to its content form, if it has any.
pub fn add_labels(form: &mut Document, object: &Document, known: &[&str]) -> Result<()> {
    let labels = read_labels(object, known)?;
    if labels.is_empty() {
        return Ok(());
    }
    form.set(LABELS, &Value::Object(labels))
}

/// Writes edited labels into the fields that they were read from.
pub fn write_labels(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    let Some(before) = before.child(LABELS)? else {
        return Ok(());
    };
    let after = after.child(LABELS)?.unwrap_or_default();
    let after: HashMap<_, _> = after.fields().collect();
    body.write_fields(before.fields().filter_map(|(key, known)| {
        // Absent if its name was edited, or if it was removed.
        let value = after.get(&*key);
        (value != Some(&known)).then(|| (key, value.cloned()))
    }));
    Ok(())
}

/// Writes the next edited labels into an object, if it has any. Fields of which the name was edited
/// are removed.
pub fn write_next_labels<'a>(
    object: &mut Document,
    known: &[&str],
    edited: &mut impl Iterator<Item = &'a Map<String, Value>>,
) -> Result<()> {
    let labels = read_labels(object, known)?;
    if labels.is_empty() {
        return Ok(());
    }
    let edited = edited.next();
    object.write_fields(labels.into_iter().filter_map(|(key, before)| {
        let label = edited.and_then(|labels| labels.get(&key));
        let json = || label.map(|label| Bytes::from(label.to_string()));
        (label != Some(&before)).then(|| (key, json()))
    }));
    Ok(())
}

/// Visits an object, and the objects in its fields with these names, which hold numbers only. Other
/// values in these fields are labels.
pub fn visit_details(
    object: &mut Document,
    names: &[&'static str],
    known: &[&str],
    act: ActOnObject<'_>,
) -> Result<()> {
    let mut known = known.to_vec();
    for name in names {
        if first_byte(object, &[name])? == Some(b'{') {
            object.edit_child(&[name], |details| act(details, &[]))?;
            known.push(name);
        }
    }
    act(object, &known)
}

/// Adds the labels of a later piece; different values of one field become a list.
pub fn join_labels(labels: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match (labels.get_mut(&key), value) {
            (Some(known), value) if *known == value => (),
            (Some(Value::Array(known)), Value::Array(list)) => known.extend(list),
            (Some(Value::Array(known)), value) => known.push(value),
            (Some(known), value) => *known = Value::Array(vec![known.take(), value]),
            (None, value) => drop(labels.insert(key, value)),
        }
    }
}

/// Removes the fields that are labels.
pub fn remove_labels(body: &mut Document, known: &[&str]) -> Result<()> {
    let labels = read_labels(body, known)?;
    body.write_fields(labels.keys().map(|key| (key, None)));
    Ok(())
}

/// Removes all but the `known` fields.
pub fn keep_fields(object: &mut Document, known: &[&str]) {
    let names: Vec<String> = object.fields().map(|(name, _)| name.into_owned()).collect();
    let unknown = names.iter().filter(|name| !known.contains(&name.as_str()));
    object.write_fields(unknown.map(|name| (name, None)));
}

/// Returns whether an object holds tokens.
fn has_tokens(object: &Document) -> Result<bool> {
    let tokens = object.bytes_of(LOGPROBS)?;
    Ok(tokens.is_some_and(|tokens| *tokens != *b"null" && *tokens != *b"[]"))
}

/// Returns whether an object holds images or sound beside its texts.
fn has_media(object: &Document) -> bool {
    let is_filled = |json: &[u8]| matches!(json, [b'{' | b'[' | b'"', _, _, ..]);
    let mut fields = object.fields();
    fields.any(|(name, json)| matches!(&*name, "audio" | "images") && is_filled(&json))
}

/// Returns whether the value of a field is or holds content.
fn is_content(name: &str, value: &Value) -> bool {
    if FIELDS_WITHOUT_CONTENT.contains(&name) {
        return false;
    }
    match value {
        Value::String(text) => {
            let is_id = name == "id" || name.ends_with("_id") || name.ends_with("Id");
            !text.is_empty() && !is_id
        }
        Value::Array(values) => values.iter().any(|value| is_content(name, value)),
        Value::Object(fields) => fields.iter().any(|(name, value)| is_content(name, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
