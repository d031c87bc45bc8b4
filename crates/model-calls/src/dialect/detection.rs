//! Detection of the API that a request is for, if several APIs have its path.

use http::{HeaderMap, HeaderName, header::AUTHORIZATION};

use crate::dialect::method::Api;

/// Header of all calls to Anthropic's API.
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Header for keys of Google's APIs.
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Starts of paths that only Google's APIs have.
const GOOGLE_PATHS: [&str; 6] = [
    "/upload/",
    "/v1/projects/",
    "/v1/publishers/",
    "/v1alpha/",
    "/v1beta",
    "/v1internal",
];

/// Returns the API that the headers of a request point to. Several APIs have paths such as
/// `/v1/models`.
pub fn named_api(headers: &HeaderMap) -> Option<Api> {
    if headers.contains_key(ANTHROPIC_VERSION) {
        return Some(Api::Anthropic);
    }
    let has_token = headers.contains_key(AUTHORIZATION);
    (has_token && !headers.contains_key(GOOGLE_KEY)).then_some(Api::OpenAiResponses)
}

/// Splits the prefix `/s/{session}` off a path. Returns the session and the rest.
pub fn split_session(path: &str) -> (Option<&str>, &str) {
    let rest = path.strip_prefix("/s/");
    let split = rest.and_then(|rest| rest.split_at_checked(rest.find('/')?));
    split.map_or((None, path), |(session, rest)| (Some(session), rest))
}

/// Returns whether only Google's APIs have such a path.
pub fn is_of_google(path: &str) -> bool {
    GOOGLE_PATHS.iter().any(|start| path.starts_with(start))
}
