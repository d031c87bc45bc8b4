//! Requests of every API in the form of the Gemini API, from which responses are derived.

use serde_json::{Map, Value, json};

/// Conversation, tools and settings of a request, as the Gemini API writes them.
#[derive(Debug, Default)]
pub(super) struct ContentForm {
    contents: Vec<Value>,
    declarations: Vec<Value>,
    calling: Map<String, Value>,
    generation: Map<String, Value>,
}

impl ContentForm {
    /// Adds the parts of a message; one without parts is left out.
    pub(super) fn push(&mut self, role: &str, parts: &[Value]) {
        if !parts.is_empty() {
            self.contents.push(json!({ "role": role, "parts": parts }));
        }
    }

    /// Adds the result of a tool to the content of the results before it, if there is one.
    pub(super) fn push_result(&mut self, result: Value) {
        let last = self.contents.last_mut();
        let parts = last.and_then(|content| content.get_mut("parts")?.as_array_mut());
        match parts {
            Some(parts) if parts.last().is_some_and(is_result) => parts.push(result),
            _ => self.push("user", &[result]),
        }
    }

    /// Declares a function; one without a name is left out.
    pub(super) fn declare(&mut self, name: Option<&Value>, schema: Option<&Value>) {
        if let Some(name) = name {
            let schema = schema.unwrap_or(&Value::Null);
            self.declarations
                .push(json!({ "name": name, "parametersJsonSchema": schema }));
        }
    }

    /// Sets whether functions may be called: `AUTO`, `ANY` or `NONE`.
    pub(super) fn set_mode(&mut self, mode: &str) {
        self.calling.insert("mode".to_owned(), mode.into());
    }

    /// Leaves only functions of these names.
    pub(super) fn allow_only(&mut self, names: Vec<Value>) {
        self.calling
            .insert("allowedFunctionNames".to_owned(), names.into());
    }

    /// Asks for thoughts before the answer.
    pub(super) fn include_thoughts(&mut self) {
        let thinking = json!({ "includeThoughts": true });
        self.generation
            .insert("thinkingConfig".to_owned(), thinking);
    }

    /// Asks for a JSON document, of a schema if there is one.
    pub(super) fn want_json(&mut self, schema: Option<&Value>) {
        let (key, value) = match schema {
            Some(schema) => ("responseJsonSchema", schema.clone()),
            None => ("responseMimeType", "application/json".into()),
        };
        self.generation.insert(key.to_owned(), value);
    }

    /// Returns the request as a document.
    pub(super) fn into_value(self) -> Value {
        json!({
            "contents": self.contents,
            "tools": [{ "functionDeclarations": self.declarations }],
            "toolConfig": { "functionCallingConfig": self.calling },
            "generationConfig": self.generation,
        })
    }
}

/// Returns a `text` part; nothing for an empty text.
pub(super) fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "text": text }))
}

/// Returns a `functionCall` part.
pub(super) fn call_part(name: &Value, args: &Value) -> Value {
    json!({ "functionCall": { "name": name, "args": args } })
}

/// Returns a `functionResponse` part with the text of `content`, which is a string or a
/// list of text blocks.
pub(super) fn result_part(content: &Value, outcome: Outcome) -> Value {
    let key = match outcome {
        Outcome::Output => "output",
        Outcome::Error => "error",
    };
    json!({ "functionResponse": { "response": { key: joined_text(content) } } })
}

/// Result of a tool run: its output, or an error.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Output,
    Error,
}

/// Returns the elements of a list; nothing for any other value.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Returns a string field, which is empty if there is none.
pub(super) fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the texts of a string or of a list of blocks with `text`.
pub(super) fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let blocks = content.as_array().into_iter().flatten();
    let of_blocks = blocks.filter_map(|block| block.get("text")?.as_str());
    content.as_str().into_iter().chain(of_blocks)
}

fn joined_text(content: &Value) -> String {
    texts(content).collect()
}

fn is_result(part: &Value) -> bool {
    part.get("functionResponse").is_some()
}
