//! Model names in request bodies.

use serde_json::json;

use crate::{
    dialect::{
        call::Call,
        document::{Document, edit_repeated, repeated},
        error::{DialectError, Result},
        google::fields::{MODEL, REQUESTS, WRAPPED_REQUEST},
        method::Api,
    },
    model::ModelName,
};

/// Refuses a body that names another model than the path, or than the envelope.
///
/// # Errors
///
/// Fails with [`DialectError::Mismatch`].
pub fn check_model(call: &Call, document: &Document) -> Result<()> {
    let other = if call.method.api == Api::CodeAssist {
        "the model beside `request`"
    } else {
        "the model in the path"
    };
    let check = |document: &Document| match document.string(MODEL)? {
        Some(name) if call.resolve_model(&name) != call.model => Err(DialectError::Mismatch {
            field: "model",
            other,
        }),
        Some(_) | None => Ok(()),
    };
    check(document)?;
    let requests = repeated(document, REQUESTS)?.unwrap_or_default();
    let wrapped = document.child(WRAPPED_REQUEST)?;
    wrapped.iter().chain(&requests).try_for_each(check)
}

/// Replaces the model wherever a request names one.
pub fn rename_all(document: &mut Document, model: &ModelName) -> Result<()> {
    rename_model(document, model)?;
    document.edit_child(WRAPPED_REQUEST, |inner| rename_model(inner, model))?;
    edit_repeated(document, REQUESTS, |request| rename_model(request, model))
}

/// Replaces the model of one object, with the prefix of the old name.
pub fn rename_model(document: &mut Document, model: &ModelName) -> Result<()> {
    let Some(old) = document.string(MODEL)? else {
        return Ok(());
    };
    let name = match old.rsplit_once('/') {
        Some((prefix, _)) => format!("{prefix}/{model}"),
        None => model.to_string(),
    };
    document.set(MODEL, &json!(name))
}
