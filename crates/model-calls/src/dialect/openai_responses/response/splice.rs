//! Edited parts of a response, written back into its items.

use std::{collections::BTreeMap, ops::Range, slice::Iter};

use bytes::Bytes;

use crate::dialect::{
    content_form::source_of,
    document::{Document, to_document, write_array},
    error::Result,
    google::part::Part,
    openai_responses::{
        fields::clear_marks,
        response::{
            item::{BLOCK_LISTS, OutputKind, item_parts, text_field, write_plain_thoughts},
            object::{NewIds, new_items},
        },
        visible_fields::{write_item, write_visible_fields},
    },
};

/// An item with its parts.
struct SplicedItem<'a> {
    item: &'a Document,
    kind: OutputKind,
    /// Parts before the edits, with their numbers among those of all items.
    before: Vec<(usize, Document)>,
    /// Parts that the edited response still has, by number.
    kept: BTreeMap<usize, &'a Part>,
    /// New parts behind the item.
    following: Vec<&'a Part>,
}

/// Writes the parts of an edited response into its items.
pub fn splice_output(items: &[Document], parts: &[Part], ids: &mut NewIds) -> Result<Vec<Bytes>> {
    let mut spliced = Vec::with_capacity(items.len());
    let mut owners = Vec::new();
    for item in items {
        let mut before = Vec::new();
        for part in item_parts(item)? {
            before.push((owners.len(), to_document(&part)?));
            owners.push(spliced.len());
        }
        spliced.push(SplicedItem {
            item,
            kind: OutputKind::of(item)?,
            before,
            kept: BTreeMap::new(),
            following: Vec::new(),
        });
    }
    let leading = assign(&mut spliced, &owners, parts);
    let mut written = create(&leading, ids)?;
    // Reasoning items that wait for the item that they belong to.
    let mut waiting = Vec::new();
    for item in &spliced {
        match (edit_item(item)?, item.kind) {
            (edited, OutputKind::Reasoning) => waiting.extend(edited),
            (Some(edited), _) => {
                written.append(&mut waiting);
                written.push(edited);
            }
            // Reasoning without the item that follows it is refused by the API.
            (None, _) => waiting.clear(),
        }
        written.extend(create(&item.following, ids)?);
    }
    written.append(&mut waiting);
    Ok(written)
}

/// Creates the items of new parts.
fn create(parts: &[&Part], ids: &mut NewIds) -> Result<Vec<Bytes>> {
    let mut created = Vec::new();
    for part in parts {
        let items = new_items(ids, part)?;
        created.extend(items.iter().map(Document::to_bytes));
    }
    Ok(created)
}

/// Assigns each part to its item, and a new text to a removed text in its place. Returns new
/// parts in front of all items.
fn assign<'a>(items: &mut [SplicedItem<'a>], owners: &[usize], parts: &'a [Part]) -> Vec<&'a Part> {
    let mut leading = Vec::new();
    let mut last: Option<usize> = None;
    for (position, part) in parts.iter().enumerate() {
        let later = parts.get(position..).unwrap_or_default();
        let known = source_of(&part.document).filter(|number| *number < owners.len());
        let number = known.or_else(|| {
            let start = last.map_or(0, |last| last + 1);
            let end = later.iter().find_map(|part| source_of(&part.document));
            let free = start..end.unwrap_or(owners.len()).min(owners.len());
            part.plain_text().and_then(|_| removed_text(items, &free))
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

/// Returns the first text of a message among these parts, which is no thought in its summary.
fn removed_text(items: &[SplicedItem<'_>], numbers: &Range<usize>) -> Option<usize> {
    let messages = items.iter().filter(|item| item.kind == OutputKind::Message);
    let mut parts = messages.flat_map(|item| &item.before);
    let is_text = |part: &Document| part.has(&["text"]) && !part.has(&["thought"]);
    let text = parts.find(|(number, part)| numbers.contains(number) && is_text(part));
    text.map(|(number, _)| *number)
}

/// Returns an item with its edits; `None` if all its parts were removed.
fn edit_item(spliced: &SplicedItem<'_>) -> Result<Option<Bytes>> {
    let is_kept = spliced.before.is_empty()
        || !spliced.kept.is_empty()
        || spliced.kind == OutputKind::Reasoning;
    if !is_kept {
        return Ok(None);
    }
    let mut item = spliced.item.clone();
    let mut parts = spliced.before.iter();
    match spliced.kind {
        OutputKind::Message | OutputKind::Reasoning => {
            for (field, _) in BLOCK_LISTS {
                edit_blocks(&mut item, field, &mut parts, &spliced.kept)?;
            }
            write_plain_thoughts(&mut item, spliced.item)?;
        }
        OutputKind::Call(_) | OutputKind::Other => {
            if let Some(((_, before), after)) = parts.next().zip(spliced.kept.values().next()) {
                write_item(&mut item, spliced.kind.call(), before, &after.document)?;
            }
        }
    }
    Ok(Some(item.to_bytes()))
}

/// Writes the edited blocks of one list of an item. `parts` are the unedited parts of the blocks,
/// and those of a later list.
fn edit_blocks(
    item: &mut Document,
    field: &[&str],
    parts: &mut Iter<'_, (usize, Document)>,
    kept: &BTreeMap<usize, &Part>,
) -> Result<()> {
    let mut is_edited = false;
    let mut written = Vec::new();
    let blocks = item.children(field)?.unwrap_or_default();
    for (mut block, (number, before)) in blocks.into_iter().zip(parts) {
        let Some(part) = kept.get(number) else {
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
                let after = part.document.child(&["block"])?;
                if let Some((before, after)) = before.child(&["block"])?.zip(after) {
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
