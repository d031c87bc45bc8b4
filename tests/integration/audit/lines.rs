//! What the lines say.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{AUDIT, hash, kinds, only};
use crate::harness::{
    Answer, Asked, TestGateway, Upstream, decision_log, eventually, hook, prompt, respond,
};

const MODEL: &str = "gemini-2.5-pro";
const SECRET: &str = "k3y-0f-th3-ag3nt";

fn audited(hooks: &[(&str, Value)]) -> String {
    format!("{AUDIT}{}", hook::config(hooks))
}

/// The lines after the gateway has ended.
pub(super) async fn ended(gate: TestGateway) -> Vec<Value> {
    let path = gate.path("audit.jsonl");
    let folder = gate.stop_keeping().await;
    let lines = decision_log(&path);
    drop(folder);
    lines
}

#[tokio::test]
async fn a_call_is_written_down_without_its_content() {
    let upstream = Upstream::mock().await;
    let hooks = [
        ("BeforeModel", hook::saying("look", &json!({}))),
        ("AfterModel", hook::saying("after", &json!({}))),
    ];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;
    let agent = gate.agent().sending("x-goog-api-key", SECRET);
    let agent = agent.sending("user-agent", "tester/1");
    let agent = agent.sending("x-hookgate-session", "my-session");

    let answer = agent.generate(MODEL, &prompt("an apple a day")).await;

    let lines = ended(gate).await;
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
    assert_request(&lines[2], &upstream.only());
    assert_event(&lines[1]);
    assert_outcome(&lines[4], &answer);
    let text = json!(lines).to_string();
    for word in ["apple", SECRET, "You said"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

fn print(bytes: &[u8]) -> Value {
    json!({ "bytes": bytes.len(), "sha256": hash(bytes) })
}

#[track_caller]
fn assert_request(request: &Value, asked: &Asked) {
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
    assert_eq!(request["received"], print(sent.as_bytes()));
    assert_eq!(request["sent"], print(asked.body.as_bytes()));
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
    assert_eq!(outcome["response"], print(&answer.body));
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
    let hooks = [("AfterModel", hook::saying("after", &json!({})))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    let answer = gate
        .agent()
        .stream(MODEL, &prompt("one two three four"))
        .await;

    let chunks = answer.events().len();
    let lines = ended(gate).await;
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
    let hooks = [("BeforeModel", hook::refusing("guard", "not such a word"))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    // The gateway still runs: only what it waited for is surely there.
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
    let lines = ended(gate).await;
    assert_eq!(only(&lines, "outcome")["action"], "deny");
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_denial_in_mid_stream_is_logged_before_it_is_sent() {
    let upstream = Upstream::mock().await;
    let hooks = [("AfterModel", hook::refusing("after", "no more"))];
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
async fn upstream_is_called_when_the_log_knows() {
    let known: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    let path: Arc<std::sync::Mutex<Option<std::path::PathBuf>>> = Arc::default();
    let (seen, place) = (Arc::clone(&known), Arc::clone(&path));
    let upstream = Upstream::with(move |asked| {
        let place = place.lock().unwrap().clone().unwrap();
        let lines = decision_log(&place);
        let sent = lines
            .iter()
            .filter(|it| it["sent"]["sha256"] == hash(&asked.body));
        seen.lock().unwrap().push(sent.count());
        respond(200, "application/json", "{}")
    })
    .await;
    let hooks = [("BeforeModel", hook::saying("look", &json!({})))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;
    *path.lock().unwrap() = Some(gate.path("audit.jsonl"));

    let agent = gate.agent();
    let calls = (0..20).map(|it| {
        let agent = agent.clone();
        async move { agent.generate(MODEL, &prompt(&format!("call {it}"))).await }
    });
    futures_util::future::join_all(calls).await;

    assert_eq!(*known.lock().unwrap(), [1; 20]);
}

#[tokio::test]
async fn content_is_written_down_where_the_operator_wants_it() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[
        (
            "BeforeModel",
            hook::saying("swap", &hook::request(&json!({ "model": "other" }))),
        ),
        ("BeforeTool", hook::refusing("guard", "not that file")),
    ]);
    let config = format!("audit: {{ path: audit.jsonl, content: true }}\n{hooks}");
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = gate.agent().generate(MODEL, &prompt("an apple")).await;
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "s",
        "tool_name": "write_file", "tool_input": { "path": "/etc/passwd" },
    });
    gate.agent().report(&event, "").await;

    let lines = ended(gate).await;
    let request = only(&lines, "request");
    assert_eq!(
        (&request["requested_model"], &request["model"]),
        (&json!(MODEL), &json!("other"))
    );
    assert_eq!(request["received"]["text"], prompt("an apple").to_string());
    assert_eq!(request["sent"]["text"], upstream.only().body);
    assert_eq!(only(&lines, "outcome")["response"]["text"], answer.text());
    let tool = lines.iter().find(|it| it["event"] == "BeforeTool").unwrap();
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
async fn an_abandoned_call_is_logged_with_its_fingerprints() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, AUDIT).await;

    let answer = gate.agent().stream(MODEL, &prompt("hello")).await;

    let sent = prompt("hello").to_string();
    let lines = ended(gate).await;
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
async fn who_only_observes_is_written_down_with_what_it_would_have_done() {
    let upstream = Upstream::mock().await;
    let mut guard = hook::refusing("guard", "no");
    guard["mode"] = json!("observe");
    let gate = TestGateway::start(&upstream, &audited(&[("BeforeModel", guard)])).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let lines = ended(gate).await;
    let event = only(&lines, "event");
    assert_eq!(event["verdict"], "proceed");
    assert_eq!(event["hooks"][0]["would"], "would_deny");
}

#[tokio::test]
async fn derived_events_belong_to_their_request() {
    let upstream = Upstream::mock().await;
    let hooks = [
        ("SessionStart", hook::saying("start", &json!({}))),
        ("BeforeAgent", hook::refusing("guard", "no")),
    ];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    let lines = ended(gate).await;
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
async fn a_model_that_is_asked_twice_is_written_down_twice() {
    let call = json!({ "functionCall": { "name": "rm", "args": {} } });
    let say = |part: Value| {
        json!({ "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP" }],
            "usageMetadata": { "totalTokenCount": 5 } })
    };
    let line = |part| json!({ "method": "generateContent", "response": say(part) }).to_string();
    let script = [line(call), line(json!({ "text": "as you wish" }))].join("\n");
    let upstream = Upstream::scripted(&script).await;
    let hooks = [("BeforeTool", hook::refusing("guard", "not that"))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let lines = ended(gate).await;
    let rounds = lines.iter().filter(|it| it["kind"] == "request");
    let rounds: Vec<&Value> = rounds.map(|it| &it["round"]).collect();
    assert_eq!(rounds, [1, 2]);
    let outcome = only(&lines, "outcome");
    assert_eq!(
        (&outcome["rounds"], &outcome["usage"]["total"]),
        (&json!(2), &json!(10))
    );
}

#[tokio::test]
async fn what_is_turned_away_is_written_down_without_its_query() {
    let upstream = Upstream::mock().await;
    let config = format!("{AUDIT}admin: {{ listen: 127.0.0.1:0, token: {{ file: token }} }}\n");
    let gate = TestGateway::with_files(&upstream, &config, &[("token", "s3cret")]).await;

    gate.agent()
        .get(&format!("/v1beta/nowhere?key={SECRET}"))
        .await;
    gate.agent().post("/hookgate/v1/events", "{}").await;
    gate.operator().get("/metrics").await;

    let lines = ended(gate).await;
    let refused = lines.iter().filter(|it| it["kind"] == "rejected");
    let shape = |it: &Value| {
        let part = |key| it[key].as_str().unwrap_or_default().to_owned();
        (
            part("listener"),
            it["path"]["sha256"].as_str().unwrap().to_owned(),
            part("error"),
            it["status"].as_u64(),
        )
    };
    let owned = |door: &str, path: &str, error: &str, status| {
        (door.to_owned(), hash(path), error.to_owned(), Some(status))
    };
    assert_eq!(
        refused.map(shape).collect::<Vec<_>>(),
        [
            owned("agents", "/v1beta/nowhere", "UNKNOWN_PATH", 403),
            owned("agents", "/hookgate/v1/events", "BAD_EVENT", 400),
            owned("operators", "/metrics", "UNAUTHENTICATED", 401),
        ]
    );
    let text = json!(lines).to_string();
    assert!(!text.contains(SECRET) && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_call_that_fails_is_written_down_with_its_error() {
    let upstream = Upstream::raw(|_, socket| async move { drop(socket) }).await;
    let hooks = [("BeforeModel", hook::saying("look", &json!({})))];
    let gate = TestGateway::start(&upstream, &audited(&hooks)).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;
    gate.agent()
        .post(&format!("/v1beta/models/{MODEL}:generateContent"), "{")
        .await;

    let lines = ended(gate).await;
    let outcomes: Vec<&Value> = lines.iter().filter(|it| it["kind"] == "outcome").collect();
    assert_eq!(outcomes[0]["error"], "UPSTREAM_UNREACHABLE");
    assert_eq!(
        (&outcomes[1]["error"], &outcomes[1]["status"]),
        (&json!("BAD_JSON"), &json!(400))
    );
    assert_eq!(
        (&outcomes[0]["rounds"], &outcomes[1]["rounds"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn an_agent_that_leaves_is_written_down() {
    let upstream = Upstream::mock_with(mock_model_api::MockConfig {
        interval: Duration::from_millis(300),
        ..mock_model_api::MockConfig::default()
    })
    .await;
    let gate = TestGateway::start(&upstream, AUDIT).await;
    let path = gate.path("audit.jsonl");

    let target = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");
    let mut open = gate
        .agent()
        .open(&target, prompt("one two three").to_string())
        .await;
    open.chunk().await.unwrap();
    drop(open);

    eventually("the outcome is there", Duration::from_secs(5), || {
        decision_log(&path)
            .iter()
            .any(|it| it["ended"] == "client_disconnected")
    })
    .await;
}

#[tokio::test]
async fn without_a_log_nothing_is_written() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    let metrics = gate.operator().get("/metrics").await;
    assert!(metrics.text().contains("hookgate_audit_lines_total 0"));
}
