//! Models beside the one that a request names: those that may answer in its place, and those that
//! tools of the model API use.

use std::slice;

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, to_value},
    error::Result,
    google::fields::{DECLARATIONS, GENERATION_CONFIG, SOURCE, TOOLS},
};

/// Names of the other models that may answer, in the content form.
pub const FALLBACK_MODELS: &[&str] = &["fallbackModels"];

const ROUTING_CONFIG: &[&str] = &["routingConfig", "routing_config"];
const MANUAL_MODE: &[&str] = &["manualMode", "manual_mode"];
const AUTO_MODE: &[&str] = &["autoMode", "auto_mode"];

/// Name of the model that Vertex AI chooses itself.
const ROUTED_MODEL: &str = "auto";

/// Returns the names of all other models that a request names.
///
/// # Errors
///
/// Fails if a field is ambiguous.
pub fn other_models(document: &Document) -> Result<Vec<String>> {
    let fallbacks = document.get(FALLBACK_MODELS)?.unwrap_or_default();
    let mut models = texts(&fallbacks);
    let config = document.child(GENERATION_CONFIG)?.unwrap_or_default();
    if let Some(routing) = config.child(ROUTING_CONFIG)? {
        let manual = routing.get(MANUAL_MODE)?.unwrap_or_default();
        models.extend(named_models(&manual));
        let is_routed = routing.has(AUTO_MODE);
        models.extend(is_routed.then(|| ROUTED_MODEL.to_owned()));
    }
    for mut tool in document.children(TOOLS)?.unwrap_or_default() {
        tool.remove(DECLARATIONS)?;
        models.extend(named_models(&to_value(&tool)?));
    }
    Ok(models)
}

/// Returns the names of models in a value: the texts of each field whose name contains `model`,
/// such as `model`, `modelName` and `analysis_models`.
pub fn named_models(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().flat_map(named_models).collect(),
        Value::Object(fields) => {
            let is_model = |key: &str| key.to_ascii_lowercase().contains("model");
            let named = fields.iter().filter(|(key, _)| is_model(key));
            let named = named.flat_map(|(_, value)| texts(value));
            named
                .chain(fields.values().flat_map(named_models))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Returns the content form of a tool that the model API runs: its name, and the models that it
/// uses.
///
/// # Errors
///
/// Fails if an edit of the tool is no JSON.
pub fn hosted_tool(name: &str, tool: &Document, number: usize) -> Result<Value> {
    let models = named_models(&to_value(tool)?);
    let shown = if models.is_empty() {
        json!({})
    } else {
        json!({ "models": models })
    };
    Ok(json!({ name: shown, SOURCE: number }))
}

/// Returns a text, or those of a list, unless they are empty.
fn texts(value: &Value) -> Vec<String> {
    let values = match value {
        Value::Array(values) => values,
        value => slice::from_ref(value),
    };
    let texts = values.iter().filter_map(Value::as_str);
    let texts = texts.filter(|text| !text.is_empty());
    texts.map(str::to_owned).collect()
}
