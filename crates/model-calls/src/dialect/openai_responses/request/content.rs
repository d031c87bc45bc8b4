//! The content of one message: its blocks, as parts of the content form, and edited parts
//! written back.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::{IS_REFUSAL, SOURCE, splice_list, with_source},
    document::{Document, first_byte, write_array},
    error::Result,
    openai_responses::{
        fields::{CONTENT, TEXT, TYPE, clear_marks},
        request::media::read_medium,
        visible_fields::{visible_fields, write_visible_fields},
    },
};

/// Separates texts that become one.
const PARAGRAPH: &str = "\n\n";

/// Returns the parts of a message.
pub fn read_blocks(message: &Document) -> Result<Vec<Value>> {
    if first_byte(message, CONTENT)? == Some(b'"') {
        let text = message.string(CONTENT)?;
        return Ok(vec![json!({ "text": text, SOURCE: 0 })]);
    }
    let blocks = message.children(CONTENT)?.unwrap_or_default();
    let parts = blocks.iter().enumerate().map(|(index, block)| {
        let part = read_block(block)?;
        Ok(with_source(part, index))
    });
    parts.collect()
}

fn read_block(block: &Document) -> Result<Value> {
    if let Some(field) = text_field(block)? {
        return Ok(json!({ "text": block.string(&[field])? }));
    }
    match read_medium(block)? {
        Some(medium) => Ok(medium),
        None => Ok(json!({ "block": visible_fields(block)? })),
    }
}

/// Returns the field of a block that holds its text, if the block is one text.
pub fn text_field(block: &Document) -> Result<Option<&'static str>> {
    let named = block.string(TYPE)?;
    Ok(match named.as_deref() {
        Some("refusal") => Some("refusal"),
        Some("input_text" | "output_text" | "text" | "summary_text" | "reasoning_text") => {
            Some("text")
        }
        // A block of an unknown type, which a server may read as a text.
        _ if first_byte(block, TEXT)? == Some(b'"') => Some("text"),
        _ => None,
    })
}

/// Writes edited parts into a message. Returns `None` if none is left.
pub fn write_blocks(
    message: &Document,
    before: &[Document],
    after: &[Document],
) -> Result<Option<Document>> {
    let mut edited = message.clone();
    if after.is_empty() {
        return Ok(None);
    }
    let text_type = text_type(message)?;
    let originals = if first_byte(message, CONTENT)? == Some(b'"') {
        if let Some(text) = join_texts(after)? {
            edited.set(CONTENT, &text.into())?;
            return Ok(Some(edited));
        }
        let text = message.string(CONTENT)?.unwrap_or_default();
        let block = json!({ "type": text_type, "text": text });
        vec![Bytes::from(block.to_string())]
    } else {
        message.list(CONTENT)?.unwrap_or_default()
    };
    let rewrite = |index: usize, before: &Document, after: &Document| {
        let original = originals.get(index).cloned().unwrap_or_default();
        edit_block(Document::from_checked(original)?, before, after)
    };
    let create = |part: &Document| {
        let block = new_block(text_type, part)?;
        Ok(block.iter().map(|block| block.to_string().into()).collect())
    };
    let blocks = splice_list(&originals, before, after, rewrite, create)?;
    if blocks.is_empty() {
        return Ok(None);
    }
    edited.set_bytes(CONTENT, write_array(blocks))?;
    Ok(Some(edited))
}

/// Returns the texts as one; `None` if any part is no text.
fn join_texts(parts: &[Document]) -> Result<Option<String>> {
    let texts = parts.iter().map(|part| part.string(TEXT));
    let texts: Vec<Option<String>> = texts.collect::<Result<_>>()?;
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    Ok(texts.map(|texts| texts.join(PARAGRAPH)))
}

/// Returns the texts of parts as one; `None` if they have none.
pub fn text_of(parts: &[Document]) -> Result<Option<String>> {
    let texts = parts.iter();
    let texts = texts.filter_map(|part| part.string(TEXT).transpose());
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    Ok((!texts.is_empty()).then(|| texts.join(PARAGRAPH)))
}

/// Returns the type of the text blocks of a message.
fn text_type(message: &Document) -> Result<&'static str> {
    let role = message.string(&["role"])?;
    Ok(match role.as_deref() {
        Some("assistant") => "output_text",
        Some(_) | None => "input_text",
    })
}

/// Returns a block with the edits of its part.
fn edit_block(mut block: Document, before: &Document, after: &Document) -> Result<Vec<Bytes>> {
    if let Some(field) = text_field(&block)? {
        let text = after.string(TEXT)?.unwrap_or_default();
        block.set(&[field], &text.into())?;
        clear_marks(&mut block)?;
    } else if let (Some(before), Some(after)) =
        (before.child(&["block"])?, after.child(&["block"])?)
    {
        write_visible_fields(&mut block, &before, &after)?;
    }
    Ok(vec![block.to_bytes()])
}

/// Creates the block of a new part; `None` for parts that messages cannot hold.
pub fn new_block(text_type: &str, part: &Document) -> Result<Option<Value>> {
    let text = part.string(TEXT)?;
    let is_refusal = text_type == "output_text" && part.has(&[IS_REFUSAL]);
    Ok(text.map(|text| {
        if is_refusal {
            json!({ "type": "refusal", "refusal": text })
        } else {
            json!({ "type": text_type, "text": text })
        }
    }))
}
