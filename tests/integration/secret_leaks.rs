//! Canaries: a text of its own in every place where a key or a secret may stand,
//! and a look into every place where none may turn up.

use std::{fs, path::Path, time::Duration};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Agent, Asked, Served, Upstream, prompt, respond, serving};

/// Of the config and the environment: only their addressee sees them.
const CONFIGURED: [&str; 6] = [
    "CANARY-upstream-key",
    "CANARY-collector-key",
    "CANARY-admin-token",
    "CANARY-hook-bearer",
    "CANARY-label-key",
    "CANARY-environment",
];

/// Of requests: credentials, and what else an agent may send along.
const SENT: [&str; 7] = [
    "CANARY-agent-key",
    "CANARY-agent-bearer",
    "CANARY-query-key",
    "CANARY-cookie",
    "CANARY-header",
    "CANARY-prompt",
    "CANARY-broken-body",
];

/// Of the model API and of hooks.
const ANSWERED: [&str; 7] = [
    "CANARY-answer",
    "CANARY-answer-cookie",
    "CANARY-unreadable",
    "CANARY-upstream-error",
    "CANARY-hook-stdout",
    "CANARY-hook-stderr",
    "CANARY-hook-reason",
];

fn canaries() -> impl Iterator<Item = &'static str> {
    [&CONFIGURED[..], &SENT, &ANSWERED].concat().into_iter()
}

/// Answers by what the model is called.
fn answer(asked: &Asked) -> axum::response::Response {
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

/// What listens for events over HTTP, as another model API would.
async fn hook_over_http() -> Upstream {
    Upstream::with(|_| respond(200, "application/json", "{}")).await
}

/// Takes whatever it is sent.
async fn collector() -> Upstream {
    Upstream::with(|_| respond(200, "application/json", "{}")).await
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

fn start(folder: &Path, config: &str) -> Served {
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
    let mut command = serving(folder);
    command
        .env("ADMIN_TOKEN", "CANARY-admin-token")
        .env("SOME_SECRET", "CANARY-environment")
        .env("GEMINI_API_KEY", "CANARY-environment")
        .env("HOOKGATE_LOG", "trace");
    Served::start(command)
}

#[track_caller]
fn lacks(what: &str, text: &str, found: impl IntoIterator<Item = &'static str>) {
    for canary in found {
        if let Some(at) = text.find(canary) {
            let around: String = text[..at].chars().rev().take(300).collect();
            let around: String = around.chars().rev().collect();
            panic!("{canary} in {what}: …{around}{canary}…");
        }
    }
}

/// Those canaries that do not belong somewhere.
fn but(known: &[&str]) -> Vec<&'static str> {
    canaries().filter(|it| !known.contains(it)).collect()
}

// The collector must hear while this test waits for the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_canary_turns_up_where_it_does_not_belong() {
    let upstream = Upstream::with(|asked| answer(&asked)).await;
    let (http_hook, collector) = (hook_over_http().await, collector().await);
    let folder = TempDir::new().unwrap();
    let mut gate = start(folder.path(), &config(&upstream, &http_hook, &collector));
    let agents = gate.addr();
    let operator = Agent::at(gate.operators());

    ask_for_answers_and_errors(&Agent::at(agents)).await;
    let asked = upstream.seen().len();
    let path = "/v1beta/models/calm:generateContent";
    Agent::at(agents).post(path, prompt("hi").to_string()).await;
    let of_a_stranger = &upstream.seen()[asked..];
    assert_eq!(of_a_stranger.len(), 1);
    lacks(
        "another agent's request",
        &format!("{of_a_stranger:?}"),
        but(&["CANARY-upstream-key"]),
    );
    look_at_pages(operator.sending("authorization", "Bearer CANARY-admin-token")).await;
    look_at_files(folder.path());
    look_at_requests(&upstream, &["CANARY-prompt", "CANARY-upstream-key"]);
    look_at_requests(&http_hook, &["CANARY-prompt", "CANARY-hook-bearer"]);

    gate.terminate();
    let (_, log) = gate.ended(Duration::from_secs(20));
    assert!(log.contains("exchange finished"), "{log}");
    lacks("the log", &log, canaries());
    assert!(collector.seen().len() > 1);
    look_at_requests(&collector, &["CANARY-collector-key"]);
}

/// Each model answers in a way of its own; what it says may be recorded for it alone.
async fn ask_for_answers_and_errors(agent: &Agent) {
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
    for (model, says) in models {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let path = format!("/v1beta/models/{model}:{method}");
            let answer = agent.post(&path, prompt("CANARY-prompt").to_string()).await;
            let mut headers = answer.headers.clone();
            // What a hook says in this way is said to the user (hook protocol, section 3).
            headers.remove("x-hookgate-system-message");
            let told = format!("{headers:?}\n{}", answer.text());
            lacks(&format!("the answer of `{model}`"), &told, but(&[says]));
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
        lacks("an error", answer.text(), canaries());
    }
}

async fn look_at_pages(operator: Agent) {
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
        let told = operator.get(page).await;
        assert_eq!(told.status, 200, "{page}");
        lacks(page, told.text(), canaries());
    }
    look_at_the_trace(&operator).await;
    // The commands of this config have canaries in them.
    let commands = [
        "CANARY-hook-stdout",
        "CANARY-hook-stderr",
        "CANARY-hook-reason",
    ];
    for page in ["/config", "/console/config"] {
        let told = operator.get(page).await;
        lacks(page, told.text(), but(&commands));
    }
    let calls = operator.get("/calls").await.json();
    let calls = calls["calls"].as_array().unwrap();
    assert!(calls.len() > 3, "{calls:?}");
    for call in calls {
        let id = call["id"].as_str().unwrap();
        for page in [format!("/calls/{id}"), format!("/console/calls/{id}")] {
            let told = operator.get(&page).await;
            assert_eq!(told.status, 200, "{page}");
            lacks(&page, told.text(), canaries());
        }
    }
    let reloaded = operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200);
    lacks("the reload", reloaded.text(), canaries());
}

/// The live trace, whose content is off: lists, every record, denials and rules.
async fn look_at_the_trace(operator: &Agent) {
    let list = operator.get("/calls").await;
    lacks("/calls", list.text(), canaries());
    let calls = list.json()["calls"].as_array().unwrap().clone();
    assert!(calls.len() > 10, "{}", list.text());
    for call in &calls {
        let path = format!("/calls/{}", call["id"].as_str().unwrap());
        let record = operator.get(&path).await;
        assert_eq!(record.status, 200, "{path}");
        lacks(&path, record.text(), canaries());
        let content = operator.get(&format!("{path}/content")).await;
        assert_eq!(content.status, 404, "{}", content.text());
    }
    for page in ["/denials", "/rules"] {
        let answer = operator.get(page).await;
        assert_eq!(answer.status, 200, "{page}");
        lacks(page, answer.text(), canaries());
    }
    assert!(operator.get("/denials").await.text().contains("says-no"));
}

/// What hooks wrote down of what they saw, and the decision log.
fn look_at_files(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (environment, input, audit) = (read("environment"), read("input"), read("audit.jsonl"));
    assert!(environment.contains("PATH="));
    lacks("a hook's environment", &environment, canaries());
    assert!(input.contains("CANARY-prompt"), "it sings where it should");
    lacks("a hook's input", &input, but(&["CANARY-prompt"]));
    assert!(audit.lines().count() > 30);
    lacks("the decision log", &audit, canaries());
}

#[track_caller]
fn look_at_requests(server: &Upstream, known: &[&str]) {
    let seen = format!("{:?}", server.seen());
    for canary in known {
        assert!(seen.contains(canary), "{canary} sings where it should");
    }
    lacks("requests", &seen, but(known));
}
