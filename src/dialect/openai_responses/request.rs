//! Requests: the content form of a body, and edits of it written back.

mod choice;
mod content;
mod contents;
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
    document::{Document, to_document},
    error::Result,
    method::Operation,
    openai::request_fields::{read_other_models, write_storage},
    openai_responses::request::{
        choice::{read_choice, write_choice},
        contents::{read_contents, write_contents},
        declarations::Declarations,
        input::Input,
        item_labels::REQUEST_LABELS,
        parameters::{read_parameters, write_parameters},
        refused::refuse_unseen,
        system::{read_system, write_system},
        texts::close_texts,
    },
};

/// Returns the content form of a request.
///
/// # Errors
///
/// Fails if hooks could not see all of the request, or if parsers could read it differently.
pub fn read_request(body: &Document) -> Result<Document> {
    refuse_unseen(body)?;
    let input = Input::read(body)?;
    let mut form = Map::new();
    let mut add = |key: &str, value: Option<Value>| {
        form.extend(value.map(|value| (key.to_owned(), value)));
    };
    add("contents", Some(read_contents(&input)?));
    add("systemInstruction", read_system(body, &input)?);
    add("tools", Declarations::read(body, &input)?.form()?);
    add("toolConfig", read_choice(body)?);
    add("generationConfig", read_parameters(body)?);
    let models = Some(read_other_models(body)?).filter(|models| !models.is_empty());
    add("fallbackModels", models.map(Value::from));
    let labels = Some(REQUEST_LABELS.read(body)?).filter(|labels| !labels.is_empty());
    add("labels", labels.map(Value::from));
    to_document(&Value::Object(form))
}

/// Writes an edited content form back into its request. A request without edits keeps its
/// bytes.
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
    Ok(edited.to_bytes())
}

fn write_form(edited: &mut Document, body: &Document, after: &Document) -> Result<()> {
    let before = read_request(body)?;
    REQUEST_LABELS.write(edited, &before, after)?;
    let mut input = Input::read(edited)?;
    let declarations = Declarations::read(body, &input)?;
    write_parameters(edited, &before, after)?;
    let has_tools = declarations.write(edited, &mut input, &before, after)?;
    write_choice(edited, &declarations, has_tools, &before, after)?;
    write_system(edited, &mut input, &before, after)?;
    write_contents(&mut input, &declarations, &before, after)?;
    input.write(edited)
}

#[cfg(test)]
mod tests;
