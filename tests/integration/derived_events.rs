//! Events that agents know nothing of: read off their model calls.

mod answers;
mod attacks;
mod calls;
mod ends;
mod prompts;
mod results;
mod starts;

use serde_json::{Value, json};

use crate::harness::{TestGateway, Upstream};

const MODEL: &str = "gemini-2.5-pro";

/// An agent's history, as it grows.
struct Chat {
    contents: Vec<Value>,
}

impl Chat {
    fn new() -> Self {
        let contents = Vec::new();
        Self { contents }
    }

    fn asking(text: &str) -> Self {
        Self::new().user(text)
    }

    fn user(self, text: &str) -> Self {
        self.says("user", &json!({ "text": text }))
    }

    fn model(self, text: &str) -> Self {
        self.says("model", &json!({ "text": text }))
    }

    fn calls(self, name: &str, args: &Value) -> Self {
        self.says(
            "model",
            &json!({ "functionCall": { "name": name, "args": args } }),
        )
    }

    fn result(self, name: &str, response: &Value) -> Self {
        let result = json!({ "name": name, "response": response });
        self.says("user", &json!({ "functionResponse": result }))
    }

    fn says(mut self, role: &str, part: &Value) -> Self {
        self.contents.push(json!({ "role": role, "parts": [part] }));
        self
    }

    /// What an agent remembers of an answer.
    fn heard(mut self, answer: &Value) -> Self {
        self.contents
            .push(answer["candidates"][0]["content"].clone());
        self
    }

    fn body(&self) -> Value {
        let functions = ["read_file", "write_file"].map(|it| json!({ "name": it }));
        json!({ "contents": self.contents, "tools": [{ "functionDeclarations": functions }] })
    }

    async fn ask(&self, gate: &TestGateway) -> Value {
        let answer = gate.agent().generate(MODEL, &self.body()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

/// A script of answers, each a list of parts, in one piece and in one chunk per
/// part.
fn script(answers: &[Value]) -> String {
    let mut lines = Vec::new();
    for parts in answers {
        let whole = json!({ "candidates": [{
            "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0,
        }]});
        let parts = parts.as_array().unwrap();
        let chunks = parts.iter().enumerate().map(|(at, part)| {
            let mut chunk = json!({ "candidates": [{
                "content": { "role": "model", "parts": [part] }, "index": 0,
            }]});
            if at + 1 == parts.len() {
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

/// All parts that an agent hears in a stream.
fn parts(events: &[Value]) -> Vec<Value> {
    let parts = events
        .iter()
        .filter_map(|it| it["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

/// The contents of every request that the model API saw.
fn asked(upstream: &Upstream) -> Vec<Vec<Value>> {
    let contents = |it: Value| it["contents"].as_array().cloned().unwrap_or_default();
    upstream
        .seen()
        .iter()
        .map(|it| contents(it.json()))
        .collect()
}

/// A command that appends one line to `log` each time it runs, and prints
/// `output`.
fn logging(field: &str, output: &Value) -> String {
    let output = output.to_string().replace('\'', r"'\''");
    format!(
        "python3 -c 'import json,sys; print(json.dumps(json.load(sys.stdin){field}))' >> log; echo '{output}'"
    )
}

/// What `logging` wrote.
fn log(gate: &TestGateway) -> Vec<Value> {
    let path = gate.path("log");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect()
}
