//! Time complexity of policies: adversarial bodies do not take quadratic time.

use std::fmt::Write;

use serde_json::json;
use tokio::time::timeout;

use super::MODEL;
use crate::harness::{TEST_TIMEOUT, TestGateway, Upstream, prompt, respond};

/// The size of each body. In quadratic time, one would take minutes.
const BODY_BYTES: usize = 512 * 1024;

/// A comma-separated list of numbered items, `BODY_BYTES` long.
fn numbered_list(item: fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() > BODY_BYTES {
            break;
        }
        write!(text, "{},", item(number)).unwrap();
    }
    text.pop();
    text
}

/// A list of one part, with this text repeated to `BODY_BYTES`.
fn part_with_repeated_text(text: &str) -> String {
    json!([{ "text": text.repeat(BODY_BYTES / text.len()) }]).to_string()
}

#[tokio::test]
async fn adversarial_requests_do_not_take_quadratic_time() {
    let upstream = Upstream::answering(&json!({})).await;
    let config = "
policies:
  - { policy: redact }
  - { policy: tool_guard, deny: [x], rules: [{ tool: y, argument: /a }] }
  - { policy: prompt_guard, deny: ['(a+)+b'] }
  - { policy: request_limits, max_output_tokens: 9 }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let secrets = numbered_list(|number| format!(r#""a{number}@b.com":1"#));
    let fields = numbered_list(|number| format!(r#""a{number}":"a@b.com""#));
    let texts = numbered_list(|_| r#"{"text":"a@"}"#.to_owned());
    let tools =
        numbered_list(|number| format!(r#"{{"functionDeclarations":[{{"name":"{number}"}}]}}"#));
    let tool_fields = numbered_list(|number| format!(r#""a{number}":{{}}"#));
    let contents = |parts: String| format!(r#"{{"contents":[{{"parts":{parts}}}]}}"#);
    let bodies = [
        format!("{{{fields}}}"),
        contents(format!("[{{{fields}}}]")),
        contents(format!(r#"[{{"functionCall":{{"args":{{{secrets}}}}}}}]"#)),
        contents(format!("[{texts}]")),
        contents(part_with_repeated_text("a@")),
        contents(part_with_repeated_text("a@a.")),
        contents(part_with_repeated_text("-----BEGIN PRIVATE KEY-----\n")),
        contents(part_with_repeated_text("4111 ")),
        contents(part_with_repeated_text("eyJaaaaaaaaaaaaaa.")),
        contents(part_with_repeated_text("://a:")),
        format!(r#"{{"tools":[{tools}]}}"#),
        format!(r#"{{"tools":[{{{tool_fields}}}]}}"#),
    ];

    for body in bodies {
        let prefix: String = body.chars().take(80).collect();
        let answer = timeout(TEST_TIMEOUT, gateway.agent().post(&path, body)).await;
        // Has more fields than any message of the API, so it is refused.
        let status = if prefix.contains("\"a0\":") && !prefix.contains("args") {
            400
        } else {
            200
        };
        assert_eq!(answer.expect(&prefix).status, status, "{prefix}");
    }
}

#[tokio::test]
async fn a_buffered_response_of_many_chunks_does_not_take_quadratic_time() {
    let chunk = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "sixteen letters. " }] } }] });
    let events = format!("data: {chunk}\r\n\r\n").repeat(BODY_BYTES / 16);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let config = "after_model: buffered\npolicies: [{ policy: redact }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let agent = gateway.agent();
    let answer = timeout(TEST_TIMEOUT, agent.stream(MODEL, &prompt("go"))).await;

    assert_eq!(answer.unwrap().events().len(), BODY_BYTES / 16);
}
