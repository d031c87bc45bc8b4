//! Reads the events of a stream. Texts are chunks as they arrive; tool calls, finish reasons
//! and token counts are one chunk at the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::dialect::{
    api_dialect::ReadChunks,
    content_form::{AnswerLabels, TextTemplate, remove_labels},
    document::{Document, add_list, integer, is_set},
    error::{DialectError, Result, field_error},
    google::response::document::ResponseDocument,
    openai_chat::{
        fields::{CHOICES, DELTA, ERROR, FINISH_REASON, INDEX, MESSAGE, parse},
        message_parts::{PartPlace, has_refusal},
        response::{
            answer_objects::{RESPONSE_FIELDS, visit_event},
            envelope::{candidate, numbered_parts, read_envelope},
            preceding::Thoughts,
            whole_answer::read_whole,
        },
        stream::{
            event::{EventChoice, event_with, is_usage, read_choices},
            held_events::HeldEvents,
            standard_form::{PieceKinds, write_standard_form},
            text_starts::TextStarts,
        },
    },
    text_edit::TextStream,
};

/// Maximum number of bytes that wait for the end of an answer.
const MAX_HELD_BYTES: usize = 64 * 1024 * 1024;

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub struct ChatChunkReader {
    held: Vec<Bytes>,
    held_labels: AnswerLabels,
    held_bytes: usize,
    /// True if everything waits, because a text does.
    holds_all: bool,
    /// Choices whose text is a refusal.
    refused: Vec<u64>,
    /// Thoughts of the first choice.
    thoughts: Thoughts,
    /// An event with nothing but a text, and the name of its thought.
    template: Option<(TextTemplate, Option<&'static str>)>,
    choices: BTreeMap<u64, ChoiceProgress>,
    /// The first event with a choice.
    opening: Option<Document>,
    /// The event that ended the answer, if no finish reason is needed for that.
    end: Option<AnswerEnd>,
}

/// Progress of a choice.
#[derive(Debug, Default, Clone, Copy)]
struct ChoiceProgress {
    pieces: PieceKinds,
    starts: TextStarts,
    /// Position of the held event with its finish reason.
    end: Option<usize>,
}

/// An event that ends an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerEnd {
    /// A response of a server that does not stream.
    Whole,
    /// An error. What follows is not read.
    Error,
}

/// A chunk of the content form, and the events that it was read from.
pub type ReadChunk = (Value, Vec<Bytes>);

impl ChatChunkReader {
    /// Reads the data of one event. Returns `None` if it waits for the end of the answer.
    ///
    /// # Errors
    ///
    /// Fails if hooks could not see all of it.
    pub fn read_event(&mut self, mut data: Bytes) -> Result<Option<ReadChunk>> {
        if self.end == Some(AnswerEnd::Error) {
            return Ok(None);
        }
        let mut event = parse(data.clone())?;
        let was_whole = write_standard_form(&mut event, |choice| {
            self.choices.get(&choice).map(|progress| progress.pieces)
        })?;
        if event.is_edited() {
            data = event.to_bytes();
            event = parse(data.clone())?;
        }
        if is_whole(&event)? {
            // Some servers do not stream. It is written as synthetic events.
            self.end = Some(AnswerEnd::Whole);
            return Ok(Some((read_whole(&event)?, Vec::new())));
        }
        let mut choices = read_choices(&event)?;
        let waits = self.holds_all || is_usage(&event)? || choices.iter().any(EventChoice::is_held);
        if !waits {
            self.mark_starts(&mut choices);
        }
        if is_set(&event, ERROR)? {
            return self.read_error(&event, &choices, data).map(Some);
        }
        for choice in &choices {
            if was_whole {
                self.remove_repeated_end(choice)?;
            }
            self.note(choice)?;
        }
        if self.opening.is_none() && !choices.is_empty() {
            self.opening = Some(event.clone());
        }
        let labels = AnswerLabels::of(&event, visit_event)?;
        if waits {
            self.held_labels.append(labels);
            self.holds_all |= choices.iter().any(|choice| !choice.texts.is_empty());
            self.reserve(data.len())?;
            self.held.push(data);
            return Ok(None);
        }
        let chunk = read_chunk(&event, &choices, &labels)?;
        if let Some(template) = new_template(&data, &chunk, &choices) {
            self.template = Some(template);
        }
        Ok(Some((chunk, vec![data])))
    }

    /// Reads an error. It ends the answer: calls whose pieces have arrived are not complete.
    fn read_error(
        &mut self,
        event: &Document,
        choices: &[EventChoice],
        data: Bytes,
    ) -> Result<ReadChunk> {
        if choices.iter().any(|choice| choice.has_calls) {
            return Err(DialectError::Ambiguous("error".to_owned()));
        }
        self.end = Some(AnswerEnd::Error);
        self.template = None;
        self.held.clear();
        let labels = AnswerLabels::of(event, visit_event)?;
        let mut chunk = read_chunk(event, choices, &labels)?;
        if let (Some(chunk), Some(error)) = (chunk.as_object_mut(), event.get(ERROR)?) {
            // For an answer that is written anew.
            chunk.insert("error".to_owned(), error);
        }
        Ok((chunk, vec![data]))
    }

    /// Reads an event that differs from an earlier one in its text only.
    fn read_alike(&mut self, data: &Bytes) -> Option<ResponseDocument> {
        let (template, thought) = self.template.as_ref().filter(|_| !self.holds_all)?;
        let chunk = template.read(data)?;
        if let Some(name) = thought {
            self.held_bytes += chunk.text().len();
            (self.held_bytes <= MAX_HELD_BYTES).then_some(())?;
            self.thoughts.add_text(name, chunk.text());
        }
        Some(ResponseDocument::from_text_event(chunk, data.clone()))
    }

    /// Returns the last chunk.
    ///
    /// # Errors
    ///
    /// Fails if the answer was cut off.
    pub fn finish_events(&mut self) -> Result<Option<ReadChunk>> {
        let mut choices = self.choices.values();
        let has_reasons =
            !self.choices.is_empty() && choices.all(|progress| progress.end.is_some());
        if self.end.is_none() && !has_reasons {
            let message = "the stream ends without a finish reason";
            return Err(DialectError::Json(message.to_owned()));
        }
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(None);
        }
        let mut events = HeldEvents::read(&held)?;
        for (index, choice) in &mut events.choices {
            let progress = self.choices.entry(*index).or_default();
            progress.starts.mark(&mut choice.texts);
        }
        let mut chunk = events.to_chunk(&self.refused, &self.thoughts)?;
        chunk.extend(std::mem::take(&mut self.held_labels).to_fields());
        Ok(Some((chunk.into(), held)))
    }

    /// Removes the finish reason of a choice from its event, if a whole answer behind it repeats
    /// that.
    fn remove_repeated_end(&mut self, choice: &EventChoice) -> Result<()> {
        if choice.finish_reason.is_none() {
            return Ok(());
        }
        let progress = self.choices.get(&choice.index);
        let end = progress.and_then(|progress| progress.end);
        let Some(data) = end.and_then(|end| self.held.get_mut(end)) else {
            return Ok(());
        };
        let mut event = parse(data.clone())?;
        let mut position = 0;
        event.edit_children(CHOICES, |known| {
            let index = integer(known, INDEX)?.unwrap_or(position);
            position += 1;
            if index == choice.index && known.string(FINISH_REASON)? == choice.finish_reason {
                known.set(FINISH_REASON, &Value::Null)?;
            }
            Ok(())
        })?;
        *data = event.to_bytes();
        Ok(())
    }

    /// Marks the parts that do not continue the text in front of them.
    fn mark_starts(&mut self, choices: &mut [EventChoice]) {
        for choice in choices {
            let progress = self.choices.entry(choice.index).or_default();
            if progress.starts.mark(&mut choice.texts) {
                self.template = None;
            }
        }
    }

    fn note(&mut self, choice: &EventChoice) -> Result<()> {
        let progress = self.choices.entry(choice.index).or_default();
        progress.pieces.add(&choice.texts, choice.has_calls);
        if choice.finish_reason.is_some() {
            progress.end = Some(self.held.len());
        }
        if choice.index == 0 {
            let bytes = self.thoughts.add(&choice.delta)?;
            self.reserve(bytes)?;
        }
        if has_refusal(&choice.texts) && !self.refused.contains(&choice.index) {
            self.refused.push(choice.index);
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.held_bytes += bytes;
        if self.held_bytes > MAX_HELD_BYTES {
            return Err(field_error("tool_calls", "shorter"));
        }
        Ok(())
    }
}

/// Returns the template of an event; `None` if it holds anything but one text.
fn new_template(
    data: &Bytes,
    chunk: &Value,
    choices: &[EventChoice],
) -> Option<(TextTemplate, Option<&'static str>)> {
    let [choice] = choices else {
        return None;
    };
    let has = |pointer: &str| chunk.pointer(pointer).is_some();
    if ["/labels", "/usageMetadata"].into_iter().any(has) {
        return None;
    }
    let (place, text) = choice.only_text()?;
    let (stream, thought) = match place {
        PartPlace::Thought(name) => (TextStream::Thought, Some(name)),
        _ => (TextStream::Speech, None),
    };
    Some((TextTemplate::new(data, &text, stream, 0)?, thought))
}

/// Returns whether an event is a whole answer.
///
/// # Errors
///
/// Fails for messages and pieces in the same event.
fn is_whole(event: &Document) -> Result<bool> {
    let (mut has_message, mut has_piece) = (false, false);
    for choice in event.children(CHOICES)?.unwrap_or_default() {
        has_piece |= is_set(&choice, DELTA)?;
        has_message |= is_set(&choice, MESSAGE)?;
    }
    if has_message && has_piece {
        return Err(DialectError::Ambiguous("message".to_owned()));
    }
    Ok(has_message)
}

/// Returns the chunk of an event that does not wait. Without text it has no candidates.
fn read_chunk(event: &Document, choices: &[EventChoice], labels: &AnswerLabels) -> Result<Value> {
    let mut chunk = read_envelope(event)?;
    let mut candidates = Vec::new();
    for choice in choices.iter().filter(|choice| !choice.texts.is_empty()) {
        let parts = numbered_parts(&choice.texts);
        candidates.push(candidate(choice.index, &parts, None));
    }
    add_list(&mut chunk, "candidates", candidates);
    chunk.extend(labels.to_fields());
    Ok(Value::Object(chunk))
}

impl ReadChunks for ChatChunkReader {
    fn read(&mut self, data: Bytes) -> Result<Option<ResponseDocument>> {
        if let Some(chunk) = self.read_alike(&data) {
            return Ok(Some(chunk));
        }
        let chunk = self.read_event(data.clone())?;
        let chunk = chunk.map(|(form, events)| {
            if events.is_empty() {
                ResponseDocument::from_whole(&form, data)
            } else {
                ResponseDocument::from_form(&form, events)
            }
        });
        chunk.transpose()
    }

    /// Ends the texts without a finish reason, which some servers do not send. Calls need one: their
    /// arguments may be cut off.
    fn read_terminator(&mut self) -> Result<()> {
        let Some(mut template) = self.opening.take() else {
            return Ok(());
        };
        remove_labels(&mut template, RESPONSE_FIELDS)?;
        for (index, ChoiceProgress { pieces, end, .. }) in self.choices.clone() {
            // A text without a finish reason and without a call behind it.
            if pieces.has_text && !pieces.has_calls && end.is_none() {
                self.read_event(event_with(&template, index, &Map::new(), Some("stop"))?)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<ResponseDocument>> {
        let chunk = self.finish_events()?;
        let chunk = chunk.map(|(form, events)| ResponseDocument::from_form(&form, events));
        chunk.transpose()
    }
}
