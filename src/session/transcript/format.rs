//! A conversation as gemini-cli writes it down: one JSON record per line. Pure.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::{
    dialect::{History, ItemKind},
    session::{Conversation, Fingerprint},
};

/// Parts that follow each other and are one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageGroup {
    pub(super) who: Author,
    contents: Range<usize>,
    /// The print of all that was said up to its end.
    pub(super) prefix: Fingerprint,
}

/// Author says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    User,
    Tools,
    Model,
}

/// What the model says in one message.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ModelText {
    pub(super) text: String,
    /// The calls, as `{"id", "name", "args"}`.
    pub(super) calls: Vec<Value>,
}

/// The messages of a conversation.
pub(super) fn groups(conversation: &Conversation) -> Vec<MessageGroup> {
    let mut groups: Vec<MessageGroup> = Vec::new();
    for item in &conversation.items {
        let who = match item.kind {
            _ if item.by_model => Author::Model,
            ItemKind::Result => Author::Tools,
            _ => Author::User,
        };
        let end = item.last_content + 1;
        match groups.last_mut().filter(|it| it.who == who) {
            Some(group) if who != Author::User || group.contents.end > item.content => {
                group.contents.end = group.contents.end.max(end);
                group.prefix = item.prefix;
            }
            Some(_) | None => groups.push(MessageGroup {
                who,
                contents: item.content..end,
                prefix: item.prefix,
            }),
        }
    }
    groups
}

impl MessageGroup {
    /// Its parts as they were sent; of what is said twice, one.
    pub(super) fn parts(&self, history: &History) -> Vec<Value> {
        let mut parts: Vec<Value> = Vec::new();
        let contents = history.contents().get(self.contents.clone());
        for content in contents.unwrap_or_default() {
            let content: Value = serde_json::from_slice(content).unwrap_or_default();
            let own = content.get("parts").and_then(Value::as_array);
            let own = own.into_iter().flatten().map(in_camel_case);
            parts.extend(own.filter(|it| self.holds(it)));
        }
        if self.who == Author::Tools {
            let mut before: Vec<Value> = Vec::new();
            parts.retain(|it| {
                let is_new = !before.contains(it);
                before.push(it.clone());
                is_new
            });
        }
        parts
    }

    fn holds(&self, part: &Value) -> bool {
        let is_result = part.get("functionResponse").is_some();
        match self.who {
            Author::Tools => is_result,
            Author::User => !is_result,
            Author::Model => true,
        }
    }

    /// What the model says in it.
    pub(super) fn words(&self, history: &History) -> ModelText {
        let parts = self.parts(history);
        let said = parts
            .iter()
            .filter(|it| it.get("thought") != Some(&Value::Bool(true)));
        let texts = said.clone().filter_map(|it| it.get("text")?.as_str());
        ModelText {
            text: texts.collect::<String>().trim().to_owned(),
            calls: said
                .filter_map(|it| it.get("functionCall").cloned())
                .collect(),
        }
    }
}

impl ModelText {
    /// Whether these are the same, as far as agents send them again.
    pub(super) fn are(&self, others: &Self) -> bool {
        let named = |it: &Value| (it.get("name").cloned(), it.get("args").cloned());
        let calls = self.calls.iter().map(named);
        self.text == others.text && calls.eq(others.calls.iter().map(named))
    }
}

/// The first line of a transcript.
pub(super) fn head(session: &str, project: &str, now: &str) -> Value {
    json!({
        "sessionId": session,
        "projectHash": project,
        "startTime": now,
        "lastUpdated": now,
        "kind": "main",
    })
}

/// What the user says, or a tool.
pub(super) fn heard(id: &str, parts: &[Value], now: &str) -> Value {
    json!({ "id": id, "timestamp": now, "type": "user", "content": parts })
}

/// What the model says. `usage` is as on the wire.
pub(super) fn said(
    id: &str,
    words: &ModelText,
    (model, usage): (&str, &Value),
    now: &str,
) -> Value {
    json!({
        "id": id,
        "timestamp": now,
        "type": "gemini",
        "content": words.text,
        "thoughts": [],
        "tokens": tokens(usage),
        "model": model,
    })
}

/// The same message of the model, now that tools have answered it.
pub(super) fn answered(said: &Value, calls: &[Value], results: &[Value], now: &str) -> Value {
    let mut left: Vec<&Value> = results.iter().collect();
    let calls = calls.iter().enumerate().map(|(number, call)| {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        let id = call.get("id").and_then(Value::as_str);
        let id = id.map_or_else(|| format!("{name}__{number}"), str::to_owned);
        let own = |it: &&Value| {
            let result = it.get("functionResponse");
            let field = |key| result.and_then(|it| it.get(key)).and_then(Value::as_str);
            let same_id = field("id").is_none_or(|it| call.get("id").is_none() || it == id);
            field("name") == Some(name) && same_id
        };
        let result = left.iter().position(own).map(|at| left.remove(at));
        let response = result.and_then(|it| it.pointer("/functionResponse/response"));
        let (status, display) = outcome(response);
        json!({
            "id": id,
            "name": name,
            "args": call.get("args").unwrap_or(&json!({})),
            "result": result.map(|it| vec![it]),
            "status": status,
            "timestamp": now,
            "resultDisplay": display,
            "description": "",
            "displayName": name,
            "renderOutputAsMarkdown": false,
        })
    });
    let calls: Vec<Value> = calls.collect();
    let mut said = said.clone();
    if let Some(fields) = said.as_object_mut() {
        fields.insert("toolCalls".to_owned(), calls.into());
    }
    said
}

/// How a tool ended, and what is shown of it.
fn outcome(response: Option<&Value>) -> (&'static str, &str) {
    let text = |key| response.and_then(|it| it.get(key)).and_then(Value::as_str);
    match response {
        None => ("cancelled", ""),
        Some(response) if response.get("error").is_some() => {
            ("error", text("error").unwrap_or_default())
        }
        Some(_) => ("success", text("output").unwrap_or_default()),
    }
}

/// `usageMetadata` as gemini-cli counts; `null` if nothing is known.
fn tokens(usage: &Value) -> Value {
    let Some(usage) = usage.as_object().filter(|it| !it.is_empty()) else {
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

/// The same part, with its field in the spelling that gemini-cli reads.
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
