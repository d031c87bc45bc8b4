//! Fields that requests of both APIs have.

use serde_json::Value;

use crate::{
    dialect::{
        api_dialect::Unwrapped,
        call::Call,
        document::Document,
        error::{DialectError, Result, field_error},
        method::{Framing, Operation},
    },
    model::ModelName,
};

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
