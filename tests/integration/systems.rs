//! Hooks of five systems in one gateway. Each behaves as its own documentation specifies.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::harness::{Agent, Answer, ServerProcess, TEST_TIMEOUT, Upstream, hookgate};

/// A gateway with `config/examples/five_systems.yaml`.
struct Systems {
    served: ServerProcess,
    agent: Agent,
    upstream: Upstream,
}

/// Returns true if the machine has Python, in which some of the hooks are written.
fn python_is_installed() -> bool {
    let version = Command::new("python3").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

impl Systems {
    async fn start() -> Self {
        let upstream = Upstream::mock().await;
        let example =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples/five_systems.yaml");
        let mut command = hookgate(&["serve", "--config", example.to_str().unwrap()]);
        command
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--upstream", &format!("http://{}", upstream.addr)]);
        let mut served = ServerProcess::start(command);
        let agent = Agent::at(served.addr());
        Self {
            served,
            agent,
            upstream,
        }
    }

    async fn ask(&self, contents: Value) -> Answer {
        let body = json!({
            "contents": contents,
            "generationConfig": { "temperature": 1, "topK": 3 },
        });
        self.agent.generate("gemini-2.5-pro", &body).await
    }

    async fn report(&self, mut event: Value, name: &str) -> Value {
        event["hook_event_name"] = json!(name);
        event["tool_name"] = json!("read_file");
        self.agent.report(&event, "").await.json()
    }

    async fn stop(self) {
        self.served.terminate();
        let ended = spawn_blocking(move || self.served.ended(TEST_TIMEOUT)).await;
        assert_eq!(ended.unwrap().0.code(), Some(0));
    }
}

fn response_text(answer: &Answer) -> Value {
    answer.json()["candidates"][0]["content"]["parts"][0]["text"].clone()
}

#[tokio::test]
async fn one_gateway_runs_the_hooks_of_five_systems() {
    if !python_is_installed() {
        return;
    }
    let systems = Systems::start().await;
    let user = |part: Value| json!({ "role": "user", "parts": [part] });

    // An older Gemini CLI: a part of the request is overridden. TerminaI: output
    // that is not JSON is a message for the user.
    let answer = systems.ask(json!([user(json!({ "text": "hello" }))])).await;
    let sent = systems.upstream.only_request().json();
    assert_eq!(
        sent["generationConfig"],
        json!({ "temperature": 0, "topK": 3 })
    );
    let message = answer.header("x-hookgate-system-message");
    assert_eq!(
        message.replace("%20", " "),
        "No cloud key in this conversation."
    );

    // TerminaI: parts other than text are shown as text. Exit code 2 denies, for the reason
    // on stderr.
    let call = json!({ "functionCall": { "name": "f", "args": {} } });
    let key = json!({ "key": "AKIAABCDEFGHIJKLMNOP" });
    let result = json!({ "functionResponse": { "name": "f", "response": key } });
    let history = json!([
        user(json!({ "text": "hello" })),
        { "role": "model", "parts": [call] },
        user(result),
    ]);
    let answer = systems.ask(history).await;
    assert_eq!(
        response_text(&answer),
        "There is a cloud key in this conversation."
    );

    // Gemini CLI: the same exit code.
    let key = json!({ "text": "-----BEGIN RSA PRIVATE KEY-----" });
    let answer = systems.ask(json!([user(key.clone())])).await;
    assert_eq!(
        response_text(&answer),
        "There is a private key in here; it stays where it is."
    );
    assert_eq!(systems.upstream.requests().len(), 1);

    check_tool_events(&systems, &key["text"]).await;
    systems.stop().await;
}

/// Checks the events of tools, of which one has a secret in its result.
async fn check_tool_events(systems: &Systems, secret: &Value) {
    // Tabnine CLI: a denial's reason replaces the result; context is appended.
    let after = async |response: Value| {
        let event = json!({ "tool_input": {}, "tool_response": { "llmContent": response } });
        systems.report(event, "AfterTool").await
    };
    let hidden = after(secret.clone()).await;
    assert_eq!(hidden["decision"], "deny");
    assert_eq!(
        hidden["reason"],
        "The result is hidden: there is a private key in it."
    );
    let shown = after(json!("nothing")).await;
    let context = &shown["hookSpecificOutput"]["additionalContext"];
    assert_eq!(context, "read_file was looked through for private keys.");

    // LLxprt Code: the arguments are replaced, and the message is for the model
    // too.
    let event = json!({ "tool_input": { "absolute_path": "/a", "limit": 9000 } });
    let response = systems.report(event, "BeforeTool").await;
    let output = &response["hookSpecificOutput"];
    let arguments = json!({ "absolute_path": "/a", "limit": 2000 });
    assert_eq!(output["tool_input"], arguments);
    assert_eq!(output["additionalContext"], response["systemMessage"]);
}
