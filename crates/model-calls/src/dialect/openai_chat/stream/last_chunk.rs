//! The last chunk of an answer with its edits: for each choice texts, calls and the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::parts_in,
    document::{Document, integer, read_json, to_value},
    error::Result,
    openai_chat::{
        block::{THOUGHT_BLOCK, text_fields},
        fields::{CHOICES, CONTENT, DELTA, FINISH_REASON, INDEX, PARAGRAPH},
        message_parts::{EditedPart, EditedParts, PartPlace, PlacedPart},
        response::{answer::THOUGHT_DETAILS, finish_reason::final_reason},
        stream::{
            event::read_choices,
            held_events::{EndFields, HeldChoice, HeldEvents},
            waiting_details::{ThoughtDetail, WaitingDetails, has_text},
        },
        tool_call::{ChoiceCalls, rewrite_call, rewrite_function_call, write_call},
    },
};

/// An edited chunk of the content form.
#[derive(Debug, Clone, Copy)]
pub struct ChunkEdit<'a> {
    pub before: &'a Document,
    pub after: &'a Document,
}

impl ChunkEdit<'_> {
    pub fn is_edited(&self) -> bool {
        self.before.to_bytes() != self.after.to_bytes()
    }
}

/// The last chunk of an answer.
pub struct LastChunk {
    pub choices: Vec<LastChoice>,
    /// Events with token counts and no choice.
    pub usage: Vec<Document>,
    /// Candidates that the events do not have.
    pub added: Vec<Document>,
}

/// A choice of the last chunk.
pub struct LastChoice {
    pub index: u64,
    /// An event with the choice.
    pub template: Document,
    content: String,
    /// Thoughts as the model sent them.
    read_thought: String,
    thought: String,
    /// Name that the model's server has for the thought, if the chunk has one.
    thought_name: Option<&'static str>,
    refusal: String,
    /// Details of thoughts that waited for their ends.
    details: Map<String, Value>,
    labels: Map<String, Value>,
    /// For each delta, the fields that have no part.
    pub others: Vec<Map<String, Value>>,
    pub calls: ChoiceCalls,
    pub finish: Option<LastFinish>,
    /// True if every client reads the same calls in the events.
    pub is_regular: bool,
}

/// The end of a choice.
pub struct LastFinish {
    event: Document,
    fields: EndFields,
    /// Reason as the model named it, maybe in an earlier event.
    known: String,
    /// Reasons of the content form.
    before: String,
    after: String,
}

/// Reads the last chunk from its events, with its edits.
pub fn last_chunk(events: &[Bytes], edit: ChunkEdit<'_>) -> Result<LastChunk> {
    let held = HeldEvents::read(events)?;
    let mut old = candidates(edit.before)?;
    let mut new = candidates(edit.after)?;
    let mut choices = Vec::with_capacity(held.choices.len());
    for (index, choice) in held.choices {
        let before = old.remove(&index).unwrap_or_default();
        let after = new.remove(&index).unwrap_or_default();
        let read = LastChoice::read(index, choice, &before, &after)?;
        choices.push(read);
    }
    Ok(LastChunk {
        choices,
        usage: held.usage,
        added: new.into_values().flatten().collect(),
    })
}

/// Returns the candidates of a chunk by their indexes. Policies may add a second one for a
/// text that they held back.
pub fn candidates(chunk: &Document) -> Result<BTreeMap<u64, Vec<Document>>> {
    let mut candidates: BTreeMap<u64, Vec<Document>> = BTreeMap::new();
    for candidate in chunk.children(&["candidates"])?.unwrap_or_default() {
        let index = integer(&candidate, INDEX)?;
        let index = index.unwrap_or_default();
        candidates.entry(index).or_default().push(candidate);
    }
    Ok(candidates)
}

/// Returns the parts of candidates, in order.
pub fn parts_of(candidates: &[Document]) -> Result<Vec<Document>> {
    let mut parts = Vec::new();
    for candidate in candidates {
        parts.extend(parts_in(candidate, CONTENT)?);
    }
    Ok(parts)
}

impl LastChoice {
    fn read(index: u64, held: HeldChoice, before: &[Document], after: &[Document]) -> Result<Self> {
        let read = held.parts()?;
        let (old, new) = (parts_of(before)?, parts_of(after)?);
        let answer = EditedParts::new(&read, 0, &old, &new);
        let reason = |candidates: &[Document]| -> Result<Option<String>> {
            let reasons = candidates.iter().map(|one| one.string(&["finishReason"]));
            let reasons: Vec<Option<String>> = reasons.collect::<Result<_, _>>()?;
            Ok(reasons.into_iter().flatten().next())
        };
        let (reason_before, reason_after) = (reason(before)?, reason(after)?);
        let mut choice = Self {
            index,
            content: answer.speech(PARAGRAPH)?,
            read_thought: text_of_thoughts(&read),
            thought: answer.thought()?,
            thought_name: thought_name(&read),
            refusal: answer.refusal()?,
            details: Map::new(),
            labels: held.labels.clone(),
            others: held.others.clone(),
            calls: ChoiceCalls::default(),
            finish: None,
            is_regular: held.collector.is_regular(),
            template: held.template.clone(),
        };
        choice.add_blocks(&answer)?;
        choice.add_calls(&held, &answer)?;
        choice.finish = held
            .finish
            .zip(reason_after)
            .map(|((known, event), after)| LastFinish {
                event,
                fields: held.end_fields,
                known,
                before: reason_before.unwrap_or_default(),
                after,
            });
        Ok(choice)
    }

    /// Adds the details of thoughts that wait for the end of these. Details of changed thoughts
    /// lose their texts.
    pub fn add_details(&mut self, waiting: WaitingDetails) -> Result<()> {
        self.thought_name = self.thought_name.or(waiting.name);
        let last = waiting.finish(&self.read_thought, &self.thought);
        if !last.has_texts {
            self.others.iter_mut().for_each(remove_texts);
        }
        for ThoughtDetail { list, json } in last.details {
            let details = self.details.entry(list).or_insert_with(|| json!([]));
            if let Value::Array(details) = details {
                details.push(read_json(&json)?);
            }
        }
        self.others.retain(|fields| !fields.is_empty());
        Ok(())
    }

    pub const fn has_refusal(&self) -> bool {
        !self.refusal.is_empty()
    }

    /// Makes text that policies held back a part of the refusal that it belongs to.
    pub fn continue_refusal(&mut self) {
        let rest = std::mem::take(&mut self.content);
        self.refusal.push_str(&rest);
    }

    /// Adds the texts of blocks, in the order of the parts.
    fn add_blocks(&mut self, answer: &EditedParts<'_>) -> Result<()> {
        for EditedPart { origin, part } in &answer.parts {
            if let Some((PartPlace::Block(_), _)) = origin {
                self.content.extend(part.string(&["text"])?);
            }
        }
        Ok(())
    }

    fn add_calls(&mut self, held: &HeldChoice, answer: &EditedParts<'_>) -> Result<()> {
        let calls = held.collector.calls()?;
        for EditedPart { origin, part } in &answer.parts {
            match origin {
                Some((PartPlace::Call(index), before)) => {
                    if let Some(call) = calls.get(*index) {
                        let call = rewrite_call(call, before, part)?;
                        self.calls.tool_calls.push(read_json(&call)?);
                    }
                }
                Some((PartPlace::FunctionCall, _)) => {
                    if let Some(mut call) = held.collector.function_call()? {
                        rewrite_function_call(&mut call, part)?;
                        self.calls.function_call = Some(to_value(&call)?);
                    }
                }
                None => {
                    if let Some(call) = part.child(&["functionCall"])?
                        && let Some(call) = write_call(&call)?
                    {
                        self.calls.tool_calls.push(call);
                    }
                }
                Some(_) => (),
            }
        }
        Ok(())
    }

    /// Returns whether the choice ends in this chunk.
    pub const fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns the delta with the texts; empty if there are none.
    pub fn text_delta(&self) -> Map<String, Value> {
        let mut delta = self.labels.clone();
        let name = self.thought_name.unwrap_or("reasoning_content");
        delta.extend(text_fields(name, &self.thought, &self.content));
        if !self.refusal.is_empty() {
            delta.insert("refusal".to_owned(), self.refusal.as_str().into());
        }
        delta.extend(self.details.clone());
        delta
    }
}

impl LastFinish {
    /// Returns the event that ends the choice, with the fields that only other events of the end
    /// have.
    pub fn to_event(&self, index: u64, has_calls: bool) -> Result<Document> {
        let mut event = self.event.clone();
        let choices = read_choices(&event)?;
        let count = choices.len();
        let Some(choice) = choices.into_iter().find(|choice| choice.index == index) else {
            return Ok(event);
        };
        let mut document = choice.document;
        let is_plain = choice.texts.is_empty() && !choice.has_calls;
        if !(is_plain && choice.delta.has_only(&["role", "content", "refusal"])) {
            document.set(DELTA, &Value::Object(Map::new()))?;
        }
        let reason = final_reason(&self.known, &self.before, &self.after, has_calls);
        if choice.finish_reason.as_deref() != Some(reason) {
            document.set(FINISH_REASON, &reason.into())?;
        }
        self.fields.complete(&mut event, &mut document)?;
        if document.is_edited() || count > 1 {
            event.set_children(CHOICES, [&document])?;
        }
        Ok(event)
    }
}

/// Returns the name of the first thought.
pub fn thought_name(read: &[PlacedPart]) -> Option<&'static str> {
    let mut names = read.iter().filter_map(|(place, _)| match place {
        PartPlace::Thought(name) => Some(*name),
        PartPlace::ThoughtBlock(_) => Some(THOUGHT_BLOCK),
        _ => None,
    });
    names.next()
}

/// Returns the texts of all thoughts.
pub fn text_of_thoughts(read: &[PlacedPart]) -> String {
    let thoughts = read.iter().filter(|(place, _)| place.is_thought());
    let texts = thoughts.filter_map(|(_, part)| part.get("text")?.as_str());
    texts.collect()
}

/// Removes the details of a thought that repeat its text.
fn remove_texts(fields: &mut Map<String, Value>) {
    for list in THOUGHT_DETAILS {
        if let Some(Value::Array(details)) = fields.get_mut(list) {
            details.retain(|detail| !has_text(detail));
            if details.is_empty() {
                fields.remove(list);
            }
        }
    }
}
