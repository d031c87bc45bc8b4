//! Answers of our own, in the shape that all dialects here carry. Pure.

use serde_json::{Map, Value, json};

use super::{Call, DialectError, ResponseDocument};
use crate::model::{CandidateMutation, LlmResponse, ResponseMutation};

impl ResponseDocument {
    /// A document that holds the stable form and nothing else.
    pub fn made(llm_response: &LlmResponse) -> Result<Self, DialectError> {
        let candidates = llm_response.candidates.iter().map(|it| {
            let parts = it.content.parts.iter().map(|it| json!({ "text": it }));
            json!({
                "content": { "role": "model", "parts": parts.collect::<Vec<_>>() },
                "finishReason": it.finish_reason,
                "index": it.index,
                "safetyRatings": it.safety_ratings,
            })
        });
        let mut made = json!({ "candidates": candidates.collect::<Vec<_>>() });
        if let (Some(usage), Some(fields)) = (&llm_response.usage_metadata, made.as_object_mut()) {
            fields.insert("usageMetadata".to_owned(), json!(usage));
        }
        Self::parse(made.to_string().into())
    }
}

/// An answer of its own. `finishReason` defaults to `STOP`, `index` to the
/// position; token counts are zeros unless given.
pub(super) fn compose(call: &Call, answer: &ResponseMutation, id: &str) -> Value {
    let composed = answer.candidates.iter().enumerate().map(compose_candidate);
    let mut usage = Map::new();
    for key in [
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
    ] {
        usage.insert(key.to_owned(), json!(0));
    }
    if let Some(Value::Object(given)) = &answer.usage_metadata {
        usage.extend(given.clone());
    }
    json!({
        "candidates": composed.collect::<Vec<_>>(),
        "usageMetadata": usage,
        "modelVersion": call.model_name(),
        "responseId": id,
    })
}

fn compose_candidate((position, candidate): (usize, &CandidateMutation)) -> Value {
    let texts = candidate.parts.iter().flatten();
    let parts: Vec<Value> = texts.map(|it| json!({ "text": it })).collect();
    let mut composed = json!({
        "content": { "role": "model", "parts": parts },
        "finishReason": candidate.finish_reason.as_deref().unwrap_or("STOP"),
        "index": candidate.index.clone().unwrap_or_else(|| json!(position)),
    });
    if let (Some(ratings), Some(fields)) = (&candidate.safety_ratings, composed.as_object_mut()) {
        fields.insert("safetyRatings".to_owned(), ratings.clone());
    }
    composed
}

/// An answer with one candidate and one text.
pub(super) fn saying(text: &str) -> ResponseMutation {
    ResponseMutation {
        candidates: vec![CandidateMutation {
            parts: Some(vec![text.to_owned()]),
            ..CandidateMutation::default()
        }],
        usage_metadata: None,
    }
}
