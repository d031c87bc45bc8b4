//! Writes single events, and keeps what of each choice is written.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use serde_json::{Map, Value};

use crate::dialect::{
    content_form::remove_labels,
    document::{Document, integer, try_any},
    error::Result,
    openai_chat::{
        fields::{CHOICES, DELTA, ID, INDEX, PARAGRAPH, REFUSAL, ROLE, USAGE, parse},
        message_parts::has_refusal,
        response::{answer_objects::RESPONSE_FIELDS, synthetic::SyntheticChoice},
        stream::event::{EventChoice, event_with, is_blank_choice},
        tool_call::ChoiceCalls,
    },
    sse_event::write_plain_event,
};

/// Writes the events of one stream.
#[derive(Debug, Default)]
pub struct ChatEventWriter {
    /// An event of the model, whose form new events take.
    pub template: Option<Document>,
    pub choices: BTreeMap<u64, WrittenChoice>,
    /// Choices with a refusal in an earlier answer and none in the current one.
    earlier_refusals: BTreeSet<u64>,
    /// True if the events are those of a later answer, which continue the first one.
    pub is_later_answer: bool,
    pub has_written: bool,
    pub out: BytesMut,
    /// Token counts for the event that ends the last choice, because some agents read those of the
    /// last event. An event of their own would reach agents that did not ask for it.
    pub usage: Option<Value>,
}

/// Parts of a choice that have been written so far.
#[derive(Debug, Default)]
pub struct WrittenChoice {
    /// Number of tool calls.
    pub calls: u64,
    pub has_function_call: bool,
    pub is_finished: bool,
    /// True if its text in the current answer is a refusal of the model.
    pub is_refused: bool,
}

impl WrittenChoice {
    /// Adds calls. Returns the number of the first one.
    pub fn add(&mut self, calls: &ChoiceCalls) -> u64 {
        let first = self.calls;
        self.calls += calls.tool_calls.len() as u64;
        self.has_function_call |= calls.function_call.is_some();
        first
    }
}

impl ChatEventWriter {
    /// Begins an answer of the model, the first one or one that continues the message.
    pub fn begin_answer(&mut self) {
        self.is_later_answer = self.has_written;
        for (index, written) in &mut self.choices {
            if std::mem::take(&mut written.is_refused) {
                self.earlier_refusals.insert(*index);
            }
        }
    }

    /// Returns whether the text of a choice in the current answer is a refusal of the model.
    pub fn is_refused(&self, index: u64) -> bool {
        let written = self.choices.get(&index);
        written.is_some_and(|written| written.is_refused)
    }

    /// Removes what opens a message that is open already. Returns false if nothing is left of the
    /// event.
    pub fn continue_message(
        &self,
        event: &mut Document,
        choices: &mut [EventChoice],
    ) -> Result<bool> {
        let is_open = |choice: &EventChoice| self.choices.contains_key(&choice.index);
        let mut each = choices.iter();
        if !self.is_later_answer || !each.any(|choice| is_open(choice) && choice.delta.has(ROLE)) {
            return Ok(true);
        }
        for choice in choices.iter_mut().filter(|choice| is_open(choice)) {
            choice.delta.remove(ROLE)?;
            choice.document.set_child(DELTA, &choice.delta)?;
        }
        event.set_children(CHOICES, choices.iter().map(|choice| &choice.document))?;
        try_any(choices, |choice| Ok(!is_blank_choice(&choice.document)?))
    }

    /// Notes the choices of an event, and takes its form if it is the first one.
    pub fn use_template(&mut self, event: &Document, choices: &[EventChoice]) -> Result<()> {
        for choice in choices {
            let written = self.choices.entry(choice.index).or_default();
            written.is_refused |= has_refusal(&choice.texts);
        }
        if self.template.is_none() && !choices.is_empty() {
            self.set_template(event)?;
        }
        Ok(())
    }

    /// Takes the form of an event, without fields that policies could have edited.
    pub fn set_template(&mut self, event: &Document) -> Result<()> {
        let mut template = event.clone();
        remove_labels(&mut template, RESPONSE_FIELDS)?;
        self.template = Some(template);
        Ok(())
    }

    /// Writes an event, with the id of the first answer.
    pub fn write_model_event(&mut self, mut event: Document) -> Result<()> {
        if let (true, Some(template)) = (self.is_later_answer, &self.template) {
            for field in [ID, &["created"]] {
                if let (Some(known), true) = (template.bytes_of(field)?, event.has(field)) {
                    event.set_bytes(field, known)?;
                }
            }
        }
        self.separate_refusals(&mut event)?;
        self.write_data(&event.to_bytes());
        Ok(())
    }

    /// Inserts white space between the refusals of two answers, since a message has one refusal.
    fn separate_refusals(&mut self, event: &mut Document) -> Result<()> {
        if self.earlier_refusals.is_empty() {
            return Ok(());
        }
        let mut position = 0;
        event.edit_children(CHOICES, |choice| {
            let index = integer(choice, INDEX)?.unwrap_or(position);
            position += 1;
            choice.edit_child(DELTA, |delta| {
                let refusal = delta.string(REFUSAL)?.unwrap_or_default();
                let is_first = !refusal.is_empty() && self.earlier_refusals.remove(&index);
                if !is_first || refusal.starts_with(PARAGRAPH) {
                    return Ok(());
                }
                delta.set(REFUSAL, &format!("{PARAGRAPH}{refusal}").into())
            })
        })
    }

    /// Writes the data of an event.
    pub fn write_data(&mut self, data: &[u8]) {
        self.has_written = true;
        write_plain_event(&mut self.out, data);
    }

    /// Writes a synthetic choice.
    pub fn write_synthetic_choice(&mut self, choice: &SyntheticChoice) -> Result<()> {
        let index = choice.index;
        self.open(index)?;
        self.write_delta(index, &choice.text_delta())?;
        let written = self.choices.entry(index).or_default();
        written.is_refused |= !choice.refusal.is_empty();
        let first = written.add(&choice.calls);
        self.write_delta(index, &choice.calls.to_delta(first))?;
        match choice.finish_reason {
            Some(reason) => self.finish(index, reason),
            None => Ok(()),
        }
    }

    /// Writes an event with a delta, unless that is empty.
    pub fn write_delta(&mut self, index: u64, delta: &Map<String, Value>) -> Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        self.write_new_event(index, delta, None)
    }

    /// Opens the message of a choice, if it is not open yet.
    pub fn open(&mut self, index: u64) -> Result<()> {
        if self.choices.contains_key(&index) {
            return Ok(());
        }
        self.choices.insert(index, WrittenChoice::default());
        let mut delta = Map::new();
        delta.insert("role".to_owned(), "assistant".into());
        delta.insert("content".to_owned(), "".into());
        self.write_new_event(index, &delta, None)
    }

    /// Ends a choice, if it has not ended yet.
    pub fn finish(&mut self, index: u64, reason: &str) -> Result<()> {
        let choice = self.choices.entry(index).or_default();
        if std::mem::replace(&mut choice.is_finished, true) {
            return Ok(());
        }
        let reason = match choice {
            choice if choice.calls > 0 => "tool_calls",
            choice if choice.has_function_call => "function_call",
            _ => reason,
        };
        self.write_new_event(index, &Map::new(), Some(reason))
    }

    fn write_new_event(
        &mut self,
        index: u64,
        delta: &Map<String, Value>,
        finish_reason: Option<&str>,
    ) -> Result<()> {
        let empty = Document::empty();
        let template = self.template.as_ref().unwrap_or(&empty);
        let mut event = parse(event_with(template, index, delta, finish_reason)?)?;
        let is_last = self.choices.values().all(|choice| choice.is_finished);
        if let Some(usage) = self.usage.take_if(|_| finish_reason.is_some() && is_last) {
            event.set(USAGE, &usage)?;
        }
        self.write_model_event(event)
    }
}
