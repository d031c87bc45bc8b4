//! Parameters and bodies of admin requests.

use axum::{body::Bytes, extract::rejection::BytesRejection};
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use crate::error::{ApiError, ErrorReason};

/// Body of a request, or the reason why it was not received.
pub(super) type ReceivedBody = Result<Bytes, BytesRejection>;

/// Returns the decoded value of a query parameter.
///
/// # Errors
///
/// Returns an error if the query has it twice.
pub(super) fn query_parameter(query: Option<&str>, name: &str) -> Result<Option<String>, ApiError> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut values = pairs.filter(|(key, _)| key == name);
    let value = values.next().map(|(_, value)| value.into_owned());
    if values.next().is_some() {
        let message = format!("`{name}` is given twice");
        return Err(ApiError::new(ErrorReason::BadQuery, message));
    }
    Ok(value)
}

/// Parses the JSON of a body.
///
/// # Errors
///
/// Returns the problem of the body.
pub(super) fn json_body<T: DeserializeOwned>(body: ReceivedBody) -> Result<T, ApiError> {
    serde_json::from_slice(&body?)
        .map_err(|error| ApiError::new(ErrorReason::BadJson, error.to_string()))
}
