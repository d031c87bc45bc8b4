//! Storage of responses by the API.

use serde_json::{Value, json};

use crate::dialect::{
    call::{Call, ResponseStorage},
    document::Document,
    error::Result,
};

const STORE: &[&str] = &["store"];

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
