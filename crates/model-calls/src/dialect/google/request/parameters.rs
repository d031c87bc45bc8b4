//! Generation parameters of Google's APIs: those of the stable form, and their spellings.

use serde_json::{Map, Value};

use crate::dialect::{
    call::Call,
    document::Document,
    error::{Result, field_error},
    google::{fields::GENERATION_CONFIG, request::body::inner_request},
};

/// Generation parameters in the stable form, by their spellings. The first is their name.
const SHOWN: [[&str; 2]; 5] = [
    ["temperature", "temperature"],
    ["maxOutputTokens", "max_output_tokens"],
    ["topP", "top_p"],
    ["topK", "top_k"],
    ["stopSequences", "stop_sequences"],
];

/// Parameters that hooks may set, although the stable form does not show them.
const HIDDEN: [[&str; 2]; 3] = [
    ["candidateCount", "candidate_count"],
    ["presencePenalty", "presence_penalty"],
    ["frequencyPenalty", "frequency_penalty"],
];

/// Returns the spellings of a parameter that hooks may set.
pub fn spellings(name: &str) -> Option<[&'static str; 2]> {
    let mut all = SHOWN.into_iter().chain(HIDDEN);
    all.find(|[known, _]| *known == name)
}

/// Returns the generation parameters of the stable form, in camelCase.
pub fn generation_parameters(call: &Call, document: &Document) -> Result<Map<String, Value>> {
    let inner = inner_request(call, document)?;
    read_parameters(&inner)
}

pub fn read_parameters(document: &Document) -> Result<Map<String, Value>> {
    let mut parameters = Map::new();
    if let Some(config) = document.child(GENERATION_CONFIG)? {
        for [name, other] in SHOWN {
            let value = config.get(&[name, other])?;
            parameters.extend(value.map(|value| (name.to_owned(), value)));
        }
    }
    Ok(parameters)
}

/// Returns an integer in any form that the API accepts: `5`, `5.0`, `5e0` or `"5"`; `None`
/// for `null`.
pub fn read_integer(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>> {
    let text = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let is_whole = |number: &f64| number.fract() == 0.0;
    let integral = || text.parse().ok().filter(is_whole);
    let number = text.parse().ok();
    let number = number.or_else(|| format!("{:.0}", integral()?).parse().ok());
    number
        .map(Some)
        .ok_or_else(|| field_error(name, "a whole number"))
}
