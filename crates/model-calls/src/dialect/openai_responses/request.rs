//! Requests: the content form of a body, and edits of it written back.

mod choice;
mod content;
mod contents;
mod cut_reasoning;
mod declarations;
mod input;
mod item_labels;
mod media;
mod new_items;
mod parameters;
mod refused;
mod results;
mod system;
mod texts;

use bytes::Bytes;
use serde_json::{Map, Value};

pub use self::{refused::refuse_references, texts::open_texts};
use crate::dialect::{
    call::Call,
    document::{Document, add_field, add_list, is_set, to_document},
    error::Result,
    google::fields::HAS_STORED_HISTORY,
    method::Operation,
    openai::request_fields::{read_other_models, write_storage},
    openai_responses::request::{
        choice::{read_choice, write_choice},
        contents::{read_contents, write_contents},
        cut_reasoning::remove_cut_reasoning,
        declarations::Declarations,
        input::Input,
        item_labels::REQUEST_LABELS,
        parameters::{read_parameters, write_parameters},
        refused::refuse_unseen,
        system::{read_system, write_system},
        texts::close_texts,
    },
};

const PREVIOUS_RESPONSE: &[&str] = &["previous_response_id"];

/// Returns the content form of a request.
///
/// # Errors
///
/// Fails if hooks could not see all of the request, or if parsers could read it differently.
pub fn read_content_form(body: &Document) -> Result<Document> {
    refuse_unseen(body)?;
    let input = Input::read(body)?;
    let mut form = Map::new();
    form.insert("contents".to_owned(), read_contents(&input)?);
    add_field(&mut form, "systemInstruction", read_system(body, &input)?);
    let declarations = Declarations::read(body, &input)?;
    add_field(&mut form, "tools", declarations.form()?);
    let choice = read_choice(body, &declarations)?;
    add_field(&mut form, "toolConfig", choice);
    add_field(&mut form, "generationConfig", read_parameters(body)?);
    if is_set(body, PREVIOUS_RESPONSE)? {
        form.insert(HAS_STORED_HISTORY.to_owned(), true.into());
    }
    add_list(&mut form, "fallbackModels", read_other_models(body)?);
    add_field(&mut form, "labels", REQUEST_LABELS.read(body)?);
    to_document(&Value::Object(form))
}

/// Writes an edited content form back into its request. A request without edits keeps its
/// bytes, except for reasoning that was cut off.
///
/// # Errors
///
/// Fails if an edit cannot be expressed in a request of the API.
pub fn close_request(call: &Call, body: &Document, form: &Document) -> Result<Bytes> {
    let mut edited = body.clone();
    call.write_model(&mut edited)?;
    if form.is_edited() {
        match call.operation {
            Operation::Embed | Operation::BatchEmbed => close_texts(&mut edited, form)?,
            _ => write_form(&mut edited, body, form)?,
        }
    }
    write_storage(&mut edited, call)?;
    if !matches!(call.operation, Operation::Embed | Operation::BatchEmbed) {
        remove_cut_reasoning(&mut edited)?;
    }
    Ok(edited.to_bytes())
}

fn write_form(edited: &mut Document, body: &Document, after: &Document) -> Result<()> {
    let before = read_content_form(body)?;
    REQUEST_LABELS.write(edited, &before, after)?;
    let mut input = Input::read(edited)?;
    let declarations = Declarations::read(body, &input)?;
    write_parameters(edited, &before, after)?;
    let has_tools = declarations.write(edited, &mut input, &before, after)?;
    write_choice(edited, &declarations, has_tools, &before, after)?;
    write_system(edited, &mut input, &before, after)?;
    write_contents(&mut input, &declarations, &before, after)?;
    if before.has(&[HAS_STORED_HISTORY]) && !after.has(&[HAS_STORED_HISTORY]) {
        edited.remove(PREVIOUS_RESPONSE)?;
    }
    input.write(edited)
}

#[cfg(test)]
mod tests;
