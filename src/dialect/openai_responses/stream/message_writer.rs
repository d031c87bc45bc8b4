//! Writes texts of our own: the beginning of a stream, messages, and ends of open items.

use bytes::BytesMut;
use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, insert, to_document, to_value},
    error::Result,
    openai_responses::{
        chunk_view::ChunkView,
        response::{
            item::{ItemSlot, OutputKind},
            object::{NewIds, new_response},
        },
        stream::{
            open_items::{OpenItem, TextProgress},
            writer::EventWriter,
        },
    },
};

impl EventWriter {
    /// Sends the beginning of a stream that upstream did not begin.
    pub(super) fn ensure_started(&mut self, out: &mut BytesMut, view: &ChunkView) -> Result<()> {
        if self.response.is_some() {
            return Ok(());
        }
        let facts = ChunkView {
            model: view.model.clone(),
            response_id: view.response_id.clone(),
            ..ChunkView::default()
        };
        let mut response = new_response(&facts)?;
        insert(&mut response, "status", "in_progress");
        insert(&mut response, "usage", Value::Null);
        for name in ["response.created", "response.in_progress"] {
            self.sender
                .send_own(out, name, json!({ "response": response }));
        }
        let response = to_document(&response)?;
        self.ids = NewIds::of_response(&response)?;
        self.response = Some(response);
        Ok(())
    }

    pub(super) fn new_index(&mut self) -> u64 {
        let index = self.next_index;
        self.next_index += 1;
        index
    }

    /// Writes a text of our own: into the open message, or into a new one.
    pub(super) fn write_text(
        &mut self,
        out: &mut BytesMut,
        text: &str,
        view: &ChunkView,
    ) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.ensure_started(out, view)?;
        if self.append(out, OutputKind::Message, text) {
            return Ok(());
        }
        self.open_message(out)?;
        self.append(out, OutputKind::Message, text);
        Ok(())
    }

    /// Sends a text as the next piece of the open text of the latest item of a kind. Returns
    /// whether it did.
    pub(super) fn append(&mut self, out: &mut BytesMut, kind: OutputKind, text: &str) -> bool {
        let open = self.open.iter_mut().rev().find_map(|item| {
            let last = item.texts.last().filter(|_| item.kind == kind)?;
            let slot = (last.progress == TextProgress::Open).then_some(last.slot)?;
            Some((item, slot))
        });
        let Some((item, slot)) = open.filter(|_| !text.is_empty()) else {
            return false;
        };
        item.append(slot, "", text);
        item.send_piece(&mut self.sender, out, slot, text);
        true
    }

    pub(super) fn open_message(&mut self, out: &mut BytesMut) -> Result<()> {
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
            .send_own(out, "response.output_item.added", fields);
        let slot = ItemSlot::Content(0);
        let part = item.text_mut(slot).map(|text| text.block());
        let fields = item.fields(slot, "part", &part.unwrap_or_default());
        self.sender
            .send_own(out, "response.content_part.added", fields);
        self.open.push(item);
        Ok(())
    }

    /// Completes open messages of our own.
    pub(super) fn close_own_items(&mut self, out: &mut BytesMut) -> Result<()> {
        let is_own = |item: &mut OpenItem| item.upstream.is_none();
        let own: Vec<OpenItem> = self.open.extract_if(.., is_own).collect();
        own.iter()
            .try_for_each(|item| self.close_item(out, item, item.complete()?))
    }

    /// Completes all open items. `output` are those of the last event, if upstream sent it:
    /// they hold what no earlier event did.
    pub(super) fn close_items(&mut self, out: &mut BytesMut, output: &[Document]) -> Result<()> {
        for item in std::mem::take(&mut self.open) {
            let position = item.upstream.and_then(|index| usize::try_from(index).ok());
            let complete = match position.and_then(|position| output.get(position)) {
                Some(last) if OutputKind::of(last)? == item.kind => item.copy_of(last)?,
                Some(_) | None => item.complete()?,
            };
            self.close_item(out, &item, complete)?;
        }
        Ok(())
    }

    fn close_item(
        &mut self,
        out: &mut BytesMut,
        item: &OpenItem,
        complete: Document,
    ) -> Result<()> {
        for text in &item.texts {
            if text.progress == TextProgress::Open {
                let fields = item.fields(text.slot, text.field(), &text.sent.as_str().into());
                let name = text.delta_name.replace(".delta", ".done");
                self.sender.send_own(out, &name, fields);
            }
            if text.progress != TextProgress::PartDone {
                let fields = item.fields(text.slot, "part", &text.block());
                self.sender.send_own(out, text.part_done_name(), fields);
            }
        }
        let fields = json!({ "output_index": item.index, "item": to_value(&complete)? });
        self.sender
            .send_own(out, "response.output_item.done", fields);
        self.done.insert(item.index, complete);
        Ok(())
    }
}
