//! gemini-cli's conversation format: one JSON record per line. Pure.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use serde_json::{Map, Value, json};

use crate::{
    dialect::{self, History, ItemKind},
    session::{Conversation, Fingerprint},
};

/// Adjacent contents that form one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageGroup {
    pub(super) author: Author,
    contents: Range<usize>,
    /// Fingerprint of the conversation up to its end.
    pub(super) prefix: Fingerprint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    User,
    Tools,
    Model,
}

/// Model message in the file, without its text and calls, which later requests have.
#[derive(Debug)]
pub(super) struct ModelMessage {
    pub(super) id: String,
    model: String,
    /// Token counts as in the file.
    tokens: Value,
    timestamp: String,
}

/// Text and calls of a model message.
#[derive(Debug)]
pub(super) struct ModelText {
    pub(super) text: String,
    /// Calls as `{"id", "name", "args"}`.
    pub(super) calls: Vec<Value>,
}

/// Groups the items of a conversation into messages.
pub(super) fn groups(conversation: &Conversation) -> Vec<MessageGroup> {
    let mut groups: Vec<MessageGroup> = Vec::new();
    for item in &conversation.items {
        let author = match item.kind {
            _ if item.by_model => Author::Model,
            ItemKind::Result => Author::Tools,
            _ => Author::User,
        };
        let end = item.last_content + 1;
        match groups.last_mut().filter(|group| group.author == author) {
            Some(group) if author != Author::User || group.contents.end > item.content => {
                group.contents.end = group.contents.end.max(end);
                group.prefix = item.prefix;
            }
            Some(_) | None => groups.push(MessageGroup {
                author,
                contents: item.content..end,
                prefix: item.prefix,
            }),
        }
    }
    groups
}

impl MessageGroup {
    /// Returns its parts as sent, without duplicate tool results.
    pub(super) fn parts(&self, history: &History) -> Vec<Value> {
        let mut parts: Vec<Value> = Vec::new();
        let contents = history.contents().get(self.contents.clone());
        for content in contents.unwrap_or_default() {
            let content = dialect::without_private_fields(content);
            let content: Value = serde_json::from_slice(&content).unwrap_or_default();
            let own = content.get("parts").and_then(Value::as_array);
            let own = own.into_iter().flatten().map(in_camel_case);
            parts.extend(own.filter(|part| self.holds(part)));
        }
        if self.author == Author::Tools {
            let mut before: Vec<Value> = Vec::new();
            parts.retain(|part| {
                let is_new = !before.contains(part);
                before.push(part.clone());
                is_new
            });
        }
        parts
    }

    fn holds(&self, part: &Value) -> bool {
        let is_result = part.get("functionResponse").is_some();
        match self.author {
            Author::Tools => is_result,
            Author::User => !is_result,
            Author::Model => true,
        }
    }

    /// Returns its text and calls, without thoughts.
    pub(super) fn text(&self, history: &History) -> ModelText {
        let parts = self.parts(history);
        let is_visible = |part: &&Value| part.get("thought") != Some(&Value::Bool(true));
        let visible = parts.iter().filter(is_visible);
        let calls = visible.clone().filter_map(|part| part.get("functionCall"));
        let texts = visible.filter_map(|part| part.get("text")?.as_str());
        ModelText {
            text: texts.collect::<String>().trim().to_owned(),
            calls: calls.cloned().collect(),
        }
    }
}

impl ModelText {
    /// Returns a hash of text and calls, without the ids that agents do not send back.
    pub(super) fn hash(&self, hasher: &RandomState) -> u64 {
        let calls = self.calls.iter();
        let calls = calls.map(|call| (call.get("name"), call.get("args")));
        hasher.hash_one((&self.text, calls.collect::<Vec<_>>()))
    }
}

impl ModelMessage {
    /// A message with this id. `usage` is `usageMetadata` as on the wire.
    pub(super) fn new(id: &str, model: &str, usage: &Value, now: &str) -> Self {
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            tokens: tokens(usage),
            timestamp: now.to_owned(),
        }
    }

    /// Returns the record of the message with its text.
    pub(super) fn record(&self, text: &ModelText) -> Value {
        json!({
            "id": self.id,
            "timestamp": self.timestamp,
            "type": "gemini",
            "content": text.text,
            "thoughts": [],
            "tokens": self.tokens,
            "model": self.model,
        })
    }

    /// Returns its record with the results of its calls.
    pub(super) fn record_with_results(
        &self,
        text: &ModelText,
        results: &[Value],
        now: &str,
    ) -> Value {
        let mut record = self.record(text);
        if let Some(fields) = record.as_object_mut() {
            let calls = call_records(&text.calls, results, now);
            fields.insert("toolCalls".to_owned(), calls.into());
        }
        record
    }
}

/// Record of the first line.
pub(super) fn head(session: &str, project: &str, now: &str) -> Value {
    json!({
        "sessionId": session,
        "projectHash": project,
        "startTime": now,
        "lastUpdated": now,
        "kind": "main",
    })
}

/// Record of a user message or of tool results.
pub(super) fn user_record(id: &str, parts: &[Value], now: &str) -> Value {
    json!({ "id": id, "timestamp": now, "type": "user", "content": parts })
}

/// Returns the records of calls with their results.
fn call_records(calls: &[Value], results: &[Value], now: &str) -> Vec<Value> {
    let mut left: Vec<&Value> = results.iter().collect();
    let calls = calls.iter().enumerate().map(|(number, call)| {
        let name = text_at(call, "/name").unwrap_or_default();
        let id = text_at(call, "/id");
        let id = id.map_or_else(|| format!("{name}__{number}"), str::to_owned);
        let own = left.iter().position(|result| answers(result, call));
        let result = own.map(|at| left.remove(at));
        let response = result.and_then(|value| value.pointer("/functionResponse/response"));
        let (status, display) = outcome(response);
        json!({
            "id": id,
            "name": name,
            "args": call.get("args").unwrap_or(&json!({})),
            "result": result.map(|value| vec![value]),
            "status": status,
            "timestamp": now,
            "resultDisplay": display,
            "description": "",
            "displayName": name,
            "renderOutputAsMarkdown": false,
        })
    });
    calls.collect()
}

/// Returns whether a result is that of a call: it has the same name, and the same id if
/// both have one.
fn answers(result: &Value, call: &Value) -> bool {
    let is_same_id = match (text_at(result, "/functionResponse/id"), call.get("id")) {
        (Some(id), Some(of_call)) => of_call == id,
        (_, None) | (None, _) => true,
    };
    let name = text_at(result, "/functionResponse/name");
    is_same_id && name == Some(text_at(call, "/name").unwrap_or_default())
}

/// Status of a tool call, and its displayed result.
fn outcome(response: Option<&Value>) -> (&'static str, &str) {
    match response {
        None => ("cancelled", ""),
        Some(response) if response.get("error").is_some_and(|error| !error.is_null()) => {
            ("error", text_at(response, "/error").unwrap_or_default())
        }
        Some(response) => ("success", text_at(response, "/output").unwrap_or_default()),
    }
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Token counts under gemini-cli's names; `null` if absent.
fn tokens(usage: &Value) -> Value {
    let Some(usage) = usage.as_object().filter(|value| !value.is_empty()) else {
        return Value::Null;
    };
    let counts = [
        ("input", "promptTokenCount", "prompt_token_count"),
        ("output", "candidatesTokenCount", "candidates_token_count"),
        (
            "cached",
            "cachedContentTokenCount",
            "cached_content_token_count",
        ),
        ("thoughts", "thoughtsTokenCount", "thoughts_token_count"),
        (
            "tool",
            "toolUsePromptTokenCount",
            "tool_use_prompt_token_count",
        ),
        ("total", "totalTokenCount", "total_token_count"),
    ];
    let count = |(name, camel, snake): (&str, &str, &str)| {
        let count = usage.get(camel).or_else(|| usage.get(snake));
        (name.to_owned(), count.cloned().unwrap_or(json!(0)))
    };
    Value::Object(counts.into_iter().map(count).collect::<Map<_, _>>())
}

/// Converts a part's field names to camelCase, which gemini-cli expects.
fn in_camel_case(part: &Value) -> Value {
    let Some(fields) = part.as_object() else {
        return part.clone();
    };
    let spelled = fields.iter().map(|(key, value)| {
        let key = match key.as_str() {
            "function_call" => "functionCall",
            "function_response" => "functionResponse",
            "inline_data" => "inlineData",
            "file_data" => "fileData",
            "thought_signature" => "thoughtSignature",
            key => key,
        };
        (key.to_owned(), value.clone())
    });
    Value::Object(spelled.collect())
}
