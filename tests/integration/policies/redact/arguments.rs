//! Secrets in arguments of the OpenAI APIs that are text, because they are no unambiguous object.

use serde_json::{Value, json};

use super::MASK;
use crate::harness::{TestGateway, Upstream, respond};

/// Arguments with an e-mail address whose `@` is escaped.
fn arguments() -> Vec<String> {
    let secret = r#""ann\u0040example.com""#;
    let (open, close) = ("[".repeat(200), "]".repeat(200));
    vec![
        format!(r#"{{"k":{secret},"d":1,"d":2}}"#),
        format!(r#"{{"m":{secret},"m":"a\"b"}}"#),
        format!(r#"{{"k":{open}{secret}{close}}}"#),
        format!(r#"["{close}\n",{secret}]"#),
        secret.to_owned(),
        format!("{{'a':'\"', \"k\":{secret}"),
    ]
}

fn chat_call(arguments: &str) -> Value {
    json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": arguments } })
}

fn responses_call(arguments: &str, status: &str) -> Value {
    json!({ "type": "function_call", "id": "fc", "call_id": "c", "name": "f",
        "arguments": arguments, "status": status })
}

/// The arguments in pieces of a few characters.
fn pieces(arguments: &str) -> Vec<String> {
    let letters: Vec<char> = arguments.chars().collect();
    letters
        .chunks(5)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn chat_answer(arguments: &str, is_stream: bool) -> String {
    let envelope = |choice: Value| json!({ "id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice] });
    if !is_stream {
        let message =
            json!({ "role": "assistant", "content": null, "tool_calls": [chat_call(arguments)] });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
        return envelope(choice).to_string();
    }
    let mut opening = chat_call("");
    opening["index"] = json!(0);
    let pieces = pieces(arguments).into_iter();
    let pieces = pieces.map(|piece| json!({ "index": 0, "function": { "arguments": piece } }));
    let deltas = std::iter::once(opening).chain(pieces);
    let deltas = deltas.map(|call| json!({ "index": 0, "delta": { "tool_calls": [call] } }));
    let end = json!({ "index": 0, "delta": {}, "finish_reason": "tool_calls" });
    let events = deltas.chain([end]).map(|choice| {
        let event = envelope(choice);
        format!("data: {event}\n\n")
    });
    events.collect::<String>() + "data: [DONE]\n\n"
}

fn responses_answer(arguments: &str, is_stream: bool) -> String {
    let response = |status: &str, output: Value| json!({ "id": "r", "object": "response", "status": status, "model": "m", "output": output });
    let item = responses_call(arguments, "completed");
    let whole = response("completed", json!([item]));
    if !is_stream {
        return whole.to_string();
    }
    let open = responses_call("", "in_progress");
    let place = json!({ "item_id": "fc", "output_index": 0 });
    let at = |name: &str, key: &str, value: Value| {
        let mut event = place.clone();
        event["type"] = format!("response.{name}").into();
        event[key] = value;
        event
    };
    let mut events = vec![
        json!({ "type": "response.created", "response": response("in_progress", json!([])) }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": open }),
    ];
    let deltas = pieces(arguments).into_iter();
    events.extend(deltas.map(|piece| at("function_call_arguments.delta", "delta", piece.into())));
    events.push(at(
        "function_call_arguments.done",
        "arguments",
        arguments.into(),
    ));
    events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
    events.push(json!({ "type": "response.completed", "response": whole }));
    let events = (0..).zip(events).map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        format!("data: {event}\n\n")
    });
    events.collect()
}

async fn gateway(upstream: &Upstream) -> TestGateway {
    let config = format!("upstreams: {{ openai: {{ url: \"{{upstream}}\" }} }}\n{MASK}");
    TestGateway::start(upstream, &config).await
}

#[tokio::test]
async fn escaped_secrets_in_arguments_that_are_no_object_do_not_reach_the_agent() {
    for (is_chat, is_stream) in [(true, false), (true, true), (false, false), (false, true)] {
        for arguments in arguments() {
            let (path, messages, sent) = if is_chat {
                let sent = chat_answer(&arguments, is_stream);
                ("/v1/chat/completions", "messages", sent)
            } else {
                let sent = responses_answer(&arguments, is_stream);
                ("/v1/responses", "input", sent)
            };
            let media_type = if is_stream {
                "text/event-stream"
            } else {
                "application/json"
            };
            let upstream = Upstream::with(move |_| respond(200, media_type, sent.clone())).await;
            let mut body = json!({ "model": "m", "stream": is_stream });
            body[messages] = json!([{ "role": "user", "content": "go" }]);

            let received = gateway(&upstream)
                .await
                .agent()
                .post(path, body.to_string())
                .await;

            let text = received.text();
            assert_eq!(received.status, 200, "{text}");
            assert!(text.contains("[REDACTED:email]"), "{arguments}: {text}");
            assert!(!text.contains("example.com"), "{arguments}: {text}");
        }
    }
}

#[tokio::test]
async fn escaped_secrets_in_arguments_that_are_no_object_do_not_reach_upstream() {
    let upstream = Upstream::mock().await;
    let gateway = gateway(&upstream).await;
    for arguments in arguments() {
        let chat = json!({ "model": "m", "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": null, "tool_calls": [chat_call(&arguments)] },
            { "role": "tool", "tool_call_id": "c", "content": "ok" },
        ] });
        let responses = json!({ "model": "m", "input": [
            { "role": "user", "content": "go" },
            responses_call(&arguments, "completed"),
            { "type": "function_call_output", "call_id": "c", "output": "ok" },
        ] });
        for (path, body) in [("/v1/chat/completions", chat), ("/v1/responses", responses)] {
            let answer = gateway.agent().post(path, body.to_string()).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let sent = upstream.requests().pop().unwrap().body;
            assert!(sent.contains("[REDACTED:email]"), "{sent}");
            assert!(!sent.contains("example.com"), "{sent}");
        }
    }
}

/// Sends a request with an earlier call, and returns the arguments of the call that reach upstream.
async fn sent_arguments(gateway: &TestGateway, upstream: &Upstream, arguments: &str) -> Value {
    let body = json!({ "model": "m", "messages": [
        { "role": "assistant", "content": null, "tool_calls": [chat_call(arguments)] },
        { "role": "tool", "tool_call_id": "c", "content": "ok" },
    ] });
    let agent = gateway.agent();
    agent.post("/v1/chat/completions", body.to_string()).await;
    let sent = upstream.only_request().json();
    sent["messages"][0]["tool_calls"][0]["function"]["arguments"].clone()
}

#[tokio::test]
async fn a_secret_with_backslashes_is_masked_to_its_end() {
    let upstream = Upstream::mock().await;
    let config = "upstreams: { openai: { url: \"{upstream}\" } }\n\
        policies: [{ policy: redact, detect: [email], on: [request, tool_calls],\n\
        \x20 patterns: { password: 'password=\\S+' } }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let arguments = json!({ "cmd": r"login password=C:\new\pw9 -u ann\u0040example.com" });

    let sent = sent_arguments(&gateway, &upstream, &arguments.to_string()).await;

    let expected = r#"{"cmd":"login [REDACTED:password] -u [REDACTED:email]"}"#;
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn escapes_beside_a_masked_secret_are_kept() {
    let upstream = Upstream::mock().await;
    let gateway = gateway(&upstream).await;
    let arguments = r#"{"a":"\"x\", \u0041\ud83d\ude00\ud83d","a":"to ann\u0040example.com\n\q"}"#;

    let sent = sent_arguments(&gateway, &upstream, arguments).await;

    let expected = arguments.replace(r"ann\u0040example.com", "[REDACTED:email]");
    assert_eq!(sent, expected);
}
