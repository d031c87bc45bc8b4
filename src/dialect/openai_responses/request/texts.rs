//! Requests that hold texts and no conversation: embeddings, moderations and legacy
//! completions.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::SOURCE,
    document::{Document, write_array},
    error::{DialectError, field_error},
    method::Operation,
    openai_responses::{
        fields::{INPUT, TEXT, first_byte, object},
        form_fields::PARTS,
        request::media::read_medium,
    },
};

const PROMPT: &[&str] = &["prompt"];
const REQUESTS: &[&str] = &["requests"];
const CONTENT: &[&str] = &["content"];

/// Returns the field that holds the texts.
fn texts_field(body: &Document) -> &'static [&'static str] {
    if body.has(PROMPT) { PROMPT } else { INPUT }
}

/// Returns the content form of a request that holds texts, and what it is: one text in
/// `content`, or a list of texts in `requests`.
///
/// # Errors
///
/// Fails for tokens, which hooks cannot read, and for both fields at once.
pub fn open_texts(body: &Document) -> Result<(Operation, Document), DialectError> {
    if body.has(PROMPT) && body.has(INPUT) {
        return Err(DialectError::Ambiguous("input".to_owned()));
    }
    let field = texts_field(body);
    if body
        .string(&["suffix"])?
        .is_some_and(|text| !text.is_empty())
    {
        return Err(field_error("suffix", "absent, because hooks do not see it"));
    }
    match first_byte(body, field)? {
        Some(b'"') => {
            let text = body.string(field)?;
            let parts = json!([{ "text": text, SOURCE: 0 }]);
            let form = object(&json!({ "content": { "role": "user", "parts": parts } }))?;
            Ok((Operation::Embed, form))
        }
        Some(b'[') => {
            let mut requests = Vec::new();
            for element in body.list(field)?.unwrap_or_default() {
                let part = read_element(&element)?;
                let content = json!({ "role": "user", "parts": [part] });
                requests.push(json!({ "content": content }));
            }
            let form = object(&json!({ "requests": requests }))?;
            Ok((Operation::BatchEmbed, form))
        }
        Some(_) | None => Err(texts_expected()),
    }
}

fn texts_expected() -> DialectError {
    field_error(
        "input",
        "a text or a list of texts, because hooks cannot read tokens",
    )
}

fn read_element(element: &Bytes) -> Result<Value, DialectError> {
    match element.first() {
        Some(b'"') => Ok(json!({ "text": unquoted(element)? })),
        Some(b'{') => {
            let block = Document::from_checked(element.clone())?;
            if let Some(text) = block.string(TEXT)? {
                return Ok(json!({ "text": text }));
            }
            if let Some(medium) = read_medium(&block)? {
                return Ok(medium);
            }
            let image = block.child(&["image_url"])?.unwrap_or_else(Document::empty);
            Ok(json!({ "fileData": { "fileUri": image.string(&["url"])? } }))
        }
        Some(_) | None => Err(texts_expected()),
    }
}

fn unquoted(element: &[u8]) -> Result<String, DialectError> {
    let text = strict_json::unquote(element);
    text.map(std::borrow::Cow::into_owned)
        .ok_or_else(texts_expected)
}

/// Writes edited texts into a request.
pub fn close_texts(
    edited: &mut Document,
    body: &Document,
    form: &Document,
) -> Result<(), DialectError> {
    let field = texts_field(body);
    if let Some(content) = form.child(CONTENT)? {
        let text = content_text(&content)?.unwrap_or_default();
        if body.string(field)?.as_ref() != Some(&text) {
            edited.set(field, &text.into())?;
        }
        return Ok(());
    }
    let elements = body.list(field)?.unwrap_or_default();
    let mut written = Vec::with_capacity(elements.len());
    let mut is_edited = false;
    let requests = form.children(REQUESTS)?.unwrap_or_default();
    for (request, element) in requests.iter().zip(&elements) {
        let content = request.child(CONTENT)?.unwrap_or_else(Document::empty);
        let new = write_element(element, content_text(&content)?)?;
        is_edited |= new != element;
        written.push(new);
    }
    if is_edited {
        edited.set_bytes(field, write_array(written))?;
    }
    Ok(())
}

/// Returns the texts of a content as one.
fn content_text(content: &Document) -> Result<Option<String>, DialectError> {
    let parts = content.children(PARTS)?.unwrap_or_default();
    let texts: Vec<Option<String>> = parts
        .iter()
        .map(|part| part.string(TEXT))
        .collect::<Result<_, _>>()?;
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
}

fn write_element(element: &Bytes, text: Option<String>) -> Result<Bytes, DialectError> {
    let Some(text) = text else {
        return Ok(element.clone());
    };
    if element.first() == Some(&b'"') {
        let is_same = unquoted(element)? == text;
        let new = || Value::String(text).to_string().into();
        return Ok(if is_same { element.clone() } else { new() });
    }
    let mut block = Document::from_checked(element.clone())?;
    if block.string(TEXT)?.as_ref() != Some(&text) {
        block.set(TEXT, &text.into())?;
    }
    Ok(block.to_bytes())
}
