//! Which API a request is for, where its path leaves that open.

use http::{HeaderMap, header::AUTHORIZATION};

use crate::dialect::method::Api;

/// Returns the API that the headers of a request point to. Several APIs have paths such as
/// `/v1/models`.
pub fn named_api(headers: &HeaderMap) -> Option<Api> {
    if headers.contains_key("anthropic-version") {
        return Some(Api::Anthropic);
    }
    let has_google_key = headers.contains_key("x-goog-api-key");
    (headers.contains_key(AUTHORIZATION) && !has_google_key).then_some(Api::OpenAiResponses)
}
