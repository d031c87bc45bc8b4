//! Edited parts, written back to the blocks that they were read from.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        block_content::{text_block, write_blocks},
        fields::{
            ARGUMENTS, BLOCK, CITATIONS, CONTENT, EVENT, FUNCTION_CALL, FUNCTION_RESPONSE, ID,
            PARTS, RESPONSE, TEXT, THINKING, THOUGHT, TOOL_CHANGES, TOOLSET, TOOLSET_NAME, TYPE,
            type_of,
        },
        media::{create_media, is_media_type, write_texts},
        preceding::{add_call_fields, in_front_of},
        tool_result::{IS_ERROR, ResultContent, TOOL_USE_ID},
        tool_use::{INPUT, create_call},
    },
    content_form::{SOURCE, source_of, splice_list, write_labels},
    document::{Document, copy_field, elements, value_text, write_array},
    error::Result,
    google::is_thought,
};

const CACHE_CONTROL: &[&str] = &["cache_control"];

/// Returns edited blocks. Hidden ones stay, blocks whose text was removed go, and a cache mark of
/// a removed block moves to the one in front of it.
pub fn edit_blocks(
    originals: &[Bytes],
    before: &[Document],
    after: &[Document],
) -> Result<Vec<Bytes>> {
    let after = without_emptied(before, after)?;
    let originals = move_cache_marks(originals, before, &after)?;
    let rewrite = |index: usize, before: &Document, after: &Document| {
        let original = originals.get(index).cloned();
        let mut block = Document::from_checked(original.unwrap_or_default())?;
        write_part(&mut block, before, after)?;
        Ok(vec![block.to_bytes()])
    };
    splice_list(&originals, before, &after, rewrite, create_block)
}

/// Returns the blocks of a message without original: of a denial or of a hook. Thinking blocks
/// are where the model had them, as the API requires.
pub fn create_blocks(parts: &[Document]) -> Result<Vec<Bytes>> {
    let mut blocks = Vec::new();
    // Texts behind the latest block of another type.
    let mut texts = Vec::new();
    let mut thinking = HashSet::new();
    for part in parts {
        if part.has(TEXT) {
            texts.append(&mut create_own_block(part)?);
        } else {
            let preceding = std::mem::take(&mut texts);
            blocks.append(&mut in_front_of(part, preceding, &mut thinking)?);
            blocks.append(&mut create_own_block(part)?);
        }
    }
    blocks.append(&mut texts);
    Ok(blocks)
}

/// Returns the parts without the texts of which an edit left nothing but white space, which the
/// API refuses.
fn without_emptied(before: &[Document], after: &[Document]) -> Result<Vec<Document>> {
    let unedited: HashSet<Bytes> = before.iter().map(Document::to_bytes).collect();
    let mut kept = Vec::with_capacity(after.len());
    for part in after {
        let is_emptied = has_blank_text(part)? && !part.has(THOUGHT);
        if !is_emptied || unedited.contains(&part.to_bytes()) {
            kept.push(part.clone());
        }
    }
    Ok(kept)
}

fn has_blank_text(part: &Document) -> Result<bool> {
    let text = part.string(TEXT)?;
    Ok(text.is_some_and(|text| text.trim().is_empty()))
}

/// Writes an edited part to its block.
fn write_part(block: &mut Document, before: &Document, after: &Document) -> Result<()> {
    write_labels(block, before, after)?;
    if let Some(text) = after.bytes_of(TEXT)? {
        if before.bytes_of(TEXT)?.as_ref() == Some(&text) {
            return Ok(());
        }
        if type_of(block)? == "thinking" {
            return block.set_bytes(THINKING, text);
        }
        block.set_bytes(TEXT, text)?;
        // They quote passages of the old text.
        return block.remove(CITATIONS);
    }
    if let Some(call) = after.child(FUNCTION_CALL)? {
        let arguments = call.bytes_of(ARGUMENTS)?;
        return match arguments {
            Some(arguments) => block.set_bytes(INPUT, arguments),
            None => block.set(INPUT, &json!({})),
        };
    }
    if let Some(result) = after.child(FUNCTION_RESPONSE)? {
        let before = before.child(FUNCTION_RESPONSE)?;
        if before.as_ref().map(Document::to_bytes) == Some(result.to_bytes()) {
            return Ok(());
        }
        return write_result(block, before.as_ref(), &result);
    }
    if is_media_type(&type_of(block)?) && !before.has_only(&["block", SOURCE]) {
        return write_texts(block, after);
    }
    if let Some(mut edited) = after.child(BLOCK)? {
        if type_of(block)? == "compaction" {
            remove_withheld(&mut edited, before, block)?;
        }
        *block = edited;
    }
    Ok(())
}

/// Removes the changes of declared tools that a block has no more, because the tools are withheld.
fn remove_withheld(edited: &mut Document, before: &Document, block: &Document) -> Result<()> {
    let Some(changes) = edited.list(TOOL_CHANGES)? else {
        return Ok(());
    };
    let before = before.child(BLOCK)?.unwrap_or_default();
    let before = before.list(TOOL_CHANGES)?.unwrap_or_default();
    let left = block.list(TOOL_CHANGES)?.unwrap_or_default();
    let mut left = left.into_iter().peekable();
    let changes = before.iter().zip(changes);
    let kept = changes.filter(|(before, _)| left.next_if_eq(*before).is_some());
    let kept: Vec<Bytes> = kept.map(|(_, change)| change).collect();
    edited.set_bytes(TOOL_CHANGES, write_array(kept))
}

/// Writes an edited tool result: text, blocks or an error. Media stay if the result has them
/// still.
fn write_result(block: &mut Document, before: Option<&Document>, after: &Document) -> Result<()> {
    let response = after.child(RESPONSE)?.unwrap_or_default();
    let had_media = before.is_some_and(|before| before.has(PARTS));
    let keeps_media = had_media && after.has(PARTS);
    let content = ResultContent::read(block)?;
    let output = response.bytes_of(&["output"])?;
    let error = response.bytes_of(&["error"])?;
    if output.is_some() {
        block.remove(IS_ERROR)?;
    } else if error.is_some() {
        block.set(IS_ERROR, &json!(true))?;
    }
    let is_other = output.is_none() && error.is_none();
    let whole = || json!(response.to_text()).to_string().into();
    let value = output.or(error).unwrap_or_else(whole);
    let mut blocks = output_blocks(&content, value, keeps_media)?;
    for (key, value) in response.fields() {
        if is_other || key == "output" || key == "error" {
            continue;
        }
        let Ok(value) = serde_json::from_slice(&value) else {
            continue;
        };
        let text = json!(value_text(&value)).to_string();
        blocks.push(text_block(text.into())?.to_bytes());
    }
    let was_text = matches!(content, ResultContent::Text(_)) || !keeps_media && had_media;
    block.set_bytes(CONTENT, write_blocks(&blocks, was_text)?)
}

/// Returns the blocks of an edited output: a text takes the place of the first text block, a list
/// that of the blocks without media.
fn output_blocks(content: &ResultContent, output: Bytes, keeps_media: bool) -> Result<Vec<Bytes>> {
    let is_text = output.first() == Some(&b'"');
    let mut new = Vec::new();
    if is_text {
        // Everything else in the block, such as citations, belongs to the old text.
        let mut block = text_block(output)?;
        if let Some(old) = content.others().next() {
            copy_field(&mut block, CACHE_CONTROL, old, CACHE_CONTROL)?;
        }
        new.push(block.to_bytes());
    } else {
        for element in elements(&output)? {
            let block = Document::from_checked(element.clone());
            new.push(match block {
                Ok(block) if block.has(&["type"]) => element,
                _ => {
                    let text = json!(String::from_utf8_lossy(&element)).to_string();
                    text_block(text.into())?.to_bytes()
                }
            });
        }
    }
    let mut new = new.into_iter();
    let mut blocks = Vec::new();
    for (block, media) in content.blocks() {
        match media {
            Some(_) if keeps_media => blocks.push(block.to_bytes()),
            Some(_) => (),
            None => blocks.extend(new.next()),
        }
    }
    blocks.extend(new);
    Ok(blocks)
}

/// Returns the block of a new part, with the thinking blocks in front of it.
fn create_block(part: &Document) -> Result<Vec<Bytes>> {
    let mut blocks = in_front_of(part, Vec::new(), &mut HashSet::new())?;
    blocks.append(&mut create_own_block(part)?);
    Ok(blocks)
}

/// Returns the block of a new part. A thought alone has none.
fn create_own_block(part: &Document) -> Result<Vec<Bytes>> {
    if let Some(call) = part.child(FUNCTION_CALL)? {
        return Ok(vec![add_call_fields(part, create_call(&call)?)?]);
    }
    if let Some(result) = part.child(FUNCTION_RESPONSE)? {
        let mut block = Document::empty();
        block.set(&["type"], &json!("tool_result"))?;
        copy_field(&mut block, TOOL_USE_ID, &result, ID)?;
        copy_field(&mut block, TOOLSET, &result, TOOLSET_NAME)?;
        write_result(&mut block, None, &result)?;
        return Ok(vec![block.to_bytes()]);
    }
    // The API refuses blank texts.
    if is_thought(part)? || has_blank_text(part)? {
        return Ok(Vec::new());
    }
    if let Some(text) = part.bytes_of(TEXT)? {
        return Ok(vec![text_block(text)?.to_bytes()]);
    }
    if part.has(EVENT) || part.has(BLOCK) {
        let block = whole_block(part)?;
        return Ok(block.iter().map(Document::to_bytes).collect());
    }
    let media = create_media(part)?.into_iter();
    Ok(media.map(|block| block.to_string().into()).collect())
}

/// Returns the block of a part that is shown whole; `None` for an event. A compaction begins empty,
/// and its only delta holds all of it.
fn whole_block(part: &Document) -> Result<Option<Document>> {
    let Some(mut block) = part.child(BLOCK)? else {
        return Ok(None);
    };
    match (type_of(&block)?.as_str(), part.has(EVENT)) {
        ("compaction_delta", true) => block.set(TYPE, &json!("compaction"))?,
        ("compaction", false) if block.get(CONTENT)? == Some(Value::Null) => return Ok(None),
        (_, true) => return Ok(None),
        (_, false) => (),
    }
    Ok(Some(block))
}

/// Moves the cache mark of each removed block to the kept one in front of it, or else behind it.
fn move_cache_marks(
    originals: &[Bytes],
    before: &[Document],
    after: &[Document],
) -> Result<Vec<Bytes>> {
    let kept: BTreeSet<usize> = after.iter().filter_map(source_of).collect();
    let removed = before.iter().filter_map(source_of);
    let mut originals = originals.to_vec();
    for source in removed.filter(|source| !kept.contains(source)) {
        let Some(original) = originals.get(source) else {
            continue;
        };
        let Some(mark) = Document::from_checked(original.clone())?.bytes_of(CACHE_CONTROL)? else {
            continue;
        };
        let in_front = kept.range(..source).next_back();
        let target = in_front.or_else(|| kept.first());
        if let Some(target) = target.and_then(|index| originals.get_mut(*index)) {
            let mut block = Document::from_checked(target.clone())?;
            if !block.has(CACHE_CONTROL) {
                block.set_bytes(CACHE_CONTROL, mark)?;
                *target = block.to_bytes();
            }
        }
    }
    Ok(originals)
}
