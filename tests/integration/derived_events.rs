//! Events that agents do not report, derived from their model calls.

mod answers;
mod attacks;
mod calls;
mod disconnects;
mod equal_items;
mod prompts;
mod results;
mod retries;
mod rewritten_histories;
mod session_end;
mod session_start;

use serde_json::{Value, json};

use crate::harness::{Agent, TestGateway, Upstream};

const MODEL: &str = "gemini-2.5-pro";

/// Conversation history of an agent; each method appends a message.
struct Chat {
    contents: Vec<Value>,
}

impl Chat {
    fn new() -> Self {
        let contents = Vec::new();
        Self { contents }
    }

    fn with_prompt(text: &str) -> Self {
        Self::new().user(text)
    }

    fn user(self, text: &str) -> Self {
        self.message("user", &json!({ "text": text }))
    }

    fn model(self, text: &str) -> Self {
        self.message("model", &json!({ "text": text }))
    }

    /// Appends one message of several texts.
    fn user_texts(mut self, texts: &[&str]) -> Self {
        let parts: Vec<Value> = texts.iter().map(|part| text(part)).collect();
        self.contents
            .push(json!({ "role": "user", "parts": parts }));
        self
    }

    fn call(self, name: &str, args: &Value) -> Self {
        self.message(
            "model",
            &json!({ "functionCall": { "name": name, "args": args } }),
        )
    }

    fn result(self, name: &str, response: &Value) -> Self {
        let result = json!({ "name": name, "response": response });
        self.message("user", &json!({ "functionResponse": result }))
    }

    fn message(mut self, role: &str, part: &Value) -> Self {
        self.contents.push(json!({ "role": role, "parts": [part] }));
        self
    }

    /// Appends the content of the model's answer.
    fn answer(mut self, answer: &Value) -> Self {
        self.contents
            .push(answer["candidates"][0]["content"].clone());
        self
    }

    fn body(&self) -> Value {
        let functions = ["read_file", "write_file"].map(|name| json!({ "name": name }));
        json!({ "contents": self.contents, "tools": [{ "functionDeclarations": functions }] })
    }

    /// Sends the history, and returns the answer.
    async fn send(&self, gate: &TestGateway) -> Value {
        self.send_by(&gate.agent()).await
    }

    /// Sends the history, and returns the events of the streamed answer.
    async fn stream(&self, gate: &TestGateway) -> Vec<Value> {
        let answer = gate.agent().stream(MODEL, &self.body()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.events()
    }

    /// Sends the history in a session that has a name, whatever the history is.
    async fn send_in_session(&self, gate: &TestGateway) -> Value {
        let agent = gate.agent().sending("x-hookgate-session", "mine");
        self.send_by(&agent).await
    }

    async fn send_by(&self, agent: &Agent) -> Value {
        let answer = agent.generate(MODEL, &self.body()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

/// An upstream script: each answer is a list of parts, sent as a whole and with one chunk per part.
fn script(answers: &[Value]) -> String {
    let mut lines = Vec::new();
    for parts in answers {
        let whole = json!({ "candidates": [{
            "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0,
        }]});
        let parts = parts.as_array().unwrap();
        let chunks = parts.iter().enumerate().map(|(index, part)| {
            let mut chunk = json!({ "candidates": [{
                "content": { "role": "model", "parts": [part] }, "index": 0,
            }]});
            if index + 1 == parts.len() {
                chunk["candidates"][0]["finishReason"] = json!("STOP");
            }
            chunk
        });
        let chunks: Vec<Value> = chunks.collect();
        for (method, response) in [
            ("generateContent", whole),
            ("generateContentStream", json!(chunks)),
        ] {
            lines.push(json!({ "method": method, "response": response }).to_string());
        }
    }
    lines.join("\n")
}

fn call(name: &str, args: &Value) -> Value {
    json!({ "functionCall": { "name": name, "args": args } })
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

/// All parts of a streamed answer.
fn parts(events: &[Value]) -> Vec<Value> {
    let parts = events
        .iter()
        .filter_map(|event| event["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

/// The `contents` of every request that upstream received.
fn request_contents(upstream: &Upstream) -> Vec<Vec<Value>> {
    let contents = |body: Value| body["contents"].as_array().cloned().unwrap_or_default();
    upstream
        .requests()
        .iter()
        .map(|request| contents(request.json()))
        .collect()
}

/// A shell command that appends a field of its input to `log` and prints `output`.
fn log_command(field: &str, output: &Value) -> String {
    let output = output.to_string().replace('\'', r"'\''");
    format!(
        "python3 -c 'import json,sys; print(json.dumps(json.load(sys.stdin){field}))' >> log; echo '{output}'"
    )
}

/// Lines written by [`log_command`].
fn log(gate: &TestGateway) -> Vec<Value> {
    let path = gate.path("log");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
