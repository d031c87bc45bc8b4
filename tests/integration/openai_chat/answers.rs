//! Answers: denials, synthetic responses, masks and token counts, as JSON and as a stream.

use serde_json::{Value, json};

use super::{FORMS, Form, PATH, ask, chat, choices, events, finish_reason, gateway, text};
use crate::harness::{Upstream, hook, respond};

#[tokio::test]
async fn a_denial_is_sent_as_a_completion() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gate = gateway(&upstream, &deny).await;
    for form in FORMS {
        let answer = ask(&gate, form, &chat("hello")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(text(form, &answer), "not today");
        assert_eq!(finish_reason(form, &answer), "stop");
    }
    let answer = ask(&gate, Form::Stream, &chat("hello")).await;
    let events = events(&answer);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    for event in &events {
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(event["model"], "m");
        assert_eq!(event["id"], events[0]["id"]);
    }
    let whole = ask(&gate, Form::Whole, &chat("hello")).await.json();
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["role"], "assistant");
    assert_eq!(whole["usage"]["total_tokens"], 0);
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_denial_configured_as_an_error_is_an_openai_error() {
    let upstream = Upstream::mock().await;
    let deny = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gate = gateway(&upstream, &format!("{deny}denials: error\n")).await;
    for form in FORMS {
        let answer = ask(&gate, form, &chat("hello")).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        let expected = json!({ "error": {
            "message": "not today", "type": "invalid_request_error", "param": null,
            "code": "content_policy_violation",
        }});
        assert_eq!(answer.json(), expected);
        assert_eq!(answer.header("x-should-retry"), "false");
    }
}

#[tokio::test]
async fn a_synthetic_response_has_the_form_of_the_api() {
    let upstream = Upstream::mock().await;
    let candidate =
        json!({ "content": { "parts": ["from a hook"] }, "finishReason": "MAX_TOKENS" });
    let output = hook::response(&json!({ "candidates": [candidate] }));
    let answering = hook::printing("answer", &output);
    let gate = gateway(&upstream, &hook::config(&[("BeforeModel", answering)])).await;
    for form in FORMS {
        let answer = ask(&gate, form, &chat("hello")).await;
        assert_eq!(text(form, &answer), "from a hook");
        assert_eq!(finish_reason(form, &answer), "length");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn thoughts_refusals_and_arguments_are_masked() {
    const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";
    let event = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let event = json!({ "id": "1", "object": "chat.completion.chunk", "choices": [choice] });
        format!("data: {event}\n\n")
    };
    let (head, tail) = SECRET.split_at(9);
    let mut stream = String::new();
    for field in ["reasoning_content", "refusal"] {
        stream += &event(json!({ field: head }), Value::Null);
        stream += &event(json!({ field: tail }), Value::Null);
    }
    let call = |fields: Value| json!({ "tool_calls": [fields] });
    let function = json!({ "name": "f", "arguments": "" });
    stream += &event(
        call(json!({ "index": 0, "id": "c", "type": "function", "function": function })),
        Value::Null,
    );
    for piece in ["{\"k\":\"", head, tail, "\"}"] {
        let function = json!({ "arguments": piece });
        stream += &event(
            call(json!({ "index": 0, "function": function })),
            Value::Null,
        );
    }
    stream += &event(json!({}), "tool_calls".into());
    stream += "data: [DONE]\n\n";
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert!(
        !answer.text().contains(head) && !answer.text().contains(tail),
        "{}",
        answer.text()
    );
    let choices = choices(Form::Stream, &answer);
    let calls: Vec<&Value> = choices
        .iter()
        .filter_map(|choice| choice["delta"]["tool_calls"].as_array())
        .flatten()
        .collect();
    let arguments: String = calls
        .iter()
        .filter_map(|call| call["function"]["arguments"].as_str())
        .collect();
    assert!(serde_json::from_str::<Value>(&arguments).unwrap()["k"].is_string());
    assert_eq!(finish_reason(Form::Stream, &answer), "tool_calls");
}

#[tokio::test]
async fn every_choice_is_masked() {
    let body = json!({ "choices": [
        { "index": 0, "message": { "role": "assistant", "content": "a" }, "finish_reason": "stop" },
        { "index": 1, "message": { "role": "assistant", "content": "AKIAIOSFODNN7EXAMPLE" },
          "logprobs": { "content": [{ "token": "AKIAIOSFODNN7EXAMPLE" }] }, "finish_reason": "stop" },
    ]});
    let text = body.to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", text.clone())).await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let mut request = chat("hi");
    request["n"] = 2.into();

    let answer = ask(&gate, Form::Whole, &request).await;

    assert!(!answer.text().contains("AKIA"), "{}", answer.text());
    assert_eq!(answer.json()["choices"][0], body["choices"][0]);
}

#[tokio::test]
async fn a_json_answer_to_a_stream_request_is_masked_and_streamed() {
    let body = json!({ "id": "1", "object": "chat.completion", "model": "m", "choices": [
        { "index": 0, "message": { "role": "assistant", "content": "AKIAIOSFODNN7EXAMPLE!" }, "finish_reason": "stop" },
    ]});
    let body = body.to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", body.clone())).await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert!(!answer.text().contains("AKIA"), "{}", answer.text());
    assert!(text(Form::Stream, &answer).ends_with('!'));
    assert_eq!(finish_reason(Form::Stream, &answer), "stop");
}

#[tokio::test]
async fn a_truncated_stream_never_appears_complete() {
    let choice = json!({ "index": 0, "delta": { "content": "a" }, "finish_reason": null });
    let event = format!("data: {}\n\n", json!({ "choices": [choice] }));
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", event.clone())).await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let mut body = chat("hi");
    body["stream"] = true.into();

    let mut answer = gate.agent().open(PATH, body.to_string()).await;
    let status = answer.status().as_u16();

    let mut received = Vec::new();
    let is_truncated = loop {
        match answer.chunk().await {
            Ok(Some(piece)) => received.extend(piece),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    let received = String::from_utf8_lossy(&received);
    // If no byte was sent before the stream broke off, the answer may be an error.
    assert!(is_truncated || status == 502, "{received}");
    assert!(!received.contains("[DONE]"), "{received}");
}

/// An upstream that streams these deltas and token counts, and `[DONE]` without a finish reason.
async fn upstream_without_reason(deltas: &[Value]) -> Upstream {
    let pieces = deltas
        .iter()
        .map(|delta| json!([{ "index": 0, "delta": delta }]));
    let events = pieces.chain([json!([])]).map(|choices| {
        let usage = choices.as_array().unwrap().is_empty();
        let usage = usage.then(|| json!({ "total_tokens": 3 }));
        let event = json!({ "id": "1", "object": "chat.completion.chunk", "model": "m",
            "choices": choices, "usage": usage });
        format!("data: {event}\n\n")
    });
    let stream = events.collect::<String>() + "data: [DONE]\n\n";
    Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await
}

#[tokio::test]
async fn a_text_without_a_finish_reason_is_complete_with_the_terminator() {
    let upstream =
        upstream_without_reason(&[json!({ "content": "Hello " }), json!({ "content": "wor" })])
            .await;
    let allow = |name: &str| hook::printing(name, &json!({}));
    let hooks = [
        ("AfterModel", allow("model")),
        ("AfterAgent", allow("agent")),
    ];
    let hooks = hook::config(&hooks);
    for mode in ["", "after_model: buffered\n"] {
        let config = format!("{hooks}policies: [{{ policy: redact }}]\n{mode}");
        let gate = gateway(&upstream, &config).await;

        let answer = ask(&gate, Form::Stream, &chat("hi")).await;

        assert_eq!(text(Form::Stream, &answer), "Hello wor", "{mode}");
        assert_eq!(finish_reason(Form::Stream, &answer), "stop", "{mode}");
        let counts = events(&answer);
        let counts = counts
            .iter()
            .filter(|event| event["usage"]["total_tokens"] == 3);
        assert_eq!(counts.count(), 1, "{}", answer.text());
        let seen = gate.json("agent.json");
        assert_eq!(seen["prompt_response"], "Hello wor", "{mode}");
        assert_eq!(
            gate.json("model.json")["llm_response"]["candidates"][0]["finishReason"],
            "STOP",
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_call_without_a_finish_reason_is_refused() {
    let function = json!({ "name": "f", "arguments": "{}" });
    let call = json!({ "index": 0, "id": "c", "type": "function", "function": function });
    let upstream = upstream_without_reason(&[json!({ "tool_calls": [call] })]).await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert_eq!(answer.status, 502, "{}", answer.text());
}

#[tokio::test]
async fn token_counts_are_sent_once() {
    let upstream = Upstream::mock().await;
    let gate = gateway(&upstream, "policies: [{ policy: redact }]\n").await;
    let mut body = chat("hello");
    body["stream_options"] = json!({ "include_usage": true });

    let answer = ask(&gate, Form::Stream, &body).await;

    let events = events(&answer);
    let counts: Vec<&Value> = events
        .iter()
        .filter(|event| !event["usage"].is_null())
        .collect();
    assert_eq!(counts.len(), 1);
    assert_eq!(events.last(), Some(counts[0]));
}

/// Events of an answer with citations and token counts.
fn events_with_citations(text: &str) -> String {
    let event = |choices: Value, usage: Value| {
        let event = json!({ "id": "1", "object": "chat.completion.chunk", "model": "m",
            "choices": choices, "usage": usage });
        format!("data: {event}\n\n")
    };
    let piece = |text: &str| {
        let annotation = json!({ "type": "url_citation", "url_citation": { "title": text } });
        let delta = json!({ "content": text, "annotations": [annotation] });
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
        event(json!([choice]), Value::Null)
    };
    let end = json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]);
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3 });
    [
        piece("a "),
        piece(text),
        event(end, Value::Null),
        event(json!([]), usage),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

const BUFFERED: &str = "policies: [{ policy: redact }]\nafter_model: buffered\n";

#[tokio::test]
async fn an_unedited_buffered_stream_keeps_its_bytes() {
    let stream = events_with_citations("b");
    let sent = stream.clone();
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", sent.clone())).await;
    let gate = gateway(&upstream, BUFFERED).await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert_eq!(answer.text(), stream);
}

#[tokio::test]
async fn an_edited_buffered_stream_keeps_its_token_counts() {
    let stream = events_with_citations("AKIAIOSFODNN7EXAMPLE");
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
    let gate = gateway(&upstream, BUFFERED).await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert!(!answer.text().contains("AKIA"), "{}", answer.text());
    let events = events(&answer);
    let last = events.last().unwrap();
    assert_eq!(last["usage"]["total_tokens"], 3, "{last}");
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn a_denial_has_token_counts_if_the_agent_asks_for_them() {
    let upstream = Upstream::mock().await;
    let guard = "policies: [{ policy: prompt_guard, deny: [hi] }]\n";
    let gate = gateway(&upstream, guard).await;
    for (options, expected) in [
        (Value::Null, Value::Null),
        (json!({ "include_usage": false }), Value::Null),
        (
            json!({ "include_usage": true }),
            json!({ "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 }),
        ),
    ] {
        let mut body = chat("hi");
        body["stream_options"] = options;

        let answer = ask(&gate, Form::Stream, &body).await;

        let events = events(&answer);
        let (last, others) = events.split_last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "stop");
        assert_eq!(last["usage"], expected);
        assert!(others.iter().all(|event| event["usage"].is_null()));
    }
}
