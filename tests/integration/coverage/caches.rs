//! Content that model APIs keep: hooks see it when it is made, and it is its
//! caller's alone.

use serde_json::{Value, json};

use crate::harness::{Agent, TestGateway, Upstream, assert_refused, hook, prompt};

const ALLOW: &str = "coverage: { allow: [\"cachedContents.*\"] }\n";

/// Remembers what it is shown, and denies what it does not like.
const GUARD: &str = "cat >> seen; grep -q aurora seen && { echo 'no aurora' >&2; exit 2; }; exit 0";

/// The two places where caches are, and the model as it is named there.
const PLACES: [(&str, &str, &str); 2] = [
    (
        "/v1beta/cachedContents",
        "/v1beta/models/m:generateContent",
        "models/m",
    ),
    (
        "/v1/projects/p/locations/l/cachedContents",
        "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
        "projects/p/locations/l/publishers/google/models/m",
    ),
];

fn guarded() -> String {
    hook::config(&[("BeforeModel", hook::running("guard", GUARD))]) + "\n" + ALLOW
}

fn caller(gate: &TestGateway, key: &str) -> Agent {
    gate.agent().sending("x-goog-api-key", key)
}

fn content(model: &str, text: &str) -> String {
    let mut body = prompt("cached");
    body["model"] = json!(model);
    body["systemInstruction"] = json!({ "parts": [{ "text": text }] });
    body.to_string()
}

fn using(cache: &Value) -> String {
    let mut body = prompt("go on");
    body["cachedContent"] = cache.clone();
    body.to_string()
}

#[tokio::test]
async fn what_is_cached_is_judged_when_it_is_made() {
    for (caches, _, model) in PLACES {
        let upstream = Upstream::mock().await;
        let policies = "policies: [{ policy: prompt_guard, deny: [borealis] }, { policy: model_allow, models: [m] }]\n";
        let gate = TestGateway::start(&upstream, &(guarded() + policies)).await;
        let ann = caller(&gate, "ann");

        let made = ann.post(caches, content(model, "be kind")).await;
        assert_eq!(made.status, 200, "{}", made.text());
        assert!(gate.file("seen").contains("\"content\":\"cached\""));
        assert_eq!(upstream.only().body, content(model, "be kind"));

        let other = model.replace("models/m", "models/other");
        assert_refused(
            &ann.post(caches, content(&other, "x")).await,
            403,
            "POLICY_DENIED",
        );
        let mut said = prompt("borealis");
        said["model"] = json!(model);
        assert_refused(
            &ann.post(caches, said.to_string()).await,
            403,
            "POLICY_DENIED",
        );
        said = prompt("tell me of aurora");
        said["model"] = json!(model);
        assert_refused(
            &ann.post(caches, said.to_string()).await,
            403,
            "POLICY_DENIED",
        );
        assert_refused(
            &ann.post(caches, prompt("x").to_string()).await,
            400,
            "BAD_DOCUMENT",
        );
        let elsewhere = content("projects/q/locations/l/publishers/google/models/m", "x");
        assert_refused(&ann.post(caches, elsewhere).await, 400, "BAD_DOCUMENT");
        assert_eq!(upstream.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_cache_is_its_callers_alone() {
    for (caches, generate, model) in PLACES {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &guarded()).await;
        let (ann, bob) = (caller(&gate, "ann"), caller(&gate, "bob"));
        let made = ann.post(caches, content(model, "x")).await.json();
        let name = made["name"].as_str().unwrap();
        let path = format!("{}/{}", caches, name.rsplit('/').next().unwrap());
        let mine = using(&made["name"]);

        assert_refused(
            &bob.post(generate, mine.clone()).await,
            403,
            "UNKNOWN_CACHE",
        );
        for method in ["GET", "PATCH", "DELETE"] {
            let answer = bob.ask(method, &path, r#"{"ttl":"1s"}"#).await;
            assert_refused(&answer, 403, "UNKNOWN_CACHE");
        }
        assert_refused(&ann.get(caches).await, 403, "METHOD_REFUSED");
        assert_eq!(upstream.seen().len(), 1);

        assert_eq!(ann.post(generate, mine.clone()).await.status, 200);
        assert_eq!(ann.get(&path).await.json()["name"], name);
        let masked = format!("{path}?updateMask=ttl");
        let patched = ann.ask("PATCH", &masked, r#"{"ttl":"60s"}"#).await;
        assert_eq!(patched.status, 200);
        assert_eq!(upstream.seen().pop().unwrap().query, "updateMask=ttl");
        let before = upstream.seen().len();
        let body = r#"{"name":"cachedContents/another","ttl":"60s"}"#;
        let other = ann.ask("PATCH", &path, body).await;
        assert_refused(&other, 400, "AMBIGUOUS");
        let emptied = format!("{path}?updateMask=systemInstruction");
        let emptied = ann.ask("PATCH", &emptied, r#"{"ttl":"60s"}"#).await;
        assert_refused(&emptied, 400, "BAD_QUERY");
        assert_eq!(upstream.seen().len(), before);
        let changed = ann.ask("PATCH", &path, r#"{"contents":[]}"#).await;
        assert_refused(&changed, 400, "BAD_DOCUMENT");
        assert_eq!(ann.ask("DELETE", &path, "").await.status, 200);
        assert_refused(&ann.post(generate, mine).await, 403, "UNKNOWN_CACHE");
        assert_refused(&ann.get(&path).await, 403, "UNKNOWN_CACHE");
    }
}

#[tokio::test]
async fn what_hooks_did_not_see_gets_into_no_call() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guarded()).await;
    let mut snake = prompt("x");
    snake["cached_content"] = json!("cachedContents/stranger");
    let mut counted = json!({ "generateContentRequest": prompt("x") });
    counted["generateContentRequest"]["cachedContent"] = json!("cachedContents/stranger");
    let wrapped = json!({ "model": "m", "request": snake });
    for (path, body) in [
        (
            "/v1beta/models/m:generateContent",
            using(&json!("cachedContents/stranger")),
        ),
        ("/v1beta/models/m:streamGenerateContent", snake.to_string()),
        ("/v1beta/models/m:countTokens", counted.to_string()),
        (
            "/v1/publishers/google/models/m:generateContent",
            snake.to_string(),
        ),
        ("/v1internal:generateContent", wrapped.to_string()),
    ] {
        let answer = gate.agent().post(path, body).await;
        assert_refused(&answer, 403, "UNKNOWN_CACHE");
    }
    assert_eq!(gate.file("seen"), "");
    assert!(upstream.seen().is_empty());
    let none = gate
        .agent()
        .post("/v1beta/models/m:generateContent", using(&json!("")))
        .await;
    assert_eq!(none.status, 200);
}

#[tokio::test]
async fn a_cache_is_its_callers_where_no_hook_listens_too() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, ALLOW).await;
    let (caches, _, model) = PLACES[0];
    let (ann, bob) = (caller(&gate, "ann"), caller(&gate, "bob"));

    let made = ann.post(caches, content(model, "x")).await.json();

    let path = format!("/v1beta/{}", made["name"].as_str().unwrap());
    assert_refused(&bob.ask("DELETE", &path, "").await, 403, "UNKNOWN_CACHE");
    assert_eq!(ann.get(&path).await.status, 200);
}
