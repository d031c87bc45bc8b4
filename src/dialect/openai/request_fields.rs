//! Fields that requests of both APIs have.

use serde_json::{Value, json};

use crate::{
    dialect::{
        api_dialect::Unwrapped,
        call::{Call, ResponseStorage},
        content_form::named_models,
        document::Document,
        error::{DialectError, Result, field_error},
        method::{Framing, Operation},
    },
    model::ModelName,
};

const STORE: &[&str] = &["store"];

/// Fields with which compatible servers take other models than the one that `model` names.
const OTHER_MODELS: &[&str] = &[
    "content_policy_fallbacks",
    "context_window_fallbacks",
    "fallbacks",
    "models",
];

/// Fields with which compatible servers add a stored prompt, and maybe models and tools.
pub const STORED_PROMPTS: &[&str] = &["preset", "prompt_id"];

/// Mark in front of a stored prompt in the name of a model.
const PRESET_MARK: &str = "@preset/";

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

/// Makes a call that generates one with a stream, if the body wants that.
///
/// # Errors
///
/// Fails for anything but true and false: some servers take `1` and `"true"` for true, others
/// do not.
pub fn read_stream(call: &mut Call, body: &Document) -> Result<()> {
    match body.get(&["stream"])? {
        None | Some(Value::Null | Value::Bool(false)) => Ok(()),
        Some(Value::Bool(true)) => {
            if call.operation == Operation::Generate {
                call.operation = Operation::Stream(Framing::Sse);
            }
            Ok(())
        }
        Some(_) => Err(field_error("stream", "true or false")),
    }
}

/// Returns a request in the content form, with the body that it was read from.
pub const fn unwrapped(document: Document, body: Document) -> Unwrapped {
    Unwrapped {
        document,
        envelope: Some(body),
    }
}

/// Returns the key that agents set to the id of a session.
///
/// # Errors
///
/// Fails if it is no text.
pub fn session_in(body: &Document) -> Result<Option<String>> {
    body.string(&["prompt_cache_key"])
}

/// Returns the names of the other models that may answer, or that plugins use.
///
/// # Errors
///
/// Fails for anything but names.
pub fn read_other_models(body: &Document) -> Result<Vec<Value>> {
    let mut models = Vec::new();
    for field in OTHER_MODELS {
        let fallbacks = body.get(&[field])?.unwrap_or_default();
        if !add_names(&mut models, fallbacks) {
            return Err(field_error(field, "a list of names"));
        }
    }
    let model = body.string(&["model"])?.unwrap_or_default();
    if let Some(at) = model.find(PRESET_MARK) {
        models.extend(model.get(at..).map(Value::from));
    }
    let plugins = body.get(&["plugins"])?.unwrap_or_default();
    models.extend(named_models(&plugins).into_iter().map(Value::String));
    Ok(models)
}

/// Adds the names in a list, which may have lists of names by the model that they replace.
/// Returns whether it has nothing else.
fn add_names(names: &mut Vec<Value>, fallbacks: Value) -> bool {
    match fallbacks {
        Value::Null => true,
        Value::Array(listed) => listed.into_iter().all(|fallback| match fallback {
            name @ Value::String(_) => {
                names.push(name);
                true
            }
            Value::Object(by_model) => {
                let mut lists = by_model.into_iter();
                lists.all(|(_, list)| list.is_array() && add_names(names, list))
            }
            _ => false,
        }),
        _ => false,
    }
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
