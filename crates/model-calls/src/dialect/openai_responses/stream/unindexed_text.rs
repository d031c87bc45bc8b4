//! A text of no item: its events have no index. It is that of the first message of the last event.

use bytes::Bytes;

use crate::dialect::{
    content_form::{source_of, with_source},
    document::{Document, to_document},
    error::Result,
    google::part::Part,
    openai_responses::{
        chunk_view::ChunkView,
        fields::OUTPUT,
        response::{
            item::{OutputKind, item_parts},
            splice::splice_output,
        },
        stream::{
            event::{RESPONSE, StreamEvent},
            writer::EventWriter,
        },
    },
};

/// Returns the number of the text of no item among the parts of all items: the first message, if it
/// consists of one text.
pub fn unindexed_part(output: &[Document]) -> Result<Option<usize>> {
    let mut number = 0;
    for item in output {
        let parts = item_parts(item)?;
        if OutputKind::of(item)? == OutputKind::Message {
            let is_text = matches!(parts.as_slice(), [part]
                if part.get("text").is_some() && part.get("thought").is_none());
            return Ok(is_text.then_some(number));
        }
        number += parts.len();
    }
    Ok(None)
}

impl EventWriter {
    /// Returns the number of the text of no item among the parts of the last event; `None` if items
    /// of upstream were sent.
    pub(super) fn unindexed_part(&self, event: &StreamEvent) -> Result<Option<usize>> {
        if !self.is_unindexed || self.is_continued || !self.indexes.is_empty() {
            return Ok(None);
        }
        let response = event.document.child(RESPONSE)?.unwrap_or_default();
        unindexed_part(&response.children(OUTPUT)?.unwrap_or_default())
    }

    /// Writes the rest of the text of no item. The other items stay in the last event.
    pub(super) fn write_unindexed_rest(&mut self, number: usize, view: &ChunkView) -> Result<()> {
        let rest = view.parts.iter();
        let rest = rest.filter(|part| source_of(&part.document).is_none_or(|own| own == number));
        self.write_parts(rest, view)
    }

    /// Returns the items of the last event, with the text of no item as sent and what is left of the
    /// other parts. Behind them are further items that were sent.
    pub(super) fn splice_unindexed(
        &mut self,
        output: &[Document],
        number: usize,
        view: &ChunkView,
    ) -> Result<Vec<Bytes>> {
        let is_other = |part: &&Part| source_of(&part.document).is_some_and(|own| own != number);
        let mut parts: Vec<Part> = view.parts.iter().filter(is_other).cloned().collect();
        let mut further = Vec::new();
        let mut is_text_sent = false;
        for item in self.done.values() {
            let is_text = OutputKind::of(item)? == OutputKind::Message && !is_text_sent;
            if !is_text {
                further.push(item.to_bytes());
                continue;
            }
            is_text_sent = true;
            for part in item_parts(item)? {
                parts.push(Part::read(to_document(&with_source(part, number))?)?);
            }
        }
        let mut written = splice_output(output, &parts, &mut self.ids)?;
        written.append(&mut further);
        Ok(written)
    }
}
