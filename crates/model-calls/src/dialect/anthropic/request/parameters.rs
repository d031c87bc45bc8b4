//! Generation parameters of the Messages API, under the names of the content form.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        fields::{FALLBACKS, GENERATION_CONFIG, THINKING, TYPE},
        request::tool_choice::TOOL_CHOICE,
    },
    document::{Document, first_byte, integer, read_json},
    error::{DialectError, Result},
};

const MAX_TOKENS: &[&str] = &["max_tokens"];
const OUTPUT_CONFIG: &[&str] = &["output_config"];
const OUTPUT_FORMAT: &[&str] = &["output_format"];
const BUDGET_TOKENS: &[&str] = &["budget_tokens"];

/// Smallest budget of thinking tokens that the API accepts.
const MIN_BUDGET_TOKENS: u64 = 1024;

/// Names in the content form and in the API.
const PARAMETERS: [(&str, &str); 5] = [
    ("temperature", "temperature"),
    ("maxOutputTokens", "max_tokens"),
    ("topP", "top_p"),
    ("topK", "top_k"),
    ("stopSequences", "stop_sequences"),
];

/// Reads the generation parameters; `None` if there are none. The token limit is the largest of
/// those of the body and of its fallbacks.
///
/// # Errors
///
/// Fails if the format of the output is given twice.
pub fn read_parameters(body: &Document) -> Result<Option<Document>> {
    let mut config = Document::empty();
    for (name, field) in PARAMETERS {
        let value = body.bytes_of(&[field])?;
        if let Some(mut value) = value.filter(|value| **value != *b"null") {
            if MAX_TOKENS.contains(&field) {
                value = largest_limit(body, value)?;
            }
            config.set_bytes(&[name], value)?;
        }
    }
    if wants_json(body)? {
        config.set(&["responseMimeType"], &json!("application/json"))?;
    }
    Ok(config.is_edited().then_some(config))
}

/// Writes the parameters that were edited. The token limit cannot be removed.
pub fn write_parameters(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    let before = before.child(GENERATION_CONFIG)?.unwrap_or_default();
    let after = after.child(GENERATION_CONFIG)?.unwrap_or_default();
    for (name, field) in PARAMETERS {
        let (shown, value) = (before.bytes_of(&[name])?, after.bytes_of(&[name])?);
        if value == shown {
            continue;
        }
        match value {
            // The API refuses any temperature but its default beside thinking.
            Some(_) if name == "temperature" && thinks(body)? => body.remove(&[field])?,
            Some(limit) if MAX_TOKENS.contains(&field) => {
                write_limit(body, shown.as_ref(), &limit)?;
            }
            Some(value) => body.set_bytes(&[field], value)?,
            None if MAX_TOKENS.contains(&field) => (),
            None => body.remove(&[field])?,
        }
    }
    Ok(())
}

/// Returns the largest token limit of a body and its fallbacks.
fn largest_limit(body: &Document, own: Bytes) -> Result<Bytes> {
    let mut largest = own;
    if first_byte(body, FALLBACKS)? == Some(b'[') {
        for fallback in body.children(FALLBACKS)?.unwrap_or_default() {
            let limit = fallback.bytes_of(MAX_TOKENS)?;
            let limit = limit.filter(|limit| **limit != *b"null");
            largest = limit
                .filter(|limit| tokens(limit) > tokens(&largest))
                .unwrap_or(largest);
        }
    }
    Ok(largest)
}

/// Writes a token limit, which replaces larger ones of fallbacks. That of the body is replaced if
/// it was `shown`, or if it is larger, too.
fn write_limit(body: &mut Document, shown: Option<&Bytes>, limit: &Bytes) -> Result<()> {
    let own = body.bytes_of(MAX_TOKENS)?;
    if own.as_ref() == shown || own.is_some_and(|own| tokens(&own) > tokens(limit)) {
        body.set_bytes(MAX_TOKENS, limit.clone())?;
    }
    let own = integer(body, MAX_TOKENS)?;
    lower_thinking_budget(body, own)?;
    if first_byte(body, FALLBACKS)? != Some(b'[') {
        return Ok(());
    }
    body.edit_children(FALLBACKS, |fallback| {
        let given = fallback.bytes_of(MAX_TOKENS)?;
        let given = given.filter(|given| **given != *b"null");
        if given.is_some_and(|given| tokens(&given) > tokens(limit)) {
            fallback.set_bytes(MAX_TOKENS, limit.clone())?;
        }
        let limit = integer(fallback, MAX_TOKENS)?.or(own);
        lower_thinking_budget(fallback, limit)
    })
}

/// Returns a token limit as a number. What is no positive number counts as no limit.
fn tokens(limit: &[u8]) -> f64 {
    let limit = read_json::<Value>(limit).ok();
    let limit = limit.and_then(|limit| limit.as_f64());
    limit.filter(|limit| *limit >= 1.0).unwrap_or(f64::INFINITY)
}

/// The API refuses a budget that is not below the token limit.
fn lower_thinking_budget(body: &mut Document, limit: Option<u64>) -> Result<()> {
    body.edit_child(THINKING, |thinking| {
        match (limit, integer(thinking, BUDGET_TOKENS)?) {
            (Some(limit), Some(budget)) if budget >= limit && limit > MIN_BUDGET_TOKENS => {
                thinking.set(BUDGET_TOKENS, &json!(limit - 1))
            }
            _ => Ok(()),
        }
    })
}

/// Returns whether thinking is on, with which the API accepts no forced tool.
pub fn thinks(body: &Document) -> Result<bool> {
    let thinking = body.child(THINKING)?.unwrap_or_default();
    let kind = thinking.string(TYPE)?;
    Ok(matches!(kind.as_deref(), Some("enabled" | "adaptive")))
}

fn wants_json(body: &Document) -> Result<bool> {
    let config = body.child(OUTPUT_CONFIG)?.unwrap_or_default();
    let format = config.child(&["format"])?;
    let older = body.child(OUTPUT_FORMAT)?;
    if format.is_some() && older.is_some() {
        return Err(DialectError::Ambiguous("output_format".to_owned()));
    }
    let choice = body.child(TOOL_CHOICE)?.unwrap_or_default();
    let kind = format.or(older).unwrap_or_default().get(TYPE)?;
    let is_json = |kind: &Value| kind.as_str().is_some_and(|kind| kind.starts_with("json"));
    Ok(kind.as_ref().is_some_and(is_json) || choice.string(TYPE)?.as_deref() == Some("tool"))
}
