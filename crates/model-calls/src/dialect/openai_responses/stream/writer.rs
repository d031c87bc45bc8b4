//! Writes chunks as events.
//!
//! Every text is sent several times: in pieces, at the end of the text, of its part, of its
//! item and of the response. Agents read different ones, so all copies are made equal to the
//! pieces that were sent. Withheld items leave no gap: what follows is renumbered.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::{Bytes, BytesMut};
use serde_json::json;

use crate::dialect::{
    api_dialect::WriteChunks,
    document::{Document, to_document, to_value, try_any},
    error::{DialectError, Result},
    google::response::document::ResponseDocument,
    openai_responses::{
        chunk_view::ChunkView,
        fields::ITEM,
        response::{
            item::{ItemSlot, OutputKind},
            object::{NewIds, new_envelope, started},
        },
        stream::{
            event::{EventClass, REFUSAL_DELTA, RESPONSE, StreamEvent},
            event_labels::visit_event,
            open_items::{OpenItem, TEXT_DELTA, TextProgress},
            sender::EventSender,
            text_piece::WrittenPiece,
        },
    },
};

/// Writes the chunks of one answer, which may consist of several responses of the model.
#[derive(Debug, Default)]
pub struct EventWriter {
    pub(super) sender: EventSender,
    /// The response object with which the stream began.
    pub(super) response: Option<Document>,
    pub(super) ids: NewIds,
    /// True if a further response of the model continues the stream.
    pub(super) is_continued: bool,
    /// True if a text was sent that belongs to no item of upstream.
    pub(super) is_unindexed: bool,
    /// Output indexes as sent, by those of the model's current response.
    pub(super) indexes: HashMap<u64, u64>,
    /// Output index of the first item of the model's current response.
    pub(super) first_index: u64,
    pub(super) next_index: u64,
    /// Output index that the model's next item has if none was withheld.
    pub(super) next_upstream: u64,
    pub(super) open: Vec<OpenItem>,
    /// Complete items as sent, by output index.
    pub(super) done: BTreeMap<u64, Document>,
    /// Texts of complete items that are sent otherwise than upstream sent them, by output index.
    pub(super) edited: HashSet<(u64, ItemSlot)>,
    pub(super) ending: Option<Ending>,
    /// The latest piece of a text that was written as it came.
    pub(super) alike: Option<WrittenPiece>,
}

/// The end of the answer, which is written when nothing can follow any more.
#[derive(Debug, Default)]
pub struct Ending {
    /// Upstream's last event; `None` for a synthetic end.
    pub event: Option<StreamEvent>,
    /// The last chunk of the content form.
    pub view: ChunkView,
}

impl EventWriter {
    /// Writes a chunk. `wire` holds the data of the events that it was read from.
    ///
    /// # Errors
    ///
    /// Fails if an edit cannot be expressed in events.
    fn write_chunk(&mut self, wire: &[Bytes], view: ChunkView) -> Result<()> {
        let events = wire.iter().map(|data| StreamEvent::parse(data.clone()));
        let mut events: Vec<StreamEvent> = events.collect::<Result<_, _>>()?;
        let is_end =
            |event: &StreamEvent| matches!(event.class, EventClass::Ended | EventClass::Failed);
        let ends_item = |event: &StreamEvent| {
            let kind = event.item().and_then(|item| OutputKind::of(&item));
            event.class == EventClass::ItemDone && kind.is_ok_and(|kind| !kind.is_streamed())
        };
        match events.as_mut_slice() {
            [] => self.write_synthetic(view),
            [dropped @ .., event] if is_end(event) => {
                self.sender.is_changed |= !dropped.is_empty();
                write_labels(event, &view)?;
                self.write_last(event.clone(), view)
            }
            all if all.last().is_some_and(ends_item) && is_one_item(all)? => {
                if let Some(last) = all.last_mut() {
                    write_labels(last, &view)?;
                }
                self.write_item(all, &view)
            }
            [event] => self.write_event(event, &view),
            [..] => self.write_synthetic(view),
        }
    }

    fn write_event(&mut self, event: &mut StreamEvent, view: &ChunkView) -> Result<()> {
        write_labels(event, view)?;
        match event.class {
            EventClass::Created => self.start_response(event),
            EventClass::Progress if self.is_continued => Ok(()),
            EventClass::Progress => self.sender.send(event, None),
            EventClass::ItemAdded => self.begin_item(event, view),
            EventClass::Delta => self.write_piece(event, view),
            EventClass::TextDone(_)
            | EventClass::PartAdded
            | EventClass::PartDone
            | EventClass::ItemDone => self.write_copy(event, view),
            EventClass::Ended | EventClass::Failed | EventClass::Other => {
                self.write_other(event, view)
            }
        }
    }

    /// Begins the stream, or continues it with the model's next response.
    fn start_response(&mut self, event: &mut StreamEvent) -> Result<()> {
        if self.response.is_none() {
            let response = event.document.child(RESPONSE)?.unwrap_or_default();
            self.ids = NewIds::of_response(&response)?;
            self.response = Some(response);
            return self.sender.send(event, None);
        }
        self.is_continued = true;
        self.sender.is_changed = true;
        self.close_items(&[])?;
        self.indexes.clear();
        self.first_index = self.next_index;
        self.next_upstream = 0;
        self.ending = None;
        Ok(())
    }
}

/// Synthetic texts: the beginning of a stream, messages, and ends of open items.
impl EventWriter {
    /// Sends the beginning of a stream that upstream did not begin.
    pub(super) fn ensure_started(&mut self, view: &ChunkView) -> Result<()> {
        if self.response.is_some() {
            return Ok(());
        }
        let response = started(&new_envelope(view)?)?;
        for name in ["response.created", "response.in_progress"] {
            let fields = json!({ "response": to_value(&response)? });
            self.sender.send_synthetic(name, fields);
        }
        self.ids = NewIds::of_response(&response)?;
        self.response = Some(response);
        Ok(())
    }

    pub(super) fn new_index(&mut self) -> u64 {
        let index = self.next_index;
        self.next_index += 1;
        index
    }

    /// Writes a synthetic text: into the open message, or into a new one.
    pub(super) fn write_text(&mut self, text: &str, view: &ChunkView) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.ensure_started(view)?;
        if self.append(OutputKind::Message, text) {
            return Ok(());
        }
        self.open_message(TEXT_DELTA)?;
        self.append(OutputKind::Message, text);
        Ok(())
    }

    /// Writes a piece of a refusal of the model: into the open message, or into a new one.
    pub(super) fn write_refusal_piece(&mut self, text: &str, view: &ChunkView) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.ensure_started(view)?;
        if !self.is_in_refusal() {
            self.close_synthetic_items()?;
            self.open_message(REFUSAL_DELTA)?;
        }
        self.append(OutputKind::Message, text);
        Ok(())
    }

    /// Completes an open synthetic refusal, since the next text is not of it.
    pub(super) fn end_refusal(&mut self) -> Result<()> {
        if self.is_in_refusal() {
            self.close_synthetic_items()?;
        }
        Ok(())
    }

    /// Returns whether the open synthetic message is a refusal of the model.
    fn is_in_refusal(&self) -> bool {
        let open = self.open.last().filter(|item| item.upstream.is_none());
        let last = open.and_then(|item| item.texts.last());
        last.is_some_and(|last| last.delta_name == REFUSAL_DELTA)
    }

    /// Writes a refusal of the model as a message of its own.
    pub(super) fn write_refusal(&mut self, text: &str, view: &ChunkView) -> Result<()> {
        self.close_synthetic_items()?;
        self.write_refusal_piece(text, view)?;
        self.close_synthetic_items()
    }

    /// Sends a text as the next piece of the open text of the latest item of a kind. Returns
    /// whether it did.
    pub(super) fn append(&mut self, kind: OutputKind, text: &str) -> bool {
        let open = self.open.iter_mut().rev().find_map(|item| {
            let last = item.texts.last().filter(|_| item.kind == kind)?;
            let slot = (last.progress == TextProgress::Open).then_some(last.slot)?;
            Some((item, slot))
        });
        let Some((item, slot)) = open.filter(|_| !text.is_empty()) else {
            return false;
        };
        item.append(slot, "", text);
        item.send_piece(&mut self.sender, slot, text);
        true
    }

    /// Opens a message whose text is sent in events of this type.
    fn open_message(&mut self, delta_name: &'static str) -> Result<()> {
        let start = json!({
            "id": self.ids.next("msg"),
            "type": "message",
            "status": "in_progress",
            "content": [],
            "role": "assistant",
        });
        let index = self.new_index();
        let mut item = OpenItem::new(index, None, to_document(&start)?)?;
        let fields = json!({ "output_index": index, "item": start });
        self.sender
            .send_synthetic("response.output_item.added", fields);
        let slot = ItemSlot::Content(0);
        let part = item.text_mut(slot).map(|text| {
            text.delta_name = delta_name;
            text.block()
        });
        let fields = item.fields(slot, "part", &part.unwrap_or_default());
        self.sender
            .send_synthetic("response.content_part.added", fields);
        self.open.push(item);
        Ok(())
    }

    /// Completes open synthetic messages.
    pub(super) fn close_synthetic_items(&mut self) -> Result<()> {
        let is_synthetic = |item: &mut OpenItem| item.upstream.is_none();
        let own: Vec<OpenItem> = self.open.extract_if(.., is_synthetic).collect();
        own.iter()
            .try_for_each(|item| self.close_item(item, item.complete()?))
    }

    /// Completes all open items. `output` are those of the last event, if upstream sent it:
    /// they hold what no earlier event did.
    pub(super) fn close_items(&mut self, output: &[Document]) -> Result<()> {
        let repeated = self.repeated_items(output)?.into_iter();
        let last = repeated.zip(output);
        let last: HashMap<u64, &Document> = last
            .filter_map(|(index, item)| Some((index?, item)))
            .collect();
        for item in std::mem::take(&mut self.open) {
            let complete = match last.get(&item.index) {
                Some(last) => item.copy_of(last)?,
                None => item.complete()?,
            };
            self.close_item(&item, complete)?;
        }
        Ok(())
    }

    fn close_item(&mut self, item: &OpenItem, complete: Document) -> Result<()> {
        for text in &item.texts {
            if text.progress == TextProgress::Open {
                let fields = item.fields(text.slot, text.field(), &text.sent.as_str().into());
                let name = text.delta_name.replace(".delta", ".done");
                self.sender.send_synthetic(&name, fields);
            }
            if text.progress != TextProgress::PartDone {
                let fields = item.fields(text.slot, "part", &text.block());
                self.sender.send_synthetic(text.part_done_name(), fields);
            }
        }
        let fields = json!({ "output_index": item.index, "item": to_value(&complete)? });
        self.sender
            .send_synthetic("response.output_item.done", fields);
        self.done.insert(item.index, complete);
        Ok(())
    }
}

impl WriteChunks for EventWriter {
    fn output(&mut self) -> &mut BytesMut {
        &mut self.sender.out
    }

    fn write(&mut self, chunk: &ResponseDocument) -> Result<()> {
        let wire = chunk.original_events().unwrap_or_default();
        let Some(text) = chunk.unparsed_text() else {
            return self.write_chunk(wire, ChunkView::of(chunk)?);
        };
        if let ([data], false) = (wire, chunk.is_edited())
            && self.write_alike(data, text)
        {
            return Ok(());
        }
        let form = Document::from_checked(chunk.to_bytes())?;
        let view = ChunkView {
            is_edited: chunk.is_edited(),
            ..ChunkView::read(&form)?
        };
        self.write_chunk(wire, view)
    }

    fn write_end(&mut self) -> Result<()> {
        let Ending { event, view } = self.ending.take().unwrap_or_default();
        match event {
            Some(event) => self.write_upstream_end(event, &view),
            None => self.write_synthetic_end(&view),
        }
    }
}

/// Writes the labels of an edited chunk into its event.
fn write_labels(event: &mut StreamEvent, view: &ChunkView) -> Result<()> {
    if view.is_edited {
        view.labels.write(0, &mut event.document, visit_event)?;
    }
    Ok(())
}

/// Returns whether all events belong to one item.
///
/// # Errors
///
/// Fails if the item is in more events than its first and its last one.
fn is_one_item(events: &[StreamEvent]) -> Result<bool> {
    let first = events.first().map(StreamEvent::output_index).transpose()?;
    if try_any(events, |event| Ok(Some(event.output_index()?) != first))? {
        return Ok(false);
    }
    let items = events.iter().filter(|event| event.document.has(ITEM));
    if items.count() > 2 {
        return Err(DialectError::Ambiguous("item".to_owned()));
    }
    Ok(true)
}
