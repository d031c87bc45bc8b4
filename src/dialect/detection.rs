//! Which API a request is for, where its path does not tell.

use http::{HeaderMap, header::AUTHORIZATION};

use crate::dialect::{
    ALL, RequestLine, api_dialect::Dialect, google::gemini::Gemini, method::Api, method_table, of,
};

/// Returns the API that the headers of a request point to. Several APIs have paths such as
/// `/v1/models`.
pub fn named_api(headers: &HeaderMap) -> Option<Api> {
    if headers.contains_key("anthropic-version") {
        return Some(Api::Anthropic);
    }
    let has_google_key = headers.contains_key("x-goog-api-key");
    (headers.contains_key(AUTHORIZATION) && !has_google_key).then_some(Api::OpenAiResponses)
}

/// Returns the dialect in which a request is answered that may not be a call at all.
pub fn dialect_of(line: RequestLine<'_>) -> &'static dyn Dialect {
    match (method_table::find(ALL, line), line.api) {
        (Some(Ok(recognized)), _) => of(recognized.method.api),
        (_, Some(Api::Anthropic)) => of(Api::Anthropic),
        (Some(Err(_)) | None, _) => &Gemini,
    }
}
