//! Hook output: the checks of requests and responses apply to it.

use serde_json::json;

use super::JSON_HEADER;
use crate::harness::{Raw, TestGateway, Upstream, hook, prompt};

const GENERATE: &str = "/v1beta/models/m:generateContent";

/// Calls a gateway whose hook prints this output.
async fn call_with_hook_output(output: &serde_json::Value) -> (Upstream, TestGateway, Raw) {
    let upstream = Upstream::mock().await;
    let hook = hook::printing("says", output);
    let gateway = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", hook)])).await;
    let body = prompt("hi").to_string();
    let answer = Raw::post(gateway.agents, GENERATE, JSON_HEADER, body.as_bytes()).await;
    (upstream, gateway, answer)
}

#[tokio::test]
async fn a_models_name_from_a_hook_cannot_change_the_path() {
    for name in [
        "",
        "..",
        "a/b",
        "../files/f",
        "m?alt=proto",
        "m%2f..",
        "m:countTokens",
        "m#x",
        "m\r\nx: y",
        "m\\x",
        "models/",
        "models/models/m",
    ] {
        let output = hook::request(&json!({ "model": name }));
        let (upstream, _gateway, answer) = call_with_hook_output(&output).await;

        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(upstream.only_request().path, GENERATE, "{name}");
    }
}

#[tokio::test]
async fn a_hook_cannot_exceed_the_request_size_limit() {
    let upstream = Upstream::mock().await;
    let messages = json!([{ "role": "user", "content": "x".repeat(2000) }]);
    let hook = hook::printing("says", &hook::request(&json!({ "messages": messages })));
    let config = hook::config(&[("BeforeModel", hook)]);
    let gateway =
        TestGateway::start(&upstream, &format!("limits: {{ body: 1KiB }}\n{config}")).await;

    let body = prompt("hi").to_string();
    let answer = Raw::post(gateway.agents, GENERATE, JSON_HEADER, body.as_bytes()).await;

    super::assert_not_forwarded(&upstream, &answer, (413, "BODY_TOO_LARGE"), "a large edit");
}

#[tokio::test]
async fn a_hook_message_cannot_inject_response_headers() {
    let message = "a\r\nset-cookie: b\r\n\r\n<html>\0\u{e9}\u{2028}";
    let (_upstream, _gateway, answer) =
        call_with_hook_output(&json!({ "systemMessage": message })).await;

    assert_eq!(answer.status, 200);
    assert!(!answer.head.contains("set-cookie: b"), "{}", answer.head);
    assert!(
        answer
            .head
            .contains("x-hookgate-system-message: a%0D%0Aset-cookie")
    );
}

#[tokio::test]
async fn an_ambiguous_output_is_a_hook_failure() {
    let deep = "[".repeat(65) + &"]".repeat(65);
    for output in [
        r#"{"decision":"allow","decision":"allow"}"#.to_owned(),
        r#"{"hookSpecificOutput":{"llm_request":{"model":"n","model":"o"}}}"#.to_owned(),
        r#"{"hookSpecificOutput":{"llm_request":{"model":"n","mod\u0065l":"o"}}}"#.to_owned(),
        format!(r#"{{"systemMessage":"x","y":{deep}}}"#),
    ] {
        for (on_failure, status) in [("open", 200), ("closed", 403)] {
            let upstream = Upstream::mock().await;
            let mut hook = hook::command("says", &format!("echo '{output}'"));
            hook["on_failure"] = json!(on_failure);
            let config = hook::config(&[("BeforeModel", hook)]);
            let gateway = TestGateway::start(&upstream, &format!("denials: error\n{config}")).await;

            let body = prompt("hi").to_string();
            let answer = Raw::post(gateway.agents, GENERATE, JSON_HEADER, body.as_bytes()).await;

            assert_eq!(answer.status, status, "{output}: {answer:?}");
            let requests = upstream.requests();
            assert!(
                requests.iter().all(|request| request.path == GENERATE),
                "{output}"
            );
        }
    }
}

#[tokio::test]
async fn an_ambiguous_denial_is_still_a_denial() {
    for output in [
        r#"{"decision":"deny","reason":"a","decision":"allow"}"#,
        r#"{"decision":"allow","decision":"deny","reason":"b"}"#,
        r#"{"decision":"deny","reason":"cut \ud83d"}"#,
        r#"{"continue":false,"continue":true}"#,
    ] {
        let upstream = Upstream::mock().await;
        let hook = hook::command("says", &format!("echo '{output}'"));
        let config = hook::config(&[("BeforeModel", hook)]);
        let gateway = TestGateway::start(&upstream, &format!("denials: error\n{config}")).await;

        let body = prompt("hi").to_string();
        let answer = Raw::post(gateway.agents, GENERATE, JSON_HEADER, body.as_bytes()).await;

        super::assert_not_forwarded(&upstream, &answer, (403, "POLICY_DENIED"), output);
    }
}
