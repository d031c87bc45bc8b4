//! The APIs of model calls in test cases.

use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::dialect::{RequestLine, split_session};

/// The model of requests that name none.
pub const DEFAULT_MODEL: &str = "gemini-2.5-flash";

/// The API of a model call in a case.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaseApi {
    /// The Gemini API, also of cases without an API.
    #[default]
    Gemini,
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Responses API of OpenAI.
    OpenaiResponses,
    /// The Chat Completions API of OpenAI.
    OpenaiChat,
}

impl CaseApi {
    /// Returns the path of calls that name none.
    pub fn path(self) -> String {
        match self {
            Self::Gemini => model_path(DEFAULT_MODEL),
            Self::Anthropic => "/v1/messages".to_owned(),
            Self::OpenaiResponses => "/v1/responses".to_owned(),
            Self::OpenaiChat => "/v1/chat/completions".to_owned(),
        }
    }
}

/// Returns the path of a request for one response of a model.
pub fn model_path(model: &str) -> String {
    format!("/v1beta/models/{model}:generateContent")
}

/// Returns the request line of a model call. The path may begin with the name of a session and end
/// with a query.
pub fn request_line(path: &str) -> RequestLine<'_> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let (_, path) = split_session(path);
    RequestLine {
        method: &Method::POST,
        path,
        query,
        api: None,
    }
}
