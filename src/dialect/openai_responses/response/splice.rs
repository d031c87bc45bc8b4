//! Edited parts of a response, written back into its items.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::dialect::{
    document::{Document, to_document, write_array},
    error::DialectError,
    openai_responses::{
        chunk_view::ViewedPart,
        fields::CONTENT,
        marks::clear_marks,
        response::{
            item::{BLOCK_LISTS, BlockList, ItemSlot, OutputKind, item_parts, text_field},
            object::{NewIds, new_items},
        },
        visible_fields::{write_item, write_visible_fields},
    },
};

/// An item with its parts.
struct SplicedItem<'a> {
    item: &'a Document,
    kind: OutputKind,
    /// Slots, each with the number of its part and the part before the edits.
    slots: Vec<(ItemSlot, usize, Document)>,
    /// Parts that the edited response still has, by number.
    kept: BTreeMap<usize, &'a ViewedPart>,
    /// New parts behind the item.
    following: Vec<&'a ViewedPart>,
}

/// Writes the parts of an edited response into its items.
pub fn splice_output(
    items: &[Document],
    parts: &[ViewedPart],
    ids: &mut NewIds,
) -> Result<Vec<Bytes>, DialectError> {
    let mut spliced = Vec::with_capacity(items.len());
    let mut owners = Vec::new();
    for item in items {
        let mut slots = Vec::new();
        for (slot, part) in item_parts(item)? {
            let part = to_document(&part)?;
            slots.push((slot, owners.len(), part));
            owners.push(spliced.len());
        }
        spliced.push(SplicedItem {
            item,
            kind: OutputKind::of(item)?,
            slots,
            kept: BTreeMap::new(),
            following: Vec::new(),
        });
    }
    let leading = assign(&mut spliced, &owners, parts);
    let mut output = OutputWriter {
        ids,
        waiting: Vec::new(),
        written: Vec::new(),
    };
    output.insert(&leading)?;
    for item in &spliced {
        output.write(item)?;
        output.insert(&item.following)?;
    }
    output.written.append(&mut output.waiting);
    Ok(output.written)
}

/// Assigns each part to its item, and a new text to a removed text in its place. Returns new
/// parts in front of all items.
fn assign<'a>(
    items: &mut [SplicedItem<'a>],
    owners: &[usize],
    parts: &'a [ViewedPart],
) -> Vec<&'a ViewedPart> {
    let mut leading = Vec::new();
    let mut last: Option<usize> = None;
    for (position, part) in parts.iter().enumerate() {
        let later = parts.get(position..).unwrap_or_default();
        let known = part.source.filter(|number| *number < owners.len());
        let number = known.or_else(|| {
            let start = last.map_or(0, |last| last + 1);
            let end = later.iter().find_map(|part| part.source);
            let free = start..end.unwrap_or(owners.len()).min(owners.len());
            part.plain_text()
                .and_then(|_| removed_text(items, owners, free))
        });
        let owner = number.or(last).and_then(|number| owners.get(number));
        let owner = owner.and_then(|owner| items.get_mut(*owner));
        match (number, owner) {
            (Some(number), Some(item)) => {
                item.kept.insert(number, part);
                last = Some(number);
            }
            (None, Some(item)) => item.following.push(part),
            (_, None) => leading.push(part),
        }
    }
    leading
}

/// Returns the first text of a message among these parts.
fn removed_text(
    items: &[SplicedItem<'_>],
    owners: &[usize],
    mut numbers: std::ops::Range<usize>,
) -> Option<usize> {
    numbers.find(|number| {
        let item = owners.get(*number).and_then(|owner| items.get(*owner));
        item.is_some_and(|item| {
            let mut slots = item.slots.iter();
            let slot = slots.find(|(_, known, _)| known == number);
            item.kind == OutputKind::Message && slot.is_some_and(|(_, _, part)| part.has(&["text"]))
        })
    })
}

/// Writes the new list of items.
struct OutputWriter<'a> {
    ids: &'a mut NewIds,
    /// Reasoning items that wait for the item that they belong to.
    waiting: Vec<Bytes>,
    written: Vec<Bytes>,
}

impl OutputWriter<'_> {
    fn write(&mut self, spliced: &SplicedItem<'_>) -> Result<(), DialectError> {
        let edited = edit_item(spliced)?;
        if spliced.kind == OutputKind::Reasoning {
            self.waiting.extend(edited);
            return Ok(());
        }
        match edited {
            Some(edited) => {
                self.written.append(&mut self.waiting);
                self.written.push(edited);
            }
            // Reasoning without the item that follows it is refused by the API.
            None => self.waiting.clear(),
        }
        Ok(())
    }

    fn insert(&mut self, parts: &[&ViewedPart]) -> Result<(), DialectError> {
        for part in parts {
            let items = new_items(self.ids, part)?;
            self.written.extend(items.iter().map(Document::to_bytes));
        }
        Ok(())
    }
}

/// Returns an item with its edits; `None` if all its parts were removed.
fn edit_item(spliced: &SplicedItem<'_>) -> Result<Option<Bytes>, DialectError> {
    let is_kept = spliced.slots.is_empty()
        || !spliced.kept.is_empty()
        || spliced.kind == OutputKind::Reasoning;
    if !is_kept {
        return Ok(None);
    }
    let mut item = spliced.item.clone();
    match spliced.kind {
        OutputKind::Message => edit_blocks(&mut item, spliced, (CONTENT, ItemSlot::Content))?,
        OutputKind::Reasoning => {
            for list in BLOCK_LISTS {
                edit_blocks(&mut item, spliced, list)?;
            }
        }
        OutputKind::Call(_) | OutputKind::Other => {
            let before = spliced.slots.first();
            let after = spliced.kept.values().next();
            if let Some(((_, _, before), after)) = before.zip(after) {
                write_item(&mut item, spliced.kind.call(), before, &after.document)?;
            }
        }
    }
    Ok(Some(item.to_bytes()))
}

/// Writes the edited blocks of one list of an item.
fn edit_blocks(
    item: &mut Document,
    spliced: &SplicedItem<'_>,
    (field, slot): BlockList,
) -> Result<(), DialectError> {
    let mut is_edited = false;
    let mut written = Vec::new();
    for (index, mut block) in (0..).zip(item.children(field)?.unwrap_or_default()) {
        let mut slots = spliced.slots.iter();
        let known = slots.find(|(known, _, _)| *known == slot(index));
        let Some((_, number, before)) = known else {
            written.push(block.to_bytes());
            continue;
        };
        let Some(part) = spliced.kept.get(number) else {
            is_edited = true;
            continue;
        };
        match text_field(&block)? {
            Some(text) if block.string(&[text])? != part.text => {
                let new = part.text.as_deref().unwrap_or_default();
                block.set(&[text], &new.into())?;
                clear_marks(&mut block)?;
            }
            Some(_) => (),
            None => {
                let pair = before
                    .child(&["block"])?
                    .zip(part.document.child(&["block"])?);
                if let Some((before, after)) = pair {
                    write_visible_fields(&mut block, &before, &after)?;
                }
            }
        }
        is_edited |= block.is_edited();
        written.push(block.to_bytes());
    }
    if is_edited {
        item.set_bytes(field, write_array(written))?;
    }
    Ok(())
}
