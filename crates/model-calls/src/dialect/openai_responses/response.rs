//! Whole responses: the content form of a body, edits of it written back, and synthetic
//! responses.

pub mod form;
pub mod item;
pub mod object;
pub mod response_labels;
pub mod splice;

use bytes::Bytes;
use serde_json::Value;

use self::{
    form::read_form,
    object::{COUNTS, NewIds, new_response},
    response_labels::visit_response,
    splice::splice_output,
};
use crate::dialect::{
    document::{to_document, write_array},
    error::Result,
    openai_responses::{
        chunk_view::ChunkView,
        fields::{OUTPUT, OUTPUT_TEXT, USAGE, parse},
    },
};

/// Returns the content form of a response.
///
/// # Errors
///
/// Fails if hooks could not see all of the response.
pub fn open_response(body: &Bytes) -> Result<Value> {
    read_form(&parse(body.clone())?)
}

/// Writes a response for the agent: `original` with the edits, or a synthetic one.
///
/// # Errors
///
/// Fails if an edit cannot be expressed in a response of the API.
pub fn close_response(original: Option<&Bytes>, view: &ChunkView) -> Result<Bytes> {
    let Some(original) = original else {
        return Ok(new_response(view)?.to_bytes());
    };
    if !view.is_edited {
        return Ok(original.clone());
    }
    let mut body = parse(original.clone())?;
    view.labels.write(0, &mut body, visit_response)?;
    let before = ChunkView::read(&to_document(&read_form(&body)?)?)?;
    let mut edited = body.clone();
    if before.part_bytes() != view.part_bytes() {
        let items = body.children(OUTPUT)?.unwrap_or_default();
        let mut ids = NewIds::of_response(&body)?;
        let output = splice_output(&items, &view.parts, &mut ids)?;
        edited.set_bytes(OUTPUT, write_array(output))?;
        edited.remove(OUTPUT_TEXT)?;
    }
    if before.finish_reason != view.finish_reason {
        object::set_finish_reason(&mut edited, view.finish_reason.as_deref())?;
    }
    if let Some(usage) = &view.usage {
        let mut counts = body.child(USAGE)?.unwrap_or_default();
        COUNTS.write(&mut counts, usage)?;
        if counts.is_edited() {
            edited.set_child(USAGE, &counts)?;
        }
    }
    Ok(edited.to_bytes())
}

#[cfg(test)]
mod tests;
