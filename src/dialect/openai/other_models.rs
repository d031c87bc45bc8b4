//! Other models that may answer a request to a compatible server.

use serde_json::Value;

use crate::dialect::{
    content_form::named_models,
    document::Document,
    error::{Result, field_error},
};

/// Fields with which compatible servers take other models than the one that `model` names.
const OTHER_MODELS: &[&str] = &["fallbacks", "models"];

/// Returns the names of the other models that may answer, or that plugins use.
///
/// # Errors
///
/// Fails for anything but names.
pub fn read_other_models(body: &Document) -> Result<Vec<Value>> {
    let mut models = Vec::new();
    for field in OTHER_MODELS {
        match body.get(&[field])? {
            None | Some(Value::Null) => (),
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => models.extend(names),
            Some(_) => {
                return Err(field_error(field, "a list of names"));
            }
        }
    }
    let plugins = body.get(&["plugins"])?.unwrap_or_default();
    models.extend(named_models(&plugins).into_iter().map(Value::String));
    Ok(models)
}
