//! System instructions: `instructions` and messages of the system or the developer, as one
//! system instruction, and back.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::dialect::{
    content_form::{SOURCE, parts_in, source_of, with_source},
    document::{Document, same_bytes, to_document},
    error::Result,
    google::fields::SYSTEM_INSTRUCTION,
    openai_responses::{
        fields::INSTRUCTIONS,
        request::{
            content::{read_blocks, text_of, write_blocks},
            input::{Input, InputItem, InputKind},
        },
    },
};

/// Origin of a part: `None` for `instructions`, else the indexes of item and block.
type SystemPlace = Option<(usize, usize)>;

/// Returns the system instruction of the content form; `None` if there is none.
pub fn read_system(body: &Document, input: &Input) -> Result<Option<Value>> {
    let parts = numbered_parts(body, input)?;
    let parts: Vec<Value> = parts.into_iter().map(|(_, part)| part).collect();
    Ok((!parts.is_empty()).then(|| json!({ "parts": parts })))
}

/// Returns every part with its origin. Its source is its position.
fn numbered_parts(body: &Document, input: &Input) -> Result<Vec<(SystemPlace, Value)>> {
    let mut parts = Vec::new();
    if let Some(text) = body.string(INSTRUCTIONS)? {
        parts.push((None, json!({ "text": text, SOURCE: 0 })));
    }
    for (index, item) in input.items.iter().enumerate() {
        if item.kind != InputKind::System {
            continue;
        }
        for (block, part) in read_blocks(&item.document)?.into_iter().enumerate() {
            let part = with_source(part, parts.len());
            parts.push((Some((index, block)), part));
        }
    }
    Ok(parts)
}

/// Writes an edited system instruction. New texts follow the last old one.
pub fn write_system(
    body: &mut Document,
    input: &mut Input,
    before: &Document,
    after: &Document,
) -> Result<()> {
    if before.bytes_of(SYSTEM_INSTRUCTION)? == after.bytes_of(SYSTEM_INSTRUCTION)? {
        return Ok(());
    }
    let places = numbered_parts(body, input)?;
    let places: Vec<SystemPlace> = places.into_iter().map(|(place, _)| place).collect();
    // Edited parts by the indexes of their items; `None` for those of `instructions`.
    let mut edited: BTreeMap<Option<usize>, Vec<Document>> = BTreeMap::new();
    let mut last = None;
    for mut part in parts_in(after, SYSTEM_INSTRUCTION)? {
        if let Some(number) = source_of(&part) {
            last = places.get(number).copied().flatten();
            if let Some((_, block)) = last {
                part.set(&[SOURCE], &block.into())?;
            }
        }
        let item = last.map(|(item, _)| item);
        edited.entry(item).or_default().push(part);
    }
    write_instructions(body, &edited.remove(&None).unwrap_or_default())?;
    for (index, item) in input.items.iter_mut().enumerate() {
        if item.kind == InputKind::System {
            write_message(item, &edited.remove(&Some(index)).unwrap_or_default())?;
        }
    }
    Ok(())
}

fn write_instructions(body: &mut Document, parts: &[Document]) -> Result<()> {
    let old = body.string(INSTRUCTIONS)?;
    match text_of(parts)? {
        new if new == old => Ok(()),
        Some(new) => body.set(INSTRUCTIONS, &new.into()),
        None => body.remove(INSTRUCTIONS),
    }
}

/// Writes the parts of one message, which is removed if none is left.
fn write_message(item: &mut InputItem, after: &[Document]) -> Result<()> {
    let before = read_blocks(&item.document)?;
    let before = before.iter().map(to_document);
    let before: Vec<Document> = before.collect::<Result<_, _>>()?;
    if same_bytes(&before, after) {
        return Ok(());
    }
    let edited = write_blocks(&item.document, &before, after)?;
    item.edit = Some(edited.iter().map(Document::to_bytes).collect());
    Ok(())
}
