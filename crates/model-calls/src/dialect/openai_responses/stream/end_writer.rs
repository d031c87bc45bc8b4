//! The end of a stream: the event that holds the whole response once more.

use std::{
    collections::{BTreeMap, HashSet},
    slice::from_ref,
};

use bytes::Bytes;
use serde_json::json;

use crate::dialect::{
    content_form::{SOURCE, source_of},
    document::{Document, to_value, write_array},
    error::Result,
    google::part::Part,
    openai_responses::{
        chunk_view::ChunkView,
        fields::{ID, OUTPUT, OUTPUT_TEXT, STATUS, TYPE, USAGE},
        response::{
            form::check_copy,
            item::{OutputKind, agree, item_parts},
            object::{COUNTS, end_response, new_envelope, new_items, new_usage, set_finish_reason},
            splice::splice_output,
        },
        stream::{
            event::{RESPONSE, StreamEvent},
            item_events::send_complete,
            last_event::{ItemIdentity, repeated},
            writer::{Ending, EventWriter},
        },
    },
};

impl EventWriter {
    /// Writes a synthetic chunk.
    pub(super) fn write_synthetic(&mut self, view: ChunkView) -> Result<()> {
        if view.finish_reason.is_some() {
            // A text without an end may be one of the refusal that policies held back.
            self.end_refusal()?;
        }
        self.write_parts(view.parts.iter(), &view)?;
        if view.finish_reason.is_some() {
            self.ensure_started(&view)?;
            self.ending = Some(Ending { event: None, view });
        }
        Ok(())
    }

    /// Writes parts without an origin: texts, ends of thoughts, and calls. Neighbouring texts are
    /// messages of their own.
    pub(super) fn write_parts<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a Part>,
        view: &ChunkView,
    ) -> Result<()> {
        let mut follows_text = false;
        for part in parts {
            let text = part.plain_text();
            if follows_text && text.is_some() {
                self.close_synthetic_items()?;
            }
            follows_text = text.is_some();
            if let Some(text) = text {
                if part.is_refusal() {
                    self.write_refusal(text, view)?;
                } else {
                    self.write_text(text, view)?;
                }
                continue;
            }
            self.ensure_started(view)?;
            if let Some(thought) = &part.text {
                // Without an open item, it has lost its place.
                self.append(OutputKind::Reasoning, thought);
                continue;
            }
            for item in new_items(&mut self.ids, part)? {
                self.send_whole_item(item)?;
            }
        }
        Ok(())
    }

    fn send_whole_item(&mut self, item: Document) -> Result<u64> {
        self.close_synthetic_items()?;
        let index = self.new_index();
        send_complete(&mut self.sender, index, &item)?;
        self.done.insert(index, item);
        Ok(index)
    }

    /// Writes the last chunk of a response. Its event waits until nothing can follow.
    pub(super) fn write_last(&mut self, event: StreamEvent, view: ChunkView) -> Result<()> {
        if let Some(number) = self.unindexed_part(&event)? {
            self.write_unindexed_rest(number, &view)?;
        } else if !view.parts.is_empty() {
            let response = event.document.child(RESPONSE)?.unwrap_or_default();
            let output = response.children(OUTPUT)?.unwrap_or_default();
            let is_alike = !self.sender.is_changed && !view.is_edited;
            if !is_alike || !self.agrees(&output, &view)? {
                self.sender.is_changed = true;
                self.write_unseen(&output, &view)?;
            }
        }
        if view.finish_reason.is_some() {
            let event = Some(event);
            self.ending = Some(Ending { event, view });
        }
        Ok(())
    }

    /// Writes items that the last event holds and no event before it, and texts that
    /// policies held back. Reasoning stays in the last event: its place is in front of an item that
    /// was sent.
    fn write_unseen(&mut self, output: &[Document], view: &ChunkView) -> Result<()> {
        let new = view.parts.iter();
        let new = new.filter(|part| source_of(&part.document).is_none());
        self.write_parts(new, view)?;
        for (item, parts) in output.iter().zip(parts_by_item(output, view)?) {
            if parts.is_empty() || OutputKind::of(item)? == OutputKind::Reasoning {
                continue;
            }
            self.ensure_started(view)?;
            for edited in splice_output(from_ref(item), &parts, &mut self.ids)? {
                self.send_whole_item(Document::from_checked(edited)?)?;
            }
        }
        Ok(())
    }

    /// Ends the stream: what is open is closed, and upstream's event with the whole response
    /// follows.
    pub(super) fn write_upstream_end(
        &mut self,
        mut event: StreamEvent,
        view: &ChunkView,
    ) -> Result<()> {
        self.close_synthetic_items()?;
        let Some(mut response) = event.document.child(RESPONSE)? else {
            return self.sender.send(&mut event, None);
        };
        let output = response.children(OUTPUT)?.unwrap_or_default();
        if let Some(number) = self.unindexed_part(&event)? {
            let items = self.splice_unindexed(&output, number, view)?;
            response.set_bytes(OUTPUT, write_array(items))?;
        } else if self.sender.is_changed || !self.agrees(&output, view)? {
            self.sender.is_changed = true;
            self.close_items(&output)?;
            let items = self.written_output(&output, view)?;
            response.set_bytes(OUTPUT, write_array(items))?;
            response.remove(OUTPUT_TEXT)?;
        }
        if check_copy(&response).is_err() {
            response.remove(OUTPUT_TEXT)?;
        }
        self.keep_id(&mut response)?;
        if view.has_new_end {
            set_finish_reason(&mut response, view.finish_reason.as_deref())?;
            event_name(&response)?.clone_into(&mut event.name);
            event.document.set(TYPE, &event.name.as_str().into())?;
        }
        if let Some(after) = &view.usage {
            response.edit_child(USAGE, |usage| COUNTS.write(usage, after))?;
        }
        if response.is_edited() {
            event.document.set_child(RESPONSE, &response)?;
        }
        self.sender.send(&mut event, None)
    }

    /// Gives the response of a later round the id with which the stream began.
    fn keep_id(&self, response: &mut Document) -> Result<()> {
        let first = self.response.as_ref();
        let first = first.map(|first| first.string(ID)).transpose()?.flatten();
        match first {
            Some(first) if response.string(ID)?.as_ref() != Some(&first) => {
                response.set(ID, &first.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the items that were sent. Reasoning that only the last event has stays in front of
    /// the item that follows it there.
    fn written_output(&mut self, output: &[Document], view: &ChunkView) -> Result<Vec<Bytes>> {
        let mut preceding = BTreeMap::new();
        let mut waiting = Vec::new();
        let items = output.iter().zip(parts_by_item(output, view)?);
        for ((item, parts), index) in items.zip(self.repeated_items(output)?) {
            let is_reasoning = OutputKind::of(item)? == OutputKind::Reasoning;
            match index {
                Some(index) => drop(preceding.insert(index, std::mem::take(&mut waiting))),
                None if is_reasoning && !parts.is_empty() => {
                    waiting.extend(splice_output(from_ref(item), &parts, &mut self.ids)?);
                }
                None if is_reasoning => (),
                None => waiting.clear(),
            }
        }
        let mut items = Vec::new();
        for (index, item) in &self.done {
            items.extend(preceding.remove(index).unwrap_or_default());
            items.push(item.to_bytes());
        }
        items.append(&mut waiting);
        Ok(items)
    }

    /// Returns whether the last event holds the same items as those that were sent. Of an item that
    /// was not, the chunk must have shown all parts. A response that failed may have none.
    fn agrees(&self, output: &[Document], view: &ChunkView) -> Result<bool> {
        let mut repeated = HashSet::new();
        let mut unsent_parts = 0;
        for (item, index) in output.iter().zip(self.repeated_items(output)?) {
            let Some(index) = index else {
                unsent_parts += item_parts(item)?.len();
                continue;
            };
            let agrees = match self.done.get(&index) {
                Some(sent) => agree(sent, item)?,
                None => self.agrees_with_open(index, item)?,
            };
            if !agrees {
                return Ok(false);
            }
            repeated.insert(index);
        }
        let is_complete = repeated.len() == self.done.len() + self.open.len();
        let parts = view.parts.iter();
        let sources = parts.filter_map(|part| source_of(&part.document));
        Ok((is_complete || output.is_empty()) && sources.count() == unsent_parts)
    }

    /// Returns whether an item of the last event holds the same as one without an end.
    fn agrees_with_open(&self, index: u64, item: &Document) -> Result<bool> {
        let open = self.open.iter().find(|open| open.index == index);
        open.map_or(Ok(false), |open| Ok(!open.copy_of(item)?.is_edited()))
    }

    /// Returns, for each item of the last event, the output index of the sent item of the current
    /// response that it repeats.
    pub(super) fn repeated_items(&self, output: &[Document]) -> Result<Vec<Option<u64>>> {
        let mut sent = BTreeMap::new();
        for (index, item) in self.done.range(self.first_index..) {
            sent.insert(*index, ItemIdentity::of(item)?);
        }
        for open in &self.open {
            let id = Some(open.id.clone()).filter(|id| !id.is_empty());
            let kind = open.kind;
            sent.insert(open.index, ItemIdentity { id, kind });
        }
        let (indexes, sent): (Vec<u64>, Vec<ItemIdentity>) = sent.into_iter().unzip();
        let positions = repeated(output, &sent)?.into_iter();
        Ok(positions
            .map(|position| position.and_then(|position| indexes.get(position).copied()))
            .collect())
    }

    /// Ends a stream that upstream did not end.
    pub(super) fn write_synthetic_end(&mut self, view: &ChunkView) -> Result<()> {
        self.ensure_started(view)?;
        self.close_items(&[])?;
        let mut response = match (&view.end, &self.response) {
            (None, Some(started)) => {
                let mut response = started.clone();
                let usage = new_usage(&view.usage.clone().unwrap_or_default())?;
                response.set(USAGE, &usage)?;
                response
            }
            _ => new_envelope(view)?,
        };
        self.keep_id(&mut response)?;
        end_response(&mut response, self.done.values(), view)?;
        let fields = json!({ "response": to_value(&response)? });
        let name = event_name(&response)?;
        self.sender.send_synthetic(name, fields);
        Ok(())
    }
}

/// Returns the parts that a chunk has of each item of the last event, with their positions in it as
/// sources.
fn parts_by_item(output: &[Document], view: &ChunkView) -> Result<Vec<Vec<Part>>> {
    let mut by_item = Vec::with_capacity(output.len());
    let mut first = 0;
    for item in output {
        let end = first + item_parts(item)?.len();
        let mut parts = Vec::new();
        for part in &view.parts {
            let number = source_of(&part.document).filter(|number| *number < end);
            if let Some(number) = number.and_then(|number| number.checked_sub(first)) {
                let mut document = part.document.clone();
                document.set(&[SOURCE], &number.into())?;
                parts.push(Part::read(document)?);
            }
        }
        by_item.push(parts);
        first = end;
    }
    Ok(by_item)
}

/// Returns the name of the event with a response that has ended.
fn event_name(response: &Document) -> Result<&'static str> {
    Ok(match response.string(STATUS)?.as_deref() {
        Some("incomplete") => "response.incomplete",
        Some("failed") => "response.failed",
        Some(_) | None => "response.completed",
    })
}
