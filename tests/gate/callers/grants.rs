//! Which models and tools each caller may use.

use serde_json::{Value, json};

use super::auth;
use crate::harness::{Agent, Gate, Upstream, hook, prompt};

fn agent(gate: &Gate, name: &str) -> Agent {
    let key = format!("{name}-key");
    gate.agent().sending("x-hookgate-key", key)
}

fn config() -> String {
    let grant = ", models: [\"small-*\"], tools: [\"read_*\"]";
    auth(&[("team-a", grant), ("team-b", "")]) + "denials: error\n"
}

#[tokio::test]
async fn a_caller_asks_its_models_alone_on_every_route() {
    let upstream = Upstream::mock().await;
    let gate = Gate::start(&upstream, &config()).await;
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
            let before = upstream.seen().len();
            let answer = agent(&gate, "team-a").post(&path, body.to_string()).await;

            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
            assert_eq!(upstream.seen().len(), before, "{path}");
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
async fn no_hook_and_no_policy_swaps_the_model_for_one_that_its_caller_may_not_ask() {
    let hooked = hook::saying(
        "swap",
        &json!({ "hookSpecificOutput": { "llm_request": { "model": "large" } } }),
    );
    let by_policy =
        json!({ "type": "builtin", "policy": "model_swap", "swap": { "small-1": "large" } });
    for swap in [hooked, by_policy] {
        let upstream = Upstream::mock().await;
        let config = config() + &hook::config(&[("BeforeModel", swap)]);
        let gate = Gate::start(&upstream, &config).await;

        let answer = agent(&gate, "team-a")
            .generate("small-1", &prompt("hi"))
            .await;

        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(upstream.seen().is_empty());
        let answer = agent(&gate, "team-b")
            .generate("small-1", &prompt("hi"))
            .await;
        assert_eq!(answer.status, 200);
        assert!(upstream.only().path.contains("large"));
    }
}

#[tokio::test]
async fn a_caller_has_its_tools_alone() {
    let call = |name: &str| json!({ "functionCall": { "name": name, "args": {} } });
    let parts = json!([call("read_file"), call("write_file")]);
    let content = json!({ "role": "model", "parts": parts });
    let answer =
        json!({ "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }] });
    let upstream = Upstream::answering(&answer).await;
    let gate = Gate::start(&upstream, &config()).await;
    let mut request = prompt("hi");
    let declared = ["read_file", "write_file"].map(|it| json!({ "name": it }));
    request["tools"] = json!([{ "functionDeclarations": declared }]);
    let names = |it: &Value| it.to_string().matches("write_file").count();

    let restricted = agent(&gate, "team-a").generate("small-1", &request).await;
    assert_eq!(names(&upstream.seen()[0].json()), 0);
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
