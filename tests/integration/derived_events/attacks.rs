//! Attempts to bypass hooks with unusual requests and answers.

use std::cell::Cell;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Chat, MODEL, call, log, request_contents, script, text};
use crate::harness::{Agent, TestGateway, Upstream, hook, respond};

/// An `AfterTool` hook that denies results with `SECRET`, and logs the names of tools.
fn guard() -> (&'static str, Value) {
    let python = "import json,sys; e=json.load(sys.stdin); t=json.dumps(e[\"tool_response\"]); print(json.dumps(e[\"tool_name\"]), file=open(\"log\",\"a\")); print(json.dumps({\"decision\":\"deny\",\"reason\":\"hidden\"} if \"SECRET\" in t else {}))";
    let hook = hook::command("dlp", &format!("python3 -c '{python}'"));
    ("AfterTool", hook)
}

/// Config with a `BeforeAgent` hook that denies prompts with `bad`, and logs each prompt.
fn prompt_guard() -> String {
    let python = "import json,sys; p=json.load(sys.stdin)[\"prompt\"]; print(json.dumps(p), file=open(\"log\",\"a\")); print(json.dumps({\"decision\":\"deny\",\"reason\":\"no\"} if \"bad\" in p else {}))";
    hook::config(&[(
        "BeforeAgent",
        hook::command("guard", &format!("python3 -c '{python}'")),
    )])
}

fn result(output: &str) -> Value {
    json!({ "functionResponse": { "name": "read_file", "response": { "output": output } } })
}

fn content(role: &str, parts: &[Value]) -> Value {
    json!({ "role": role, "parts": parts })
}

#[track_caller]
fn assert_never_received(upstream: &Upstream, secret: &str) {
    for request in upstream.requests() {
        assert!(!request.body.contains(secret), "{}", request.body);
    }
}

#[tokio::test]
async fn a_result_is_inspected_in_every_role() {
    for role in [json!("model"), json!("function"), json!(7), Value::Null] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
        let mut chat = Chat::with_prompt("read").call("read_file", &json!({}));
        let parts = [result("SECRET")];
        chat.contents.push(json!({ "role": role, "parts": parts }));
        let chat = chat.user("go on");

        gate.agent().generate(MODEL, &chat.body()).await;

        assert_never_received(&upstream, "SECRET");
        assert_eq!(log(&gate), ["read_file"], "{role}");
    }
}

#[tokio::test]
async fn a_denied_result_hides_text_and_media_in_the_same_part() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
    let mut part = result("SECRET");
    part["text"] = json!("SECRET");
    part["inlineData"] = json!({ "mimeType": "text/plain", "data": "SECRET" });
    part["thoughtSignature"] = json!("c2ln");
    let chat = Chat::with_prompt("read").call("read_file", &json!({}));

    chat.message("user", &part).send(&gate).await;

    assert_never_received(&upstream, "SECRET");
    let part = &request_contents(&upstream)[0][2]["parts"][0];
    assert_eq!(part["thoughtSignature"], "c2ln");
}

#[tokio::test]
async fn hooks_see_the_media_of_a_result() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
    let mut part = result("1 file");
    let media = json!({ "inlineData": { "mimeType": "text/plain", "data": "SECRET" } });
    part["functionResponse"]["parts"] = json!([media]);
    let chat = Chat::with_prompt("read").call("read_file", &json!({}));

    chat.message("user", &part).send(&gate).await;

    assert_never_received(&upstream, "SECRET");
}

#[tokio::test]
async fn a_token_count_with_two_conversations_leaks_no_denied_result() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
    let secret = [content("user", &[result("SECRET")])];
    let body = json!({
        "contents": [],
        "generateContentRequest": { "model": "models/m", "contents": secret },
    });

    let path = "/v1beta/models/m:countTokens";
    gate.agent().post(path, body.to_string()).await;

    assert_never_received(&upstream, "SECRET");
}

#[tokio::test]
async fn a_denied_result_remains_hidden_after_its_request_was_denied() {
    let upstream = Upstream::mock().await;
    let once = "if test -e once; then echo '{}'; else touch once; echo no >&2; exit 2; fi";
    let config = hook::config(&[guard(), ("BeforeModel", hook::command("once", once))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let called = call("read_file", &json!({}));
    let mut chat = Chat::new();
    chat.contents = vec![
        content("model", std::slice::from_ref(&called)),
        content("user", &[result("SECRET")]),
    ];

    chat.send(&gate).await;
    chat.contents[1] = content("user", &[result("SECRET"), text("go on")]);
    chat.send(&gate).await;

    assert_eq!(upstream.requests().len(), 1);
    assert_never_received(&upstream, "SECRET");
}

#[tokio::test]
async fn a_tool_loop_without_a_prompt_can_be_stopped() {
    let upstream = Upstream::mock().await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let config = hook::config(&[("AfterTool", hook::printing("stop", &stop))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::new()
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));

    for _ in 0..3 {
        chat.send(&gate).await;
    }

    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn a_prompt_marked_as_thought_or_context_is_denied() {
    let session_context = text("<session_context>bad</session_context>");
    let prompts = [
        vec![json!({ "text": "bad", "thought": true })],
        vec![session_context.clone()],
        vec![
            text("<session_context>x</session_context>"),
            session_context.clone(),
        ],
        vec![text("hello"), session_context],
    ];
    for parts in prompts {
        for history in [Chat::new(), Chat::with_prompt("hi").model("hi")] {
            let upstream = Upstream::mock().await;
            let gate = TestGateway::start(&upstream, &prompt_guard()).await;
            let mut chat = history;
            chat.contents.push(content("user", &parts));

            let denial = chat.send(&gate).await;

            assert_eq!(upstream.requests().len(), 0, "{parts:?}");
            chat.answer(&denial).user("well").send(&gate).await;
            assert_never_received(&upstream, "bad");
        }
    }
}

#[tokio::test]
async fn a_request_with_cached_content_is_not_a_helper_call() {
    let write = call("write_file", &json!({}));
    let upstream = Upstream::scripted(&script(&[json!([write]), json!([text("no")])])).await;
    let config = hook::config(&[("BeforeTool", hook::denying("guard", "not here"))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("user-agent", "GeminiCLI-tui/0.61.0/m");

    let contents = [content("user", &[text("go")])];
    let body = json!({ "contents": contents, "cachedContent": "cachedContents/a" });
    let answer = agent.generate(MODEL, &body).await;

    assert!(!answer.text().contains("functionCall"), "{}", answer.text());
}

/// Streamed answers of many shapes, each a list of chunks; every one calls `write_file`.
fn shapes() -> Vec<Vec<Value>> {
    let write = call("write_file", &json!({}));
    let read = call("read_file", &json!({}));
    let candidate = |index: u64, part: &Value| -> Value {
        json!({ "index": index, "content": { "role": "model", "parts": [part] } })
    };
    let chunk = |candidates: Value| json!({ "candidates": candidates });
    let finish = json!({ "index": 0, "finishReason": "STOP" });
    let mut thought = write.clone();
    thought["thought"] = json!(true);
    let mut with_text = write.clone();
    with_text["text"] = json!("I write");
    let snake = json!({ "function_call": { "name": "write_file", "args": {} } });
    let text_args = json!({ "functionCall": { "name": "write_file", "args": "text" } });
    let mut shapes = vec![
        vec![chunk(json!([candidate(1, &write)]))],
        vec![chunk(json!([candidate(0, &read), candidate(1, &write)]))],
        vec![chunk(json!([candidate(0, &read), candidate(0, &write)]))],
        vec![chunk(json!([{ "content": { "parts": [write] } }]))],
        vec![chunk(json!([finish])), chunk(json!([candidate(0, &write)]))],
        vec![
            chunk(json!([candidate(0, &text("a"))])),
            chunk(json!([finish])),
            chunk(json!([candidate(0, &write)])),
            chunk(json!([finish])),
        ],
        vec![
            chunk(json!([candidate(0, &read)])),
            chunk(json!([candidate(1, &write)])),
            chunk(json!([finish])),
        ],
    ];
    for part in [thought, with_text, snake, text_args] {
        shapes.push(vec![
            chunk(json!([candidate(0, &part)])),
            chunk(json!([finish])),
        ]);
    }
    shapes
}

/// Upstream that streams these chunks, or answers with the first one.
async fn upstream_answering(chunks: &[Value]) -> Upstream {
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n"));
    let (events, whole) = (events.collect::<String>(), chunks[0].to_string());
    Upstream::with(move |request| {
        if request.query.contains("alt=sse") {
            respond(200, "text/event-stream", events.clone())
        } else {
            respond(200, "application/json", whole.clone())
        }
    })
    .await
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_agent_in_any_shape() {
    let group = json!([{ "matcher": "write_file", "hooks": [hook::denying("guard", "not here")] }]);
    let hooks = format!("hooks: {}\n", json!({ "BeforeTool": group }));
    for shape in shapes() {
        let upstream = upstream_answering(&shape).await;
        for mode in ["chunk", "buffered"] {
            let gate =
                TestGateway::start(&upstream, &format!("{hooks}after_model: {mode}\n")).await;
            let (agent, body) = (gate.agent(), Chat::with_prompt("go").body());
            let answers = [
                agent.stream(MODEL, &body).await,
                agent.array(MODEL, &body).await,
                agent.generate(MODEL, &body).await,
            ];
            let received = answers.map(|answer| answer.text().to_owned()).concat();
            assert!(!received.contains("write_file"), "{shape:?}: {received}");
        }
    }
}

#[tokio::test]
async fn other_agents_are_answered_while_a_long_history_is_inspected() {
    let upstream = Upstream::mock().await;
    let policy = json!({ "type": "builtin", "policy": "prompt_guard", "deny": ["bad"] });
    let config = hook::config(&[("BeforeAgent", policy)]);
    let gate = TestGateway::start(&upstream, &config).await;
    let numbered = |number: usize| {
        content(
            ["user", "model"][number % 2],
            &[json!({ "text": number.to_string() })],
        )
    };
    let long = json!({ "contents": (0..8001).map(numbered).collect::<Vec<_>>() });
    let body = Chat::with_prompt("hello").body();
    let reader = gate.agent();
    // Enough agents that some share the thread that inspects the long history.
    let others: Vec<(Agent, Cell<u32>)> = (0..8).map(|_| (gate.agent(), Cell::new(0))).collect();
    let send_repeatedly = async |(agent, answers): &(Agent, Cell<u32>)| {
        loop {
            assert_eq!(agent.generate(MODEL, &body).await.status, 200);
            answers.set(answers.get() + 1);
        }
    };

    let answer = tokio::select! {
        answer = reader.generate(MODEL, &long) => answer,
        _ = join_all(others.iter().map(send_repeatedly)) => panic!("the other agents never stop"),
    };

    assert_eq!(answer.status, 200);
    let answers: Vec<u32> = others.iter().map(|(_, answers)| answers.get()).collect();
    assert!(answers.iter().all(|count| *count > 5), "{answers:?}");
}
