//! Synthetic answers: denials, answers of hooks, and answers that are merged.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{IS_REFUSAL, is_refusal, parts_in},
    document::{Document, add_list, insert, integer},
    error::Result,
    google::part::{is_next_refusal, is_thought},
    openai::unix_seconds,
    openai_chat::{
        block::text_fields,
        fields::{CONTENT, INDEX, PARAGRAPH, TEXT},
        response::{
            answer::THOUGHT_DETAILS,
            envelope::new_usage,
            finish_reason::write_reason,
            preceding::{thoughts_of, visible_details, with_call_fields},
        },
        tool_call::{ChoiceCalls, write_call, write_function_call},
    },
};

/// A candidate of the content form, in the form of the API.
#[derive(Debug, Default)]
pub struct SyntheticChoice {
    pub index: u64,
    pub content: String,
    /// Refusal of the model.
    pub refusal: String,
    pub thought: String,
    /// Name of the thoughts that the stream has so far.
    pub thought_name: Option<&'static str>,
    /// Thoughts that precede the calls, as the model's server has them.
    pub preceding: Map<String, Value>,
    pub calls: ChoiceCalls,
    /// Reason for the end, if the candidate ends.
    pub finish_reason: Option<&'static str>,
}

impl SyntheticChoice {
    pub fn read(candidate: &Document) -> Result<Self> {
        let index = integer(candidate, INDEX)?;
        let mut choice = Self {
            index: index.unwrap_or_default(),
            ..Self::default()
        };
        for part in parts_in(candidate, CONTENT)? {
            choice.add(&part)?;
        }
        let reason = candidate.string(&["finishReason"])?;
        choice.finish_reason = reason.map(|reason| match &choice.calls {
            // Agents repeat a call whose answer was filtered.
            calls if calls.is_empty() && is_refusal(&reason) && !choice.refusal.is_empty() => {
                "stop"
            }
            calls if calls.is_empty() => write_reason(&reason),
            calls if calls.tool_calls.is_empty() => "function_call",
            _ => "tool_calls",
        });
        Ok(choice)
    }

    fn add(&mut self, part: &Document) -> Result<()> {
        if let Some(text) = part.string(TEXT)? {
            if is_thought(part)? {
                self.thought.push_str(&text);
            } else if part.has(&[IS_REFUSAL]) {
                if is_next_refusal(part) && !self.refusal.is_empty() {
                    self.refusal.push_str(PARAGRAPH);
                }
                self.refusal.push_str(&text);
            } else {
                self.content.push_str(&text);
            }
        }
        if let Some(call) = part.child(&["functionCall"])? {
            self.preceding.extend(thoughts_of(part)?);
            match write_call(&call)? {
                Some(call) => self.calls.tool_calls.push(with_call_fields(call, part)?),
                None => self.calls.function_call = Some(write_function_call(&call)?),
            }
        }
        Ok(())
    }

    /// Makes text that policies held back a part of the refusal that it belongs to.
    pub fn continue_refusal(&mut self) {
        let rest = std::mem::take(&mut self.content);
        self.refusal.push_str(&rest);
    }

    /// Returns the delta with the texts; empty if there are none.
    pub fn text_delta(&self) -> Map<String, Value> {
        let mut delta = text_fields(self.thought_field(), &self.thought, &self.content);
        delta.extend(self.thought_details());
        if !self.refusal.is_empty() {
            delta.insert("refusal".to_owned(), self.refusal.as_str().into());
        }
        delta
    }

    /// Returns the name that the model's server has for the thoughts.
    fn thought_field(&self) -> &'static str {
        let has = |name: &str| self.preceding.contains_key(name);
        let is_short = has("reasoning") && !has("reasoning_content");
        let name = if is_short {
            "reasoning"
        } else {
            "reasoning_content"
        };
        self.thought_name.unwrap_or(name)
    }

    /// Returns the details of the thoughts that hold nothing else.
    fn thought_details(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        for list in THOUGHT_DETAILS {
            let details = self.preceding.get(list).and_then(Value::as_array);
            let details = details.map(Vec::as_slice).unwrap_or_default();
            add_list(&mut fields, list, visible_details(details, &self.thought));
        }
        fields
    }

    fn to_message(&self) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        let has_others = !self.calls.is_empty() || !self.refusal.is_empty();
        let is_silent = self.content.is_empty() && has_others;
        let content = (!is_silent).then_some(self.content.as_str());
        message.insert("content".to_owned(), content.into());
        let refusal = (!self.refusal.is_empty()).then_some(self.refusal.as_str());
        message.insert("refusal".to_owned(), refusal.into());
        message.extend(text_fields(self.thought_field(), &self.thought, ""));
        message.extend(self.thought_details());
        message.extend(self.calls.to_message());
        Value::Object(message)
    }
}

/// Returns the candidates of the content form.
pub fn synthetic_choices(document: &Document) -> Result<Vec<SyntheticChoice>> {
    let candidates = document.children(&["candidates"])?.unwrap_or_default();
    candidates.iter().map(SyntheticChoice::read).collect()
}

/// Returns the body of a synthetic answer. `end` is the last of the answers that are merged in it.
pub fn synthetic_body(document: &Document, end: &[Bytes]) -> Result<Bytes> {
    let choices = synthetic_choices(document)?;
    let choices = choices.iter().map(|choice| {
        json!({
            "index": choice.index,
            "message": choice.to_message(),
            "logprobs": null,
            "finish_reason": choice.finish_reason.unwrap_or("stop"),
        })
    });
    let choices: Vec<Value> = choices.collect();
    let mut body = synthetic_envelope(document, "chat.completion", &choices)?;
    insert(&mut body, "usage", new_usage(document, end)?);
    Ok(body.to_string().into())
}

/// Returns a synthetic answer without usage.
pub fn synthetic_envelope(document: &Document, object: &str, choices: &[Value]) -> Result<Value> {
    let id = document.string(&["responseId"])?.unwrap_or_default();
    let id = if id.starts_with("chatcmpl-") {
        id
    } else {
        format!("chatcmpl-{id}")
    };
    let model = document.string(&["modelVersion"])?.unwrap_or_default();
    Ok(json!({
        "id": id,
        "object": object,
        "created": unix_seconds(),
        "model": model,
        "choices": choices,
    }))
}
