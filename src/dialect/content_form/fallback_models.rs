//! Models that may answer in the place of the one that a request names.

use serde_json::Value;

use crate::dialect::{document::Document, error::DialectError};

/// Names of the other models that may answer, in the content form.
pub const FALLBACK_MODELS: &[&str] = &["fallbackModels"];

/// Returns the names of the other models that may answer a request.
///
/// # Errors
///
/// Fails if the field is ambiguous.
pub fn fallback_models(document: &Document) -> Result<Vec<String>, DialectError> {
    let names = match document.get(FALLBACK_MODELS)? {
        Some(Value::Array(names)) => names,
        Some(_) | None => Vec::new(),
    };
    let names = names.iter().filter_map(Value::as_str);
    Ok(names.map(str::to_owned).collect())
}
