//! The Anthropic Messages API.

mod block;
mod check;
mod request;
mod response;

use axum::http::Method;
use serde_json::{Value, json};

pub(super) use check::check;
pub(super) use request::content_form;
pub(super) use response::{events, message};

/// A recognised method of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnthropicCall<'a> {
    Messages,
    CountTokens,
    ListModels,
    GetModel(&'a str),
    /// First request of Claude Code at its start.
    Hello,
}

impl<'a> AnthropicCall<'a> {
    /// Accepts any prefix before `/messages` and `/models`.
    pub(super) fn recognise(method: &Method, path: &'a str) -> Option<Self> {
        let post = method == Method::POST;
        if path == "/api/hello" {
            return Some(Self::Hello);
        }
        if path.ends_with("/messages") {
            return post.then_some(Self::Messages);
        }
        if path.ends_with("/messages/count_tokens") {
            return post.then_some(Self::CountTokens);
        }
        if method != Method::GET {
            return None;
        }
        if path.ends_with("/models") {
            return Some(Self::ListModels);
        }
        path.rsplit_once("/models/")
            .map(|(_, name)| Self::GetModel(name))
    }
}

/// Returns an error in the shape of the API.
pub(super) fn error(status: u16, message: &str, request_id: &str) -> Value {
    let kind = match status {
        404 => "not_found_error",
        413 => "request_too_large",
        _ => "invalid_request_error",
    };
    json!({
        "type": "error",
        "error": { "type": kind, "message": message },
        "request_id": request_id,
    })
}

/// Returns the list of models.
pub(super) fn models() -> Value {
    let names = ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"];
    json!({
        "data": names.map(model),
        "has_more": false,
        "first_id": names.first(),
        "last_id": names.last(),
    })
}

/// Returns a model; every name is valid.
pub(super) fn model(name: &str) -> Value {
    json!({
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
    })
}
