//! What bodies made to be slow cost: time that grows with their size alone.

use std::fmt::Write;

use serde_json::json;
use tokio::time::timeout;

use super::MODEL;
use crate::harness::{PATIENCE, TestGateway, Upstream, prompt, respond};

/// Where time grows with the square of the size, it takes minutes.
const SIZE: usize = 512 * 1024;

/// As many pieces as are of this size together, each with its number.
fn many(piece: fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() > SIZE {
            break;
        }
        write!(text, "{},", piece(number)).unwrap();
    }
    text.pop();
    text
}

fn repeated(text: &str) -> String {
    json!([{ "text": text.repeat(SIZE / text.len()) }]).to_string()
}

#[tokio::test]
async fn no_request_takes_longer_than_it_is_long() {
    let upstream = Upstream::with(|_| respond(200, "application/json", "{}")).await;
    let config = "
policies:
  - { policy: redact }
  - { policy: tool_guard, deny: [x], rules: [{ tool: y, argument: /a }] }
  - { policy: prompt_guard, deny: ['(a+)+b'] }
  - { policy: request_limits, max_output_tokens: 9 }
";
    let gate = TestGateway::start(&upstream, config).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let secrets = many(|it| format!(r#""a{it}@b.com":1"#));
    let fields = many(|it| format!(r#""a{it}":"a@b.com""#));
    let texts = many(|_| r#"{"text":"a@"}"#.to_owned());
    let tools = many(|it| format!(r#"{{"functionDeclarations":[{{"name":"{it}"}}]}}"#));
    let own = many(|it| format!(r#""a{it}":{{}}"#));
    let contents = |parts: String| format!(r#"{{"contents":[{{"parts":{parts}}}]}}"#);
    let bodies = [
        format!("{{{fields}}}"),
        contents(format!("[{{{fields}}}]")),
        contents(format!(r#"[{{"functionCall":{{"args":{{{secrets}}}}}}}]"#)),
        contents(format!("[{texts}]")),
        contents(repeated("a@")),
        contents(repeated("a@a.")),
        contents(repeated("-----BEGIN PRIVATE KEY-----\n")),
        contents(repeated("4111 ")),
        contents(repeated("eyJaaaaaaaaaaaaaa.")),
        contents(repeated("://a:")),
        format!(r#"{{"tools":[{tools}]}}"#),
        format!(r#"{{"tools":[{{{own}}}]}}"#),
    ];

    for body in bodies {
        let start: String = body.chars().take(80).collect();
        let answer = timeout(PATIENCE, gate.agent().post(&path, body)).await;
        // No message of the API has so many fields.
        let status = if start.contains("\"a0\":") && !start.contains("args") {
            400
        } else {
            200
        };
        assert_eq!(answer.expect(&start).status, status, "{start}");
    }
}

#[tokio::test]
async fn an_answer_in_many_chunks_is_merged_as_it_comes() {
    let chunk = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "sixteen letters. " }] } }] });
    let events = format!("data: {chunk}\r\n\r\n").repeat(SIZE / 16);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let config = "after_model: buffered\npolicies: [{ policy: redact }]\n";
    let gate = TestGateway::start(&upstream, config).await;

    let agent = gate.agent();
    let answer = timeout(PATIENCE, agent.stream(MODEL, &prompt("go"))).await;

    assert_eq!(answer.unwrap().events().len(), SIZE / 16);
}
