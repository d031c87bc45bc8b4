//! Denied steps of the Messages API that have blocks of the model API's own tools.

use serde_json::{Value, json};

use super::family::{Family, events};
use crate::harness::{Answer, TestGateway, Upstream, hook, respond};

const DENY_RM: &str = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";

/// A message as a whole.
fn message(content: &Value) -> Value {
    json!({
        "id": "m", "type": "message", "role": "assistant", "model": "claude-x",
        "content": content, "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
}

/// A message as a stream.
fn stream(content: &Value) -> String {
    let mut sent = vec![json!({ "type": "message_start", "message": message(&json!([])) })];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        match block["type"].as_str().unwrap() {
            "text" => {
                start["text"] = "".into();
                deltas.push(json!({ "type": "text_delta", "text": block["text"] }));
            }
            "thinking" => {
                (start["thinking"], start["signature"]) = ("".into(), "".into());
                deltas.push(json!({ "type": "thinking_delta", "thinking": block["thinking"] }));
                deltas.push(json!({ "type": "signature_delta", "signature": block["signature"] }));
            }
            kind if kind.ends_with("tool_use") => {
                start["input"] = json!({});
                let input = block["input"].to_string();
                deltas.push(json!({ "type": "input_json_delta", "partial_json": input }));
            }
            _ => (),
        }
        sent.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            sent.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        sent.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let end = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    sent.push(json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": 1 } }));
    sent.push(json!({ "type": "message_stop" }));
    let sent = sent.iter().map(|event| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    });
    sent.collect()
}

/// A model API that answers with `first`, and with `second` if it is sent a result or more.
async fn model(first: &Value, second: &Value) -> Upstream {
    let wholes = [first, second].map(|content| message(content).to_string());
    let streams = [first, second].map(stream);
    Upstream::with(move |asked| {
        let is_second = [r#""tool_result""#, r#""more""#].map(|text| asked.body.contains(text));
        let is_second = usize::from(is_second.contains(&true));
        if asked.json()["stream"] == true {
            respond(200, "text/event-stream", streams[is_second].clone())
        } else {
            respond(200, "application/json", wholes[is_second].clone())
        }
    })
    .await
}

/// A conversation with these messages of the assistant, after each of which the user goes on.
async fn ask(gateway: &TestGateway, is_stream: bool, contents: &[Value]) -> Answer {
    let mut messages = vec![json!({ "role": "user", "content": "go" })];
    for content in contents {
        messages.push(json!({ "role": "assistant", "content": content }));
        messages.push(json!({ "role": "user", "content": "more" }));
    }
    let tools = json!([{ "name": "rm", "input_schema": {} }]);
    let body = json!({
        "model": "claude-x", "max_tokens": 9, "stream": is_stream,
        "tools": tools, "messages": messages,
    });
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    agent.post("/v1/messages", body.to_string()).await
}

/// The blocks that the agent receives.
fn blocks(is_stream: bool, answer: &Answer) -> Vec<Value> {
    if !is_stream {
        return answer.json()["content"].as_array().unwrap().clone();
    }
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    for (_, data) in events(answer) {
        let event: Value = serde_json::from_str(&data).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], blocks.len());
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                for field in ["text", "thinking", "signature"] {
                    if let Some(piece) = event["delta"][field].as_str() {
                        block[field] = (block[field].as_str().unwrap().to_owned() + piece).into();
                    }
                }
                input.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if !input.is_empty() => {
                blocks.last_mut().unwrap()["input"] = serde_json::from_str(&input).unwrap();
                input.clear();
            }
            _ => (),
        }
    }
    blocks
}

fn thinking(text: &str) -> Value {
    json!({ "type": "thinking", "thinking": text, "signature": format!("signed {text}") })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A search and its result.
fn search() -> [Value; 2] {
    let query = json!({ "query": "x" });
    let found = json!([{ "type": "web_search_result", "title": "T", "url": "u", "encrypted_content": "E" }]);
    [
        json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": query }),
        json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found }),
    ]
}

/// A call that is denied.
fn denied_call() -> Value {
    json!({ "type": "tool_use", "id": "toolu_1", "name": "rm", "input": { "path": "/" } })
}

/// Code that runs upstream, and the denied call that it makes.
fn program() -> [Value; 2] {
    let mut call = denied_call();
    call["caller"] = json!({ "type": "code_execution_20260120", "tool_id": "srvtoolu_2" });
    let code = json!({ "code": "rm()" });
    [
        json!({ "type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": code }),
        call,
    ]
}

/// The messages of the last request.
fn asked(upstream: &Upstream) -> Vec<Value> {
    let request = upstream.requests().pop().unwrap().json();
    request["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_denied_step_is_sent_back_with_all_blocks_in_their_order() {
    let [call, result] = search();
    let redacted = json!({ "type": "redacted_thinking", "data": "R" });
    let steps = [
        json!([
            thinking("t1"),
            call,
            result,
            thinking("t2"),
            text("found"),
            denied_call()
        ]),
        json!([text("I search"), call, result, text("found"), denied_call()]),
        json!([
            thinking("t1"),
            text("I try"),
            thinking("t2"),
            text("now"),
            denied_call()
        ]),
        json!([redacted, call, result, thinking(""), denied_call()]),
    ];
    for (step, is_stream) in steps.iter().flat_map(|step| [(step, false), (step, true)]) {
        let upstream = model(step, &json!([text("ok")])).await;
        let gateway = Family::Anthropic.gateway(&upstream, DENY_RM).await;

        let answer = ask(&gateway, is_stream, &[]).await;

        assert_eq!(asked(&upstream)[1]["content"], *step, "{is_stream}");
        let mut received = blocks(is_stream, &answer);
        assert!(
            received.pop().unwrap()["text"]
                .as_str()
                .unwrap()
                .ends_with("ok")
        );
    }
}

#[tokio::test]
async fn later_requests_have_thinking_in_front_of_the_denied_call() {
    let [call, result] = search();
    let step = json!([thinking("t1"), call, result, denied_call()]);
    for is_stream in [false, true] {
        let upstream = model(&step, &json!([text("ok")])).await;
        let gateway = Family::Anthropic.gateway(&upstream, DENY_RM).await;
        let answer = ask(&gateway, is_stream, &[]).await;
        let received = json!(blocks(is_stream, &answer));
        assert_eq!(received, json!([thinking("t1"), call, result, text("ok")]));

        ask(&gateway, is_stream, std::slice::from_ref(&received)).await;

        let messages = asked(&upstream);
        assert_eq!(
            messages[1]["content"],
            json!([thinking("t1"), denied_call()])
        );
        assert_eq!(messages[3]["content"], received);
    }
}

#[tokio::test]
async fn an_agent_receives_no_hosted_call_without_a_result() {
    for is_stream in [false, true] {
        let upstream = model(&json!(program()), &json!([text("ok")])).await;
        let gateway = Family::Anthropic.gateway(&upstream, DENY_RM).await;

        let answer = ask(&gateway, is_stream, &[]).await;

        assert_eq!(asked(&upstream)[1]["content"], json!(program()));
        let received = blocks(is_stream, &answer);
        assert_eq!(received, [text("ok")]);
        ask(&gateway, is_stream, &[json!(received)]).await;
        let roles: Vec<Value> = asked(&upstream)
            .iter()
            .map(|one| one["role"].clone())
            .collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
    }
}

#[tokio::test]
async fn a_hosted_call_goes_to_the_agent_with_the_result_in_the_next_answer() {
    let [call, _] = program();
    let printed = json!({ "type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0, "content": [] });
    let result = json!({ "type": "code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": printed });
    let step = json!([thinking("t1"), program()[0], program()[1]]);
    for is_stream in [false, true] {
        let upstream = model(&step, &json!([result, text("ok")])).await;
        let gateway = Family::Anthropic.gateway(&upstream, DENY_RM).await;

        let answer = ask(&gateway, is_stream, &[]).await;

        assert_eq!(asked(&upstream)[1]["content"], step);
        let received = json!(blocks(is_stream, &answer));
        assert_eq!(received, json!([thinking("t1"), call, result, text("ok")]));
        ask(&gateway, is_stream, std::slice::from_ref(&received)).await;
        let messages = asked(&upstream);
        assert_eq!((messages.len(), &messages[1]["content"]), (3, &received));
    }
}

#[tokio::test]
async fn the_model_is_asked_again_in_the_container_of_its_code() {
    let container = json!({ "id": "container_1", "expires_at": "2026-12-01T00:00:00Z" });
    let mut whole = message(&json!(program()));
    whole["container"] = container.clone();
    let delta = r#""delta":{"stop_reason""#;
    let named = format!(r#""delta":{{"container":{container},"stop_reason""#);
    let streamed = stream(&json!(program())).replace(delta, &named);
    let end = json!([text("ok")]);
    let (wholes, streams) = (
        [whole.to_string(), message(&end).to_string()],
        [streamed, stream(&end)],
    );
    let upstream = Upstream::with(move |asked| {
        let round = usize::from(asked.body.contains("tool_result"));
        if asked.json()["stream"] == true {
            respond(200, "text/event-stream", streams[round].clone())
        } else {
            respond(200, "application/json", wholes[round].clone())
        }
    })
    .await;
    for mode in ["", "after_model: buffered\n"] {
        let config = format!("{DENY_RM}{mode}");
        let gateway = Family::Anthropic.gateway(&upstream, &config).await;
        for is_stream in [false, true] {
            ask(&gateway, is_stream, &[]).await;

            let request = upstream.requests().pop().unwrap().json();
            assert_eq!(request["container"], "container_1", "{is_stream} {mode}");
        }
    }
}

#[tokio::test]
async fn an_answer_behind_a_denied_step_keeps_its_stop_reason() {
    let ends = [
        ("stop_sequence", json!("END")),
        ("model_context_window_exceeded", Value::Null),
        ("end_turn", Value::Null),
    ];
    for (reason, sequence) in ends {
        let mut bodies = [json!([text("I try"), denied_call()]), json!([text("ok")])]
            .map(|content| message(&content));
        bodies[1]["stop_reason"] = reason.into();
        bodies[1]["stop_sequence"] = sequence.clone();
        let upstream = Upstream::with(move |asked| {
            let body = &bodies[usize::from(asked.body.contains("tool_result"))];
            respond(200, "application/json", body.to_string())
        })
        .await;
        for mode in ["", "after_model: buffered\n"] {
            let gateway = Family::Anthropic
                .gateway(&upstream, &format!("{DENY_RM}{mode}"))
                .await;

            let answer = ask(&gateway, false, &[]).await.json();
            let streamed = ask(&gateway, true, &[]).await;

            let stop = |end: &Value| (end["stop_reason"].clone(), end["stop_sequence"].clone());
            assert_eq!(stop(&answer), (reason.into(), sequence.clone()), "{answer}");
            let mut streamed = events(&streamed).into_iter().map(|(_, data)| data);
            let end = streamed
                .find(|data| data.contains("message_delta"))
                .unwrap();
            let end: Value = serde_json::from_str(&end).unwrap();
            assert_eq!(
                stop(&end["delta"]),
                (reason.into(), sequence.clone()),
                "{end}"
            );
        }
    }
}

#[tokio::test]
async fn a_turn_that_a_denial_ends_keeps_the_token_counts() {
    let mut first = message(&json!([text("I try"), denied_call()]));
    first["usage"] = json!({ "input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 5 });
    let streamed = stream(&first["content"])
        .replace(
            r#""usage":{"input_tokens":1"#,
            r#""usage":{"input_tokens":7"#,
        )
        .replace(
            r#""usage":{"output_tokens":1"#,
            r#""usage":{"output_tokens":5"#,
        );
    let upstream = Upstream::with(move |asked| {
        if asked.json()["stream"] == true {
            respond(200, "text/event-stream", streamed.clone())
        } else {
            respond(200, "application/json", first.to_string())
        }
    })
    .await;
    let config = format!("events: {{ max_denied_rounds: 1 }}\n{DENY_RM}");
    let gateway = Family::Anthropic.gateway(&upstream, &config).await;

    let answer = ask(&gateway, false, &[]).await.json();
    let streamed = ask(&gateway, true, &[]).await;

    let counts = |usage: &Value| {
        (
            usage["input_tokens"].clone(),
            usage["output_tokens"].clone(),
        )
    };
    assert_eq!(counts(&answer["usage"]), (7.into(), 5.into()), "{answer}");
    let mut streamed = events(&streamed).into_iter().map(|(_, data)| data);
    let end = streamed
        .find(|data| data.contains("message_delta"))
        .unwrap();
    let end: Value = serde_json::from_str(&end).unwrap();
    assert_eq!(counts(&end["usage"]), (7.into(), 5.into()), "{end}");
}

#[tokio::test]
async fn an_edited_answer_keeps_its_stop_reason() {
    let mut body = message(&json!([text("AKIAIOSFODNN7EXAMPLQ")]));
    body["stop_reason"] = "stop_sequence".into();
    body["stop_sequence"] = "END".into();
    let upstream =
        Upstream::with(move |_| respond(200, "application/json", body.to_string())).await;
    let config = "after_model: buffered\npolicies: [{ policy: redact, detect: [aws_key] }]\n";
    let gateway = Family::Anthropic.gateway(&upstream, config).await;

    let answer = ask(&gateway, true, &[]).await;

    let text = answer.text();
    assert!(text.contains("REDACTED"), "{text}");
    assert!(text.contains(r#""stop_sequence":"END""#), "{text}");
}

#[tokio::test]
async fn thinking_that_a_denial_cuts_off_does_not_go_upstream() {
    let deny = "policies: [{ policy: redact, detect: [], patterns: { s: secret }, action: deny, reason: no }]\n";
    let first = json!([thinking("t1"), thinking("a secret plan"), text("found")]);
    let upstream = model(&first, &json!([text("ok")])).await;
    let gateway = Family::Anthropic.gateway(&upstream, deny).await;
    let answer = ask(&gateway, true, &[]).await;
    let received = blocks(true, &answer);
    let [signed, cut, reason] = received.as_slice() else {
        panic!("{received:?}");
    };
    assert_eq!(
        (&cut["type"], &cut["signature"]),
        (&json!("thinking"), &json!(""))
    );

    ask(&gateway, true, &[json!(received)]).await;

    assert_eq!(asked(&upstream)[1]["content"], json!([signed, reason]));
}

#[tokio::test]
async fn a_denied_prompt_goes_with_its_hidden_step_although_a_reminder_stays() {
    let call = json!([{ "type": "tool_use", "id": "t", "name": "rm", "input": {} }]);
    let upstream = model(&call, &json!([text("fine")])).await;
    let script = "if grep -q 'execution blocked'; then echo no >&2; exit 2; fi";
    let guard = json!({ "name": "guard", "command": script, "document": true });
    let hooks = hook::config(&[("BeforeModel", guard)]);
    let family = Family::Anthropic;
    let gateway = family
        .gateway(&upstream, &format!("{DENY_RM}{hooks}"))
        .await;
    let user = |blocks: &[Value]| json!({ "role": "user", "content": blocks });
    let reminder = text("<system-reminder>be brief</system-reminder>");
    let prompt = user(&[reminder.clone(), text("go")]);
    let next = user(&[text("more")]);
    let send = async |messages: Value| {
        let mut request = family.request(false, &[]);
        request["messages"] = messages;
        family.post(&gateway, false, request.to_string()).await
    };

    let denial = send(json!([prompt])).await;
    let refusal = json!({ "role": "assistant", "content": blocks(false, &denial) });
    send(json!([prompt, refusal, next])).await;

    assert_eq!(blocks(false, &denial), [text("no")]);
    let asked = upstream.requests().pop().unwrap().json();
    assert_eq!(asked["messages"], json!([user(&[reminder]), next]));
}
