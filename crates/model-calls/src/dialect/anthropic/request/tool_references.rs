//! References to declared tools in the results of searches.

use bytes::Bytes;
use memchr::memmem;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        block_content::{BlockContent, text_block},
        fields::{CONTENT, type_of},
    },
    document::Document,
    error::Result,
};

const TOOL_NAME: &[&str] = &["tool_name"];
const TOOL_REFERENCES: &[&str] = &["tool_references"];

/// Result of a search that found nothing but withheld tools.
const NO_TOOLS: &str = "No tools found";

/// Removes the references to withheld tools from a message: the API refuses a reference to a tool
/// that is not declared.
///
/// # Errors
///
/// Fails if a block has a field of a wrong type.
pub fn remove_references(message: &mut Bytes, is_withheld: &dyn Fn(&str) -> bool) -> Result<()> {
    // Most messages have none, and need no parsing.
    if memmem::find(message, b"tool_reference").is_none() {
        return Ok(());
    }
    let mut document = Document::from_checked(message.clone())?;
    let Some(BlockContent::Blocks(mut blocks)) = BlockContent::read(&document, "content")? else {
        return Ok(());
    };
    for block in &mut blocks {
        match type_of(block)?.as_str() {
            "tool_result" => edit_result(block, is_withheld)?,
            "tool_search_tool_result" => block.edit_child(CONTENT, |content| {
                let references = content.children(TOOL_REFERENCES)?.unwrap_or_default();
                match kept(&references, is_withheld)? {
                    Some(kept) => content.set_children(TOOL_REFERENCES, kept),
                    None => Ok(()),
                }
            })?,
            _ => (),
        }
    }
    if blocks.iter().any(Document::is_edited) {
        document.set_children(CONTENT, &blocks)?;
        *message = document.to_bytes();
    }
    Ok(())
}

/// Edits the result of a search that the agent ran.
fn edit_result(result: &mut Document, is_withheld: &dyn Fn(&str) -> bool) -> Result<()> {
    let Some(BlockContent::Blocks(blocks)) = BlockContent::read(result, "content")? else {
        return Ok(());
    };
    match kept(&blocks, is_withheld)? {
        None => Ok(()),
        Some(kept) if kept.is_empty() => {
            let text = text_block(json!(NO_TOOLS).to_string().into())?;
            result.set_children(CONTENT, [&text])
        }
        Some(kept) => result.set_children(CONTENT, kept),
    }
}

/// Returns the blocks that refer to no withheld tool; `None` if these are all.
fn kept<'a>(
    blocks: &'a [Document],
    is_withheld: &dyn Fn(&str) -> bool,
) -> Result<Option<Vec<&'a Document>>> {
    let mut kept = Vec::with_capacity(blocks.len());
    for block in blocks {
        let is_reference = type_of(block)? == "tool_reference";
        let name = block.string(TOOL_NAME)?.filter(|_| is_reference);
        if !name.is_some_and(|name| is_withheld(&name)) {
            kept.push(block);
        }
    }
    Ok((kept.len() < blocks.len()).then_some(kept))
}
