//! `LLMResponse`: what the model answers (hook protocol, section 8).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Role;

/// What the model answers: a whole answer, or one chunk of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LlmResponse {
    /// The text of the first candidate, without thoughts.
    pub text: String,
    /// Every candidate.
    pub candidates: Vec<Candidate>,
    /// Token counts, if the answer has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<Usage>,
}

/// One of the answers the model offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Candidate {
    /// What it says.
    pub content: CandidateContent,
    /// Why generation stopped, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Value>,
    /// `[{category, probability, blocked?}]`, as upstream wrote them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_ratings: Option<Value>,
}

/// What a candidate says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CandidateContent {
    /// Always the model.
    pub role: Role,
    /// Every text part, thoughts included.
    #[serde(deserialize_with = "read_parts")]
    pub parts: Vec<String>,
}

impl Default for CandidateContent {
    fn default() -> Self {
        Self {
            role: Role::Model,
            parts: Vec::new(),
        }
    }
}

fn read_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let parts = Vec::<Value>::deserialize(deserializer)?;
    Ok(parts.iter().filter_map(read_part).collect())
}

/// Token counts, as upstream wrote them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_count: Option<Value>,
    /// Tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates_token_count: Option<Value>,
    /// All tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_token_count: Option<Value>,
}

/// What a hook wants an answer to be, read from its `llm_response`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponseMutation {
    /// By position.
    pub candidates: Vec<CandidateMutation>,
    /// Token counts to set.
    pub usage_metadata: Option<Value>,
}

/// What a hook wants one candidate to be. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CandidateMutation {
    /// The text parts; an empty list blanks the text.
    pub parts: Option<Vec<String>>,
    /// Why generation stopped.
    pub finish_reason: Option<String>,
    /// Its number.
    pub index: Option<Value>,
    /// Safety ratings.
    pub safety_ratings: Option<Value>,
}

impl ResponseMutation {
    /// Reads an `llm_response`; `None` if nothing in it is usable.
    ///
    /// `{text}` alone is one candidate with one part. Wrongly typed fields are
    /// left out one by one.
    pub fn read(value: &Value) -> Option<Self> {
        let listed = value.get("candidates").and_then(Value::as_array);
        let mut candidates: Vec<CandidateMutation> =
            listed.into_iter().flatten().map(read_candidate).collect();
        if candidates.is_empty()
            && let Some(text) = value.get("text").and_then(Value::as_str)
        {
            candidates.push(CandidateMutation {
                parts: Some(vec![text.to_owned()]),
                ..CandidateMutation::default()
            });
        }
        let usage_metadata = value.get("usageMetadata").filter(|it| it.is_object());
        let mutation = Self {
            candidates,
            usage_metadata: usage_metadata.cloned(),
        };
        let empty = CandidateMutation::default();
        let usable =
            mutation.usage_metadata.is_some() || mutation.candidates.iter().any(|it| *it != empty);
        usable.then_some(mutation)
    }

    /// The text of its first candidate.
    pub fn text(&self) -> String {
        let first = self.candidates.first().and_then(|it| it.parts.as_ref());
        first.map(|it| it.concat()).unwrap_or_default()
    }

    /// Whether it can stand as an answer of its own: some text to show.
    pub fn is_answer(&self) -> bool {
        let mut parts = self.candidates.iter().filter_map(|it| it.parts.as_ref());
        parts.any(|it| it.iter().any(|text| !text.is_empty()))
    }
}

fn read_candidate(value: &Value) -> CandidateMutation {
    let content = value.get("content");
    let listed = content.and_then(|it| it.get("parts")?.as_array());
    let parts: Option<Vec<String>> = listed.map(|it| it.iter().filter_map(read_part).collect());
    // Parts that are all wrongly typed are no wish to blank the text.
    let parts = parts.filter(|it| !it.is_empty() || listed.is_some_and(Vec::is_empty));
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    CandidateMutation {
        parts,
        finish_reason: text("finishReason"),
        index: value.get("index").filter(|it| it.is_number()).cloned(),
        safety_ratings: value
            .get("safetyRatings")
            .filter(|it| it.is_array())
            .cloned(),
    }
}

fn read_part(part: &Value) -> Option<String> {
    let text = part.as_str().or_else(|| part.get("text")?.as_str());
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_usable_is_none() {
        for value in [
            json!(5),
            json!({}),
            json!({"candidates": []}),
            json!({"candidates": [7]}),
        ] {
            assert_eq!(ResponseMutation::read(&value), None, "{value}");
        }
    }

    #[test]
    fn text_alone_is_one_part() {
        let read = ResponseMutation::read(&json!({"text": "x"})).unwrap();
        assert_eq!(read.candidates[0].parts, Some(vec!["x".to_owned()]));
        assert!(read.is_answer());
    }

    #[test]
    fn an_answer_needs_text() {
        let blank = json!({"candidates": [{"content": {"parts": [""]}, "finishReason": "STOP"}]});
        assert!(!ResponseMutation::read(&blank).unwrap().is_answer());
    }
}
