//! Odd requests and answers, made to get past hooks.

use std::cell::Cell;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Chat, MODEL, asked, call, log, script, text};
use crate::harness::{Agent, TestGateway, Upstream, hook, respond};

/// Refuses every result that holds `SECRET`, and logs its input.
fn guard() -> (&'static str, Value) {
    let python = "import json,sys; e=json.load(sys.stdin); t=json.dumps(e[\"tool_response\"]); print(json.dumps(e[\"tool_name\"]), file=open(\"log\",\"a\")); print(json.dumps({\"decision\":\"deny\",\"reason\":\"hidden\"} if \"SECRET\" in t else {}))";
    let hook = hook::running("dlp", &format!("python3 -c '{python}'"));
    ("AfterTool", hook)
}

/// Refuses prompts that hold `bad`.
fn prompt_guard() -> String {
    let python = "import json,sys; p=json.load(sys.stdin)[\"prompt\"]; print(json.dumps(p), file=open(\"log\",\"a\")); print(json.dumps({\"decision\":\"deny\",\"reason\":\"no\"} if \"bad\" in p else {}))";
    hook::config(&[(
        "BeforeAgent",
        hook::running("guard", &format!("python3 -c '{python}'")),
    )])
}

fn result(says: &str) -> Value {
    json!({ "functionResponse": { "name": "read_file", "response": { "output": says } } })
}

fn said(role: &str, parts: &[Value]) -> Value {
    json!({ "role": role, "parts": parts })
}

#[track_caller]
fn never_received(upstream: &Upstream, secret: &str) {
    for seen in upstream.seen() {
        assert!(!seen.body.contains(secret), "{}", seen.body);
    }
}

#[tokio::test]
async fn a_result_is_inspected_in_every_role() {
    for role in [json!("model"), json!("function"), json!(7), Value::Null] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
        let mut chat = Chat::asking("read").calls("read_file", &json!({}));
        let parts = [result("SECRET")];
        chat.contents.push(json!({ "role": role, "parts": parts }));
        let chat = chat.user("go on");

        gate.agent().generate(MODEL, &chat.body()).await;

        never_received(&upstream, "SECRET");
        assert_eq!(log(&gate), ["read_file"], "{role}");
    }
}

#[tokio::test]
async fn nothing_beside_a_hidden_result_is_left_in_its_part() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
    let mut part = result("SECRET");
    part["text"] = json!("SECRET");
    part["inlineData"] = json!({ "mimeType": "text/plain", "data": "SECRET" });
    part["thoughtSignature"] = json!("c2ln");
    let chat = Chat::asking("read").calls("read_file", &json!({}));

    chat.says("user", &part).ask(&gate).await;

    never_received(&upstream, "SECRET");
    let part = &asked(&upstream)[0][2]["parts"][0];
    assert_eq!(part["thoughtSignature"], "c2ln");
}

#[tokio::test]
async fn hooks_see_the_media_of_a_result() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
    let mut part = result("1 file");
    let media = json!({ "inlineData": { "mimeType": "text/plain", "data": "SECRET" } });
    part["functionResponse"]["parts"] = json!([media]);
    let chat = Chat::asking("read").calls("read_file", &json!({}));

    chat.says("user", &part).ask(&gate).await;

    never_received(&upstream, "SECRET");
}

#[tokio::test]
async fn a_count_of_two_conversations_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &hook::config(&[guard()])).await;
    let secret = [said("user", &[result("SECRET")])];
    let body = json!({
        "contents": [],
        "generateContentRequest": { "model": "models/m", "contents": secret },
    });

    let path = "/v1beta/models/m:countTokens";
    gate.agent().post(path, body.to_string()).await;

    never_received(&upstream, "SECRET");
}

#[tokio::test]
async fn what_is_hidden_stays_hidden_when_all_of_a_request_was_denied() {
    let upstream = Upstream::mock().await;
    let once = "if test -e once; then echo '{}'; else touch once; echo no >&2; exit 2; fi";
    let config = hook::config(&[guard(), ("BeforeModel", hook::running("once", once))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let called = call("read_file", &json!({}));
    let mut chat = Chat::new();
    chat.contents = vec![
        said("model", std::slice::from_ref(&called)),
        said("user", &[result("SECRET")]),
    ];

    chat.ask(&gate).await;
    chat.contents[1] = said("user", &[result("SECRET"), text("go on")]);
    chat.ask(&gate).await;

    assert_eq!(upstream.seen().len(), 1);
    never_received(&upstream, "SECRET");
}

#[tokio::test]
async fn a_loop_without_a_prompt_can_be_ended() {
    let upstream = Upstream::mock().await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let config = hook::config(&[("AfterTool", hook::saying("stop", &stop))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::new()
        .calls("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));

    for _ in 0..3 {
        chat.ask(&gate).await;
    }

    assert_eq!(upstream.seen().len(), 0);
}

#[tokio::test]
async fn a_prompt_is_judged_however_it_is_dressed() {
    let introduced = text("<session_context>bad</session_context>");
    let prompts = [
        vec![json!({ "text": "bad", "thought": true })],
        vec![introduced.clone()],
        vec![
            text("<session_context>x</session_context>"),
            introduced.clone(),
        ],
        vec![text("hello"), introduced],
    ];
    for parts in prompts {
        for earlier in [Chat::new(), Chat::asking("hi").model("hi")] {
            let upstream = Upstream::mock().await;
            let gate = TestGateway::start(&upstream, &prompt_guard()).await;
            let mut chat = earlier;
            chat.contents.push(said("user", &parts));

            let told = chat.ask(&gate).await;

            assert_eq!(upstream.seen().len(), 0, "{parts:?}");
            chat.heard(&told).user("well").ask(&gate).await;
            never_received(&upstream, "bad");
        }
    }
}

#[tokio::test]
async fn who_may_call_functions_is_no_helper() {
    let write = call("write_file", &json!({}));
    let upstream = Upstream::scripted(&script(&[json!([write]), json!([text("no")])])).await;
    let config = hook::config(&[("BeforeTool", hook::refusing("guard", "not here"))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("user-agent", "GeminiCLI-tui/0.61.0/m");

    let body =
        json!({ "contents": [said("user", &[text("go")])], "cachedContent": "cachedContents/a" });
    let answer = agent.generate(MODEL, &body).await;

    assert!(!answer.text().contains("functionCall"), "{}", answer.text());
}

/// Answers of many shapes that each call `write_file`, chunk by chunk.
fn shapes() -> Vec<Vec<Value>> {
    let write = call("write_file", &json!({}));
    let read = call("read_file", &json!({}));
    let candidate = |index: u64, part: &Value| json!({ "index": index, "content": { "role": "model", "parts": [part] } });
    let chunk = |candidates: Value| json!({ "candidates": candidates });
    let done = json!({ "index": 0, "finishReason": "STOP" });
    let mut thought = write.clone();
    thought["thought"] = json!(true);
    let mut spoken = write.clone();
    spoken["text"] = json!("I write");
    let snake = json!({ "function_call": { "name": "write_file", "args": {} } });
    let no_args = json!({ "functionCall": { "name": "write_file", "args": "text" } });
    let mut shapes = vec![
        vec![chunk(json!([candidate(1, &write)]))],
        vec![chunk(json!([candidate(0, &read), candidate(1, &write)]))],
        vec![chunk(json!([candidate(0, &read), candidate(0, &write)]))],
        vec![chunk(json!([{ "content": { "parts": [write] } }]))],
        vec![chunk(json!([done])), chunk(json!([candidate(0, &write)]))],
        vec![
            chunk(json!([candidate(0, &text("a"))])),
            chunk(json!([done])),
            chunk(json!([candidate(0, &write)])),
            chunk(json!([done])),
        ],
        vec![
            chunk(json!([candidate(0, &read)])),
            chunk(json!([candidate(1, &write)])),
            chunk(json!([done])),
        ],
    ];
    for part in [thought, spoken, snake, no_args] {
        shapes.push(vec![
            chunk(json!([candidate(0, &part)])),
            chunk(json!([done])),
        ]);
    }
    shapes
}

/// Answers with these chunks, or with the first of them.
async fn answering(chunks: &[Value]) -> Upstream {
    let events = chunks.iter().map(|it| format!("data: {it}\r\n\r\n"));
    let (events, whole) = (events.collect::<String>(), chunks[0].to_string());
    Upstream::with(move |asked| {
        if asked.query.contains("alt=sse") {
            respond(200, "text/event-stream", events.clone())
        } else {
            respond(200, "application/json", whole.clone())
        }
    })
    .await
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_agent_however_it_comes() {
    let group =
        json!([{ "matcher": "write_file", "hooks": [hook::refusing("guard", "not here")] }]);
    let hooks = format!("hooks: {}\n", json!({ "BeforeTool": group }));
    for shape in shapes() {
        let upstream = answering(&shape).await;
        for mode in ["chunk", "buffered"] {
            let gate =
                TestGateway::start(&upstream, &format!("{hooks}after_model: {mode}\n")).await;
            let (agent, body) = (gate.agent(), Chat::asking("go").body());
            let answers = [
                agent.stream(MODEL, &body).await,
                agent.array(MODEL, &body).await,
                agent.generate(MODEL, &body).await,
            ];
            let heard = answers.map(|it| it.text().to_owned()).concat();
            assert!(!heard.contains("write_file"), "{shape:?}: {heard}");
        }
    }
}

#[tokio::test]
async fn others_are_answered_while_a_long_history_is_read() {
    let upstream = Upstream::mock().await;
    let policy = json!({ "type": "builtin", "policy": "prompt_guard", "deny": ["bad"] });
    let config = hook::config(&[("BeforeAgent", policy)]);
    let gate = TestGateway::start(&upstream, &config).await;
    let said = |number: usize| {
        said(
            ["user", "model"][number % 2],
            &[json!({ "text": number.to_string() })],
        )
    };
    let long = json!({ "contents": (0..8001).map(said).collect::<Vec<_>>() });
    let body = Chat::asking("hello").body();
    let reader = gate.agent();
    // Some of them on the thread that reads.
    let others: Vec<(Agent, Cell<u32>)> = (0..8).map(|_| (gate.agent(), Cell::new(0))).collect();
    let ask = async |(agent, answers): &(Agent, Cell<u32>)| {
        loop {
            assert_eq!(agent.generate(MODEL, &body).await.status, 200);
            answers.set(answers.get() + 1);
        }
    };

    let read = tokio::select! {
        read = reader.generate(MODEL, &long) => read,
        _ = join_all(others.iter().map(ask)) => panic!("it ends never"),
    };

    assert_eq!(read.status, 200);
    let answers: Vec<u32> = others.iter().map(|it| it.1.get()).collect();
    assert!(answers.iter().all(|it| *it > 5), "{answers:?}");
}
