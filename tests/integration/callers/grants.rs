//! Models and tools that each caller may use.

use serde_json::{Value, json};

use super::auth;
use crate::harness::{Agent, TestGateway, Upstream, assert_refused, hook, prompt};

fn agent(gate: &TestGateway, name: &str) -> Agent {
    let key = format!("{name}-key");
    gate.agent().sending("x-hookgate-key", key)
}

fn config() -> String {
    let grant = ", models: [\"small-*\"], tools: [\"read_*\"]";
    auth(&[("team-a", grant), ("team-b", "")]) + "denials: error\n"
}

#[tokio::test]
async fn a_caller_is_restricted_to_its_models_on_every_route() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config()).await;
    let content = json!({ "parts": [{ "text": "hi" }] });
    let batch = json!({ "requests": [{ "model": "models/large", "content": content }] });
    let routes = [
        ("generateContent", prompt("hi")),
        ("streamGenerateContent?alt=sse", prompt("hi")),
        ("streamGenerateContent", prompt("hi")),
        ("countTokens", prompt("hi")),
        ("embedContent", json!({ "content": content })),
        ("batchEmbedContents", batch),
    ];

    for (operation, body) in routes {
        for prefix in ["/v1beta", "/v1", "", "/s/some-session/v1beta"] {
            let path = format!("{prefix}/models/large:{operation}");
            let before = upstream.requests().len();
            let answer = agent(&gate, "team-a").post(&path, body.to_string()).await;

            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
            assert_eq!(upstream.requests().len(), before, "{path}");
            let other = agent(&gate, "team-b").post(&path, body.to_string()).await;
            assert_eq!(other.status, 200, "{path}: {}", other.text());
        }
    }
    let answer = agent(&gate, "team-a")
        .generate("small-1", &prompt("hi"))
        .await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_swap_to_a_model_that_the_caller_may_not_use_is_denied() {
    let hooked = hook::printing(
        "swap",
        &json!({ "hookSpecificOutput": { "llm_request": { "model": "large" } } }),
    );
    let by_policy =
        json!({ "type": "builtin", "policy": "model_swap", "swap": { "small-1": "large" } });
    for swap in [hooked, by_policy] {
        let upstream = Upstream::mock().await;
        let config = config() + &hook::config(&[("BeforeModel", swap)]);
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = agent(&gate, "team-a")
            .generate("small-1", &prompt("hi"))
            .await;

        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(upstream.requests().is_empty());
        let answer = agent(&gate, "team-b")
            .generate("small-1", &prompt("hi"))
            .await;
        assert_eq!(answer.status, 200);
        assert!(upstream.only_request().path.contains("large"));
    }
}

#[tokio::test]
async fn a_caller_is_restricted_to_its_tools() {
    let call = |name: &str| json!({ "functionCall": { "name": name, "args": {} } });
    let parts = json!([call("read_file"), call("write_file")]);
    let content = json!({ "role": "model", "parts": parts });
    let answer =
        json!({ "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }] });
    let upstream = Upstream::answering(&answer).await;
    let gate = TestGateway::start(&upstream, &config()).await;
    let mut request = prompt("hi");
    let declared = ["read_file", "write_file"].map(|name| json!({ "name": name }));
    request["tools"] = json!([{ "functionDeclarations": declared }]);
    let mentions = |value: &Value| value.to_string().matches("write_file").count();

    let restricted = agent(&gate, "team-a").generate("small-1", &request).await;
    assert_eq!(mentions(&upstream.requests()[0].json()), 0);
    let event = json!({
        "hook_event_name": "BeforeTool", "tool_name": "write_file", "tool_input": {},
    });
    let reported = agent(&gate, "team-a").report(&event, "").await.json();
    let free = agent(&gate, "team-b").generate("small-1", &request).await;
    let free_report = agent(&gate, "team-b").report(&event, "").await.json();

    let called = |text: &str| text.contains(r#""name":"write_file""#);
    assert!(!called(restricted.text()), "{}", restricted.text());
    assert_eq!(reported["decision"], "deny");
    assert!(called(free.text()), "{}", free.text());
    assert_ne!(free_report["decision"], "deny");
}

#[tokio::test]
async fn the_lists_of_a_caller_do_not_apply_to_unreadable_requests_of_others() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config()).await;
    let mut request = prompt("hi");
    request["tools"] = json!([{ "functionDeclarations": [{ "name": "write_file" }] }]);
    // Conditions on the request count as true.
    request["generationConfig"] = json!({ "maxOutputTokens": [1] });

    let answer = agent(&gate, "team-b").generate("large", &request).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-hookgate-hooks"), "");
    let sent = upstream.only_request().json();
    assert_eq!(sent["tools"], request["tools"]);
}

#[tokio::test]
async fn the_lists_of_callers_are_shown_with_their_condition() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config()).await;

    for path in ["/hooks", "/rules"] {
        let shown = gate.operator().get(path).await;

        let condition = r#""when":"caller.name == \"team-a\"""#;
        assert!(shown.text().contains("team-a tools"), "{}", shown.text());
        assert!(shown.text().contains(condition), "{}", shown.text());
    }
}

#[tokio::test]
async fn restricted_callers_cannot_use_methods_that_are_not_inspected() {
    let upstream = Upstream::mock().await;
    let callers = auth(&[
        ("models", ", models: [\"small-*\"]"),
        ("tools", ", tools: [\"read_*\"]"),
        ("tokens", ", tokens_per_day: 1000"),
        ("free", ""),
    ]);
    let allow = "coverage: { allow: [\"tunedModels.*\", \"openai.*\", \"batches.*\", \
        models.batchGenerateContent, endpoints.generateContent, cachedContents.create] }\n";
    let gate = TestGateway::start(&upstream, &(callers + allow)).await;
    let project = "/v1/projects/p/locations/l";
    let routes = [
        "/v1beta/tunedModels/large:generateContent".to_owned(),
        "/s/some-session/v1beta/openai/chat/completions".to_owned(),
        "/v1beta/models/large:batchGenerateContent".to_owned(),
        "/v1beta/batches/b1:cancel".to_owned(),
        format!("{project}/endpoints/1:generateContent"),
    ];

    for path in routes {
        for name in ["models", "tools", "tokens"] {
            let before = upstream.requests().len();
            let answer = agent(&gate, name).post(&path, "{}").await;

            assert_refused(&answer, 403, "METHOD_REFUSED");
            assert_eq!(upstream.requests().len(), before, "{path}");
        }
        let before = upstream.requests().len();
        agent(&gate, "free").post(&path, "{}").await;
        assert_eq!(upstream.requests().len(), before + 1, "{path}");
    }
    // Inspected methods are allowed, for models of the list.
    let cached = |model: &str| {
        let content = json!({ "role": "user", "parts": [{ "text": "hi" }] });
        json!({ "model": format!("models/{model}"), "contents": [content] }).to_string()
    };
    let path = "/v1beta/cachedContents";
    let before = upstream.requests().len();
    let large = agent(&gate, "models").post(path, cached("large")).await;
    assert_refused(&large, 403, "POLICY_DENIED");
    assert_eq!(upstream.requests().len(), before);
    agent(&gate, "models").post(path, cached("small-1")).await;
    assert_eq!(upstream.requests().len(), before + 1);
    let list = agent(&gate, "models").get("/v1beta/models").await;
    assert_eq!(list.status, 200);
}

#[tokio::test]
async fn a_caller_is_restricted_to_its_models_on_code_assist_and_vertex() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config()).await;
    let wrap = |outer: Value, inner: Value| {
        let mut body = json!({ "request": prompt("hi") });
        if !outer.is_null() {
            body["model"] = outer;
        }
        if !inner.is_null() {
            body["request"]["model"] = inner;
        }
        body
    };
    let null = Value::Null;
    let assist = [
        (wrap(json!("large"), null.clone()), 403),
        (wrap(null.clone(), json!("models/large")), 403),
        (wrap(json!("small-1"), json!("large")), 400),
        (wrap(json!("large"), json!("small-1")), 400),
        (wrap(json!("models/large"), json!("large")), 403),
        (wrap(null.clone(), null), 400),
    ];

    for (body, status) in assist {
        for method in [
            "generateContent",
            "streamGenerateContent?alt=sse",
            "countTokens",
        ] {
            let path = format!("/v1internal:{method}");
            let answer = agent(&gate, "team-a").post(&path, body.to_string()).await;
            assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
        }
    }
    let wrapped = json!({ "generateContentRequest": {
        "model": "models/large", "contents": prompt("hi")["contents"],
    }});
    let vertex = "/v1/projects/p/locations/l/publishers/google/models";
    let hi = prompt("hi");
    let mut routed = hi.clone();
    routed["generationConfig"] =
        json!({ "routingConfig": { "manualMode": { "modelName": "large" } } });
    for (path, body, status) in [
        ("/v1beta/models/small-1:countTokens", &wrapped, 400),
        (&format!("{vertex}/large:generateContent"), &hi, 403),
        (&format!("{vertex}/large:countTokens"), &hi, 403),
        (&format!("{vertex}/small-1:generateContent"), &routed, 403),
        (
            "/v1/publishers/google/models/large:generateContent",
            &hi,
            403,
        ),
    ] {
        let answer = agent(&gate, "team-a").post(path, body.to_string()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    assert!(upstream.requests().is_empty());
}
