//! Scenarios of gemini-cli's own hook tests, with the hooks in the gateway and an agent without
//! hooks. `docs/gemini-cli-hooks.md` lists the limits of a gateway.

mod model_calls;
mod prompts;
mod sessions;
mod tools;

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Coder, TestGateway, Upstream};

/// Upstream with recorded answers, and a gateway with hooks.
struct Scenario {
    upstream: Upstream,
    gate: TestGateway,
}

impl Scenario {
    /// Starts a scenario with its recorded answers and a `settings.json`.
    async fn start(name: &str, settings: &Value) -> Self {
        Self::start_with(&responses(name), "", settings).await
    }

    /// Starts a scenario with its recorded answers for each of two turns.
    async fn start_with_two_turns(name: &str, settings: &Value) -> Self {
        let script = [responses(name), responses(name)].concat();
        Self::start_with(&script, "", settings).await
    }

    /// Starts a scenario with an upstream script, a config and a `settings.json`.
    async fn start_with(script: &str, config: &str, settings: &Value) -> Self {
        let upstream = Upstream::scripted(script).await;
        let config = format!("{config}hook_files: [{{ path: settings.json }}]\n");
        let settings = [("settings.json", &*settings.to_string())];
        let gate = TestGateway::with_files(&upstream, &config, &settings).await;
        Self { upstream, gate }
    }

    fn coder(&self) -> Coder {
        Coder::new(self.gate.agent())
    }

    /// Number of requests that upstream received.
    fn calls(&self) -> usize {
        self.upstream.requests().len()
    }

    /// Number of runs of [`counted`] commands.
    fn runs(&self) -> usize {
        self.gate.file("runs").lines().count()
    }

    /// Last `contents` of the last request.
    fn last_contents(&self, count: usize) -> Vec<Value> {
        let request = self.upstream.requests().pop().unwrap().json();
        let contents = contents(&request);
        contents[contents.len() - count..].to_vec()
    }

    /// Texts with the role `user` in the last request.
    fn last_texts(&self) -> Vec<String> {
        texts(&self.upstream.requests().pop().unwrap().json())
    }
}

/// A `settings.json` of gemini-cli with one group of hooks, run in sequence.
fn settings(event: &str, matcher: &str, commands: &[&str]) -> Value {
    let hooks = commands.iter();
    let hooks =
        hooks.map(|command| json!({ "type": "command", "command": command, "timeout": 5000 }));
    let hooks: Vec<Value> = hooks.collect();
    let mut group = json!({ "sequential": true, "hooks": hooks });
    if !matcher.is_empty() {
        group["matcher"] = json!(matcher);
    }
    json!({ "hooksConfig": { "enabled": true }, "hooks": { event: [group] } })
}

/// Command that prints this output.
fn printing(output: &Value) -> String {
    format!("echo '{output}'")
}

/// Command that also appends a line to the file `runs`.
fn counted(command: &str) -> String {
    format!("echo run >> runs; {command}")
}

/// Context of hooks in the form that requests contain.
fn hook_context(context: &str) -> String {
    format!("<hook_context>{context}</hook_context>")
}

fn contents(request: &Value) -> &Vec<Value> {
    request["contents"].as_array().unwrap()
}

fn texts(request: &Value) -> Vec<String> {
    let user_contents = contents(request)
        .iter()
        .filter(|content| content["role"] == "user");
    let parts = user_contents.flat_map(|content| content["parts"].as_array().unwrap());
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.map(str::to_owned).collect()
}

/// Recorded answers of a scenario, as an upstream script.
fn responses(scenario: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/responses");
    fs::read_to_string(format!("{folder}/hooks-system.{scenario}.responses")).unwrap()
}
