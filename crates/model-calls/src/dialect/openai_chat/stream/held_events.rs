//! The events that a reader keeps until the end of an answer: tool calls, finish reasons and
//! token counts. They are one chunk.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::dialect::{
    content_form::join_labels,
    document::{Document, add_list, is_set},
    error::Result,
    openai_chat::{
        fields::{CHOICES, parse},
        message_parts::{PlacedPart, add_call_ids, call_parts, has_refusal},
        response::{
            envelope::{candidate, numbered_parts, read_envelope},
            finish_reason::{ends_for_calls, read_reason},
            preceding::{Thoughts, add_preceding},
        },
        stream::{
            call_collector::CallCollector,
            event::{EventChoice, is_usage, read_choices},
        },
    },
};

/// Fields of a delta that hold sound, images, and thoughts with their signatures.
const OTHERS: [&str; 4] = ["audio", "images", "reasoning_details", "thinking_blocks"];

/// Fields of a choice that hold its piece, or the tokens of that.
const PIECE_FIELDS: &[&str] = &["delta", "logprobs", "token_ids"];

/// Maximum number of fields that are kept of the events that end a choice, and of the choice.
const MAX_END_FIELDS: usize = 64;

/// The events of the last chunk, read.
#[derive(Debug, Default)]
pub struct HeldEvents {
    pub choices: BTreeMap<u64, HeldChoice>,
    /// Events with token counts and no choice.
    pub usage: Vec<Document>,
    /// Fields that surround the choices.
    envelope: Map<String, Value>,
}

/// A choice in the last chunk.
#[derive(Debug, Default)]
pub struct HeldChoice {
    /// The first event with the choice.
    pub template: Document,
    /// Texts, each with its position in its event.
    pub texts: Vec<PlacedPart>,
    /// Fields of the deltas that hookgate does not interpret.
    pub labels: Map<String, Value>,
    /// For each delta, the fields that have no part.
    pub others: Vec<Map<String, Value>>,
    pub collector: CallCollector,
    /// Reason for the end, and the last event with one.
    pub finish: Option<(String, Document)>,
    pub end_fields: EndFields,
}

/// Fields of the events that end a choice, in their latest values.
#[derive(Debug, Default)]
pub struct EndFields {
    event: BTreeMap<String, Bytes>,
    choice: BTreeMap<String, Bytes>,
}

impl HeldEvents {
    /// Reads the events of the last chunk.
    pub fn read(events: &[Bytes]) -> Result<Self> {
        let mut held = Self::default();
        for data in events {
            let event = parse(data.clone())?;
            held.envelope.extend(read_envelope(&event)?);
            if is_usage(&event)? {
                held.usage.push(event);
                continue;
            }
            for choice in read_choices(&event)? {
                let known = held.choices.entry(choice.index);
                let known = known.or_insert_with(|| HeldChoice {
                    template: event.clone(),
                    ..HeldChoice::default()
                });
                known.others.push(other_fields(&choice)?);
                // One without texts may be an end whose reason is repeated.
                let has_parts = choice.has_calls || !choice.texts.is_empty();
                if choice.finish_reason.is_some() || !has_parts {
                    known.end_fields.add(&event, &choice.document);
                }
                known.texts.extend(choice.texts);
                known.collector.push(&choice.delta)?;
                join_labels(&mut known.labels, choice.labels);
                if let Some(reason) = choice.finish_reason {
                    known.end(reason, event.clone());
                }
            }
        }
        Ok(held)
    }

    /// Returns the chunk of the content form. `refused` are the choices whose text so far is a
    /// refusal, `thoughts` those of the first choice.
    pub fn to_chunk(&self, refused: &[u64], thoughts: &Thoughts) -> Result<Map<String, Value>> {
        let mut candidates = Vec::with_capacity(self.choices.len());
        for (index, choice) in &self.choices {
            let mut parts = numbered_parts(&choice.parts()?);
            if *index == 0 {
                add_preceding(&mut parts, &choice.collector.calls()?, thoughts)?;
            }
            let is_refused = refused.contains(index) || has_refusal(&choice.texts);
            let finish = choice.finish.as_ref();
            let reason = finish.map(|(reason, _)| read_reason(reason));
            let reason = reason.map(|reason| if is_refused { "SAFETY" } else { reason });
            candidates.push(candidate(*index, &parts, reason));
        }
        let mut chunk = self.envelope.clone();
        add_list(&mut chunk, "candidates", candidates);
        Ok(chunk)
    }
}

impl HeldChoice {
    /// Keeps the reason for the end, and its event. `stop` behind a reason that names calls is not
    /// kept, because agents may not run them then.
    fn end(&mut self, mut reason: String, event: Document) {
        if let Some((known, _)) = self.finish.take()
            && reason == "stop"
            && ends_for_calls(&known)
        {
            reason = known;
        }
        self.finish = Some((reason, event));
    }

    /// Returns the parts: texts, then calls.
    pub fn parts(&self) -> Result<Vec<PlacedPart>> {
        let mut parts = self.texts.clone();
        let (function_call, calls) = (self.collector.function_call()?, self.collector.calls()?);
        parts.extend(call_parts(&calls, function_call.as_ref())?);
        add_call_ids(&mut parts);
        Ok(parts)
    }
}

impl EndFields {
    fn add(&mut self, event: &Document, choice: &Document) {
        add_latest(&mut self.event, event, CHOICES);
        add_latest(&mut self.choice, choice, PIECE_FIELDS);
    }

    /// Adds the fields that an event, or the choice in it, does not have.
    pub fn complete(&self, event: &mut Document, choice: &mut Document) -> Result<()> {
        add_missing(event, &self.event)?;
        add_missing(choice, &self.choice)
    }
}

/// Keeps the fields of a document that are set, but for those that are `left_out`. Names beyond
/// [`MAX_END_FIELDS`] are not kept.
fn add_latest(fields: &mut BTreeMap<String, Bytes>, document: &Document, left_out: &[&str]) {
    for (name, value) in document.fields() {
        let is_known = fields.len() < MAX_END_FIELDS || fields.contains_key(&*name);
        if is_known && *value != *b"null" && !left_out.contains(&&*name) {
            fields.insert(name.into_owned(), value);
        }
    }
}

/// Adds the fields that a document lacks.
fn add_missing(document: &mut Document, fields: &BTreeMap<String, Bytes>) -> Result<()> {
    for (name, value) in fields {
        if !is_set(document, &[name]).unwrap_or(true) {
            document.set_bytes(&[name], value.clone())?;
        }
    }
    Ok(())
}

/// Returns the fields of a delta that have no part and are no labels.
fn other_fields(choice: &EventChoice) -> Result<Map<String, Value>> {
    let mut others = Map::new();
    for name in OTHERS {
        if !choice.labels.contains_key(name)
            && let Some(value) = choice.delta.get(&[name])?
            && !value.is_null()
        {
            others.insert(name.to_owned(), value);
        }
    }
    Ok(others)
}
