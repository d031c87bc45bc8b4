//! `LLMResponse`: a model response in the stable form (hook protocol, section 8).

use std::iter;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::message::{Role, has_value};

/// Names of the token counts that hooks may replace. In another spelling, a count would be there
/// twice.
const TOKEN_COUNTS: [&str; 6] = [
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
    "cachedContentTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
];

/// A model response, or one chunk of a stream, in the stable form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct LlmResponse {
    /// Text of the first candidate, without thoughts.
    pub text: String,
    /// All candidates of the response.
    pub candidates: Vec<Candidate>,
    /// Token counts, if the response has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<UsageMetadata>,
}

/// One of the alternatives that the model offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct Candidate {
    /// Text of the candidate.
    pub content: CandidateContent,
    /// Reason for the end of generation, if it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Number of the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Value>,
    /// `[{category, probability, blocked?}]`, as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_ratings: Option<Value>,
}

/// Text parts of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct CandidateContent {
    /// Author of the text: always [`Role::Model`].
    pub role: Role,
    /// All text parts, thoughts included.
    #[serde(deserialize_with = "read_parts")]
    pub parts: Vec<String>,
    /// True for each part that is a thought, as far as that is known.
    #[serde(skip)]
    pub thoughts: Vec<bool>,
}

impl Default for CandidateContent {
    fn default() -> Self {
        Self {
            role: Role::Model,
            parts: Vec::new(),
            thoughts: Vec::new(),
        }
    }
}

impl CandidateContent {
    /// Returns the text without thoughts.
    pub fn plain_text(&self) -> String {
        let plain = self.typed_parts().filter(|(_, is_thought)| !is_thought);
        plain.map(|(part, _)| part).collect()
    }

    /// Returns the parts, each with true if it is a thought.
    pub fn typed_parts(&self) -> impl Iterator<Item = (&str, bool)> {
        let thoughts = self.thoughts.iter().copied().chain(iter::repeat(false));
        self.parts.iter().map(String::as_str).zip(thoughts)
    }

    /// Marks the parts in front of those that make up the text.
    fn find_thoughts(&mut self, text: &str) {
        let (mut rest, mut count) = (text, self.parts.len());
        for part in self.parts.iter().rev().filter(|_| !text.is_empty()) {
            let Some(before) = rest.strip_suffix(part.as_str()) else {
                break;
            };
            (rest, count) = (before, count - 1);
        }
        if rest.is_empty() && count < self.parts.len() {
            self.thoughts = vec![true; count];
        }
    }
}

fn read_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let parts = Vec::<Value>::deserialize(deserializer)?;
    Ok(parts.iter().filter_map(read_part).collect())
}

impl LlmResponse {
    /// Completes a reported response: a text alone becomes a candidate, and parts in front of
    /// those of the text are thoughts.
    #[must_use]
    pub fn completed(mut self) -> Self {
        if self.candidates.is_empty() && !self.text.is_empty() {
            let mut only = Candidate::default();
            only.content.parts.push(self.text.clone());
            self.candidates.push(only);
        }
        if let Some(first) = self.candidates.first_mut() {
            first.content.find_thoughts(&self.text);
        }
        self
    }

    /// Applies an edit as it is applied to the response itself, so that the next hook sees it.
    pub fn apply(&mut self, edit: &ResponseMutation) {
        for (candidate, edit) in self.candidates.iter_mut().zip(&edit.candidates) {
            candidate.apply(edit);
        }
        if let (Some(first), Some(edit)) = (self.candidates.first(), edit.candidates.first())
            && edit.parts.is_some()
        {
            self.text = first.content.plain_text();
        }
        if let Some(counts) = &edit.usage_metadata {
            self.usage_metadata.get_or_insert_default().apply(counts);
        }
    }
}

impl Candidate {
    fn apply(&mut self, edit: &CandidateMutation) {
        if let Some(parts) = &edit.parts {
            let content = &mut self.content;
            // The parts keep their kind if there are as many as before.
            if parts.len() != content.parts.len() {
                content.thoughts.clear();
            }
            content.parts.clone_from(parts);
        }
        let edit = edit.clone();
        self.finish_reason = edit.finish_reason.or(self.finish_reason.take());
        self.index = edit.index.or(self.index.take());
        self.safety_ratings = edit.safety_ratings.or(self.safety_ratings.take());
    }
}

/// Token counts, as received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct UsageMetadata {
    /// Token count of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_count: Option<Value>,
    /// Token count of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates_token_count: Option<Value>,
    /// Token count of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_token_count: Option<Value>,
}

impl UsageMetadata {
    fn apply(&mut self, counts: &Map<String, Value>) {
        let fields = [
            ("promptTokenCount", &mut self.prompt_token_count),
            ("candidatesTokenCount", &mut self.candidates_token_count),
            ("totalTokenCount", &mut self.total_token_count),
        ];
        for (key, field) in fields {
            if let Some(count) = counts.get(key) {
                *field = Some(count.clone());
            }
        }
    }
}

/// Edit of a response, or a synthetic response, read from a hook's `llm_response`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseMutation {
    /// Edits of the candidates, by position.
    pub candidates: Vec<CandidateMutation>,
    /// Replacement of token counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<Map<String, Value>>,
}

/// Edit of one candidate. `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateMutation {
    /// Replacement text parts; an empty list blanks the text.
    #[serde(rename = "content", serialize_with = "write_parts")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<String>>,
    /// Replacement of the finish reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Replacement number of the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Value>,
    /// Replacement of the safety ratings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_ratings: Option<Value>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn write_parts<S: Serializer>(
    parts: &Option<Vec<String>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    json!({ "role": Role::Model, "parts": parts }).serialize(serializer)
}

impl ResponseMutation {
    /// Reads an `llm_response`; `None` if nothing in it is usable.
    ///
    /// `{text}` alone is one candidate with one part. Wrongly typed fields and unknown
    /// token counts are ignored one by one.
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
        let usage = value.get("usageMetadata").and_then(Value::as_object);
        let mut usage_metadata = usage.cloned();
        if let Some(counts) = &mut usage_metadata {
            counts.retain(|name, count| TOKEN_COUNTS.contains(&name.as_str()) && count.is_u64());
        }
        let mutation = Self {
            candidates,
            usage_metadata: usage_metadata.filter(|counts| !counts.is_empty()),
        };
        (!mutation.is_empty()).then_some(mutation)
    }

    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        let empty = CandidateMutation::default();
        let mut candidates = self.candidates.iter();
        self.usage_metadata.is_none() && candidates.all(|candidate| *candidate == empty)
    }

    /// Returns whether [`Self::read`] ignores a value, or the text of a candidate, because of its
    /// type or its place.
    pub fn is_unusable(value: &Value) -> bool {
        let (text, candidates) = (value.get("text"), value.get("candidates"));
        let mut listed = candidates.and_then(Value::as_array).into_iter().flatten();
        text.is_some_and(|text| has_value(text) && !text.is_string())
            || candidates.is_some_and(|list| has_value(list) && !list.is_array())
            || listed.any(is_unusable_candidate)
            || has_value(value) && Self::read(value).is_none()
    }

    /// Adds what only an earlier edit of the response changes.
    pub fn add_earlier(&mut self, earlier: Self) {
        let count = self.candidates.len().max(earlier.candidates.len());
        self.candidates.resize_with(count, Default::default);
        for (edit, earlier) in self.candidates.iter_mut().zip(earlier.candidates) {
            edit.parts = edit.parts.take().or(earlier.parts);
            edit.finish_reason = edit.finish_reason.take().or(earlier.finish_reason);
            edit.index = edit.index.take().or(earlier.index);
            edit.safety_ratings = edit.safety_ratings.take().or(earlier.safety_ratings);
        }
        if let Some(mut counts) = earlier.usage_metadata {
            counts.extend(self.usage_metadata.take().unwrap_or_default());
            self.usage_metadata = Some(counts);
        }
    }

    /// Returns the text of the first candidate.
    pub fn text(&self) -> String {
        let first = self.candidates.first();
        let parts = first.and_then(|candidate| candidate.parts.as_ref());
        parts.map(|parts| parts.concat()).unwrap_or_default()
    }

    /// Returns whether it has any text, so that it can serve as a synthetic response.
    pub fn is_response(&self) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(CandidateMutation::has_filled_text)
    }
}

impl CandidateMutation {
    /// Returns whether it has a text that is not empty.
    pub fn has_filled_text(&self) -> bool {
        self.parts.iter().flatten().any(|text| !text.is_empty())
    }

    /// Returns whether it changes a candidate that hooks saw as one empty text.
    pub fn edits_empty_candidate(&self) -> bool {
        let Self {
            parts: _,
            finish_reason,
            index,
            safety_ratings,
        } = self;
        self.has_filled_text()
            || finish_reason.is_some()
            || index.is_some()
            || safety_ratings.is_some()
    }
}

fn read_candidate(value: &Value) -> CandidateMutation {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let (index, ratings) = (value.get("index"), value.get("safetyRatings"));
    CandidateMutation {
        parts: value.get("content").and_then(edited_texts),
        finish_reason: text("finishReason"),
        index: index.filter(|index| index.is_number()).cloned(),
        safety_ratings: ratings.filter(|ratings| ratings.is_array()).cloned(),
    }
}

fn is_unusable_candidate(candidate: &Value) -> bool {
    let Some(fields) = candidate.as_object() else {
        return has_value(candidate);
    };
    let is_unusable = |content: &Value| match content.as_object() {
        Some(fields) => {
            let mut others = fields.iter().filter(|(key, _)| *key != "role");
            edited_texts(content).is_none() && others.any(|(_, value)| has_value(value))
        }
        None => has_value(content),
    };
    fields.get("text").is_some_and(has_value) || fields.get("content").is_some_and(is_unusable)
}

/// Returns the texts of a content. A list of only wrongly typed parts does not blank the text.
fn edited_texts(content: &Value) -> Option<Vec<String>> {
    let listed = content.get("parts")?.as_array()?;
    let texts: Vec<String> = listed.iter().filter_map(read_part).collect();
    (listed.is_empty() || !texts.is_empty()).then_some(texts)
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
    fn an_unusable_response_is_none() {
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
    fn unusable_token_counts_are_ignored_one_by_one() {
        let usage = json!({
            "promptTokenCount": "7", "candidatesTokenCount": 7.5, "totalTokenCount": 9,
            "total_token_count": 8, "PromptTokenCount": 7, "x": [],
        });
        let read = ResponseMutation::read(&json!({ "usageMetadata": usage })).unwrap();
        assert_eq!(json!(read.usage_metadata), json!({ "totalTokenCount": 9 }));
        let usage = json!({ "promptTokenCount": null });
        assert_eq!(
            ResponseMutation::read(&json!({ "usageMetadata": usage })),
            None
        );
    }

    #[test]
    fn text_alone_is_one_part() {
        let read = ResponseMutation::read(&json!({"text": "x"})).unwrap();
        assert_eq!(read.candidates[0].parts, Some(vec!["x".to_owned()]));
        assert!(read.is_response());
    }

    #[test]
    fn a_synthetic_response_needs_text() {
        let blank = json!({"candidates": [{"content": {"parts": [""]}, "finishReason": "STOP"}]});
        assert!(!ResponseMutation::read(&blank).unwrap().is_response());
    }
}
