//! Writes chunks in the content form as the events of one message.

use std::mem;

use bytes::{Bytes, BytesMut};
use serde_json::json;

use crate::dialect::{
    anthropic::{
        block_edit::create_blocks,
        fields::{BLOCK, ERROR, FUNCTION_CALL, TEXT, type_of},
        response::{
            body_events::write_block,
            call_events::{collected_input, edited_input, with_input},
            message::synthetic_message,
            message_end::{MessageEnd, is_end},
            message_event::{
                BLOCK_DELTA, CONTENT_BLOCK, DELTA, MESSAGE, MessageEvent, MessageEventKind,
            },
            message_labels::visit_event,
            open_blocks::{OpenBlockKind, OpenBlocks},
            part_queue::{EditedBlock, PartQueue, take_block},
        },
    },
    api_dialect::WriteChunks,
    content_form::{AnswerLabels, TextEvent},
    document::Document,
    error::Result,
    google::{is_thought, response::document::ResponseDocument},
    sse_event::write_named_event,
};

/// Writes the events of one stream.
#[derive(Debug, Default)]
pub struct MessageWriter {
    state: MessageState,
    /// True if anything differs from what the API sent.
    is_changed: bool,
    has_calls: bool,
    blocks: OpenBlocks,
    end: MessageEnd,
    /// The latest event with a text that was written as it is. Those that differ in their text
    /// only are written as they are, too.
    alike: Option<TextEvent>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum MessageState {
    #[default]
    Unopened,
    Open,
    /// An error of the API ended the stream.
    Failed,
}

impl WriteChunks for MessageWriter {
    fn output(&mut self) -> &mut BytesMut {
        &mut self.blocks.out
    }

    fn write(&mut self, chunk: &ResponseDocument) -> Result<()> {
        let events = chunk.original_events().unwrap_or_default();
        if let ([data], true, false) = (events, chunk.is_text(), chunk.is_edited())
            && let Some(alike) = &self.alike
            && alike.text_of(data).is_some()
        {
            write_named_event(&mut self.blocks.out, BLOCK_DELTA, data);
            return Ok(());
        }
        self.alike = None;
        let labelled;
        let mut events = events;
        if !chunk.is_text() && chunk.is_edited() {
            labelled = AnswerLabels::of_form(chunk.document())?.write_all(events, visit_event)?;
            events = &labelled;
        }
        let is_edited = chunk.is_edited() || events.is_empty();
        if !is_edited && !chunk.has_finish_reason() {
            return self.write_events(events, &mut None);
        }
        let form = Document::from_checked(chunk.to_bytes())?;
        let mut parts = None;
        if is_edited {
            self.is_changed = true;
            parts = Some(PartQueue::read(&form)?);
        }
        if events.is_empty() {
            self.open_synthetic(&form, chunk.merged_end())?;
        }
        if is_end(events)? {
            self.end.keep(events, chunk.merged_end(), &form)?;
        } else {
            self.write_events(events, &mut parts)?;
        }
        self.write_rest(parts, events.is_empty())?;
        // The error of an answer that is written anew ends it.
        if let Some(error) = form.bytes_of(ERROR)?.filter(|_| events.is_empty()) {
            let mut event = MessageEvent::from_json(&json!({ "type": "error" }))?;
            event.document.set_bytes(ERROR, error)?;
            self.write_event(event, &mut None)?;
        }
        Ok(())
    }

    fn write_end(&mut self) -> Result<()> {
        if self.state != MessageState::Open {
            return Ok(());
        }
        self.blocks.close_all()?;
        let end = mem::take(&mut self.end);
        end.write(&mut self.blocks.out, self.has_calls, self.is_changed)
    }
}

impl MessageWriter {
    /// Opens a synthetic message, unless one is open. `end` is that of the events that it is merged
    /// from.
    fn open_synthetic(&mut self, form: &Document, end: &[Bytes]) -> Result<()> {
        if self.state == MessageState::Unopened {
            self.state = MessageState::Open;
            let mut event = MessageEvent::from_json(&json!({ "type": "message_start" }))?;
            let message = synthetic_message(form, end)?;
            event.document.set_child(MESSAGE, &message)?;
            event.write(&mut self.blocks.out);
        }
        Ok(())
    }

    fn write_events(&mut self, events: &[Bytes], parts: &mut Option<PartQueue>) -> Result<()> {
        match events {
            [] => Ok(()),
            [data] => self.write_event(MessageEvent::read(data)?, parts),
            several => self.write_call(several, parts),
        }
    }

    fn write_event(
        &mut self,
        mut event: MessageEvent,
        parts: &mut Option<PartQueue>,
    ) -> Result<()> {
        match event.kind {
            MessageEventKind::MessageStart => {
                if self.state == MessageState::Unopened {
                    self.state = MessageState::Open;
                    event.write(&mut self.blocks.out);
                } else {
                    self.is_changed = true;
                    // What another response has left open.
                    self.blocks.close_all()?;
                }
                Ok(())
            }
            MessageEventKind::BlockStart => self.write_start(event, parts),
            MessageEventKind::BlockDelta => self.write_delta(event, parts),
            MessageEventKind::BlockStop => {
                if let Some(parts) = parts {
                    self.write_released(event.index, parts)?;
                }
                self.blocks.stop(event)
            }
            MessageEventKind::MessageDelta | MessageEventKind::MessageStop => Ok(()),
            MessageEventKind::Ping => {
                if let Some(event) = self.blocks.keep_in_order(event)? {
                    event.write(&mut self.blocks.out);
                }
                Ok(())
            }
            MessageEventKind::Error => {
                self.state = MessageState::Failed;
                event.write(&mut self.blocks.out);
                Ok(())
            }
            MessageEventKind::Other => {
                match take_block(parts)? {
                    EditedBlock::Removed => return Ok(()),
                    EditedBlock::Changed(block) => event.document = block,
                    EditedBlock::Same => (),
                }
                event.write(&mut self.blocks.out);
                Ok(())
            }
        }
    }

    fn write_start(
        &mut self,
        mut event: MessageEvent,
        parts: &mut Option<PartQueue>,
    ) -> Result<()> {
        let mut block = event.child(CONTENT_BLOCK)?;
        let (kind, field): (_, &[&str]) = match type_of(&block)?.as_str() {
            "text" => (OpenBlockKind::Text, TEXT),
            "thinking" => (OpenBlockKind::Thinking, &["thinking"]),
            _ => {
                // A hidden block has no part that could have been removed.
                if type_of(&block)? != "redacted_thinking" {
                    match take_block(parts)? {
                        EditedBlock::Removed => return Ok(()),
                        EditedBlock::Changed(block) => {
                            event.document.set_child(CONTENT_BLOCK, &block)?;
                        }
                        EditedBlock::Same => (),
                    }
                }
                return self.blocks.start(event, OpenBlockKind::Other);
            }
        };
        let old = block.string(field)?.unwrap_or_default();
        let mut text = Some(old.clone());
        if let Some(parts) = parts {
            text = parts.take_texts(kind == OpenBlockKind::Thinking)?;
            let new = text.as_deref().unwrap_or_default();
            if new != old {
                block.set(field, &json!(new))?;
                event.document.set_child(CONTENT_BLOCK, &block)?;
            }
        }
        let index = event.index;
        self.blocks.start(event, kind)?;
        if !old.is_empty() {
            self.blocks.note_text(index, &old, text.as_deref());
        }
        if kind == OpenBlockKind::Text && text.is_some_and(|text| !text.is_empty()) {
            self.blocks.write_waiting()?;
        }
        Ok(())
    }

    fn write_delta(
        &mut self,
        mut event: MessageEvent,
        parts: &mut Option<PartQueue>,
    ) -> Result<()> {
        let Some((_, output)) = self.blocks.find(event.index) else {
            // Its block was not written, because what came before it was held back and dropped.
            // Edited texts are written with the rest of their chunk.
            return match event.child(DELTA)?.string(TEXT)? {
                Some(text) if parts.is_none() => self.blocks.write_text(&text),
                Some(_) | None => Ok(()),
            };
        };
        let Some(parts) = parts else {
            if self.blocks.holds_text(event.index) {
                if let Some(text) = event.child(DELTA)?.string(TEXT)? {
                    self.blocks.note_text(event.index, &text, Some(&text));
                }
            } else if output == event.index {
                // Others with the index of their block are written as they are, too.
                self.alike = template(&event);
            }
            return self.blocks.write(event);
        };
        let mut delta = event.child(DELTA)?;
        let (field, thoughts): (&[&str], _) = match type_of(&delta)?.as_str() {
            "text_delta" => (TEXT, false),
            "thinking_delta" => (&["thinking"], true),
            "signature_delta" => {
                self.write_released(event.index, parts)?;
                return self.blocks.write(event);
            }
            _ => {
                let Some(part) = parts.take_block() else {
                    return Ok(());
                };
                if let Some(edited) = part.child(BLOCK)? {
                    event.document.set_child(DELTA, &edited)?;
                }
                return self.blocks.write(event);
            }
        };
        let text = parts.take_texts(thoughts)?;
        let old = delta.string(field)?;
        let read = old.as_deref().unwrap_or_default();
        self.blocks.note_text(event.index, read, text.as_deref());
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(());
        };
        if old.as_ref() != Some(&text) {
            delta.set(field, &json!(text))?;
            event.document.set_child(DELTA, &delta)?;
        }
        self.blocks.write(event)
    }

    /// Writes text that policies release at the end of a block.
    fn write_released(&mut self, input: u64, parts: &mut PartQueue) -> Result<()> {
        let (thoughts, kind) = match self.blocks.find(input) {
            Some((OpenBlockKind::Text, _)) => (false, "text_delta"),
            Some((OpenBlockKind::Thinking, _)) => (true, "thinking_delta"),
            Some((OpenBlockKind::Other, _)) | None => return Ok(()),
        };
        let text = parts.take_texts(thoughts)?;
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(());
        };
        self.blocks.note_text(input, "", Some(&text));
        let event = MessageEvent::block_delta(input, kind, &text)?;
        self.blocks.write(event)
    }

    /// Writes the events of a call, with its edited arguments, or none of them if it is
    /// withheld.
    fn write_call(&mut self, events: &[Bytes], parts: &mut Option<PartQueue>) -> Result<()> {
        let mut input = None;
        if let Some(parts) = parts {
            let Some(part) = parts.take_block() else {
                return Ok(());
            };
            input = edited_input(&part)?;
        }
        let events = events.iter().map(MessageEvent::read);
        let mut events: Vec<MessageEvent> = events.collect::<Result<_, _>>()?;
        let first = events.first().map(|event| event.child(CONTENT_BLOCK));
        let block = first.transpose()?.unwrap_or_default();
        self.has_calls |= type_of(&block)? == "tool_use";
        if let Some(input) = input
            && input != collected_input(&block, &events)?
        {
            events = with_input(events, &input)?;
        }
        let index = self.blocks.allot()?;
        for mut event in events {
            event.set_index(index)?;
            event.write(&mut self.blocks.out);
        }
        Ok(())
    }

    /// Writes the parts that belong to no event: texts that policies release, and all parts of a
    /// synthetic chunk.
    fn write_rest(&mut self, parts: Option<PartQueue>, is_own: bool) -> Result<()> {
        let parts = parts.map(PartQueue::into_rest).unwrap_or_default();
        let has_blocks = is_own && parts.iter().any(|part| !part.has(TEXT));
        for (number, part) in parts.iter().enumerate() {
            match part.string(TEXT)? {
                Some(text) if is_thought(part)? => self.blocks.write_thought(&text)?,
                Some(text) if !has_blocks => {
                    if is_own && number > 0 {
                        self.blocks.close_synthetic()?;
                    }
                    self.blocks.write_text(&text)?;
                }
                Some(_) | None => (),
            }
        }
        if !has_blocks {
            return Ok(());
        }
        self.has_calls |= parts.iter().any(|part| part.has(FUNCTION_CALL));
        for (number, block) in create_blocks(&parts)?.into_iter().enumerate() {
            let block = Document::from_checked(block)?;
            if type_of(&block)? == "text" {
                if number > 0 {
                    self.blocks.close_synthetic()?;
                }
                let text = block.string(TEXT)?.unwrap_or_default();
                self.blocks.write_text(&text)?;
            } else {
                let index = self.blocks.allot()?;
                write_block(&mut self.blocks.out, index, &block)?;
            }
        }
        Ok(())
    }
}

/// Returns the template of an event with a text.
fn template(event: &MessageEvent) -> Option<TextEvent> {
    let delta = event.document.child(DELTA).ok()??;
    let field = match delta.string(&["type"]).ok()??.as_str() {
        "text_delta" => "text",
        "thinking_delta" => "thinking",
        _ => return None,
    };
    let text = delta.bytes_of(&[field]).ok()??;
    TextEvent::new(&event.document.original_bytes(), &text, &[])
}
