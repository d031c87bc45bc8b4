//! Trials of one event or request under the config in use or an earlier revision.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{logged_in, with_users};
use crate::{
    harness::{Agent, Browser, ServerProcess, TestGateway, Upstream, decision_log, hook, prompt},
    trace::until,
};

fn guard_config() -> String {
    let guard = "grep -q secret && { touch ran; echo no >&2; exit 2; }; exit 0";
    hook::config(&[("BeforeModel", hook::command("guard", guard))])
}

#[tokio::test]
async fn a_trial_runs_the_hooks_without_an_upstream_call_or_a_trace() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, &guard_config()).await;
    let operator = logged_in(&gateway, "olga").await;
    let csrf = operator.csrf("/console/try").await;
    let input = json!({ "contents": [{ "parts": [{ "text": "a secret" }] }] }).to_string();

    let fields = [("csrf", &*csrf), ("input", &input), ("mode", "run")];
    let page = operator.post("/console/try", &fields).await;

    assert_eq!(page.status, 200, "{}", page.html);
    assert!(page.html.contains("Verdict: deny"), "{}", page.html);
    assert!(page.html.contains("guard"), "{}", page.html);
    assert!(upstream.requests().is_empty());
    let calls = operator.get("/console/calls").await.html;
    assert!(!calls.contains("data-row href"), "{calls}");
}

#[tokio::test]
async fn the_input_of_a_trial_can_be_sent_again_as_a_browser_sends_it() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, &guard_config()).await;
    let operator = logged_in(&gateway, "olga").await;
    let csrf = operator.csrf("/console/try").await;
    let input = "{\r\n  \"contents\": [{ \"parts\": [{ \"text\": \"hello\" }] }]\r\n}";

    let fields = [("csrf", &*csrf), ("input", input), ("mode", "plan")];
    let page = operator.post("/console/try", &fields).await;

    assert_eq!(page.status, 200, "{}", page.html);
    let (_, text) = page.html.split_once("spellcheck=\"false\">").unwrap();
    let (text, _) = text.split_once("</textarea>").unwrap();
    let sent_again = text.replace("&quot;", "\"").replace('\n', "\r\n");
    assert_eq!(sent_again, input);
}

#[tokio::test]
async fn a_trial_has_the_name_of_a_caller_with_a_token() {
    let upstream = Upstream::mock().await;
    let config = "\
auth: { jwt: { issuer: i, audience: a, jwks: { file: jwks.json } } }
policies: [{ policy: prompt_guard, deny: [aurora], when: 'caller.name == \"jwt:alice\"' }]
";
    // The public key of RFC 8037, appendix A.
    let jwks = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let gateway = TestGateway::with_files(&upstream, config, &[("jwks.json", jwks)]).await;
    let call = |caller: &str| {
        let input = json!({
            "path": "/v1beta/models/m:generateContent",
            "headers": { "x-goog-api-key": caller },
            "body": { "contents": [{ "role": "user", "parts": [{ "text": "aurora" }] }] },
        });
        json!({ "input": input, "mode": "run" }).to_string()
    };

    let alice = gateway.operator().post("/try", call("jwt:alice")).await;
    let bob = gateway.operator().post("/try", call("jwt:bob")).await;

    assert_eq!(alice.json()["verdict"], "deny", "{}", alice.text());
    assert_eq!(bob.json()["verdict"], "proceed", "{}", bob.text());
}

#[tokio::test]
async fn a_viewer_sees_the_plan_and_runs_no_hook() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, &guard_config()).await;
    let viewer = logged_in(&gateway, "vera").await;
    let csrf = viewer.csrf("/console/try").await;
    let input = json!({ "contents": [{ "parts": [{ "text": "a secret" }] }] }).to_string();
    let fields = |mode| {
        [
            ("csrf", csrf.as_str()),
            ("input", input.as_str()),
            ("mode", mode),
        ]
    };

    let plan = viewer.post("/console/try", &fields("plan")).await;
    let run = viewer.post("/console/try", &fields("run")).await;

    assert_eq!(plan.status, 200);
    assert!(
        plan.html.contains("<td colspan=\"4\">would run"),
        "{}",
        plan.html
    );
    assert_eq!(run.status, 403);
    assert!(run.html.contains("operator"), "{}", run.html);
    assert!(!gateway.path("ran").exists());
}

#[tokio::test]
async fn a_plan_has_no_verdict_unless_the_request_is_an_error() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, &guard_config()).await;
    let viewer = logged_in(&gateway, "vera").await;
    let csrf = viewer.csrf("/console/try").await;
    let input = json!({ "contents": [{ "parts": [{ "text": "a secret" }] }] });
    let refused = json!({ "path": "/v1beta/models/m:unknown", "body": {} });
    let bearer = gateway
        .operator()
        .sending("authorization", "Bearer vera-token");

    let text = input.to_string();
    let fields = [("csrf", &*csrf), ("input", &*text), ("mode", "plan")];
    let page = viewer.post("/console/try", &fields).await.html;
    let plan = bearer
        .post("/try", json!({ "input": input }).to_string())
        .await;
    let error = bearer
        .post("/try", json!({ "input": refused }).to_string())
        .await;

    assert!(!page.contains("Verdict"), "{page}");
    assert!(
        page.contains("<h2>Policies and hooks that would run</h2>"),
        "{page}"
    );
    assert_eq!(plan.json()["verdict"], json!(null), "{}", plan.text());
    assert_eq!(plan.json()["events"][0]["event"], "BeforeModel");
    assert!(!plan.text().contains("\"verdict\""), "{}", plan.text());
    assert!(!page.contains("proceed"), "{page}");
    assert_eq!(error.json()["verdict"], "error", "{}", error.text());
}

#[tokio::test]
async fn an_input_that_is_neither_event_nor_request_is_rejected() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let viewer = logged_in(&gateway, "vera").await;
    let csrf = viewer.csrf("/console/try").await;

    let fields = [("csrf", &*csrf), ("input", "{ nonsense"), ("mode", "plan")];
    let page = viewer.post("/console/try", &fields).await;
    let bearer = gateway
        .operator()
        .sending("authorization", "Bearer vera-token");
    let answer = bearer.post("/try", "{}").await;

    assert_eq!(page.status, 400);
    assert!(
        page.html.contains("{ nonsense"),
        "the input is kept: {}",
        page.html
    );
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["details"][0]["reason"], "BAD_JSON");
}

#[tokio::test]
async fn a_refused_trial_of_the_console_is_in_the_decision_log() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "audit: { path: audit.jsonl }\n").await;
    let viewer = logged_in(&gateway, "vera").await;
    let csrf = viewer.csrf("/console/try").await;
    let fields = |input, mode| [("csrf", csrf.as_str()), ("input", input), ("mode", mode)];

    viewer.post("/console/try", &fields("{}", "run")).await;
    viewer.post("/console/try", &fields("{", "plan")).await;

    let path = gateway.path("audit.jsonl");
    let _folder = gateway.stop_and_keep_files().await;
    let lines = decision_log(&path);
    let rejected = lines.iter().filter(|line| line["kind"] == "rejected");
    let statuses: Vec<&Value> = rejected.map(|line| &line["status"]).collect();
    assert_eq!(statuses, [&json!(403), &json!(400)], "{lines:#?}");
}

#[tokio::test]
async fn a_schema_that_multiplies_its_values_has_a_small_answer() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let viewer = gateway
        .operator()
        .sending("authorization", "Bearer vera-token");
    let array = |items: Value| json!({ "type": "array", "items": items, "minItems": 100 });
    let schema = (0..3).fold(json!({ "type": "string" }), |items, _| array(items));
    let input = json!({
        "contents": [{ "parts": [{ "text": "hello" }] }],
        "generationConfig": { "responseSchema": schema },
    });

    let body = json!({ "input": input }).to_string();
    let answer = viewer.post("/try", body).await;

    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("example"));
    let bytes = answer.text().len();
    assert!(bytes < 1_000_000, "{bytes} bytes");
}

#[tokio::test]
async fn an_earlier_revision_of_the_config_can_be_tried() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |hooks: &str| {
        let upstreams = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), upstreams + hooks).unwrap();
    };
    write(&guard_config());
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operators = served.operators();
    let operator = Agent::at(operators);
    write("");
    assert_eq!(operator.post("/reload", "").await.status, 200);
    let view = operator.get("/config").await.json();
    let earlier = view["revisions"][1]["version"].as_str().unwrap();
    let input = json!({ "contents": [{ "parts": [{ "text": "a secret" }] }] });

    let now = json!({ "input": input, "mode": "run" });
    let now = operator.post("/try", now.to_string()).await.json();
    let before = json!({ "input": input, "mode": "run", "version": earlier });
    let before = operator.post("/try", before.to_string()).await.json();
    let unknown = json!({ "input": input, "version": "made-up" });
    let unknown = operator.post("/try", unknown.to_string()).await;
    let page = operator.get("/console/try").await;

    assert_eq!(now["verdict"], "proceed", "{now:#}");
    assert_eq!(before["verdict"], "deny", "{before:#}");
    assert_eq!(unknown.status, 400);
    assert!(unknown.text().contains("no revision"), "{}", unknown.text());
    let choice = format!("<option value=\"{earlier}\">");
    assert!(page.text().contains(&choice), "{}", page.text());
}

#[tokio::test]
async fn a_trial_shows_what_an_observing_policy_would_edit_and_what_did_not_run() {
    let upstream = Upstream::mock().await;
    let config = "policies:
  - { policy: model_swap, name: observed, mode: observe, rules: [{ to: other }] }
  - { policy: prompt_guard, name: conditional, deny: [aurora], when: 'request.model == \"x\"' }
";
    let gateway = with_users(&upstream, config).await;
    let operator = logged_in(&gateway, "olga").await;
    let csrf = operator.csrf("/console/try").await;
    let input = json!({ "contents": [{ "parts": [{ "text": "hello" }] }] }).to_string();

    let fields = [("csrf", &*csrf), ("input", &*input), ("mode", "run")];
    let page = operator.post("/console/try", &fields).await.html;

    assert!(page.contains("<code>{}</code> would edit"), "{page}");
    assert!(!page.contains(" edited"), "{page}");
    let not_run = "<th scope=\"row\">conditional</th><td colspan=\"4\">";
    assert!(page.contains(not_run), "{page}");
    assert!(
        page.contains("its condition <code>when</code> is false"),
        "{page}"
    );
    assert!(page.contains("is called 1 time<"), "{page}");
}

#[tokio::test]
async fn the_timeline_of_a_trial_has_no_link_to_calls_of_its_session() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, &guard_config()).await;
    let operator = logged_in(&gateway, "olga").await;
    let csrf = operator.csrf("/console/try").await;
    let input = json!({ "contents": [{ "parts": [{ "text": "hello" }] }] }).to_string();

    let fields = [("csrf", &*csrf), ("input", &input), ("mode", "run")];
    let page = operator.post("/console/try", &fields).await.html;

    assert!(page.contains(", found by "), "{page}");
    assert!(!page.contains("/console/calls?session="), "{page}");
}

#[tokio::test]
async fn the_form_of_a_trial_names_the_time_of_a_request() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let browser = Browser::at(&gateway);

    for page in ["try", "config"] {
        let html = browser.get(&format!("/console/{page}")).await.html;
        assert!(html.contains("within 60 s"), "{page}: {html}");
    }
}

#[tokio::test]
async fn every_call_that_the_form_offers_can_be_sent() {
    let upstream = Upstream::mock().await;
    let config = "trace: { content: { denied_or_edited: true } }\n\
         policies: [{ policy: prompt_guard, deny: [aurora] }]";
    let gateway = TestGateway::start(&upstream, config).await;
    let browser = Browser::at(&gateway);
    let csrf = browser.csrf("/console/try").await;
    // The comma is sent as three characters.
    let text = format!("aurora{}", ", ".repeat(650_000));
    let denied = gateway.agent().generate("m", &prompt(&text)).await;
    let id = denied.header("x-hookgate-request-id");
    let path = format!("/calls/{id}/content");
    until(&gateway.operator(), &path, |found| found["id"].is_string()).await;

    let offered = browser.get(&format!("/console/try?call={id}")).await.html;
    let (_, input) = offered.split_once("spellcheck=\"false\">").unwrap();
    let (input, _) = input.split_once("</textarea>").unwrap();
    let input = input.replace("&quot;", "\"").replace('\n', "\r\n");
    let fields = [("csrf", &*csrf), ("input", &input), ("mode", "run")];
    let tried = browser.post("/console/try", &fields).await;
    let too_large = "1".repeat(2 * 1024 * 1024 + 1);
    let fields = [("csrf", &*csrf), ("input", &too_large), ("mode", "plan")];
    let refused = browser.post("/console/try", &fields).await;

    assert!(input.len() > 1_300_000, "{}", input.len());
    assert_eq!(tried.status, 200);
    assert!(tried.html.contains("Verdict: deny"));
    assert_eq!(refused.status, 413);
    assert!(refused.html.contains("the input has more than 2.0 MiB"));
    assert!(refused.html.contains(&too_large), "the form is kept");
}
