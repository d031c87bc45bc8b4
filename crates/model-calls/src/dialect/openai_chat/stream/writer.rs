//! Writes chunks as the events of one answer, also if the model was asked several times.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use crate::dialect::{
    api_dialect::WriteChunks,
    content_form::{AnswerLabels, TextEvent},
    document::{Document, is_set, to_document},
    error::{Result, field_error},
    google::response::document::ResponseDocument,
    openai::usage::USAGE_METADATA,
    openai_chat::{
        fields::{CHOICES, ERROR, parse},
        response::{
            answer::THOUGHT_DETAILS,
            answer_objects::visit_event,
            envelope::{new_usage, write_usage},
            synthetic::{SyntheticChoice, synthetic_choices, synthetic_envelope},
        },
        stream::{
            delta_edit::write_delta,
            event::{CHUNK_OBJECT, DONE, EventChoice, is_blank_choice, is_usage, read_choices},
            event_writer::ChatEventWriter,
            last_chunk::{ChunkEdit, LastChoice, candidates, last_chunk, thought_name},
            waiting_details::WaitingDetails,
        },
    },
    sse_event::write_plain_event,
};

/// Bytes of details that wait for their thoughts.
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// Writes the events of one answer.
#[derive(Debug, Default)]
pub struct ChatChunkWriter {
    events: ChatEventWriter,
    /// The latest event with nothing but a text.
    alike: Option<TextEvent>,
    /// Details of thoughts that wait for their texts, by choice.
    details: BTreeMap<u64, WaitingDetails>,
    /// Token counts of an answer whose end the agent does not receive.
    usage: Option<Bytes>,
    /// True if an error was written. Nothing follows it.
    has_failed: bool,
}

impl ChatChunkWriter {
    /// Writes a chunk that was read from `events`.
    ///
    /// # Errors
    ///
    /// Fails if the chunk cannot be written.
    pub fn write_chunk(&mut self, events: &[Bytes], edit: ChunkEdit<'_>) -> Result<()> {
        let events = &with_labels(events, edit)?;
        if let [data] = events.as_slice() {
            let event = parse(data.clone())?;
            let mut choices = read_choices(&event)?;
            self.has_failed = is_set(&event, ERROR)?;
            let is_last = choices.iter().any(EventChoice::is_held) || is_usage(&event)?;
            if self.has_failed || !is_last {
                return self.write_event(event, &mut choices, edit);
            }
        }
        self.write_last(events, edit)
    }

    /// Writes the event of one chunk before the last.
    fn write_event(
        &mut self,
        mut event: Document,
        choices: &mut [EventChoice],
        edit: ChunkEdit<'_>,
    ) -> Result<()> {
        let is_left = self.events.continue_message(&mut event, choices)?;
        if !is_left && !edit.is_edited() && !self.has_failed {
            return Ok(());
        }
        self.events.use_template(&event, choices)?;
        self.keep_alike(&event, choices);
        if !edit.is_edited() && !choices.iter().any(|choice| self.delays(choice)) {
            return self.events.write_model_event(event);
        }
        let (mut old, mut new) = (candidates(edit.before)?, candidates(edit.after)?);
        let mut documents = Vec::with_capacity(choices.len());
        // Of a blank text nothing is left to send.
        let mut is_blank = !choices.is_empty();
        for choice in choices.iter() {
            let before = old.remove(&choice.index).unwrap_or_default();
            let after = new.remove(&choice.index).unwrap_or_default();
            let details = self.details.entry(choice.index).or_default();
            let written = write_delta(choice, &before, &after, details)?;
            is_blank &= is_blank_choice(&written)?;
            documents.push(written);
        }
        let waiting = self.details.values().map(WaitingDetails::bytes);
        if waiting.sum::<usize>() > MAX_WAITING_BYTES {
            return Err(field_error("reasoning_details", "shorter"));
        }
        if !choices.is_empty() {
            event.set_children(CHOICES, &documents)?;
        }
        if self.has_failed {
            // Nothing is read behind an error.
            self.write_released(new)?;
            return self.events.write_model_event(event);
        }
        if !is_blank {
            self.events.write_model_event(event)?;
        }
        self.write_released(new)
    }

    /// Returns whether a choice has thoughts, or details of them, behind a thought whose end is
    /// not sent yet.
    fn delays(&self, choice: &EventChoice) -> bool {
        let details = self.details.get(&choice.index);
        let mut lists = THOUGHT_DETAILS.iter();
        details.is_some_and(WaitingDetails::waits)
            && (thought_name(&choice.texts).is_some()
                || lists.any(|list| choice.delta.has(&[list])))
    }

    /// Writes candidates that an event does not have: texts that policies held back.
    fn write_released(&mut self, candidates: BTreeMap<u64, Vec<Document>>) -> Result<()> {
        for (index, candidates) in candidates {
            for candidate in candidates {
                let choice = SyntheticChoice::read(&candidate)?;
                self.write_synthetic_choice(SyntheticChoice { index, ..choice })?;
            }
        }
        Ok(())
    }

    /// Writes a synthetic choice. Its thought has the name of those before it, and a text that
    /// policies held back is of the refusal before it.
    fn write_synthetic_choice(&mut self, mut choice: SyntheticChoice) -> Result<()> {
        let details = self.details.get(&choice.index);
        choice.thought_name = details.and_then(|details| details.name);
        if choice.finish_reason.is_none() && self.events.is_refused(choice.index) {
            choice.continue_refusal();
        }
        self.events.write_synthetic_choice(&choice)
    }

    fn keep_alike(&mut self, event: &Document, choices: &[EventChoice]) {
        let alike = match choices {
            [choice] if !self.events.is_later_answer => choice.only_text(),
            _ => None,
        };
        let data = event.original_bytes();
        self.alike = alike.and_then(|(_, text)| TextEvent::new(&data, &text, &[]));
    }

    /// Writes an event that differs from the latest one in its text only. Returns `None` if it
    /// does not.
    fn write_alike(&mut self, chunk: &ResponseDocument) -> Option<()> {
        let alike = self.alike.as_ref().filter(|_| chunk.is_text())?;
        let [data] = chunk.original_events()? else {
            return None;
        };
        let waits = self.details.get(&0).is_some_and(WaitingDetails::waits);
        if waits && chunk.plain_texts().next().is_none() {
            return None;
        }
        alike.text_of(data)?;
        if !chunk.is_edited() {
            self.events.write_data(data);
            return Some(());
        }
        let mut texts = chunk.plain_texts();
        let (Some(text), None) = (texts.next(), texts.next()) else {
            return None;
        };
        if !text.is_empty() {
            self.events.write_data(&alike.with_text(data, text)?);
        }
        Some(())
    }

    /// Writes the last chunk of an answer: tool calls, finish reasons and token counts.
    fn write_last(&mut self, events: &[Bytes], edit: ChunkEdit<'_>) -> Result<()> {
        let mut last = last_chunk(events, edit)?;
        let mut waits = false;
        for choice in &mut last.choices {
            let details = self.details.remove(&choice.index).unwrap_or_default();
            waits |= details.waits();
            choice.add_details(details)?;
            if self.events.is_refused(choice.index) {
                choice.continue_refusal();
            }
        }
        let has_calls = self.events.choices.values().any(|choice| choice.calls > 0);
        let is_complete = last.choices.iter().any(LastChoice::is_finished);
        if let (None, Some(choice)) = (&self.events.template, last.choices.first()) {
            self.events.set_template(&choice.template)?;
        }
        let is_regular = last.choices.iter().all(|choice| choice.is_regular);
        if !edit.is_edited() && !has_calls && is_regular && !waits {
            for event in events {
                self.write_held(parse(event.clone())?)?;
            }
            for choice in &last.choices {
                self.note_last(choice);
            }
            return Ok(());
        }
        for candidate in &last.added {
            self.write_synthetic_choice(SyntheticChoice::read(candidate)?)?;
        }
        for choice in &last.choices {
            self.write_last_choice(choice)?;
        }
        for mut usage in last.usage {
            write_usage(&mut usage, edit.before, edit.after)?;
            if is_complete {
                self.usage = None;
                self.events.write_model_event(usage)?;
            } else {
                self.usage = Some(usage.to_bytes());
            }
        }
        Ok(())
    }

    /// Notes what of a choice is written. Returns the number of its first call.
    fn note_last(&mut self, choice: &LastChoice) -> u64 {
        let written = self.events.choices.entry(choice.index).or_default();
        written.is_finished |= choice.is_finished();
        written.is_refused |= choice.has_refusal();
        written.add(&choice.calls)
    }

    fn write_last_choice(&mut self, choice: &LastChoice) -> Result<()> {
        let index = choice.index;
        let texts = choice.text_delta();
        if !texts.is_empty() || !choice.others.is_empty() || !choice.calls.is_empty() {
            self.events.open(index)?;
        }
        self.events.write_delta(index, &texts)?;
        for other in &choice.others {
            self.events.write_delta(index, other)?;
        }
        let first = self.note_last(choice);
        self.events
            .write_delta(index, &choice.calls.to_delta(first))?;
        let Some(finish) = &choice.finish else {
            return Ok(());
        };
        let written = self.events.choices.get(&index);
        let has_calls =
            written.is_some_and(|written| written.calls > 0 || written.has_function_call);
        let event = finish.to_event(index, has_calls)?;
        self.write_held(event)
    }

    /// Writes an event of the last chunk.
    fn write_held(&mut self, mut event: Document) -> Result<()> {
        let mut choices = read_choices(&event)?;
        if self.events.continue_message(&mut event, &mut choices)? {
            self.events.write_model_event(event)?;
        }
        Ok(())
    }

    /// Writes a synthetic chunk. `end` is that of the events that are merged in it.
    ///
    /// # Errors
    ///
    /// Fails if the chunk cannot be written.
    pub fn write_synthetic(&mut self, document: &Document, end: &[Bytes]) -> Result<()> {
        if self.events.template.is_none() {
            let template = synthetic_envelope(document, CHUNK_OBJECT, &[])?;
            self.events.template = Some(to_document(&template)?);
        }
        let usage = new_usage(document, end)?;
        let has_tokens = usage.get("total_tokens").is_some_and(|total| *total != 0);
        let has_counts = self.usage.is_some() || self.events.usage.is_some();
        // A response of hooks has no tokens, so the model's counts stay.
        if has_tokens || !has_counts && is_set(document, USAGE_METADATA)? {
            self.usage = None;
            self.events.usage = Some(usage);
        }
        let choices = synthetic_choices(document)?;
        for choice in &choices {
            self.events.open(choice.index)?;
        }
        for choice in choices {
            self.write_synthetic_choice(choice)?;
        }
        if let Some(error) = document.bytes_of(ERROR)? {
            self.has_failed = true;
            let mut event = Document::empty();
            event.set_bytes(ERROR, error)?;
            write_plain_event(&mut self.events.out, &event.to_bytes());
        }
        Ok(())
    }
}

impl WriteChunks for ChatChunkWriter {
    fn output(&mut self) -> &mut BytesMut {
        &mut self.events.out
    }

    fn begin_answer(&mut self) {
        self.events.begin_answer();
    }

    fn write(&mut self, chunk: &ResponseDocument) -> Result<()> {
        if self.has_failed || self.write_alike(chunk).is_some() {
            return Ok(());
        }
        let after = Document::from_checked(chunk.to_bytes())?;
        let Some(wire) = chunk.original_events() else {
            return self.write_synthetic(&after, chunk.merged_end());
        };
        let before = Document::from_checked(chunk.original_bytes())?;
        let edit = ChunkEdit {
            before: &before,
            after: &after,
        };
        self.write_chunk(wire, edit)
    }

    /// Ends every choice, and writes token counts that were kept.
    fn write_end(&mut self) -> Result<()> {
        if self.has_failed {
            return Ok(());
        }
        if !self.events.has_written {
            self.write_synthetic(&Document::empty(), &[])?;
            self.events.open(0)?;
        }
        let open: Vec<u64> = self.events.choices.keys().copied().collect();
        for index in open {
            self.events.finish(index, "stop")?;
        }
        if let Some(usage) = self.usage.take() {
            self.events.write_model_event(parse(usage)?)?;
        }
        write_plain_event(&mut self.events.out, DONE);
        Ok(())
    }
}

/// Returns events with the labels of an edited chunk.
fn with_labels(events: &[Bytes], edit: ChunkEdit<'_>) -> Result<Vec<Bytes>> {
    if !edit.is_edited() {
        return Ok(events.to_vec());
    }
    AnswerLabels::of_form(edit.after)?.write_all(events, visit_event)
}
