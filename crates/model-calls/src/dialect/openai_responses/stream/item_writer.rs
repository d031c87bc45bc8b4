//! Writes items: their beginnings, texts, ends, and items that arrive as a whole.

use bytes::Bytes;

use crate::dialect::{
    content_form::source_of,
    error::Result,
    google::part::Part,
    openai_responses::{
        chunk_view::ChunkView,
        fields::clear_marks,
        response::item::{ItemSlot, OutputKind},
        stream::{
            event::{DELTA, EventClass, OBFUSCATION, REFUSAL_DELTA, StreamEvent},
            item_agreement::events_agree,
            item_events::{edited_item, send_complete, send_edited},
            open_items::OpenItem,
            text_piece::WrittenPiece,
            writer::EventWriter,
        },
    },
};

impl EventWriter {
    /// Returns the output index for the model's next item.
    pub(super) fn next_item(&mut self, upstream: u64) -> u64 {
        self.sender.is_changed |= upstream != self.next_upstream;
        self.next_upstream = upstream + 1;
        let index = self.new_index();
        self.sender.is_changed |= index != upstream;
        self.indexes.insert(upstream, index);
        index
    }

    pub(super) fn begin_item(&mut self, event: &mut StreamEvent, view: &ChunkView) -> Result<()> {
        let upstream = event.output_index()?.unwrap_or(0);
        self.close_synthetic_items()?;
        let index = self.next_item(upstream);
        let mut item = OpenItem::new(index, Some(upstream), event.item()?)?;
        take_texts(&mut item, event, view)?;
        self.sender.is_changed |= item.write_copies(event)?;
        self.sender.send(event, Some(index))?;
        self.open.push(item);
        Ok(())
    }

    /// Writes an unedited piece that is like the latest one. Returns whether it is.
    pub(super) fn write_alike(&mut self, data: &Bytes, text: &str) -> bool {
        let Some(alike) = &self.alike else {
            return false;
        };
        let Some(place) = alike.number_in(data) else {
            return false;
        };
        let is_it =
            |item: &&mut OpenItem| item.upstream == Some(alike.item) && item.index == alike.item;
        let Some(item) = self.open.iter_mut().find(is_it) else {
            return false;
        };
        item.append(alike.slot, text, text);
        self.sender.send_numbered(&alike.name, data, place);
        true
    }

    pub(super) fn write_piece(&mut self, event: &mut StreamEvent, view: &ChunkView) -> Result<()> {
        let is_thought = event.is_thought();
        let (mut text, mut other) = (String::new(), String::new());
        let mut is_removed = true;
        for part in &view.parts {
            let target = match (&part.text, part.is_thought) {
                (Some(_), thought) if thought == is_thought => {
                    is_removed = false;
                    &mut text
                }
                (Some(_), false) => &mut other,
                // A thought that was held back has lost its place.
                (Some(_), true) | (None, _) => continue,
            };
            target.push_str(part.text.as_deref().unwrap_or_default());
        }
        let upstream = event.output_index()?.unwrap_or(0);
        let is_it = |item: &&mut OpenItem| item.upstream == Some(upstream);
        let open = self.open.iter_mut().find(is_it);
        let read = event.document.string(DELTA)?.unwrap_or_default();
        self.sender.is_changed |= view.is_edited;
        if view.is_edited {
            event.document.set(DELTA, &text.as_str().into())?;
            event.document.remove(OBFUSCATION)?;
            clear_marks(&mut event.document)?;
        }
        match open {
            Some(item) => {
                item.note(event)?;
                let (index, slot) = (item.index, event.slot()?);
                item.append(slot, &read, &text);
                if let Some(text) = item.text_mut(slot) {
                    text.is_removed |= is_removed;
                }
                if !view.is_edited && upstream == index {
                    self.alike = WrittenPiece::new(event, index, slot);
                }
                if !(view.is_edited && text.is_empty()) {
                    self.sender.send(event, Some(index))?;
                }
            }
            None => self.write_unopened_piece(event, &text, view)?,
        }
        self.write_text(&other, view)
    }

    /// Writes a piece of a text of which the agent has received no item.
    fn write_unopened_piece(
        &mut self,
        event: &mut StreamEvent,
        text: &str,
        view: &ChunkView,
    ) -> Result<()> {
        let is_indexed = event.output_index()?.is_some();
        self.sender.is_changed = true;
        if event.is_thought() {
            return Ok(());
        }
        self.is_unindexed |= !is_indexed;
        if event.name == REFUSAL_DELTA {
            return self.write_refusal_piece(text, view);
        }
        self.end_refusal()?;
        self.write_text(text, view)
    }

    /// Writes an event that repeats texts.
    pub(super) fn write_copy(&mut self, event: &mut StreamEvent, view: &ChunkView) -> Result<()> {
        let upstream = event.output_index()?.unwrap_or(0);
        let is_it = |item: &OpenItem| item.upstream == Some(upstream);
        let Some(position) = self.open.iter().position(is_it) else {
            return self.write_unopened(event, view, upstream);
        };
        let mut item = self.open.remove(position);
        if let Some((slot, text)) = take_texts(&mut item, event, view)? {
            item.send_piece(&mut self.sender, slot, &text);
        }
        item.note(event)?;
        self.sender.is_changed |= item.write_copies(event)?;
        let kind = item.kind;
        if event.class == EventClass::ItemDone {
            self.end_item(event, &item)?;
        } else {
            self.sender.send(event, Some(item.index))?;
            self.open.insert(position, item);
        }
        self.write_texts_behind(kind, view)
    }

    /// Writes texts of messages that policies released with an event of reasoning.
    fn write_texts_behind(&mut self, kind: OutputKind, view: &ChunkView) -> Result<()> {
        if kind != OutputKind::Reasoning {
            return Ok(());
        }
        let texts = view.parts.iter().filter_map(Part::plain_text);
        self.write_text(&texts.collect::<String>(), view)
    }

    /// Writes the end of a text or an item whose beginning the agent has not received.
    pub(super) fn write_unopened(
        &mut self,
        event: &mut StreamEvent,
        view: &ChunkView,
        upstream: u64,
    ) -> Result<()> {
        let known = event.complete_texts()?;
        let is_released =
            |part: &Part| part.plain_text().is_some() && source_of(&part.document).is_none();
        let is_seen = !known.is_empty() && view.parts.iter().all(is_released);
        if event.class != EventClass::ItemDone || is_seen {
            self.sender.is_changed = true;
            self.is_unindexed |= event.output_index()?.is_none() && !event.is_thought();
            let texts = view.parts.iter().filter_map(Part::plain_text);
            let text: String = texts.collect();
            return if known.iter().any(|complete| complete.is_refusal) {
                self.write_refusal_piece(&text, view)
            } else {
                self.end_refusal()?;
                self.write_text(&text, view)
            };
        }
        self.close_synthetic_items()?;
        let index = self.next_item(upstream);
        let mut item = OpenItem::new(index, Some(upstream), event.item()?)?;
        let released = take_texts(&mut item, event, view)?;
        self.sender.is_changed |= released.is_some();
        self.sender.is_changed |= item.write_copies(event)?;
        self.end_item(event, &item)?;
        self.write_texts_behind(item.kind, view)
    }

    /// Sends the end of an item.
    fn end_item(&mut self, event: &mut StreamEvent, item: &OpenItem) -> Result<()> {
        let edited = item.texts.iter().filter(|text| !text.is_unedited());
        self.edited
            .extend(edited.map(|text| (item.index, text.slot)));
        self.done.insert(item.index, event.item()?);
        self.sender.send(event, Some(item.index))
    }

    /// Writes an item that arrives as one chunk, or text in its place.
    pub(super) fn write_item(
        &mut self,
        events: &mut [StreamEvent],
        view: &ChunkView,
    ) -> Result<()> {
        let Some(last) = events.last() else {
            return Ok(());
        };
        let (upstream, item) = (last.output_index()?.unwrap_or(0), last.item()?);
        let mut is_sent = false;
        for part in &view.parts {
            if let Some(text) = part.plain_text() {
                self.write_text(text, view)?;
            } else if source_of(&part.document).is_some() && !is_sent {
                is_sent = true;
                self.close_synthetic_items()?;
                let index = self.next_item(upstream);
                let edited = if view.is_edited {
                    edited_item(&item, part)?
                } else {
                    None
                };
                let sender = &mut self.sender;
                match &edited {
                    _ if !events_agree(events, &item)? => {
                        send_complete(sender, index, edited.as_ref().unwrap_or(&item))?;
                    }
                    None => {
                        let mut events = events.iter_mut();
                        events.try_for_each(|event| sender.send(event, Some(index)))?;
                    }
                    Some(edited) => {
                        sender.is_changed = true;
                        send_edited(sender, events, index, edited)?;
                    }
                }
                self.done
                    .insert(index, edited.unwrap_or_else(|| item.clone()));
            }
        }
        self.sender.is_changed |= !is_sent;
        Ok(())
    }

    pub(super) fn write_other(&mut self, event: &mut StreamEvent, view: &ChunkView) -> Result<()> {
        let texts = view.parts.iter().filter_map(Part::plain_text);
        self.write_text(&texts.collect::<String>(), view)?;
        let Some(upstream) = event.output_index()? else {
            return self.sender.send(event, None);
        };
        let index = self.indexes.get(&upstream).copied();
        let slot = event.slot()?;
        // Annotations refer to places in the model's text.
        let is_kept =
            |index: &u64| !event.name.contains("annotation") || self.is_unedited(*index, slot);
        if let Some(index) = index.filter(is_kept) {
            return self.sender.send(event, Some(index));
        }
        self.sender.is_changed = true;
        Ok(())
    }

    /// Returns whether a text of the model is sent as upstream sent it, as far as it is sent.
    fn is_unedited(&self, index: u64, slot: ItemSlot) -> bool {
        let mut open = self.open.iter();
        match open.find(|item| item.index == index) {
            Some(item) => item.is_unedited(slot),
            None => !self.edited.contains(&(index, slot)),
        }
    }
}

/// Takes the texts of a chunk that its event repeats. Returns a text that policies held back
/// before, with the slot that it belongs to.
fn take_texts(
    item: &mut OpenItem,
    event: &StreamEvent,
    view: &ChunkView,
) -> Result<Option<(ItemSlot, String)>> {
    if view.parts.is_empty() {
        return Ok(None);
    }
    let slots = event.complete_texts()?;
    let own_slot = match event.class {
        EventClass::ItemAdded | EventClass::ItemDone => item.texts.last().map(|text| text.slot),
        _ => Some(event.slot()?),
    };
    let own_slot = own_slot.unwrap_or(ItemSlot::Content(0));
    let is_thought = item.kind == OutputKind::Reasoning;
    let mut released = String::new();
    let parts = view.parts.iter();
    for part in parts.filter(|part| part.is_thought == is_thought) {
        let Some(text) = &part.text else {
            continue;
        };
        let slot = source_of(&part.document).and_then(|number| slots.get(number));
        if slot.is_none() {
            released.push_str(text);
        }
        item.append(slot.map_or(own_slot, |complete| complete.slot), "", text);
    }
    for complete in slots {
        if let Some(known) = item.known_text_mut(complete.slot) {
            known.read = complete.text;
            if complete.is_refusal {
                known.delta_name = REFUSAL_DELTA;
            }
        }
    }
    Ok((!released.is_empty()).then_some((own_slot, released)))
}
