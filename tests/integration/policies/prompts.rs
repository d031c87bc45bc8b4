//! `prompt_guard` and `respond`: policies on the user's prompt.

use serde_json::{Value, json};

use super::MODEL;
use crate::families::family::{Family, Part, Turn};
use crate::harness::{TestGateway, Upstream, hook, prompt};

const GUARD: &str = "
policies:
  - { policy: prompt_guard, deny: ['(?i)project aurora', 'codename \\d+'], reason: not outside the company }
";

#[tokio::test]
async fn a_prompt_that_matches_never_reaches_upstream() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;

    let answer = gateway
        .agent()
        .stream(MODEL, &prompt("what of Project Aurora?"))
        .await;

    let text = &answer.events()[0]["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(text, "not outside the company");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn history_and_session_context_are_not_checked() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "codename 7" }] },
        { "role": "model", "parts": [{ "text": "project aurora" }] },
        { "role": "user", "parts": [{ "text": "go on" }] },
    ] });
    let context = "<session_context>\nproject aurora\n</session_context>";
    let first = json!({ "contents": [
        { "role": "user", "parts": [{ "text": context }, { "text": "hi" }] },
    ] });

    for body in [body, first] {
        let answer = gateway.agent().generate(MODEL, &body).await;
        assert_eq!(answer.header("x-hookgate-action"), "pass");
    }

    assert_eq!(upstream.requests().len(), 2);
}

/// Operations and request bodies that contain `project aurora` in an unusual form.
fn disguised_prompts() -> Vec<(&'static str, Value)> {
    let aurora = json!({ "text": "project aurora" });
    let other = json!({ "text": "a" });
    let content = |role: &str, part: &Value| json!({ "role": role, "parts": [part] });
    let user = |parts: Value| json!({ "contents": [{ "role": "user", "parts": parts }] });
    let context_with = |rest: &str| json!({ "text": format!("<session_context>{rest}") });
    let closed = context_with("project aurora</session_context>");
    let generated = [
        user(json!([{ "text": "project au" }, { "text": "rora" }])),
        user(json!([{ "text": "project aurora", "thought": true }])),
        user(json!([{ "text": "project au" }, { "new": "-" }, { "text": "rora" }])),
        user(
            json!([other, { "executableCode": { "language": "PYTHON", "code": "project aurora" } }]),
        ),
        user(json!([other, { "toolCall": { "args": { "q": "project aurora" } } }])),
        user(json!([other, { "newPart": { "a": ["project aurora"] } }])),
        user(json!([context_with("project aurora")])),
        user(json!([context_with("</session_context>project aurora")])),
        user(json!([closed])),
        user(json!([closed, { "text": " " }])),
        user(json!([
            context_with("</session_context>project aurora</session_context>"),
            other
        ])),
        json!({ "contents": [content("user", &aurora), content("model", &json!({ "text": "" }))] }),
        json!({ "contents": [content("user", &other), content("model", &other), content("user", &closed)] }),
    ];
    let embedded = [
        json!({ "content": content("model", &aurora) }),
        json!({ "content": content("user", &other), "title": "project aurora" }),
        json!({
            "content": content("user", &other),
            "embedContentConfig": { "title": "project aurora" },
        }),
    ];
    let requests = ["user", "model", "user"].map(|role| content(role, &other));
    let mut requests = requests.map(|message| json!({ "content": message }));
    requests[0]["content"] = content("user", &aurora);
    let counted = [
        json!({
            "generateContentRequest": { "contents": [] },
            "contents": [content("user", &aurora)],
        }),
        json!({ "generate_content_request": { "contents": [content("user", &aurora)] } }),
    ];
    let mut all: Vec<(&str, Value)> = Vec::new();
    all.extend(generated.map(|body| ("generateContent", body)));
    all.extend(embedded.map(|body| ("embedContent", body)));
    all.push(("batchEmbedContents", json!({ "requests": requests })));
    all.extend(counted.map(|body| ("countTokens", body)));
    all
}

#[tokio::test]
async fn a_matching_prompt_never_reaches_upstream_in_any_request_form() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: prompt_guard, deny: ['project aurora'] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    for (operation, body) in disguised_prompts() {
        let path = format!("/v1beta/models/{MODEL}:{operation}");
        gateway.agent().post(&path, body.to_string()).await;
        assert!(upstream.requests().is_empty(), "{operation}: {body}");
    }
}

#[tokio::test]
async fn a_reported_prompt_is_checked() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, GUARD).await;
    let report = async |text: &str| {
        let input = json!({ "hook_event_name": "BeforeAgent", "prompt": text });
        gateway.agent().report(&input, "").await.json()
    };

    assert_eq!(report("hello").await, json!({}));
    let refused = report("tell codename 12").await;
    assert_eq!(refused["decision"], "deny");
}

#[tokio::test]
async fn a_derived_prompt_is_checked_as_one_text() {
    let secret = "jo@example.com";
    for policy in [
        json!({ "type": "builtin", "policy": "prompt_guard", "deny": [secret] }),
        json!({ "type": "builtin", "policy": "redact", "detect": ["email"], "action": "deny" }),
    ] {
        let upstream = Upstream::mock().await;
        let config = hook::config(&[("BeforeAgent", policy.clone())]);
        let gateway = TestGateway::start(&upstream, &config).await;
        let body = json!({ "contents": [
            { "role": "user", "parts": [{ "text": "ask jo@exa" }, { "text": "mple.com" }] },
        ] });

        gateway.agent().generate(MODEL, &body).await;

        assert!(upstream.requests().is_empty(), "{policy}");
    }
}

#[tokio::test]
async fn a_fixed_response_does_not_call_upstream() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: respond, match: '(?i)^ping$', text: pong }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().generate(MODEL, &prompt(" PING\n")).await;

    let text = &answer.json()["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(
        (text.as_str(), answer.header("x-hookgate-action")),
        (Some("pong"), "respond")
    );
    let path = format!("/v1beta/models/{MODEL}:countTokens");
    gateway
        .agent()
        .post(&path, prompt("ping").to_string())
        .await;
    gateway
        .agent()
        .generate(MODEL, &prompt("ping me later"))
        .await;
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_denial_outranks_a_fixed_response() {
    let upstream = Upstream::mock().await;
    let config = "
policies:
  - { policy: respond, match: '.', text: pong }
  - { policy: model_allow, models: [other] }
";
    let gateway = TestGateway::start(&upstream, config).await;

    let answer = gateway.agent().generate(MODEL, &prompt("ping")).await;

    assert_eq!(answer.header("x-hookgate-action"), "deny");
}

#[tokio::test]
async fn documents_and_search_results_in_a_prompt_are_checked() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let document = |source: Value| json!({ "type": "document", "source": source });
    let plain = |data: &str| json!({ "type": "text", "media_type": "text/plain", "data": data });
    let with = |mut block: Value, key: &str| {
        block[key] = json!("project aurora");
        block
    };
    let found = json!([text("project aurora")]);
    for (family, block, is_denied) in [
        (
            Family::Anthropic,
            document(plain("on project aurora")),
            true,
        ),
        (
            Family::Anthropic,
            document(json!({ "type": "content", "content": found })),
            true,
        ),
        (Family::Anthropic, with(document(plain("a")), "title"), true),
        (
            Family::Anthropic,
            with(
                document(json!({ "type": "url", "url": "https://a" })),
                "context",
            ),
            true,
        ),
        (
            Family::Anthropic,
            json!({ "type": "search_result", "source": "s", "title": "t", "content": found }),
            true,
        ),
        (
            Family::Chat,
            json!({ "type": "refusal", "refusal": "project aurora" }),
            true,
        ),
        (Family::Anthropic, document(plain("a")), false),
    ] {
        let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
        let gateway = family.gateway(&upstream, GUARD).await;
        let mut request = family.request_with_tools(false, &[], &[Turn::User("sum it up")]);
        request["messages"][0]["content"] = json!([block, text("sum it up")]);

        let answer = family.post(&gateway, false, request.to_string()).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(upstream.requests().is_empty(), is_denied, "{block}");
    }
}
