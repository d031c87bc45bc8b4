//! Requests: bodies of the API read into the content form, and edits spliced back.

mod message;
mod message_edit;
mod message_labels;
mod messages;
mod new_message;
mod sampling;
mod tool_choice;
mod tools;

use bytes::Bytes;
use serde_json::{Map, Value};

use self::{
    message_labels::REQUEST_LABELS,
    messages::ChatMessages,
    sampling::{check_modalities, read_sampling, write_sampling},
    tool_choice::{read_tool_choice, write_tool_choice},
    tools::{read_tools, write_tools},
};
use crate::dialect::{
    api_dialect::OpenedRequest,
    call::Call,
    content_form::{any_object_with, holds_id},
    document::{Document, add_field, add_list, check_length, is_set, to_document},
    error::Result,
    method::{Api, Operation},
    openai::request_fields::{no_model, read_model, read_other_models, write_storage},
    openai_chat::fields::{MESSAGES, TOOLS, check_fields},
    request_field::{RequestField, STORED_PROMPTS},
};

/// Reads a request into the content form. Sets the model, and the kind of call.
///
/// # Errors
///
/// Fails for fields that hooks cannot see through, and for what two servers could read
/// differently.
pub fn open_request(call: &mut Call, body: Document) -> Result<OpenedRequest> {
    check_length(&body, MESSAGES, 3)?;
    call.model = Some(read_model(&body)?.ok_or_else(no_model)?);
    call.read_stream(&body)?;
    let is_stream = matches!(call.operation, Operation::Stream(_));
    call.omits_usage = is_stream && !includes_usage(&body)?;
    let allowed = call.allowed_fields;
    if let Some(field) = stored_file_field(&body)? {
        allowed.check_named(Api::OpenAiChat, RequestField::StoredFile, field)?;
    }
    for field in STORED_PROMPTS {
        if is_set(&body, &[field])? {
            allowed.check_named(Api::OpenAiChat, RequestField::StoredPrompt, field)?;
        }
    }
    Ok(OpenedRequest::from_body(call, read_chat(&body)?, body))
}

/// Returns whether a stream ends with token counts.
fn includes_usage(body: &Document) -> Result<bool> {
    let options = body.get(&["stream_options"])?.unwrap_or_default();
    Ok(options.get("include_usage") == Some(&Value::Bool(true)))
}

/// Returns the field by which a message or a tool names a file or a sound that is stored upstream,
/// if any.
fn stored_file_field(body: &Document) -> Result<Option<&'static str>> {
    let is_file = |fields: &Map<String, Value>| fields.get("file_id") != Some(&Value::Null);
    let is_sound = |fields: &Map<String, Value>| {
        let id = fields.get("audio").and_then(|audio| audio.get("id"));
        id.is_some_and(|id| !id.is_null())
    };
    if any_object_with(body, MESSAGES, "file_id", "arguments", &is_file)? {
        return Ok(Some("file_id"));
    }
    for key in ["file_id", "file_ids"] {
        let is_named = |fields: &Map<String, Value>| holds_id(fields, key);
        if any_object_with(body, TOOLS, key, "function", &is_named)? {
            return Ok(Some(key));
        }
    }
    let names_sound = any_object_with(body, MESSAGES, "audio", "arguments", &is_sound)?;
    Ok(names_sound.then_some("audio.id"))
}

/// Splices the edits of the content form into the original body. Without edits, it keeps its
/// bytes.
pub fn close_request(call: &Call, original: &Document, document: &Document) -> Result<Bytes> {
    let mut body = original.clone();
    if document.is_edited() {
        write_form(&mut body, document)?;
    }
    call.write_model(&mut body)?;
    write_storage(&mut body, call)?;
    Ok(body.to_bytes())
}

fn write_form(body: &mut Document, after: &Document) -> Result<()> {
    let before = read_chat(body)?;
    REQUEST_LABELS.write(body, &before, after)?;
    if let Some(messages) = ChatMessages::read(body)? {
        messages.write(body, &before, after)?;
    }
    write_tool_choice(body, &before, after)?;
    write_tools(body, &before, after)?;
    write_sampling(body, &before, after)
}

/// Returns a conversation in the content form.
fn read_chat(body: &Document) -> Result<Document> {
    check_fields(body)?;
    check_modalities(body)?;
    let mut fields = Map::new();
    if let Some(messages) = ChatMessages::read(body)? {
        let instruction = messages.system_instruction();
        add_field(&mut fields, "systemInstruction", instruction);
        fields.insert("contents".to_owned(), messages.contents().into());
    }
    add_list(&mut fields, "fallbackModels", read_other_models(body)?);
    add_list(&mut fields, "tools", read_tools(body)?);
    add_field(&mut fields, "toolConfig", read_tool_choice(body)?);
    let sampling = Some(read_sampling(body)?).filter(|sampling| !sampling.is_empty());
    add_field(&mut fields, "generationConfig", sampling);
    add_field(&mut fields, "labels", REQUEST_LABELS.read(body)?);
    to_document(&Value::Object(fields))
}

#[cfg(test)]
mod tests;
