//! Content cached by model APIs: hooks inspect it when it is created, and only the caller that
//! created it may use it.

use serde_json::{Value, json};

use crate::harness::{Agent, TestGateway, Upstream, assert_refused, hook, prompt};

const ALLOW: &str = "coverage: { allow: [\"cachedContents.*\"] }\n";

/// A hook that appends its input to `seen`, and denies input that contains `aurora`.
const GUARD: &str = "cat >> seen; grep -q aurora seen && { echo 'no aurora' >&2; exit 2; }; exit 0";

/// The two APIs with caches: the path of the caches, a path that uses one, and the model name.
const CACHE_APIS: [(&str, &str, &str); 2] = [
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

fn guarded_config() -> String {
    hook::config(&[("BeforeModel", hook::command("guard", GUARD))]) + "\n" + ALLOW
}

fn caller(gateway: &TestGateway, key: &str) -> Agent {
    gateway.agent().sending("x-goog-api-key", key)
}

fn cached_content(model: &str, text: &str) -> String {
    let mut body = prompt("cached");
    body["model"] = json!(model);
    body["systemInstruction"] = json!({ "parts": [{ "text": text }] });
    body.to_string()
}

fn prompt_with_cache(cache: &Value) -> String {
    let mut body = prompt("go on");
    body["cachedContent"] = cache.clone();
    body.to_string()
}

#[tokio::test]
async fn cached_content_is_checked_when_it_is_created() {
    for (caches, _, model) in CACHE_APIS {
        let upstream = Upstream::mock().await;
        let policies = "policies: [{ policy: prompt_guard, deny: [borealis] }, { policy: model_allow, models: [m] }]\n";
        let gateway = TestGateway::start(&upstream, &(guarded_config() + policies)).await;
        let ann = caller(&gateway, "ann");

        let created = ann.post(caches, cached_content(model, "be kind")).await;
        assert_eq!(created.status, 200, "{}", created.text());
        assert!(gateway.file("seen").contains("\"content\":\"cached\""));
        assert_eq!(
            upstream.only_request().body,
            cached_content(model, "be kind")
        );

        let other = model.replace("models/m", "models/other");
        assert_refused(
            &ann.post(caches, cached_content(&other, "x")).await,
            403,
            "POLICY_DENIED",
        );
        let mut body = prompt("borealis");
        body["model"] = json!(model);
        assert_refused(
            &ann.post(caches, body.to_string()).await,
            403,
            "POLICY_DENIED",
        );
        body = prompt("tell me of aurora");
        body["model"] = json!(model);
        assert_refused(
            &ann.post(caches, body.to_string()).await,
            403,
            "POLICY_DENIED",
        );
        assert_refused(
            &ann.post(caches, prompt("x").to_string()).await,
            400,
            "BAD_DOCUMENT",
        );
        let elsewhere = cached_content("projects/q/locations/l/publishers/google/models/m", "x");
        assert_refused(&ann.post(caches, elsewhere).await, 400, "BAD_DOCUMENT");
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn only_the_caller_that_created_a_cache_can_use_it() {
    for (caches, generate, model) in CACHE_APIS {
        let upstream = Upstream::mock().await;
        let gateway = TestGateway::start(&upstream, &guarded_config()).await;
        let (ann, bob) = (caller(&gateway, "ann"), caller(&gateway, "bob"));
        let created = ann.post(caches, cached_content(model, "x")).await.json();
        let name = created["name"].as_str().unwrap();
        let path = format!("{}/{}", caches, name.rsplit('/').next().unwrap());
        let use_cache = prompt_with_cache(&created["name"]);

        assert_refused(
            &bob.post(generate, use_cache.clone()).await,
            403,
            "UNKNOWN_CACHE",
        );
        for method in ["GET", "PATCH", "DELETE"] {
            let answer = bob.ask(method, &path, r#"{"ttl":"1s"}"#).await;
            assert_refused(&answer, 403, "UNKNOWN_CACHE");
        }
        assert_refused(&ann.get(caches).await, 403, "METHOD_REFUSED");
        assert_eq!(upstream.requests().len(), 1);

        assert_eq!(ann.post(generate, use_cache.clone()).await.status, 200);
        assert_eq!(ann.get(&path).await.json()["name"], name);
        let masked = format!("{path}?updateMask=ttl");
        let patched = ann.ask("PATCH", &masked, r#"{"ttl":"60s"}"#).await;
        assert_eq!(patched.status, 200);
        assert_eq!(upstream.requests().pop().unwrap().query, "updateMask=ttl");
        let before = upstream.requests().len();
        let body = r#"{"name":"cachedContents/another","ttl":"60s"}"#;
        let other = ann.ask("PATCH", &path, body).await;
        assert_refused(&other, 400, "AMBIGUOUS");
        let emptied = format!("{path}?updateMask=systemInstruction");
        let emptied = ann.ask("PATCH", &emptied, r#"{"ttl":"60s"}"#).await;
        assert_refused(&emptied, 400, "BAD_QUERY");
        assert_eq!(upstream.requests().len(), before);
        let changed = ann.ask("PATCH", &path, r#"{"contents":[]}"#).await;
        assert_refused(&changed, 400, "BAD_DOCUMENT");
        assert_eq!(ann.ask("DELETE", &path, "").await.status, 200);
        assert_refused(&ann.post(generate, use_cache).await, 403, "UNKNOWN_CACHE");
        assert_refused(&ann.get(&path).await, 403, "UNKNOWN_CACHE");
    }
}

#[tokio::test]
async fn a_cache_that_hooks_did_not_see_cannot_be_used() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, &guarded_config()).await;
    let mut snake_case = prompt("x");
    snake_case["cached_content"] = json!("cachedContents/stranger");
    let mut counted = json!({ "generateContentRequest": prompt("x") });
    counted["generateContentRequest"]["cachedContent"] = json!("cachedContents/stranger");
    let wrapped = json!({ "model": "m", "request": snake_case });
    for (path, body) in [
        (
            "/v1beta/models/m:generateContent",
            prompt_with_cache(&json!("cachedContents/stranger")),
        ),
        (
            "/v1beta/models/m:streamGenerateContent",
            snake_case.to_string(),
        ),
        ("/v1beta/models/m:countTokens", counted.to_string()),
        (
            "/v1/publishers/google/models/m:generateContent",
            snake_case.to_string(),
        ),
        ("/v1internal:generateContent", wrapped.to_string()),
    ] {
        let answer = gateway.agent().post(path, body).await;
        assert_refused(&answer, 403, "UNKNOWN_CACHE");
    }
    assert_eq!(gateway.file("seen"), "");
    assert!(upstream.requests().is_empty());
    let none = gateway
        .agent()
        .post(
            "/v1beta/models/m:generateContent",
            prompt_with_cache(&json!("")),
        )
        .await;
    assert_eq!(none.status, 200);
}

#[tokio::test]
async fn without_hooks_only_the_creating_caller_can_use_a_cache() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, ALLOW).await;
    let (caches, _, model) = CACHE_APIS[0];
    let (ann, bob) = (caller(&gateway, "ann"), caller(&gateway, "bob"));

    let created = ann.post(caches, cached_content(model, "x")).await.json();

    let path = format!("/v1beta/{}", created["name"].as_str().unwrap());
    assert_refused(&bob.ask("DELETE", &path, "").await, 403, "UNKNOWN_CACHE");
    assert_eq!(ann.get(&path).await.status, 200);
}

#[tokio::test]
async fn a_tool_selection_holds_for_the_functions_of_a_cache() {
    let call = json!({ "functionCall": { "name": "delete", "args": {} } });
    let content = json!({ "role": "model", "parts": [{ "text": "well" }, call] });
    let answer = json!({ "name": "cachedContents/c", "candidates": [{ "content": content }] });
    let upstream = Upstream::answering(&answer).await;
    let (caches, generate, model) = CACHE_APIS[0];
    for (selected, is_allowed) in [("read", false), ("delete", true)] {
        let selection = json!({ "mode": "ANY", "allowedFunctionNames": [selected] });
        let hook = hook::printing("hook", &hook::tools(&selection));
        let config = hook::config(&[("BeforeToolSelection", hook)]) + "\n" + ALLOW;
        let gateway = TestGateway::start(&upstream, &config).await;
        let ann = caller(&gateway, "ann");
        let created = ann.post(caches, cached_content(model, "x")).await;
        assert_eq!(created.status, 200, "{}", created.text());
        let asked = prompt_with_cache(&json!("cachedContents/c"));
        let earlier = upstream.requests().len();

        let answer = ann.post(generate, asked.clone()).await;

        assert_eq!(upstream.requests()[earlier].body, asked);
        let has_call = answer.text().contains("functionCall");
        assert_eq!(has_call, is_allowed, "{}", answer.text());
    }
}
