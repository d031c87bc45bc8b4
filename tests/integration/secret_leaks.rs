//! Secret leaks: a distinct canary for every secret, and a search for it in every output.

use std::{fs, path::Path, time::Duration};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{
    Agent, ReceivedRequest, ServerProcess, Upstream, prompt, respond, serve_command,
};

/// Canaries of the config and the environment. Only their recipient receives them.
const CONFIGURED: [&str; 6] = [
    "CANARY-upstream-key",
    "CANARY-collector-key",
    "CANARY-admin-token",
    "CANARY-hook-bearer",
    "CANARY-label-key",
    "CANARY-environment",
];

/// Canaries of requests: credentials and content.
const SENT: [&str; 7] = [
    "CANARY-agent-key",
    "CANARY-agent-bearer",
    "CANARY-query-key",
    "CANARY-cookie",
    "CANARY-header",
    "CANARY-prompt",
    "CANARY-broken-body",
];

/// Canaries of model API responses and of hook outputs.
const RETURNED: [&str; 7] = [
    "CANARY-answer",
    "CANARY-answer-cookie",
    "CANARY-unreadable",
    "CANARY-upstream-error",
    "CANARY-hook-stdout",
    "CANARY-hook-stderr",
    "CANARY-hook-reason",
];

fn canaries() -> impl Iterator<Item = &'static str> {
    [&CONFIGURED[..], &SENT, &RETURNED].concat().into_iter()
}

/// Returns the response of the model that is named in the path.
fn answer(asked: &ReceivedRequest) -> axum::response::Response {
    let model = asked.path.rsplit('/').next().unwrap();
    if model.starts_with("unreadable") {
        return respond(200, "application/json", "CANARY-unreadable {");
    }
    if model.starts_with("failing") {
        let error = json!({ "error": { "code": 500, "message": "CANARY-upstream-error" } });
        return respond(500, "application/json", error.to_string());
    }
    let answer = json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": "CANARY-answer" }] },
        "finishReason": "STOP",
    }]});
    let mut response = if asked.query.contains("alt=sse") {
        let event = format!("data: {answer}\r\n\r\n");
        respond(200, "text/event-stream", event)
    } else {
        respond(200, "application/json", answer.to_string())
    };
    let cookie = "CANARY-answer-cookie=1".parse().unwrap();
    response.headers_mut().insert("set-cookie", cookie);
    response
}

/// Starts an HTTP hook that allows every event.
async fn start_http_hook() -> Upstream {
    Upstream::answering(&json!({})).await
}

/// Starts an OTLP collector that accepts every request.
async fn start_collector() -> Upstream {
    Upstream::answering(&json!({})).await
}

fn config(upstream: &Upstream, http_hook: &Upstream, collector: &Upstream) -> String {
    format!(
        r#"
admin: {{ token: {{ env: ADMIN_TOKEN }} }}
upstreams: {{ gemini: {{ url: "http://{upstream}", api_key: {{ file: upstream.key }} }} }}
log: {{ level: trace }}
audit: {{ path: audit.jsonl }}
telemetry: {{ otlp: {{ endpoint: "http://{collector}", headers: {{ x-key: {{ file: collector.key }} }} }} }}
policies:
  - {{ policy: redact, detect: [aws_key], key: {{ file: label.key }} }}
hooks:
  BeforeModel:
    - hooks:
        - {{ name: environment, command: "env >> environment; cat >> input" }}
        - {{ name: web, type: http, url: "http://{http_hook}/", bearer: {{ file: bearer.key }} }}
        - {{ name: babble, command: "echo CANARY-hook-stdout {{; echo CANARY-hook-stderr >&2; exit 1" }}
        - name: says-no
          command: "echo CANARY-hook-reason >&2; exit 2"
          when: 'request.model == "refused"'
        - name: falls
          command: "echo CANARY-hook-stderr >&2; exit 1"
          on_failure: closed
          when: 'request.model == "fallen"'
  AfterModel:
    - hooks: [{{ name: after, command: "env >> environment; echo CANARY-hook-stdout" }}]
"#,
        upstream = upstream.addr,
        collector = collector.addr,
        http_hook = http_hook.addr,
    )
}

fn start(folder: &Path, config: &str) -> ServerProcess {
    let files = [
        ("hookgate.yaml", config),
        ("upstream.key", "CANARY-upstream-key"),
        ("bearer.key", "CANARY-hook-bearer"),
        ("label.key", "CANARY-label-key"),
        ("collector.key", "CANARY-collector-key"),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut command = serve_command(folder);
    command
        .env("ADMIN_TOKEN", "CANARY-admin-token")
        .env("SOME_SECRET", "CANARY-environment")
        .env("GEMINI_API_KEY", "CANARY-environment")
        .env("HOOKGATE_LOG", "trace");
    ServerProcess::start(command)
}

#[track_caller]
fn assert_lacks(what: &str, text: &str, canaries: impl IntoIterator<Item = &'static str>) {
    for canary in canaries {
        if let Some(at) = text.find(canary) {
            let context: String = text[..at].chars().rev().take(300).collect();
            let context: String = context.chars().rev().collect();
            panic!("{canary} in {what}: …{context}{canary}…");
        }
    }
}

/// Returns all canaries except these.
fn all_except(known: &[&str]) -> Vec<&'static str> {
    canaries()
        .filter(|canary| !known.contains(canary))
        .collect()
}

// The collector has to run while this test waits for the end of the gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_leaks_into_responses_requests_logs_or_pages() {
    let upstream = Upstream::with(|asked| answer(&asked)).await;
    let (http_hook, collector) = (start_http_hook().await, start_collector().await);
    let folder = TempDir::new().unwrap();
    let mut gate = start(folder.path(), &config(&upstream, &http_hook, &collector));
    let agents = gate.addr();
    let operator = Agent::at(gate.operators());

    send_requests_with_canaries(&Agent::at(agents)).await;
    let asked = upstream.requests().len();
    let path = "/v1beta/models/calm:generateContent";
    Agent::at(agents).post(path, prompt("hi").to_string()).await;
    let other_agent_requests = &upstream.requests()[asked..];
    assert_eq!(other_agent_requests.len(), 1);
    assert_lacks(
        "another agent's request",
        &format!("{other_agent_requests:?}"),
        all_except(&["CANARY-upstream-key"]),
    );
    check_pages(operator.sending("authorization", "Bearer CANARY-admin-token")).await;
    check_files(folder.path());
    check_requests(&upstream, &["CANARY-prompt", "CANARY-upstream-key"]);
    check_requests(&http_hook, &["CANARY-prompt", "CANARY-hook-bearer"]);

    gate.terminate();
    let (_, log) = gate.ended(Duration::from_secs(20));
    assert!(log.contains("exchange finished"), "{log}");
    assert_lacks("the log", &log, canaries());
    assert!(collector.requests().len() > 1);
    check_requests(&collector, &["CANARY-collector-key"]);
}

#[tokio::test]
async fn credentials_in_settings_that_take_none_are_in_no_message() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let valid = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\n";
    fs::write(&file, valid).unwrap();
    let mut gate = ServerProcess::folder(folder.path());
    gate.addr();
    let operator = Agent::at(gate.operators());

    let wrong = r#"
record: { path: recordings, encrypt_to: [AGE-SECRET-KEY-1CANARY] }
auth: { jwt: { issuer: i, audience: a, jwks: "https://user:CANARY@issuer.example/keys" } }
browsers: { origins: ["https://user:CANARY@console.example"] }
source: { url: "https://bundles.example/prod", keys: [CANARY], persist: bundles }
"#;
    fs::write(&file, format!("{valid}{wrong}")).unwrap();
    let reloaded = operator.post("/reload", "").await;
    let config = operator.get("/config").await;
    gate.terminate();
    let (_, log) = gate.ended(Duration::from_secs(20));

    assert_eq!(reloaded.status, 400, "{}", reloaded.text());
    for text in [reloaded.text(), config.text(), log.as_str()] {
        for setting in [
            "record.encrypt_to[0]",
            "auth.jwt.jwks",
            "browsers.origins[0]",
            "source.keys[0]",
        ] {
            assert!(text.contains(setting), "{setting}: {text}");
        }
        assert_lacks("a message", text, ["CANARY"]);
    }
}

/// Sends requests to each model. A response may contain the canary of its model only.
async fn send_requests_with_canaries(agent: &Agent) {
    let agent = agent
        .clone()
        .sending("x-goog-api-key", "CANARY-agent-key")
        .sending("authorization", "Bearer CANARY-agent-bearer")
        .sending("cookie", "session=CANARY-cookie")
        .sending("x-whatever", "CANARY-header");
    let models = [
        ("calm", "CANARY-answer"),
        ("unreadable", ""),
        ("failing", "CANARY-upstream-error"),
        ("refused", "CANARY-hook-reason"),
        ("fallen", ""),
    ];
    for (model, own_canary) in models {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let path = format!("/v1beta/models/{model}:{method}");
            let answer = agent.post(&path, prompt("CANARY-prompt").to_string()).await;
            let mut headers = answer.headers.clone();
            // This header is a message for the user (hook protocol, section 3).
            headers.remove("x-hookgate-system-message");
            let response = format!("{headers:?}\n{}", answer.text());
            assert_lacks(
                &format!("the answer of `{model}`"),
                &response,
                all_except(&[own_canary]),
            );
        }
    }
    let generate = "/v1beta/models/calm:generateContent?key=CANARY-query-key";
    let errors = [
        (generate, "{ CANARY-broken-body"),
        (generate, r#"{"contents":"CANARY-broken-body"}"#),
        (
            "/v1beta/files/CANARY-prompt?key=CANARY-query-key",
            "CANARY-broken-body",
        ),
        (
            "/hookgate/v1/events",
            r#"{"hook_event_name":"CANARY-broken-body"}"#,
        ),
    ];
    for (path, body) in errors {
        let answer = agent.post(path, body).await;
        assert!((400..500).contains(&answer.status), "{answer:?}");
        assert_lacks("an error", answer.text(), canaries());
    }
}

async fn check_pages(operator: Agent) {
    for page in [
        "/metrics",
        "/hooks",
        "/coverage",
        "/sessions",
        "/readyz",
        "/healthz",
        "/overview",
        "/calls",
        "/denials",
        "/rules",
        "/console/",
        "/console/calls",
        "/console/sessions",
        "/console/denials",
        "/console/rules",
        "/console/coverage",
        "/console/try",
    ] {
        let response = operator.get(page).await;
        assert_eq!(response.status, 200, "{page}");
        assert_lacks(page, response.text(), canaries());
    }
    check_trace(&operator).await;
    // The hook commands of this config contain canaries.
    let commands = [
        "CANARY-hook-stdout",
        "CANARY-hook-stderr",
        "CANARY-hook-reason",
    ];
    for page in ["/config", "/console/config"] {
        let response = operator.get(page).await;
        assert_lacks(page, response.text(), all_except(&commands));
    }
    let calls = operator.get("/calls").await.json();
    let calls = calls["calls"].as_array().unwrap();
    assert!(calls.len() > 3, "{calls:?}");
    for call in calls {
        let id = call["id"].as_str().unwrap();
        for page in [format!("/calls/{id}"), format!("/console/calls/{id}")] {
            let response = operator.get(&page).await;
            assert_eq!(response.status, 200, "{page}");
            assert_lacks(&page, response.text(), canaries());
        }
    }
    let reloaded = operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200);
    assert_lacks("the reload", reloaded.text(), canaries());
}

/// The live trace, whose content is off: lists, every record, denials and rules.
async fn check_trace(operator: &Agent) {
    let list = operator.get("/calls").await;
    assert_lacks("/calls", list.text(), canaries());
    let calls = list.json()["calls"].as_array().unwrap().clone();
    assert!(calls.len() > 10, "{}", list.text());
    for call in &calls {
        let path = format!("/calls/{}", call["id"].as_str().unwrap());
        let record = operator.get(&path).await;
        assert_eq!(record.status, 200, "{path}");
        assert_lacks(&path, record.text(), canaries());
        let content = operator.get(&format!("{path}/content")).await;
        assert_eq!(content.status, 404, "{}", content.text());
    }
    for page in ["/denials", "/rules"] {
        let answer = operator.get(page).await;
        assert_eq!(answer.status, 200, "{page}");
        assert_lacks(page, answer.text(), canaries());
    }
    assert!(operator.get("/denials").await.text().contains("says-no"));
}

/// Checks the files that hooks wrote, and the decision log.
fn check_files(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (environment, input, audit) = (read("environment"), read("input"), read("audit.jsonl"));
    assert!(environment.contains("PATH="));
    assert_lacks("a hook's environment", &environment, canaries());
    assert!(input.contains("CANARY-prompt"), "hooks receive the prompt");
    assert_lacks("a hook's input", &input, all_except(&["CANARY-prompt"]));
    assert!(audit.lines().count() > 30);
    assert_lacks("the decision log", &audit, canaries());
}

#[track_caller]
fn check_requests(server: &Upstream, known: &[&str]) {
    let seen = format!("{:?}", server.requests());
    for canary in known {
        assert!(seen.contains(canary), "{canary} is missing");
    }
    assert_lacks("requests", &seen, all_except(known));
}
