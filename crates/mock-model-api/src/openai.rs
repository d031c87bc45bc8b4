//! Methods of OpenAI's API, and what its answers share.

use axum::http::Method;
use serde_json::{Value, json};

use super::{answer, blocks::CREATED};

/// A recognised method of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenAiCall<'a> {
    ChatCompletions,
    Responses,
    CompactResponse,
    CountResponseInput,
    Embeddings,
    ListModels,
    GetModel(&'a str),
}

impl<'a> OpenAiCall<'a> {
    /// Accepts any prefix before a path of the API.
    pub(super) fn recognise(method: &Method, path: &'a str) -> Option<Self> {
        match *method {
            Method::POST => [
                ("/chat/completions", Self::ChatCompletions),
                ("/responses", Self::Responses),
                ("/responses/compact", Self::CompactResponse),
                ("/responses/input_tokens", Self::CountResponseInput),
                ("/embeddings", Self::Embeddings),
            ]
            .into_iter()
            .find(|(end, _)| path.ends_with(end))
            .map(|(_, call)| call),
            Method::GET if path.ends_with("/models") => Some(Self::ListModels),
            Method::GET => path
                .rsplit_once("/models/")
                .map(|(_, name)| Self::GetModel(name)),
            _ => None,
        }
    }
}

/// Returns an error in the shape of the API.
pub(super) fn error(message: &str) -> Value {
    json!({
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": null,
            "code": null,
        }
    })
}

/// Returns the list of models.
pub(super) fn models() -> Value {
    let names = [
        "gpt-5.1",
        "gpt-5.1-codex",
        "gpt-5.1-mini",
        "text-embedding-3-small",
    ];
    json!({ "object": "list", "data": names.map(model) })
}

/// Returns a model; every name is valid.
pub(super) fn model(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": CREATED, "owned_by": "mock" })
}

/// Returns one vector for each input.
pub(super) fn embeddings(request: &Value, bytes: usize) -> Value {
    let inputs = match request.get("input") {
        Some(Value::Array(inputs)) => inputs.clone(),
        other => other.cloned().into_iter().collect(),
    };
    let data = inputs.iter().enumerate().map(|(index, input)| {
        let vector = answer::embedding(input);
        json!({ "object": "embedding", "index": index, "embedding": vector.get("values") })
    });
    let tokens = answer::tokens(bytes);
    json!({
        "object": "list",
        "data": data.collect::<Value>(),
        "model": request.get("model"),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })
}
