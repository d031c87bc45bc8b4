//! Answers of the model API, as cases and trials write them: in the form of the API that is
//! called, or in that of the Gemini API.

use std::slice;

use bytes::Bytes;
use serde_json::Value;
use thiserror::Error;

use super::case_api::request_line;
use crate::dialect::{self, Api, Dialect, DialectError, ResponseDocument};

/// Fields of the Gemini API, of which each of its responses and streams has one.
const GEMINI_FIELDS: [&str; 5] = [
    "candidates",
    "promptFeedback",
    "usageMetadata",
    "modelVersion",
    "responseId",
];

/// A response of the model API, or the chunks of its stream.
#[derive(Debug)]
pub struct ModelAnswer {
    /// The response or the chunks in the content form.
    pub chunks: Vec<ResponseDocument>,
    /// True if it is written in the form of an API that is not one of Google's.
    pub is_native: bool,
}

/// Reason why an answer cannot be read.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// It cannot be read in the form that it seems to have.
    #[error(transparent)]
    Invalid(#[from] DialectError),
    /// It is in no form that is known here.
    #[error("in the form of neither `{api}` (no `{field}`) nor the Gemini API (no `candidates`)")]
    UnknownForm {
        /// Name of the API that is called.
        api: &'static str,
        /// Field that it would have in the form of this API.
        field: &'static str,
    },
    /// It is not in the form of the Gemini API, which is the only one here.
    #[error("not in the form of the Gemini API: it has no `candidates`")]
    NotGemini,
    /// Nothing is generated on the path, or it is unknown.
    #[error("no model answers on this path")]
    NoModel,
}

/// A response of a call that cannot be read.
#[derive(Debug, Error)]
#[error("`{field}`: {cause}")]
pub struct UnreadableAnswer {
    /// Field of the call: `answer` or `then`.
    pub field: &'static str,
    /// Reason why it cannot be read.
    #[source]
    pub cause: AnswerError,
}

/// Returns the dialect of a path with its query, if a model answers there.
pub fn answering_dialect(path: &str) -> Option<&'static dyn Dialect> {
    let recognized = dialect::recognize_call(request_line(path))?.ok()?;
    let method = recognized.method;
    let generates = method.operation.generates();
    generates.then(|| dialect::of(method.api))
}

/// Reads a response, or the list of the chunks or events of a stream.
///
/// # Errors
///
/// Fails if it is neither in the form of the dialect nor in that of the Gemini API.
pub fn read_answer(dialect: &dyn Dialect, answer: &Value) -> Result<ModelAnswer, AnswerError> {
    let (chunks, is_stream) = match answer {
        Value::Array(chunks) => (chunks.as_slice(), true),
        whole => (slice::from_ref(whole), false),
    };
    let api = dialect.api();
    let is_gemini = |chunk: &Value| GEMINI_FIELDS.iter().any(|name| chunk.get(name).is_some());
    if chunks.is_empty() || chunks.iter().any(is_gemini) {
        let chunks = read_each(dialect::of(Api::Gemini), chunks)?;
        return Ok(ModelAnswer {
            chunks,
            is_native: false,
        });
    }
    let Some(field) = native_field(api, is_stream) else {
        return Err(AnswerError::NotGemini);
    };
    if !chunks.iter().any(|chunk| chunk.get(field).is_some()) {
        let api = api.as_str();
        return Err(AnswerError::UnknownForm { api, field });
    }
    let chunks = if is_stream && !api.is_google() {
        dialect::read_stream(dialect, chunks.iter().map(to_bytes))?
    } else {
        read_each(dialect, chunks)?
    };
    Ok(ModelAnswer {
        chunks,
        is_native: !api.is_google(),
    })
}

/// Returns a field of each response or of an event of each stream of an API. Its dialect accepts
/// objects without it, because they contain nothing that hooks inspect. `None` for APIs whose form
/// is that of the Gemini API.
const fn native_field(api: Api, is_stream: bool) -> Option<&'static str> {
    match (api, is_stream) {
        (Api::Gemini | Api::Vertex, _) => None,
        (Api::CodeAssist, _) | (Api::OpenAiResponses, true) => Some("response"),
        (Api::OpenAiResponses, false) => Some("output"),
        (Api::OpenAiChat, _) => Some("choices"),
        (Api::Anthropic, true) => Some("message"),
        (Api::Anthropic, false) => Some("content"),
    }
}

fn read_each(
    dialect: &dyn Dialect,
    chunks: &[Value],
) -> Result<Vec<ResponseDocument>, DialectError> {
    let chunks = chunks.iter().map(to_bytes);
    chunks.map(|chunk| dialect.open_response(chunk)).collect()
}

fn to_bytes(chunk: &Value) -> Bytes {
    Bytes::from(chunk.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(path: &str, answer: &Value) -> Result<ModelAnswer, String> {
        let dialect = answering_dialect(path).unwrap();
        read_answer(dialect, answer).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_has_the_form_of_its_api_or_that_of_the_gemini_api() {
        let gemini = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hi" }] } }] });
        let chat = json!({
            "object": "chat.completion", "id": "c", "model": "m",
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": "Hi" }, "finish_reason": "stop" }],
        });
        let text = |answer: &ModelAnswer| answer.chunks[0].plain_texts().collect::<String>();

        for path in [
            "/v1/messages",
            "/v1/responses",
            "/s/a/v1/chat/completions",
            "/v1beta/models/m:generateContent",
        ] {
            let answer = read(path, &gemini).unwrap();
            assert_eq!((text(&answer).as_str(), answer.is_native), ("Hi", false));
        }
        let answer = read("/v1/chat/completions", &chat).unwrap();
        assert_eq!((text(&answer).as_str(), answer.is_native), ("Hi", true));
        let envelope = json!([{ "response": gemini }]);
        let answer = read("/v1internal:streamGenerateContent?alt=sse", &envelope).unwrap();
        assert_eq!((text(&answer).as_str(), answer.is_native), ("Hi", false));
        for path in [
            "/v1/messages",
            "/v1/responses",
            "/v1internal:generateContent",
            "/v1beta/models/m:generateContent",
        ] {
            let error = read(path, &chat).unwrap_err();
            assert!(error.contains("the Gemini API"), "{path}: {error}");
        }
    }

    #[test]
    fn only_methods_that_generate_have_answers() {
        for path in ["/v1beta/models/m:countTokens", "/v1/embeddings", "/other"] {
            assert!(answering_dialect(path).is_none(), "{path}");
        }
    }
}
