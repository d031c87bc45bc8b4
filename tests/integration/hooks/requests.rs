//! Hooks change what upstream is asked.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{TestGateway, Upstream, hook, prompt};

/// Odd in every way that an agent's body may be: spaces, numbers, both
/// spellings, escapes, unknown fields, signatures.
const ODD: &str = concat!(
    r#"{ "contents" : [{"parts":[{"text":"my \u0073ecret"},{"thoughtSignature":"c2ln","text":"hidden","thought":true}], "role":"user", "x":1.50 },"#,
    r#"{"role":"model", "parts" :[{"functionCall":{"name":"f","args":{"n":1E2,"big":12345678901234567890123}},"thought_signature":"c2ln"}]},"#,
    r#"{"role":"user","parts":[{"functionResponse":{"name":"f", "response":{"r":0.10}}}]},{"role":"user","parts":[{"text":"go on"}]}], "#,
    r#""generation_config":{"temperature":1.0, "x":{"b":1,"a":2}}, "unknown":[ ] }"#,
);

async fn upstream_body(output: &Value, body: &str) -> String {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::saying("hook", output))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");

    let answer = gate.agent().post(&path, body.to_owned()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    upstream.only().body
}

#[tokio::test]
async fn a_model_swap_changes_the_path_that_upstream_sees() {
    let upstream = Upstream::mock().await;
    let swap = hook::request(&json!({ "model": "gemini-2.5-flash" }));
    let hooks = hook::config(&[("BeforeModel", hook::saying("swap", &swap))]);
    let gate = TestGateway::start(&upstream, &hooks).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only();
    assert_eq!(
        asked.path,
        "/v1beta/models/gemini-2.5-flash:generateContent"
    );
    assert_eq!(asked.json(), prompt("hello"));
}

#[tokio::test]
async fn hooks_that_say_nothing_change_no_byte() {
    assert_eq!(upstream_body(&json!({}), ODD).await, ODD);
}

#[tokio::test]
async fn an_edited_message_leaves_every_other_byte_alone() {
    let edit = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my [x]" },
        { "role": "user", "content": "go on" },
    ] }));

    let sent = upstream_body(&edit, ODD).await;

    assert_eq!(sent, ODD.replace(r"my \u0073ecret", "my [x]"));
}

#[tokio::test]
async fn an_inserted_message_never_parts_a_call_from_its_result() {
    let edit = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my secret" },
        { "role": "user", "content": "mind the rules" },
        { "role": "user", "content": "go on" },
    ] }));

    let sent = upstream_body(&edit, ODD).await;

    let sent: Value = serde_json::from_str(&sent).unwrap();
    let odd: Value = serde_json::from_str(ODD).unwrap();
    let mut contents = sent["contents"].as_array().unwrap().clone();
    let at = contents
        .iter()
        .position(|it| it["parts"][0]["text"] == "mind the rules");
    let at = at.unwrap();
    assert!([1, 3].contains(&at), "{sent}");
    contents.remove(at);
    assert_eq!(Value::Array(contents), odd["contents"]);
}

#[tokio::test]
async fn a_deleted_message_leaves_calls_and_results() {
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "go on" }] }));

    let sent = upstream_body(&edit, ODD).await;

    assert!(!sent.contains("ecret"), "{sent}");
    for kept in [
        r#""functionCall":{"name":"f""#,
        r#""functionResponse":{"name":"f""#,
        "go on",
    ] {
        assert!(sent.contains(kept), "{kept}: {sent}");
    }
}

#[tokio::test]
async fn a_system_message_is_added_to_the_system_instruction() {
    let edit = hook::request(&json!({ "messages": [
        { "role": "system", "content": "be brief" },
        { "role": "user", "content": "q" },
    ] }));
    let mut body = prompt("q");

    let sent = upstream_body(&edit, &body.to_string()).await;
    body["systemInstruction"] = json!({ "parts": [{ "text": "be kind" }] });
    let added = upstream_body(&edit, &body.to_string()).await;

    let parts = |sent: &str| -> Value {
        let sent: Value = serde_json::from_str(sent).unwrap();
        assert_eq!(sent["contents"], prompt("q")["contents"]);
        sent["systemInstruction"]["parts"].clone()
    };
    assert_eq!(parts(&sent), json!([{ "text": "be brief" }]));
    assert_eq!(
        parts(&added),
        json!([{ "text": "be kind" }, { "text": "be brief" }])
    );
}

#[tokio::test]
async fn an_edit_that_cannot_be_applied_changes_no_byte() {
    for edit in [
        json!({ "model": "../secrets" }),
        json!({ "model": "a?key=b" }),
        json!({ "messages": [] }),
        json!({ "config": { "temperature": "hot" } }),
        json!({ "unknown": 1 }),
        json!(5),
    ] {
        let sent = upstream_body(&hook::request(&edit), ODD).await;

        assert_eq!(sent, ODD, "{edit}");
    }
}

#[tokio::test]
async fn a_hook_sees_the_text_alone() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::saying("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");

    gate.agent().post(&path, ODD).await;

    let seen = gate.json("hook.json");
    assert_eq!(seen["hook_event_name"], "BeforeModel");
    assert_eq!(
        seen["llm_request"],
        json!({
            "model": MODEL,
            "messages": [
                { "role": "user", "content": "my secret" },
                { "role": "user", "content": "go on" },
            ],
            "config": { "temperature": serde_json::from_str::<Value>("1.0").unwrap() },
        })
    );
}

#[tokio::test]
async fn parameters_are_set_and_deleted_one_by_one() {
    let body = r#"{"contents":[{"parts":[{"text":"q"}]}],"generationConfig":{"temperature":0.70,"topK":40,"x":1.0}}"#;
    let edit = hook::request(&json!({ "config": {
        "temperature": 0, "topK": null, "maxOutputTokens": 5, "unknown": 1,
    } }));

    let sent = upstream_body(&edit, body).await;

    let wanted = r#""generationConfig":{"temperature":0,"x":1.0,"maxOutputTokens":5}"#;
    assert!(sent.contains(wanted), "{sent}");
}

#[tokio::test]
async fn parameters_are_added_to_a_request_without_any() {
    let edit = hook::request(&json!({ "config": { "temperature": 0 } }));

    let sent = upstream_body(&edit, &prompt("q").to_string()).await;

    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["generationConfig"], json!({ "temperature": 0 }));
}

/// Counts and embeddings: a path's method, its body, and the body as edited.
const OTHER_CALLS: [(&str, &str, &str); 4] = [
    (
        "countTokens",
        r#"{"contents":[{"parts":[{"text":"secret"}]}]}"#,
        r#"{"contents":[{"parts":[{"text":"[x]"}]}]}"#,
    ),
    (
        "countTokens",
        r#"{"generateContentRequest":{"model":"models/gemini-2.5-pro","contents":[{"parts":[{"text":"secret"}]}]}}"#,
        r#"{"generateContentRequest":{"model":"models/gemini-2.5-pro","contents":[{"parts":[{"text":"[x]"}]}]}}"#,
    ),
    (
        "embedContent",
        r#"{"content":{"parts":[{"text":"secret"}]},"taskType":"T"}"#,
        r#"{"content":{"parts":[{"text":"[x]"}]},"taskType":"T"}"#,
    ),
    (
        "batchEmbedContents",
        r#"{"requests":[{"model":"models/gemini-2.5-pro","content":{"parts":[{"text":"secret"}]}}]}"#,
        r#"{"requests":[{"model":"models/gemini-2.5-pro","content":{"parts":[{"text":"[x]"}]}}]}"#,
    ),
];

#[tokio::test]
async fn counts_and_embeddings_are_edited_too() {
    let edit = hook::request(&json!({ "messages": [{ "role": "user", "content": "[x]" }] }));
    let hooks = hook::config(&[
        ("BeforeModel", hook::saying("hook", &edit)),
        ("BeforeToolSelection", hook::saying("tools", &json!({}))),
        ("AfterModel", hook::saying("after", &json!({}))),
    ]);
    for (method, body, edited) in OTHER_CALLS {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &hooks).await;

        let path = format!("/v1beta/models/{MODEL}:{method}");
        let answer = gate.agent().post(&path, body).await;

        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        let seen = gate.json("hook.json");
        let messages = json!([{ "role": "user", "content": "secret" }]);
        assert_eq!(seen["llm_request"]["messages"], messages, "{method}");
        assert_eq!(upstream.only().body, edited, "{method}");
        assert_eq!(gate.file("tools.json") + &gate.file("after.json"), "");
    }
}

#[tokio::test]
async fn counts_and_embeddings_are_refused_by_an_error() {
    let hooks = hook::config(&[("BeforeModel", hook::refusing("guard", "not today"))]);
    let synthetic = hook::response(&json!({ "text": "an answer" }));
    let answering = hook::config(&[("BeforeModel", hook::saying("hook", &synthetic))]);
    for (method, body, _) in OTHER_CALLS {
        for config in [&hooks, &answering] {
            let upstream = Upstream::mock().await;
            let gate = TestGateway::start(&upstream, config).await;

            let path = format!("/v1beta/models/{MODEL}:{method}");
            let answer = gate.agent().post(&path, body).await;

            assert_eq!(answer.status, 403, "{method}: {}", answer.text());
            let error = &answer.json()["error"];
            assert_eq!(error["status"], "PERMISSION_DENIED");
            assert_eq!(error["details"][0]["reason"], "POLICY_DENIED");
            assert!(upstream.seen().is_empty());
        }
    }
}

#[tokio::test]
async fn lists_of_models_pass_without_hooks() {
    let hooks = hook::config(&[("BeforeModel", hook::refusing("guard", "not today"))]);
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hooks).await;

    let list = gate.agent().get("/v1beta/models?pageSize=2").await;
    let one = gate.agent().get("/v1/models/gemini-2.5-pro").await;

    assert_eq!((list.status, one.status), (200, 200));
    assert!(list.json()["models"].is_array());
    assert_eq!(one.json()["name"], "models/gemini-2.5-pro");
    let asked = upstream.seen();
    let lines = asked
        .iter()
        .map(|it| format!("{} {}?{}", it.method, it.path, it.query));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "GET /v1beta/models?pageSize=2",
            "GET /v1/models/gemini-2.5-pro?",
        ]
    );
    assert_eq!(gate.file("guard.json"), "");
}
