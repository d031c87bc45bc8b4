//! Messages for new contents of the content form, and the contents of tools' messages.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{PRECEDING, keep_fields},
    document::{Document, value_text, write_array},
    error::Result,
    google::fields::{FUNCTION_CALL, FUNCTION_RESPONSE},
    openai_chat::{
        block::{block_text, read_medium, text_block},
        fields::{CONTENT, ID, NAME, PARAGRAPH, ROLE, TEXT},
        request::message::MessageContent,
        tool_call::{write_call, write_function_call},
    },
};

const RESPONSE: &[&str] = &["response"];

/// Returns the JSON of a message with one text.
pub fn text_message(role: &str, text: &str) -> Bytes {
    json!({ "role": role, "content": text }).to_string().into()
}

/// Returns the messages of a new content: results of tools each in one of its own, then
/// texts and calls.
pub fn create_messages(content: &Document) -> Result<Vec<Bytes>> {
    let mut messages = Vec::new();
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    let (mut function_call, mut thoughts) = (None, Map::new());
    for part in content.children(&["parts"])?.unwrap_or_default() {
        texts.extend(part.string(TEXT)?.filter(|text| !text.is_empty()));
        if let Some(call) = part.child(FUNCTION_CALL)? {
            let Some(mut call) = write_call(&call)? else {
                function_call = Some(write_function_call(&call)?);
                continue;
            };
            if let Some(preceding) = part.child(&[PRECEDING])? {
                extend(&mut thoughts, preceding.get(&["message"])?);
                if let Some(call) = call.as_object_mut() {
                    extend(call, preceding.get(&["call"])?);
                }
            }
            calls.push(call);
        }
        if let Some(result) = part.child(FUNCTION_RESPONSE)? {
            messages.push(result_message(&result)?);
        }
    }
    if texts.is_empty() && calls.is_empty() && function_call.is_none() {
        return Ok(messages);
    }
    let is_by_model = content.string(ROLE)?.as_deref() == Some("model");
    let mut message = Map::new();
    let role = if is_by_model { "assistant" } else { "user" };
    message.insert("role".to_owned(), role.into());
    let content = (!texts.is_empty()).then(|| texts.join(PARAGRAPH));
    message.insert("content".to_owned(), content.into());
    message.extend(thoughts);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    } else if let Some(call) = function_call {
        message.insert("function_call".to_owned(), call);
    }
    messages.push(Value::Object(message).to_string().into());
    Ok(messages)
}

fn extend(fields: &mut Map<String, Value>, more: Option<Value>) {
    if let Some(Value::Object(more)) = more {
        fields.extend(more);
    }
}

/// Returns the message of a tool, or of a function in the deprecated form, which has no id.
fn result_message(result: &Document) -> Result<Bytes> {
    let text = value_text(&result_content(result)?);
    let message = if let Some(id) = result.string(ID)? {
        json!({ "role": "tool", "tool_call_id": id, "content": text })
    } else {
        let name = result.string(NAME)?.unwrap_or_default();
        json!({ "role": "function", "name": name, "content": text })
    };
    Ok(message.to_string().into())
}

/// Writes the edited result of a tool into its message. A string stays a string; of a list of
/// texts, the first one takes the new text.
pub fn write_result(message: &mut Document, before: &Document, after: &Document) -> Result<()> {
    let result = |part: &Document| -> Result<Value> {
        result_content(&part.child(FUNCTION_RESPONSE)?.unwrap_or_default())
    };
    let new = after.child(FUNCTION_RESPONSE)?.unwrap_or_default();
    let new = new.child(RESPONSE)?.unwrap_or_default();
    let is_hidden = new.has(&["error"]);
    let (before, after) = (result(before)?, result(after)?);
    if before == after && !is_hidden {
        return Ok(());
    }
    if is_hidden {
        let fields = ["cache_control", "content", "name", "role", "tool_call_id"];
        keep_fields(message, &fields);
    }
    let MessageContent::Blocks(blocks) = MessageContent::read(message)? else {
        return message.set(CONTENT, &as_text(after));
    };
    write_result_blocks(message, &blocks, after, is_hidden)
}

/// Writes an edited result whose content is a list. Media keep their places, unless the result
/// is hidden.
fn write_result_blocks(
    message: &mut Document,
    blocks: &[Document],
    result: Value,
    is_hidden: bool,
) -> Result<()> {
    let mut written: Vec<Bytes> = Vec::with_capacity(blocks.len());
    let (mut edited, mut text) = match result {
        // The blocks that were read, with edited strings.
        Value::Array(list) => (list.into_iter(), None),
        result => (Vec::new().into_iter(), Some(as_text(result))),
    };
    for block in blocks {
        if read_medium(block)?.is_some() {
            written.extend((!is_hidden).then(|| block.to_bytes()));
        } else if let Some(block) = edited.next() {
            written.push(block.to_string().into());
        } else if let (Some(new), true) = (&text, block_text(block)?.is_some()) {
            let mut block = block.clone();
            if is_hidden {
                keep_fields(&mut block, &["cache_control", "text", "type"]);
            }
            block.set(TEXT, new)?;
            written.push(block.to_bytes());
            text = None;
        }
    }
    written.extend(edited.map(|block| block.to_string().into()));
    written.extend(text.map(|text| text_block(text.as_str().unwrap_or_default())));
    message.set_bytes(CONTENT, write_array(written))
}

/// Returns the error or the output of a result, with what hooks appended to it.
fn result_content(result: &Document) -> Result<Value> {
    let response = result.child(RESPONSE)?.unwrap_or_default();
    if let Some(error) = response.get(&["error"])? {
        return Ok(error);
    }
    let output = response.get(&["output"])?.unwrap_or_default();
    let Some(context) = response.string(&["hook_context"])? else {
        return Ok(output);
    };
    Ok(match output {
        Value::Array(mut blocks) => {
            blocks.push(json!({ "type": "text", "text": context }));
            Value::Array(blocks)
        }
        Value::Null => context.into(),
        Value::String(output) => format!("{output}\n\n{context}").into(),
        other => format!("{other}\n\n{context}").into(),
    })
}

fn as_text(value: Value) -> Value {
    match value {
        Value::String(_) => value,
        Value::Null => "".into(),
        other => other.to_string().into(),
    }
}
