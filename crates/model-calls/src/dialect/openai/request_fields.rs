//! Fields that requests of both APIs have.

use serde_json::{Value, json};

use crate::{
    dialect::{
        call::{Call, ResponseStorage},
        content_form::{compatible_models, named_models, read_names},
        document::Document,
        error::{DialectError, Result, field_error},
    },
    model::ModelName,
};

const STORE: &[&str] = &["store"];

/// Returns the model of a body, if it names one.
///
/// # Errors
///
/// Fails for anything but the name of a model.
pub fn read_model(body: &Document) -> Result<Option<ModelName>> {
    let name = body.string(&["model"])?;
    name.map(|name| ModelName::parse(&name).ok_or_else(no_model))
        .transpose()
}

/// Returns the error about a body that names no model.
pub fn no_model() -> DialectError {
    field_error("model", "the name of a model")
}

/// Returns the key that agents set to the id of a session.
///
/// # Errors
///
/// Fails if it is no text.
pub fn session_in(body: &Document) -> Result<Option<String>> {
    body.string(&["prompt_cache_key"])
}

/// Returns the names of the other models: those that may answer, that moderate the conversation,
/// and that plugins use.
///
/// # Errors
///
/// Fails for anything but names.
pub fn read_other_models(body: &Document) -> Result<Vec<Value>> {
    let mut models = read_names(body, "fallbacks")?;
    models.extend(compatible_models(body)?);
    let moderation = body.get(&["moderation"])?.unwrap_or_default();
    models.extend(named_models(&moderation));
    Ok(models.into_iter().map(Value::String).collect())
}

/// Writes that the API keeps no response, if the config requires that.
pub fn write_storage(body: &mut Document, call: &Call) -> Result<()> {
    // The API stores responses unless the request forbids it.
    if call.storage == ResponseStorage::Never
        && call.operation.generates()
        && body.get(STORE)? != Some(Value::Bool(false))
    {
        body.set(STORE, &json!(false))?;
    }
    Ok(())
}
