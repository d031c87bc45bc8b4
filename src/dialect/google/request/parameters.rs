//! Generation parameters.

use serde_json::{Map, Value};

use crate::dialect::{
    call::Call,
    document::Document,
    error::{DialectError, field_error},
    google::{fields::GENERATION_CONFIG, request::body::counted_request},
};

/// A generation parameter that hooks may set.
pub struct Parameter {
    /// Name in the stable form.
    pub name: &'static str,
    pub spellings: [&'static str; 2],
    /// True if the stable form shows it.
    is_shown: bool,
}

pub const PARAMETERS: &[Parameter] = &[
    shown("temperature", "temperature"),
    shown("maxOutputTokens", "max_output_tokens"),
    shown("topP", "top_p"),
    shown("topK", "top_k"),
    shown("stopSequences", "stop_sequences"),
    hidden("candidateCount", "candidate_count"),
    hidden("presencePenalty", "presence_penalty"),
    hidden("frequencyPenalty", "frequency_penalty"),
];

const fn shown(name: &'static str, snake_case: &'static str) -> Parameter {
    Parameter {
        name,
        spellings: [name, snake_case],
        is_shown: true,
    }
}

const fn hidden(name: &'static str, snake_case: &'static str) -> Parameter {
    Parameter {
        is_shown: false,
        ..shown(name, snake_case)
    }
}

/// Returns the generation parameters of the stable form, in camelCase.
pub fn generation_parameters(
    call: &Call,
    document: &Document,
) -> Result<Map<String, Value>, DialectError> {
    let inner = counted_request(call, document)?;
    read_parameters(inner.as_ref().unwrap_or(document))
}

pub fn read_parameters(document: &Document) -> Result<Map<String, Value>, DialectError> {
    let mut parameters = Map::new();
    if let Some(config) = document.child(GENERATION_CONFIG)? {
        for parameter in PARAMETERS.iter().filter(|parameter| parameter.is_shown) {
            if let Some(value) = config.get(&parameter.spellings)? {
                parameters.insert(parameter.name.to_owned(), value);
            }
        }
    }
    Ok(parameters)
}

/// Returns an integer in any form that the API accepts: `5`, `5.0`, `5e0` or `"5"`; `None`
/// for `null`.
pub fn read_integer(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>, DialectError> {
    let text = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let integral = || {
        text.parse()
            .ok()
            .filter(|number: &f64| number.fract() == 0.0)
    };
    let number = text.parse().ok();
    let number = number.or_else(|| format!("{:.0}", integral()?).parse().ok());
    number
        .map(Some)
        .ok_or_else(|| field_error(name, "a whole number"))
}
