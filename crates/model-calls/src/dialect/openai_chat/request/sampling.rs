//! Sampling parameters and the format of the answer.

use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, is_set, refuse_pair, set_or_remove},
    error::{Result, field_error},
    google::fields::GENERATION_CONFIG,
    openai_chat::fields::TYPE,
};

const MAX_COMPLETION_TOKENS: &[&str] = &["max_completion_tokens"];
/// Deprecated name of `max_completion_tokens`, which compatible servers accept.
const MAX_TOKENS: &[&str] = &["max_tokens"];
const STOP: &[&str] = &["stop"];
const TOP_K: &str = "top_k";

/// Names in the content form, and those of the API.
const PARAMETERS: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("topK", TOP_K),
    ("candidateCount", "n"),
    ("presencePenalty", "presence_penalty"),
    ("frequencyPenalty", "frequency_penalty"),
];

/// Returns the `generationConfig` of the content form; empty if the request sets nothing.
///
/// # Errors
///
/// Fails if the request has two limits for the answer.
pub fn read_sampling(body: &Document) -> Result<Map<String, Value>> {
    refuse_pair(body, MAX_TOKENS, MAX_COMPLETION_TOKENS)?;
    let mut config = Map::new();
    let mut insert = |name: &str, value: Option<Value>| {
        let value = value.filter(|value| !value.is_null());
        config.extend(value.map(|value| (name.to_owned(), value)));
    };
    for (name, field) in PARAMETERS {
        insert(name, body.get(&[field])?);
    }
    insert("maxOutputTokens", body.get(token_limit(body)?)?);
    let stop = match body.get(STOP)? {
        Some(stop @ Value::String(_)) => Some(json!([stop])),
        stop => stop,
    };
    insert("stopSequences", stop);
    let wants_json = wants_json(body)?;
    insert(
        "responseMimeType",
        wants_json.then(|| "application/json".into()),
    );
    Ok(config)
}

fn token_limit(body: &Document) -> Result<&'static [&'static str]> {
    Ok(if is_set(body, MAX_TOKENS)? {
        MAX_TOKENS
    } else {
        MAX_COMPLETION_TOKENS
    })
}

fn wants_json(body: &Document) -> Result<bool> {
    let format = body.child(&["response_format"])?.unwrap_or_default();
    let is_json = |kind: String| ["json_object", "json_schema"].contains(&kind.as_str());
    Ok(format.string(TYPE)?.is_some_and(is_json))
}

/// Writes edited parameters. The API has no `topK`: it is written if the request had it.
pub fn write_sampling(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    if before.bytes_of(GENERATION_CONFIG)? == after.bytes_of(GENERATION_CONFIG)? {
        return Ok(());
    }
    let before = before.child(GENERATION_CONFIG)?.unwrap_or_default();
    let after = after.child(GENERATION_CONFIG)?.unwrap_or_default();
    let edited = |name: &str| -> Result<Option<Option<Value>>> {
        let (old, new) = (before.get(&[name])?, after.get(&[name])?);
        Ok((old != new).then_some(new))
    };
    for (name, field) in PARAMETERS {
        if let Some(value) = edited(name)?
            && (field != TOP_K || body.has(&[field]))
        {
            set_or_remove(body, &[field], value)?;
        }
    }
    if let Some(limit) = edited("maxOutputTokens")? {
        set_or_remove(body, token_limit(body)?, limit)?;
    }
    if let Some(stop) = edited("stopSequences")? {
        let was_text = matches!(body.get(STOP)?, Some(Value::String(_)));
        let stop = match stop {
            Some(Value::Array(list)) if was_text && list.len() == 1 => list.into_iter().next(),
            stop => stop,
        };
        set_or_remove(body, STOP, stop)?;
    }
    Ok(())
}

/// Refuses audio answers, which hooks cannot inspect.
pub fn check_modalities(body: &Document) -> Result<()> {
    let is_heard = match body.get(&["modalities"])? {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => list.iter().any(|modality| modality == "audio"),
        Some(_) => true,
    };
    if is_heard {
        let expected = "a list without `audio`: hooks cannot inspect sound";
        return Err(field_error("modalities", expected));
    }
    Ok(())
}
