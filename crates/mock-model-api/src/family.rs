//! Families of model APIs: Google's, Anthropic's and OpenAI's.

use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};

use super::{anthropic, openai};

/// Identifier of every request, in the header of the API.
pub(super) const REQUEST_ID: &str = "req_mock";

/// APIs of one vendor, with one shape of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Google,
    Anthropic,
    OpenAi,
}

impl Family {
    /// Returns the family of a path. Paths of models exist in all of them, so headers
    /// decide there.
    pub(super) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let path = uri.path();
        let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
        if ends(&["/messages", "/messages/count_tokens", "/api/hello"]) {
            return Self::Anthropic;
        }
        if ends(&["/chat/completions", "/responses", "/embeddings"]) || path.contains("/responses/")
        {
            return Self::OpenAi;
        }
        if headers.contains_key("anthropic-version") {
            return Self::Anthropic;
        }
        let of_model = path
            .rsplit_once("/models")
            .map(|(prefix, name)| matches!(prefix, "" | "/v1") && !name.contains(':'));
        if of_model == Some(true) && headers.contains_key("authorization") {
            return Self::OpenAi;
        }
        Self::Google
    }

    /// Returns an error in the shape of the family.
    pub(super) fn error(self, status: StatusCode, message: &str) -> Value {
        match self {
            Self::Google => {
                let name = match status {
                    StatusCode::NOT_FOUND => "NOT_FOUND",
                    _ => "INVALID_ARGUMENT",
                };
                json!({ "error": { "code": status.as_u16(), "message": message, "status": name } })
            }
            Self::Anthropic => anthropic::error(status.as_u16(), message, REQUEST_ID),
            Self::OpenAi => openai::error(message),
        }
    }

    /// Returns the name of the header with the identifier of a request.
    pub(super) fn request_id_header(self) -> Option<&'static str> {
        match self {
            Self::Google => None,
            Self::Anthropic => Some("request-id"),
            Self::OpenAi => Some("x-request-id"),
        }
    }
}
