//! Calls in which the model is asked again: each round begins with the request of the agent.

use std::future::pending;

use axum::Router;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{Chat, MODEL, call, parts, request_contents, script, text};
use crate::harness::{
    Answer, End, ReceivedRequest, TEST_TIMEOUT, TestGateway, Upstream, assert_refused,
    chunked_head, eventually, hook, next_chunk, prompt, read_to_end, respond, write_chunk,
};

const SWAP: &str = "{ policy: model_swap, swap: { gemini-2.5-pro: gemini-2.5-flash, gemini-2.5-flash: gemini-2.5-flash-lite } }";
const GUARD: &str = "{ policy: tool_guard, deny: [write_file] }";

/// Makes a call to which the model first responds with a denied call.
async fn ask(config: &str, body: &Value) -> (Answer, Upstream) {
    let answers = [
        json!([call("write_file", &json!({}))]),
        json!([text("done")]),
    ];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, config).await;
    let path = "/v1beta/models/gemini-2.5-pro:generateContent";
    let answer = gate.agent().post(path, body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (answer, upstream)
}

#[tokio::test]
async fn a_model_is_swapped_once_however_often_it_is_asked() {
    let config = format!("policies: [{SWAP}, {GUARD}]\n");
    let mut body = Chat::with_prompt("go").body();
    for named in [Value::Null, json!("models/gemini-2.5-pro")] {
        if named.is_string() {
            body["model"] = named;
        }

        let (_, upstream) = ask(&config, &body).await;

        let paths: Vec<String> = upstream
            .requests()
            .into_iter()
            .map(|seen| seen.path)
            .collect();
        let swapped = "/v1beta/models/gemini-2.5-flash:generateContent";
        assert_eq!(paths, [swapped, swapped]);
    }
}

#[tokio::test]
async fn conditions_see_the_model_of_the_agent_in_every_round() {
    let mask = "{ policy: redact, detect: [email], when: 'event != \"BeforeModel\" || request.model == \"gemini-2.5-pro\"' }";
    // Redaction comes after the swap in the file, so its condition is evaluated before it.
    let config = format!("policies: [{SWAP}, {mask}, {GUARD}]\n");
    let body = Chat::with_prompt("write to jo@example.com").body();

    let (_, upstream) = ask(&config, &body).await;

    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(!request.body.contains("jo@example.com"), "{}", request.body);
    }
}

#[tokio::test]
async fn a_selection_of_tools_holds_for_its_own_round() {
    let select = json!({ "hookSpecificOutput": { "toolConfig": {
        "mode": "ANY", "allowedFunctionNames": ["read_file"],
    } } });
    let hook = json!({
        "name": "select", "when": "request.contents == 1", "command": format!("echo '{select}'"),
    });
    let hooks = json!({ "BeforeToolSelection": [{ "hooks": [hook] }] });
    let first = json!([call("write_file", &json!({ "n": 1 }))]);
    let second = json!([call("write_file", &json!({ "n": 2 }))]);
    let answers = [first, second.clone(), json!([text("done")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &format!("hooks: {hooks}\n")).await;

    let answer = Chat::with_prompt("go").send(&gate).await;

    assert_eq!(answer["candidates"][0]["content"]["parts"], second);
}

/// Config with a denied call, and a hook that denies the request with which the model is asked again.
fn denying_the_second_round() -> String {
    let hook = json!({
        "name": "guard", "when": "request.contents == 3", "command": "echo no >&2; exit 2",
    });
    let hooks = json!({ "BeforeModel": [{ "hooks": [hook] }] });
    format!("policies: [{GUARD}]\nhooks: {hooks}\n")
}

/// Starts an upstream whose first answer has text and a denied call.
async fn upstream_with_denied_call() -> Upstream {
    let first = json!([text("Let me look."), call("write_file", &json!({}))]);
    Upstream::scripted(&script(&[first, json!([text("done")])])).await
}

#[tokio::test]
async fn a_denial_behind_text_of_an_earlier_round_is_the_end_of_that_answer() {
    let prompt = Chat::with_prompt("go");
    for is_stream in [false, true] {
        let upstream = upstream_with_denied_call().await;
        let gate = TestGateway::start(&upstream, &denying_the_second_round()).await;

        let received = if is_stream {
            parts(&prompt.stream(&gate).await)
        } else {
            parts(&[prompt.send(&gate).await])
        };
        let texts = received.iter().filter_map(|part| part["text"].as_str());
        let received: String = texts.collect();
        let next = Chat::with_prompt("go").model(&received).user("hello");
        next.stream(&gate).await;

        assert_eq!(received, "Let me look.\n\nno");
        let contents = request_contents(&upstream).remove(1);
        assert_eq!(contents.len(), 5, "{contents:?}");
        assert_eq!(contents[0]["parts"], json!([text("go")]));
        assert_eq!(contents[3]["parts"], json!([text(&received)]));
    }
}

#[tokio::test]
async fn a_prompt_that_an_error_answers_is_removed_although_an_earlier_round_had_text() {
    let upstream = upstream_with_denied_call().await;
    let config = format!("denials: error\n{}", denying_the_second_round());
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("go");

    let answer = gate.agent().generate(MODEL, &chat.body()).await;
    chat.user("hello").send(&gate).await;

    assert_refused(&answer, 403, "POLICY_DENIED");
    let contents = request_contents(&upstream).pop().unwrap();
    assert_eq!(
        json!(contents),
        json!([{ "role": "user", "parts": [text("hello")] }])
    );
}

#[tokio::test]
async fn an_error_of_a_later_round_passes_as_it_is_unless_a_part_of_the_answer_is_sent() {
    const ERROR: &str = r#"{ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED" } }"#;
    for (first, is_sent) in [
        (json!([call("write_file", &json!({}))]), false),
        (
            json!([text("Let me look."), call("write_file", &json!({}))]),
            true,
        ),
    ] {
        let parts = first.as_array().unwrap().iter();
        let events = parts.map(|part| {
            let content = json!({ "role": "model", "parts": [part] });
            let chunk = json!({ "candidates": [{ "content": content, "index": 0 }] });
            format!("data: {chunk}\r\n\r\n")
        });
        let events: String = events.collect();
        let upstream = Upstream::with(move |asked: ReceivedRequest| {
            if !asked.body.contains("functionResponse") {
                return respond(200, "text/event-stream", events.clone());
            }
            let mut error = respond(429, "application/json", ERROR);
            let after = "37".parse().unwrap();
            error.headers_mut().insert("retry-after", after);
            error
        })
        .await;
        let gate = TestGateway::start(&upstream, &format!("policies: [{GUARD}]\n")).await;
        let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");

        let body = Chat::with_prompt("go").body().to_string();
        let mut answer = gate.agent().open(&path, body).await;

        let (status, headers) = (answer.status(), answer.headers().clone());
        let (received, end) = read_to_end(&mut answer).await;
        if is_sent {
            assert_eq!((status.as_u16(), end), (200, End::Broken), "{received}");
        } else {
            assert_eq!((status.as_u16(), end), (429, End::Clean), "{received}");
            assert_eq!(headers["retry-after"], "37");
            assert_eq!(headers["content-type"], "application/json");
            assert_eq!(received, ERROR);
        }
    }
}

/// Text in a request with which the model is asked again.
const BLOCKED: &str = "Tool execution blocked";

/// A request behind a tool result, which does not start its turn.
fn second_step() -> Chat {
    Chat::with_prompt("go")
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }))
}

/// An answer with a denied call.
fn denied_call() -> String {
    let content = json!({ "role": "model", "parts": [call("write_file", &json!({}))] });
    json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] }).to_string()
}

#[tokio::test]
async fn denials_of_a_call_count_although_the_next_round_fails() {
    let upstream = Upstream::with(|asked: ReceivedRequest| {
        if asked.body.contains(BLOCKED) {
            respond(429, "application/json", "{}")
        } else {
            respond(200, "application/json", denied_call())
        }
    })
    .await;
    let gate = TestGateway::start(&upstream, &format!("policies: [{GUARD}]\n")).await;
    let agent = gate.agent().sending("x-hookgate-session", "mine");

    let mut statuses = Vec::new();
    for _ in 0..3 {
        let answer = agent.generate(MODEL, &second_step().body()).await;
        statuses.push(answer.status);
    }

    assert_eq!(statuses, [429, 429, 200]);
    assert_eq!(upstream.requests().len(), 5);
}

#[tokio::test]
async fn denials_of_a_call_count_although_the_agent_disconnects() {
    let router = Router::new().fallback(|asked: String| async move {
        if asked.contains(BLOCKED) {
            pending::<()>().await;
        }
        respond(200, "application/json", denied_call())
    });
    let upstream = Upstream::with_router(router).await;
    let gate = TestGateway::start(&upstream, &format!("policies: [{GUARD}]\n")).await;
    let agent = gate.agent().sending("x-hookgate-session", "mine");
    let body = second_step().body();
    for calls in 1..=2 {
        let is_asked_again = || upstream.requests().len() == 2 * calls;
        tokio::select! {
            answer = agent.generate(MODEL, &body) => panic!("{answer:?}"),
            () = eventually("the model is asked again", TEST_TIMEOUT, is_asked_again) => (),
        }
    }

    let answer = timeout(TEST_TIMEOUT, agent.generate(MODEL, &body)).await;

    let answer = answer.expect("the model is asked again");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.requests().len(), 5);
}

#[tokio::test]
async fn an_answer_in_json_has_no_text_of_the_round_before() {
    let selection = json!({ "mode": "ANY", "allowedFunctionNames": ["read_file"] });
    let select = hook::printing("select", &hook::tools(&selection));
    let deny = hook::command(
        "guard",
        "grep -q write_file && { echo no >&2; exit 2; }; exit 0",
    );
    let mut body = Chat::with_prompt("go").body();
    body["generationConfig"] = json!({ "responseMimeType": "application/json" });
    for config in [
        format!("policies: [{GUARD}]\n"),
        hook::config(&[("BeforeTool", deny)]),
        hook::config(&[("BeforeToolSelection", select)]),
    ] {
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let first = json!([text("Let me look."), call("write_file", &json!({}))]);
            let second = json!([text("{\"a\":"), text("1}")]);
            let upstream = Upstream::scripted(&script(&[first, second])).await;
            let gate = TestGateway::start(&upstream, &config).await;
            let path = format!("/v1beta/models/{MODEL}:{method}");

            let answer = gate.agent().post(&path, body.to_string()).await;

            let events = match method {
                "generateContent" => vec![answer.json()],
                _ => answer.events(),
            };
            let expected = json!([text("{\"a\":"), text("1}")]);
            assert_eq!(json!(parts(&events)), expected, "{config}");
            let retry = &request_contents(&upstream)[1];
            assert_eq!(retry[1]["parts"][0], text("Let me look."));
        }
    }
}

#[tokio::test]
async fn a_stream_of_json_that_declares_no_functions_does_not_wait() {
    let (end, ended) = tokio::sync::watch::channel(());
    let upstream = Upstream::raw(move |_, mut socket| {
        let mut ended = ended.clone();
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            let content = json!({ "role": "model", "parts": [text("[1,")] });
            let chunk = json!({ "candidates": [{ "content": content, "index": 0 }] });
            let event = format!("data: {chunk}\r\n\r\n");
            write_chunk(&mut socket, event.as_bytes()).await.unwrap();
            ended.changed().await.ok();
        }
    })
    .await;
    let gate = TestGateway::start(&upstream, &format!("policies: [{GUARD}]\n")).await;
    let mut body = prompt("go");
    body["generationConfig"] = json!({ "responseMimeType": "application/json" });
    let path = format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse");

    let mut answer = gate.agent().open(&path, body.to_string()).await;

    let first = next_chunk(&mut answer).await;
    assert!(first.contains("[1,"), "{first}");
    drop(end);
}
