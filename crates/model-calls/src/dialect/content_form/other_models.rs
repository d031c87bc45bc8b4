//! Models beside the one that a request names: those that may answer in its place, and those that
//! tools of the model API use.

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, is_set, repeated, to_value},
    error::{Result, field_error},
    google::fields::{DECLARATIONS, GENERATION_CONFIG, SOURCE, TOOLS},
};

/// Names of the other models that may answer, in the content form.
pub const FALLBACK_MODELS: &[&str] = &["fallbackModels"];

const ROUTING_CONFIG: &[&str] = &["routingConfig", "routing_config"];
const MANUAL_MODE: &[&str] = &["manualMode", "manual_mode"];
const AUTO_MODE: &[&str] = &["autoMode", "auto_mode"];

/// Preferences by which Vertex AI chooses a model.
const MODEL_CONFIG: &[&str] = &["modelConfig", "model_config"];
const MODEL_SELECTION_CONFIG: &[&str] = &["modelSelectionConfig", "model_selection_config"];

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
    let routing = config.child(ROUTING_CONFIG)?.unwrap_or_default();
    let manual = routing.get(MANUAL_MODE)?.unwrap_or_default();
    models.extend(named_models(&manual));
    let is_routed = routing.has(AUTO_MODE)
        || is_set(&config, MODEL_CONFIG)?
        || is_set(&config, MODEL_SELECTION_CONFIG)?;
    models.extend(is_routed.then(|| ROUTED_MODEL.to_owned()));
    for mut tool in repeated(document, TOOLS)?.unwrap_or_default() {
        tool.remove(DECLARATIONS)?;
        models.extend(named_models(&to_value(&tool)?));
    }
    Ok(models)
}

/// Fields with which servers compatible with an API take other models than the one that `model`
/// names.
const COMPATIBLE_FALLBACKS: &[&str] = &[
    "content_policy_fallbacks",
    "context_window_fallbacks",
    "models",
];

/// Returns the names of other models for servers that are compatible with an API: those that may
/// answer, and those that plugins use.
///
/// # Errors
///
/// Fails for anything but names.
pub fn compatible_models(body: &Document) -> Result<Vec<String>> {
    let mut models = Vec::new();
    for field in COMPATIBLE_FALLBACKS {
        models.extend(read_names(body, field)?);
    }
    let plugins = body.get(&["plugins"])?.unwrap_or_default();
    models.extend(named_models(&plugins));
    Ok(models)
}

/// Returns the names in a list, which may have objects with the name of a `model`, and lists of
/// names by the model that they replace.
///
/// # Errors
///
/// Fails for anything but names.
pub fn read_names(body: &Document, field: &'static str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    if add_names(&mut names, body.get(&[field])?.unwrap_or_default()) {
        Ok(names)
    } else {
        Err(field_error(field, "a list of names"))
    }
}

/// Returns whether a list has nothing but names, and objects with a name or lists of names.
fn add_names(names: &mut Vec<String>, list: Value) -> bool {
    match list {
        Value::Null => true,
        Value::Array(listed) => listed.into_iter().all(|name| match name {
            Value::String(name) => {
                names.push(name);
                true
            }
            Value::Object(fields) => {
                let has_one = fields.len() == 1;
                fields.into_iter().all(|(key, value)| match value {
                    Value::String(name) if has_one && key == "model" => {
                        names.push(name);
                        true
                    }
                    list => list.is_array() && add_names(names, list),
                })
            }
            _ => false,
        }),
        _ => false,
    }
}

/// Returns the names of models in a value: all texts in each field whose name contains `model`,
/// such as `model`, `modelName` and `analysis_models`.
pub fn named_models(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().flat_map(named_models).collect(),
        Value::Object(fields) => {
            let names = fields.iter().map(|(key, value)| {
                let is_model = key.to_ascii_lowercase().contains("model");
                if is_model {
                    texts(value)
                } else {
                    named_models(value)
                }
            });
            names.flatten().collect()
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

/// Returns the texts in a value that are not empty.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if !text.is_empty() => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}
