//! What hooks write is held to the same rules as what agents and models write.

use serde_json::json;

use super::JSON;
use crate::harness::{Raw, TestGateway, Upstream, hook, prompt};

const GENERATE: &str = "/v1beta/models/m:generateContent";

async fn asked(hook_says: &serde_json::Value) -> (Upstream, TestGateway, Raw) {
    let upstream = Upstream::mock().await;
    let saying = hook::saying("says", hook_says);
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", saying)])).await;
    let body = prompt("hi").to_string();
    let answer = Raw::post(gate.agents, GENERATE, JSON, body.as_bytes()).await;
    (upstream, gate, answer)
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
        let says = hook::request(&json!({ "model": name }));
        let (upstream, _gate, answer) = asked(&says).await;

        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(upstream.only().path, GENERATE, "{name}");
    }
}

#[tokio::test]
async fn a_hook_cannot_make_a_request_larger_than_any() {
    let upstream = Upstream::mock().await;
    let messages = json!([{ "role": "user", "content": "x".repeat(2000) }]);
    let says = hook::saying("says", &hook::request(&json!({ "messages": messages })));
    let config = hook::config(&[("BeforeModel", says)]);
    let gate = TestGateway::start(&upstream, &format!("limits: {{ body: 1KiB }}\n{config}")).await;

    let body = prompt("hi").to_string();
    let answer = Raw::post(gate.agents, GENERATE, JSON, body.as_bytes()).await;

    super::assert_stopped(&upstream, &answer, (413, "BODY_TOO_LARGE"), "a large edit");
}

#[tokio::test]
async fn a_hooks_words_cannot_end_a_head() {
    let words = "a\r\nset-cookie: b\r\n\r\n<html>\0\u{e9}\u{2028}";
    let (_upstream, _gate, answer) = asked(&json!({ "systemMessage": words })).await;

    assert_eq!(answer.status, 200);
    assert!(!answer.head.contains("set-cookie: b"), "{}", answer.head);
    assert!(
        answer
            .head
            .contains("x-hookgate-system-message: a%0D%0Aset-cookie")
    );
}

#[tokio::test]
async fn an_output_that_means_two_things_is_a_failure() {
    let deep = "[".repeat(65) + &"]".repeat(65);
    for output in [
        r#"{"decision":"allow","decision":"allow"}"#.to_owned(),
        r#"{"hookSpecificOutput":{"llm_request":{"model":"n","model":"o"}}}"#.to_owned(),
        r#"{"hookSpecificOutput":{"llm_request":{"model":"n","mod\u0065l":"o"}}}"#.to_owned(),
        format!(r#"{{"systemMessage":"x","y":{deep}}}"#),
    ] {
        for (failure, status) in [("open", 200), ("closed", 403)] {
            let upstream = Upstream::mock().await;
            let mut says = hook::running("says", &format!("echo '{output}'"));
            says["on_failure"] = json!(failure);
            let config = hook::config(&[("BeforeModel", says)]);
            let gate = TestGateway::start(&upstream, &format!("denials: error\n{config}")).await;

            let body = prompt("hi").to_string();
            let answer = Raw::post(gate.agents, GENERATE, JSON, body.as_bytes()).await;

            assert_eq!(answer.status, status, "{output}: {answer:?}");
            let asked = upstream.seen();
            assert!(asked.iter().all(|it| it.path == GENERATE), "{output}");
        }
    }
}

#[tokio::test]
async fn a_refusal_that_is_said_in_two_ways_stays_one() {
    for output in [
        r#"{"decision":"deny","reason":"a","decision":"allow"}"#,
        r#"{"decision":"allow","decision":"deny","reason":"b"}"#,
        r#"{"decision":"deny","reason":"cut \ud83d"}"#,
        r#"{"continue":false,"continue":true}"#,
    ] {
        let upstream = Upstream::mock().await;
        let says = hook::running("says", &format!("echo '{output}'"));
        let config = hook::config(&[("BeforeModel", says)]);
        let gate = TestGateway::start(&upstream, &format!("denials: error\n{config}")).await;

        let body = prompt("hi").to_string();
        let answer = Raw::post(gate.agents, GENERATE, JSON, body.as_bytes()).await;

        super::assert_stopped(&upstream, &answer, (403, "POLICY_DENIED"), output);
    }
}
