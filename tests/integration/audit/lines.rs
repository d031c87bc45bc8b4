//! Contents of the lines of the decision log.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{AUDIT, hash, kinds, only};
use crate::harness::{
    Answer, ReceivedRequest, TestGateway, Upstream, decision_log, hook, prompt, respond,
};
use crate::trace::until;

pub(super) const MODEL: &str = "gemini-2.5-pro";
pub(super) const SECRET: &str = "k3y-0f-th3-ag3nt";

/// Returns a config with the decision log and these hooks.
pub(super) fn audited(hooks: &[(&str, Value)]) -> String {
    format!("{AUDIT}{}", hook::config(hooks))
}

/// Stops the gateway and returns the lines of its log.
pub(super) async fn stop_and_read_log(gate: TestGateway) -> Vec<Value> {
    let path = gate.path("audit.jsonl");
    let folder = gate.stop_and_keep_files().await;
    let lines = decision_log(&path);
    drop(folder);
    lines
}

#[tokio::test]
async fn a_reported_event_whose_agent_disconnects_is_logged_and_listed() {
    let upstream = Upstream::mock().await;
    let hooks = [("BeforeTool", hook::command("slow", "sleep 30"))];
    let policy = "policies: [{ policy: tool_guard, name: tools, deny: [rm] }]\n";
    let gate = TestGateway::start(&upstream, &(audited(&hooks) + policy)).await;
    let event = json!({ "hook_event_name": "BeforeTool", "session_id": "s",
        "tool_name": "rm", "tool_input": {} });

    let agent = gate.agent();
    let reported = agent.report(&event, "");
    let answer = tokio::time::timeout(Duration::from_millis(500), reported).await;

    assert!(answer.is_err(), "the hook is still running");
    drop(agent);
    let is_listed = |found: &Value| found["calls"][0].is_object();
    let calls = until(&gate.operator(), "/calls", is_listed).await;
    let call = &calls["calls"][0];
    assert_eq!(
        (
            &call["method"],
            &call["tools"],
            &call["end"],
            &call["action"]
        ),
        (
            &json!("BeforeTool"),
            &json!(["rm"]),
            &json!("client_disconnected"),
            &json!("pass")
        )
    );
    let lines = stop_and_read_log(gate).await;
    let event = only(&lines, "event");
    assert_eq!(
        (&event["subject"], &event["verdict"], &event["ended"]),
        (&json!("rm"), &Value::Null, &json!("client_disconnected"))
    );
    let hooks = event["hooks"].as_array().unwrap();
    assert_eq!(hooks.len(), 1, "{event}");
    assert_eq!(
        (&hooks[0]["name"], &hooks[0]["verdict"]),
        (&json!("tools"), &json!("deny"))
    );
}

#[tokio::test]
async fn a_call_is_logged_without_its_content() {
    let upstream = Upstream::mock().await;
    let hooks = [
        ("BeforeModel", hook::printing("look", &json!({}))),
        ("AfterModel", hook::printing("after", &json!({}))),
    ];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;
    let agent = gate.agent().sending("x-goog-api-key", SECRET);
    let agent = agent.sending("user-agent", "tester/1");
    let agent = agent.sending("x-hookgate-session", "my-session");

    let answer = agent.generate(MODEL, &prompt("an apple a day")).await;

    let lines = stop_and_read_log(gate).await;
    assert_eq!(
        kinds(&lines),
        [
            "start",
            "BeforeModel",
            "request",
            "AfterModel",
            "outcome",
            "stop"
        ]
    );
    let id = answer.header("x-hookgate-request-id");
    for line in &lines[1..5] {
        assert_eq!(line["request"], id);
        assert_eq!(line["session"], "my-session");
        assert_eq!(line["config"], lines[0]["config"]);
    }
    assert_request(&lines[2], &upstream.only_request());
    assert_event(&lines[1]);
    assert_outcome(&lines[4], &answer);
    let text = json!(lines).to_string();
    for word in ["apple", SECRET, "You said"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

fn fingerprint(bytes: &[u8]) -> Value {
    json!({ "bytes": bytes.len(), "sha256": hash(bytes) })
}

#[track_caller]
fn assert_request(request: &Value, asked: &ReceivedRequest) {
    let caller = json!({ "key": hash(SECRET), "agent": "tester/1" });
    let sent = prompt("an apple a day").to_string();
    assert_eq!(request["caller"], caller);
    assert_eq!(
        (&request["dialect"], &request["method"], &request["round"]),
        (&json!("gemini"), &json!("generateContent"), &json!(1))
    );
    assert_eq!(
        (&request["requested_model"], &request["model"]),
        (&json!(MODEL), &json!(MODEL))
    );
    assert_eq!(request["received"], fingerprint(sent.as_bytes()));
    assert_eq!(request["sent"], fingerprint(asked.body.as_bytes()));
}

#[track_caller]
fn assert_event(event: &Value) {
    assert_eq!(
        (&event["origin"], &event["verdict"]),
        (&json!("call"), &json!("proceed"))
    );
    assert_eq!(event["hooks"][0]["name"], "look");
    assert_eq!(event["hooks"][0]["status"], "ok");
    assert!(event["hooks"][0]["ms"].is_u64());
}

#[track_caller]
fn assert_outcome(outcome: &Value, answer: &Answer) {
    assert_eq!(outcome["response"], fingerprint(&answer.body));
    assert_eq!(
        (&outcome["action"], &outcome["status"]),
        (&json!("pass"), &json!(200))
    );
    assert_eq!(
        (&outcome["ended"], &outcome["rounds"]),
        (&json!("complete"), &json!(1))
    );
    let counted = &answer.json()["usageMetadata"];
    assert_eq!(outcome["usage"]["total"], counted["totalTokenCount"]);
    assert_eq!(outcome["usage"]["prompt"], counted["promptTokenCount"]);
    assert!(outcome["duration_ms"].is_u64());
}

#[tokio::test]
async fn the_chunks_of_a_stream_are_one_line() {
    let upstream = Upstream::mock().await;
    let hooks = [("AfterModel", hook::printing("after", &json!({})))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    let answer = gate
        .agent()
        .stream(MODEL, &prompt("one two three four"))
        .await;

    let chunks = answer.events().len();
    let lines = stop_and_read_log(gate).await;
    let event = only(&lines, "event");
    assert!(chunks > 1 && event["chunks"].as_u64() > Some(1), "{event}");
    assert_eq!(event["hooks"][0]["runs"], event["chunks"]);
    let outcome = only(&lines, "outcome");
    assert_eq!(outcome["chunks"], event["chunks"]);
    assert_eq!(outcome["response"]["sha256"], hash(&answer.body));
}

#[tokio::test]
async fn a_denial_is_logged_before_it_is_sent() {
    let upstream = Upstream::mock().await;
    let hooks = [("BeforeModel", hook::denying("guard", "not such a word"))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    // The gateway is still running, so only lines that it waited for are certain to be written.
    let lines = decision_log(&gate.path("audit.jsonl"));
    assert_eq!(kinds(&lines[..3]), ["start", "BeforeModel", "request"]);
    assert_eq!(lines[1]["verdict"], "deny");
    assert_eq!(
        lines[1]["reason"],
        json!({ "sha256": hash("not such a word") })
    );
    assert_eq!(lines[1]["hooks"][0]["status"], "block");
    assert_eq!(
        (&lines[2]["round"], &lines[2]["sent"]),
        (&json!(0), &Value::Null)
    );
    let lines = stop_and_read_log(gate).await;
    assert_eq!(only(&lines, "outcome")["action"], "deny");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denial_in_mid_stream_is_logged_before_it_is_sent() {
    let upstream = Upstream::mock().await;
    let hooks = [("AfterModel", hook::denying("after", "no more"))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    let answer = gate.agent().stream(MODEL, &prompt("hello")).await;

    assert!(answer.text().contains("no more"));
    let lines = decision_log(&gate.path("audit.jsonl"));
    let event = only(&lines, "event");
    assert_eq!(
        (&event["event"], &event["verdict"]),
        (&json!("AfterModel"), &json!("deny"))
    );
}

#[tokio::test]
async fn upstream_is_called_after_the_request_is_logged() {
    let logged_counts: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    let path: Arc<std::sync::Mutex<Option<std::path::PathBuf>>> = Arc::default();
    let (counts, log_path) = (Arc::clone(&logged_counts), Arc::clone(&path));
    let upstream = Upstream::with(move |asked| {
        let log_path = log_path.lock().unwrap().clone().unwrap();
        let lines = decision_log(&log_path);
        let sent = lines
            .iter()
            .filter(|line| line["sent"]["sha256"] == hash(&asked.body));
        counts.lock().unwrap().push(sent.count());
        respond(200, "application/json", "{}")
    })
    .await;
    let hooks = [("BeforeModel", hook::printing("look", &json!({})))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;
    *path.lock().unwrap() = Some(gate.path("audit.jsonl"));

    let agent = gate.agent();
    let calls = (0..20).map(|number| {
        let agent = agent.clone();
        async move {
            agent
                .generate(MODEL, &prompt(&format!("call {number}")))
                .await
        }
    });
    futures_util::future::join_all(calls).await;

    assert_eq!(*logged_counts.lock().unwrap(), [1; 20]);
}

#[tokio::test]
async fn content_is_logged_if_configured() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[
        (
            "BeforeModel",
            hook::printing("swap", &hook::request(&json!({ "model": "other" }))),
        ),
        ("BeforeTool", hook::denying("guard", "not that file")),
    ]);
    let config = format!("audit: {{ path: audit.jsonl, content: true }}\n{hooks}");
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = gate.agent().generate(MODEL, &prompt("an apple")).await;
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "s",
        "tool_name": "write_file", "tool_input": { "path": "/etc/passwd" },
    });
    gate.agent().report(&event, "").await;

    let lines = stop_and_read_log(gate).await;
    let request = only(&lines, "request");
    assert_eq!(
        (&request["requested_model"], &request["model"]),
        (&json!(MODEL), &json!("other"))
    );
    assert_eq!(request["received"]["text"], prompt("an apple").to_string());
    assert_eq!(request["sent"]["text"], upstream.only_request().body);
    assert_eq!(only(&lines, "outcome")["response"]["text"], answer.text());
    let tool = lines
        .iter()
        .find(|line| line["event"] == "BeforeTool")
        .unwrap();
    assert_eq!(
        (&tool["origin"], &tool["subject"]),
        (&json!("reported"), &json!("write_file"))
    );
    assert_eq!(tool["reason"]["text"], "not that file");
    assert!(
        tool["input"]["text"]
            .as_str()
            .unwrap()
            .contains("/etc/passwd")
    );
}

#[tokio::test]
async fn a_call_without_hooks_is_logged_with_its_fingerprints() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, AUDIT).await;

    let answer = gate.agent().stream(MODEL, &prompt("hello")).await;

    let sent = prompt("hello").to_string();
    let lines = stop_and_read_log(gate).await;
    assert_eq!(kinds(&lines), ["start", "request", "outcome", "stop"]);
    assert_eq!(
        (&lines[1]["round"], &lines[1]["received"]),
        (&json!(1), &Value::Null)
    );
    let outcome = &lines[2];
    assert_eq!(outcome["received"]["sha256"], hash(&sent));
    assert_eq!(outcome["response"]["sha256"], hash(&answer.body));
    let last = answer.events().pop().unwrap();
    assert_eq!(
        outcome["usage"]["total"],
        last["usageMetadata"]["totalTokenCount"]
    );
}

#[tokio::test]
async fn the_would_be_decision_of_an_observing_hook_is_logged() {
    let upstream = Upstream::mock().await;
    let mut guard = hook::denying("guard", "no");
    guard["mode"] = json!("observe");
    let gate = TestGateway::start(&upstream, &audited(&[("BeforeModel", guard)])).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let lines = stop_and_read_log(gate).await;
    let event = only(&lines, "event");
    assert_eq!(event["verdict"], "proceed");
    assert_eq!(event["hooks"][0]["would"], "would_deny");
}

#[tokio::test]
async fn derived_events_are_logged_with_their_request() {
    let upstream = Upstream::mock().await;
    let hooks = [
        ("SessionStart", hook::printing("start", &json!({}))),
        ("BeforeAgent", hook::denying("guard", "no")),
    ];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    let lines = stop_and_read_log(gate).await;
    let id = answer.header("x-hookgate-request-id");
    assert_eq!(
        kinds(&lines[1..4]),
        ["SessionStart", "BeforeAgent", "request"]
    );
    for line in &lines[1..3] {
        assert_eq!(
            (&line["request"], &line["origin"]),
            (&json!(id), &json!("derived"))
        );
    }
    assert_eq!(lines[1]["subject"], "startup");
    assert_eq!(only(&lines, "outcome")["action"], "deny");
}

#[tokio::test]
async fn each_round_of_a_call_is_logged() {
    let call = json!({ "functionCall": { "name": "rm", "args": {} } });
    let response = |part: Value| {
        let content = json!({ "role": "model", "parts": [part] });
        json!({ "candidates": [{ "content": content, "finishReason": "STOP" }],
            "usageMetadata": { "totalTokenCount": 5 } })
    };
    let line =
        |part| json!({ "method": "generateContent", "response": response(part) }).to_string();
    let script = [line(call), line(json!({ "text": "as you wish" }))].join("\n");
    let upstream = Upstream::scripted(&script).await;
    let hooks = [("BeforeTool", hook::denying("guard", "not that"))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let lines = stop_and_read_log(gate).await;
    let rounds = lines.iter().filter(|line| line["kind"] == "request");
    let rounds: Vec<&Value> = rounds.map(|request| &request["round"]).collect();
    assert_eq!(rounds, [1, 2]);
    let outcome = only(&lines, "outcome");
    assert_eq!(
        (&outcome["rounds"], &outcome["usage"]["total"]),
        (&json!(2), &json!(10))
    );
}

#[tokio::test]
async fn without_a_log_nothing_is_written() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let metrics = gate.operator().get("/metrics").await;
    assert!(metrics.text().contains("hookgate_audit_lines_total 0"));
}
