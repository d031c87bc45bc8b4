//! Results of tools that the agent ran: their outputs in the content form, and edited ones
//! written back.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, first_byte, insert, to_value, value_text, write_array},
    error::{Result, field_error},
    openai_responses::{
        calls::ToolCallKind,
        fields::{OUTPUT, STATUS, TEXT},
        request::{item_labels::remove_result_labels, media::read_medium},
    },
};

const RESPONSE: &[&str] = &["response"];
/// Media in the content form of a result.
const MEDIA: &[&str] = &["parts"];

/// Returns the function response of a result.
pub fn read_result(
    kind: ToolCallKind,
    item: &Document,
    id: Option<&str>,
    name: &str,
) -> Result<Value> {
    let (output, media) = match kind {
        ToolCallKind::Computer => {
            let screenshot = item.child(OUTPUT)?.unwrap_or_default();
            (json!(""), read_medium(&screenshot)?.into_iter().collect())
        }
        kind if kind != ToolCallKind::Shell && first_byte(item, OUTPUT)? == Some(b'[') => {
            read_output_blocks(item)?
        }
        _ => (item.get(OUTPUT)?.unwrap_or_default(), Vec::new()),
    };
    let mut response = json!({ "id": id, "name": name, "response": { "output": output } });
    if !media.is_empty() {
        insert(&mut response, "parts", media);
    }
    Ok(response)
}

/// Returns what hooks see of a list of blocks, a single text as a string, and its media.
fn read_output_blocks(item: &Document) -> Result<(Value, Vec<Value>)> {
    let (mut shown, mut media) = (Vec::new(), Vec::new());
    for block in item.children(OUTPUT)?.unwrap_or_default() {
        match shown_block(&block)? {
            Some(value) => shown.push(value),
            None => media.extend(read_medium(&block)?),
        }
    }
    let output = match shown.as_slice() {
        [Value::String(text)] => text.as_str().into(),
        _ => Value::Array(shown),
    };
    Ok((output, media))
}

/// Returns the text of a block, or all of one that holds none; `None` for a medium.
fn shown_block(block: &Document) -> Result<Option<Value>> {
    if let Some(text) = block.string(TEXT)? {
        return Ok(Some(text.into()));
    }
    Ok(match read_medium(block)? {
        Some(_) => None,
        None => Some(to_value(block)?),
    })
}

/// Writes an edited function response into its item.
pub fn write_result(
    kind: ToolCallKind,
    item: &Document,
    before: &Document,
    after: &Document,
) -> Result<Document> {
    let mut edited = item.clone();
    let response = after.child(RESPONSE)?.unwrap_or_default();
    let is_hidden = response.has(&["error"]);
    if is_hidden {
        remove_result_labels(&mut edited);
    }
    let text = response_text(&response)?;
    let context = hook_context(&response)?;
    let has_same_media = before.bytes_of(MEDIA)? == after.bytes_of(MEDIA)?;
    match (kind, response.get(OUTPUT)?) {
        (ToolCallKind::Shell, Some(Value::Array(mut printed))) if !is_hidden => {
            printed.extend(context.map(|context| shell_output(&context)));
            edited.set(OUTPUT, &printed.into())?;
        }
        (ToolCallKind::Shell, _) => edited.set(OUTPUT, &json!([shell_output(&text)]))?,
        (ToolCallKind::ApplyPatch, _) => {
            edited.set(OUTPUT, &text.into())?;
            if is_hidden {
                edited.set(STATUS, &json!("failed"))?;
            }
        }
        // Of a hidden result, no block is left.
        (_, _) if is_hidden || !has_same_media => edited.set(OUTPUT, &text.into())?,
        (_, Some(Value::Array(shown))) => {
            let mut blocks = write_blocks(item, &shown)?;
            blocks.extend(context.map(|context| new_block(&context.into())));
            edited.set_bytes(OUTPUT, write_array(blocks))?;
        }
        (_, _) if first_byte(item, OUTPUT)? == Some(b'[') => {
            edited.set_bytes(OUTPUT, write_array(write_blocks(item, &[text.into()])?))?;
        }
        (_, _) => edited.set(OUTPUT, &text.into())?,
    }
    Ok(edited)
}

/// Writes an edited screenshot: a message in its place, or behind it with what hooks added.
///
/// # Errors
///
/// Fails if the screenshot is another one.
pub fn write_screenshot(
    item: &Document,
    before: &Document,
    after: &Document,
) -> Result<Vec<Bytes>> {
    let response = after.child(RESPONSE)?.unwrap_or_default();
    let text = response_text(&response)?;
    let message = user_message(text.trim_start()).to_string().into();
    if hides_screenshot(after)? {
        return Ok(vec![message]);
    }
    if before.bytes_of(MEDIA)? != after.bytes_of(MEDIA)? {
        let expected = "as the agent sent it, because hooks cannot edit a screenshot";
        return Err(field_error("computer_call_output", expected));
    }
    Ok(vec![item.to_bytes(), message])
}

/// Returns whether hooks replaced a screenshot by a text.
pub fn hides_screenshot(after: &Document) -> Result<bool> {
    let response = after.child(RESPONSE)?;
    let has_error = response.is_some_and(|response| response.has(&["error"]));
    Ok(has_error || !after.has(MEDIA))
}

/// Returns the output of a command that printed a text.
fn shell_output(text: &str) -> Value {
    let outcome = json!({ "type": "exit", "exit_code": 0 });
    json!({ "stdout": text, "stderr": "", "outcome": outcome })
}

/// Returns a message of the user, which holds the text of a result that can only be a screenshot.
fn user_message(text: &str) -> Value {
    let block = json!({ "type": "input_text", "text": text });
    json!({ "type": "message", "role": "user", "content": [block] })
}

/// Creates the result of a call that the agent did not run.
pub fn new_result(kind: ToolCallKind, id: &str, response: &Document) -> Result<Value> {
    let text = response_text(response)?;
    let result_type = format!("{}_output", kind.call_type());
    Ok(match kind {
        ToolCallKind::Function | ToolCallKind::Custom => {
            json!({ "type": result_type, "call_id": id, "output": text })
        }
        ToolCallKind::LocalShell => json!({ "type": result_type, "id": id, "output": text }),
        ToolCallKind::Shell => {
            json!({ "type": result_type, "call_id": id, "output": [shell_output(&text)] })
        }
        ToolCallKind::ApplyPatch => json!({
            "type": result_type,
            "call_id": id,
            "status": "failed",
            "output": text,
        }),
        ToolCallKind::ToolSearch => json!({
            "type": "tool_search_output",
            "call_id": id,
            "execution": "client",
            "status": "completed",
            "tools": [],
        }),
        // A result is a screenshot, so the call and its result become a text.
        ToolCallKind::Computer => user_message(&text),
    })
}

/// Returns a function response as a text: its error, its output with a text that hooks
/// added, or else its JSON.
fn response_text(response: &Document) -> Result<String> {
    let error = response.get(&["error"])?;
    let output = response.get(OUTPUT)?;
    let text = match error.or(output) {
        Some(Value::Array(texts)) => {
            let texts = texts.iter().map(value_text);
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(value) => value_text(&value),
        None => response.to_text(),
    };
    Ok(match hook_context(response)? {
        Some(context) => format!("{text}\n\n{context}"),
        None => text,
    })
}

/// Returns the text that hooks added to a result whose output is no text.
fn hook_context(response: &Document) -> Result<Option<String>> {
    if !response.has(OUTPUT) {
        return Ok(None);
    }
    response.string(&["hook_context"])
}

/// Writes what hooks see of the blocks of a result. Blocks of which nothing is left go, values
/// without a block get a new one, and media stay.
fn write_blocks(item: &Document, values: &[Value]) -> Result<Vec<Bytes>> {
    let mut values = values.iter();
    let mut written = Vec::new();
    for mut block in item.children(OUTPUT)?.unwrap_or_default() {
        if let Some(shown) = shown_block(&block)? {
            let Some(value) = values.next() else {
                continue;
            };
            if *value != shown && shown.is_string() {
                block.set(TEXT, value)?;
            } else if *value != shown {
                written.push(new_block(value));
                continue;
            }
        }
        written.push(block.to_bytes());
    }
    written.extend(values.map(new_block));
    Ok(written)
}

/// Returns a block with a text, or one that was shown whole.
fn new_block(value: &Value) -> Bytes {
    let block = match value {
        Value::String(text) => json!({ "type": "input_text", "text": text }),
        block => block.clone(),
    };
    block.to_string().into()
}
