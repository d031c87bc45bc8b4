//! Sampling parameters and the format of the response.

use serde_json::{Map, Value};

use crate::dialect::{
    document::{Document, set_or_remove},
    error::Result,
    google::fields::GENERATION_CONFIG,
    openai_responses::fields::{TEXT, TYPE},
};

/// Names in the content form and in the API.
const PARAMETERS: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("maxOutputTokens", "max_output_tokens"),
];

/// Returns the generation config of the content form.
pub fn read_parameters(body: &Document) -> Result<Option<Value>> {
    let mut config = Map::new();
    for (name, field) in PARAMETERS {
        let value = body.get(&[field])?.filter(|value| !value.is_null());
        config.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    if wants_json(body)? {
        config.insert("responseMimeType".to_owned(), "application/json".into());
    }
    Ok((!config.is_empty()).then_some(Value::Object(config)))
}

/// Writes changed parameters. Ones that the API lacks are dropped.
pub fn write_parameters(edited: &mut Document, before: &Document, after: &Document) -> Result<()> {
    let before = before.child(GENERATION_CONFIG)?.unwrap_or_default();
    let after = after.child(GENERATION_CONFIG)?.unwrap_or_default();
    for (name, field) in PARAMETERS {
        let value = after.get(&[name])?.filter(|value| !value.is_null());
        if value != before.get(&[name])? {
            set_or_remove(edited, &[field], value)?;
        }
    }
    Ok(())
}

fn wants_json(body: &Document) -> Result<bool> {
    let format = match body.child(TEXT)? {
        Some(text) => text.child(&["format"])?,
        None => body.child(&["response_format"])?,
    };
    let named = format.unwrap_or_default().string(TYPE)?;
    Ok(named.is_some_and(|named| named.starts_with("json")))
}
