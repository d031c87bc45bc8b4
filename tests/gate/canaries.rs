//! Canaries: a text of its own in every place where a key or a secret may stand,
//! and a look into every place where none may turn up.

use std::{fs, path::Path, time::Duration};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Agent, Asked, Served, Upstream, hookgate, prompt, respond};

/// Of the config and the environment: nobody but their addressee sees them.
const CONFIGURED: [&str; 5] = [
    "CANARY-upstream-key",
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

fn config(upstream: &Upstream, http_hook: &Upstream) -> String {
    format!(
        r#"
listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0, token: {{ env: ADMIN_TOKEN }} }}
upstreams: {{ gemini: {{ url: "http://{upstream}", api_key: {{ file: upstream.key }} }} }}
log: {{ level: trace }}
audit: {{ path: audit.jsonl }}
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
        http_hook = http_hook.addr,
    )
}

fn start(folder: &Path, config: &str) -> Served {
    let files = [
        ("hookgate.yaml", config),
        ("upstream.key", "CANARY-upstream-key"),
        ("bearer.key", "CANARY-hook-bearer"),
        ("label.key", "CANARY-label-key"),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut command = hookgate(&["serve", "--config", "hookgate.yaml"]);
    command
        .current_dir(folder)
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

#[tokio::test]
async fn no_canary_turns_up_where_it_does_not_belong() {
    let upstream = Upstream::with(|asked| answer(&asked)).await;
    let http_hook = hook_over_http().await;
    let folder = TempDir::new().unwrap();
    let mut gate = start(folder.path(), &config(&upstream, &http_hook));
    let agents = gate.addr();
    let operator =
        Agent::at(gate.operators()).sending("authorization", "Bearer CANARY-admin-token");
    let agent = Agent::at(agents)
        .sending("x-goog-api-key", "CANARY-agent-key")
        .sending("authorization", "Bearer CANARY-agent-bearer")
        .sending("cookie", "session=CANARY-cookie")
        .sending("x-whatever", "CANARY-header");
    let body = prompt("CANARY-prompt").to_string();

    for model in ["calm", "unreadable", "failing", "refused", "fallen"] {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let path = format!("/v1beta/models/{model}:{method}");
            let answer = agent.post(&path, body.clone()).await;
            let mine: &[&str] = match model {
                "calm" => &["CANARY-answer"],
                "failing" => &["CANARY-upstream-error"],
                "refused" => &["CANARY-hook-reason"],
                _ => &[],
            };
            let foreign = canaries().filter(|it| !mine.contains(it));
            let mut headers = answer.headers.clone();
            // What a hook says in this way is said to the user (hook protocol, section 3).
            headers.remove("x-hookgate-system-message");
            let told = format!("{headers:?}\n{}", answer.text());
            lacks(&format!("the answer of `{model}`"), &told, foreign);
        }
    }
    let errors = [
        (
            "/v1beta/models/calm:generateContent?key=CANARY-query-key",
            "{ CANARY-broken-body",
        ),
        (
            "/v1beta/models/calm:generateContent?key=CANARY-query-key",
            r#"{"contents":"CANARY-broken-body"}"#,
        ),
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

    let asked = upstream.seen().len();
    let stranger = Agent::at(agents);
    stranger
        .post(
            "/v1beta/models/calm:generateContent",
            prompt("hi").to_string(),
        )
        .await;
    let foreign = &upstream.seen()[asked..];
    assert_eq!(foreign.len(), 1);
    let foreign_request = format!("{foreign:?}");
    lacks(
        "another agent's request",
        &foreign_request,
        canaries().filter(|it| *it != "CANARY-upstream-key"),
    );
    assert!(
        foreign_request.contains("CANARY-upstream-key"),
        "the canary sings where it should"
    );

    for page in ["/metrics", "/hooks", "/sessions", "/readyz", "/healthz"] {
        let page_text = operator.get(page).await;
        assert_eq!(page_text.status, 200, "{page}");
        lacks(page, page_text.text(), canaries());
    }
    let reloaded = operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200);

    let audit = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert!(audit.lines().count() > 30);
    lacks("the decision log", &audit, canaries());

    let environment = fs::read_to_string(folder.path().join("environment")).unwrap();
    assert!(environment.contains("PATH="));
    lacks("a hook's environment", &environment, canaries());
    let input = fs::read_to_string(folder.path().join("input")).unwrap();
    assert!(
        input.contains("CANARY-prompt"),
        "the canary sings where it should"
    );
    let known = canaries().filter(|it| *it != "CANARY-prompt");
    lacks("a hook's input", &input, known);
    for asked in http_hook.seen() {
        let all = format!("{asked:?}");
        assert!(
            all.contains("CANARY-hook-bearer"),
            "the canary sings where it should"
        );
        let known = ["CANARY-prompt", "CANARY-hook-bearer"];
        lacks(
            "a hook's request",
            &all,
            canaries().filter(|it| !known.contains(it)),
        );
    }
    for asked in upstream.seen() {
        let all = format!("{asked:?}");
        let known = ["CANARY-prompt", "CANARY-upstream-key"];
        lacks(
            "a request upstream",
            &all,
            canaries().filter(|it| !known.contains(it)),
        );
    }

    gate.terminate();
    let (_, log) = gate.ended(Duration::from_secs(20));
    assert!(log.contains("exchange finished"), "{log}");
    lacks("the log", &log, canaries());
}
