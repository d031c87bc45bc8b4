//! Requests that hold texts and no conversation: embeddings, moderations and legacy
//! completions.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{ActOnObject, RequestLabels, SOURCE, parts_in},
    document::{Document, add_field, check_length, first_byte, is_set, to_document, write_array},
    error::{DialectError, Result, field_error},
    method::Operation,
    openai_responses::{
        fields::{INPUT, TEXT},
        request::{content::text_of, item_labels::MEDIUM_FIELDS, media::read_medium},
        visible_fields::OPAQUE,
    },
};

const PROMPT: &[&str] = &["prompt"];
const REQUESTS: &[&str] = &["requests"];
const CONTENT: &[&str] = &["content"];
const IMAGE: &[&str] = &["image_url"];

/// The fields of a request that are labels.
const REQUEST_LABELS: RequestLabels = RequestLabels {
    known: &[
        "encoding_format",
        "input",
        "logit_bias",
        "model",
        "prompt",
        "suffix",
    ],
    inner: "input",
    visit: visit_elements,
};

/// Returns the field that holds the texts.
fn texts_field(body: &Document) -> &'static [&'static str] {
    if body.has(PROMPT) { PROMPT } else { INPUT }
}

/// Returns the content form of a request that holds texts, and what it is: one text in
/// `content`, or a list of texts in `requests`.
///
/// # Errors
///
/// Fails for tokens and tensors, which hooks cannot read, and for both fields at once.
pub fn open_texts(body: &Document) -> Result<(Operation, Document)> {
    if body.has(PROMPT) && body.has(INPUT) {
        return Err(DialectError::Ambiguous("input".to_owned()));
    }
    let field = texts_field(body);
    check_length(body, field, 1)?;
    let suffix = body.string(&["suffix"])?;
    if suffix.is_some_and(|text| !text.is_empty()) {
        return Err(field_error("suffix", "absent, because hooks do not see it"));
    }
    if is_set(body, &["prompt_embeds"])? {
        let expected = "absent, because hooks cannot read it";
        return Err(field_error("prompt_embeds", expected));
    }
    let mut form = Map::new();
    add_field(&mut form, "labels", REQUEST_LABELS.read(body)?);
    let operation = match first_byte(body, field)? {
        Some(b'"') => {
            let text = body.string(field)?;
            let parts = json!([{ "text": text, SOURCE: 0 }]);
            let content = json!({ "role": "user", "parts": parts });
            form.insert("content".to_owned(), content);
            Operation::Embed
        }
        Some(b'[') => {
            let mut requests = Vec::new();
            for element in body.list(field)?.unwrap_or_default() {
                let part = read_element(field, &element)?;
                let content = json!({ "role": "user", "parts": [part] });
                requests.push(json!({ "content": content }));
            }
            form.insert("requests".to_owned(), requests.into());
            Operation::BatchEmbed
        }
        Some(_) | None => return Err(texts_expected(field)),
    };
    Ok((operation, to_document(&Value::Object(form))?))
}

/// Visits the elements of a list of texts that are objects.
fn visit_elements(body: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    let field = texts_field(body);
    if first_byte(body, field)? != Some(b'[') {
        return Ok(());
    }
    let mut elements = body.list(field)?.unwrap_or_default();
    let unedited = elements.clone();
    for element in &mut elements {
        if element.starts_with(b"{") {
            let mut block = Document::from_checked(element.clone())?;
            if first_byte(&block, IMAGE)? == Some(b'{') {
                block.edit_child(IMAGE, |image| act(image, &["detail", "url"]))?;
            }
            act(&mut block, &[OPAQUE, MEDIUM_FIELDS, TEXT].concat())?;
            *element = block.to_bytes();
        }
    }
    if elements != unedited {
        body.set_bytes(field, write_array(elements))?;
    }
    Ok(())
}

fn texts_expected(field: &[&str]) -> DialectError {
    let expected = "a text or a list of texts, because hooks cannot read tokens";
    field_error(field.first().copied().unwrap_or_default(), expected)
}

fn read_element(field: &[&str], element: &Bytes) -> Result<Value> {
    match element.first() {
        Some(b'"') => {
            let text = strict_json::unquote(element);
            let text = text.ok_or_else(|| texts_expected(field))?;
            Ok(json!({ "text": text }))
        }
        Some(b'{') => {
            let block = Document::from_checked(element.clone())?;
            if let Some(text) = block.string(TEXT)? {
                return Ok(json!({ "text": text }));
            }
            if let Some(medium) = read_medium(&block)? {
                return Ok(medium);
            }
            let image = block.child(IMAGE)?.unwrap_or_default();
            Ok(json!({ "fileData": { "fileUri": image.string(&["url"])? } }))
        }
        Some(_) | None => Err(texts_expected(field)),
    }
}

/// Writes edited texts into a request.
pub fn close_texts(body: &mut Document, form: &Document) -> Result<()> {
    let (_, before) = open_texts(body)?;
    REQUEST_LABELS.write(body, &before, form)?;
    let field = texts_field(body);
    if form.child(CONTENT)?.is_some() {
        let text = text_of(&parts_in(form, CONTENT)?)?.unwrap_or_default();
        if body.string(field)?.as_ref() != Some(&text) {
            body.set(field, &text.into())?;
        }
        return Ok(());
    }
    let elements = body.list(field)?.unwrap_or_default();
    let mut written = Vec::with_capacity(elements.len());
    let mut is_edited = false;
    let requests = form.children(REQUESTS)?.unwrap_or_default();
    for (request, element) in requests.iter().zip(&elements) {
        let text = text_of(&parts_in(request, CONTENT)?)?;
        let new = write_element(element, text)?;
        is_edited |= new != element;
        written.push(new);
    }
    if is_edited {
        body.set_bytes(field, write_array(written))?;
    }
    Ok(())
}

fn write_element(element: &Bytes, text: Option<String>) -> Result<Bytes> {
    let Some(text) = text else {
        return Ok(element.clone());
    };
    if element.first() == Some(&b'"') {
        let is_same = strict_json::unquote(element).is_some_and(|old| old == text);
        let new = || Value::String(text).to_string().into();
        return Ok(if is_same { element.clone() } else { new() });
    }
    let mut block = Document::from_checked(element.clone())?;
    if block.string(TEXT)?.as_ref() != Some(&text) {
        block.set(TEXT, &text.into())?;
    }
    Ok(block.to_bytes())
}
