//! Parameters and bodies of admin requests.

use axum::{body::Bytes, extract::rejection::BytesRejection};
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use crate::error::{ApiError, ErrorReason};

/// Body of a request, or the reason why it was not received.
pub(super) type ReceivedBody = Result<Bytes, BytesRejection>;

/// Returns the decoded value of a query parameter.
pub(super) fn query_parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let pair = pairs.find(|(key, _)| key == name);
    pair.map(|(_, value)| value.into_owned())
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
