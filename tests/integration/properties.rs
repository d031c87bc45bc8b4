//! Properties of all hooks at the gateway's API: observe mode, order and strictness.
//!
//! The property tests of the engine are in `src/hook/tests/properties.rs`.

use serde_json::{Value, json};

use crate::harness::{
    Agent, Answer, ReceivedRequest, TestGateway, Upstream, hook, prompt, respond,
};

const MODEL: &str = "gemini-2.5-pro";

/// A request in a spelling that no JSON serializer writes.
const REQUEST: &str = "{ \"contents\":[ {\"role\":\"user\" ,\"parts\":[{\"text\":\"a\\u0041\"}]},\r\n\
    {\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"n\":1.0e0}},\"thoughtSignature\":\"s\"}]},\
    {\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\",\"response\":{}}}]}], \
    \"tools\":[{\"function_declarations\":[{\"name\":\"f\"},{\"name\":\"g\"}]}], \
    \"generationConfig\":{\"temperature\":0.50,\"x-unknown\":10000000000000000000001} }\n";

/// Chunks of a response in unusual spelling.
const CHUNKS: [&str; 3] = [
    r#"{"candidates": [ {"content":{"role":"model","parts":[{"text":"secr\u0065t "}]},"index":0}] }"#,
    r#"{ "candidates":[{"content":{"parts":[{"functionCall":{"name":"g","args":{"n":1.50}}}],"role":"model"}}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"totalTokenCount":7.0}}"#,
];

async fn start_upstream() -> Upstream {
    Upstream::with(|asked: ReceivedRequest| {
        let stream = CHUNKS
            .map(|chunk| format!("data: {chunk}\r\n\r\n"))
            .concat();
        if asked.query.contains("alt=sse") {
            respond(200, "text/event-stream", stream)
        } else if asked.path.contains("stream") {
            respond(
                200,
                "application/json; charset=UTF-8",
                format!("[{}]", CHUNKS.join(",\r\n")),
            )
        } else {
            respond(200, "application/json", CHUNKS[1])
        }
    })
    .await
}

/// Calls each method. Returns what the agent and upstream received.
async fn call_each_method(agent: &Agent, upstream: &Upstream) -> Vec<(Answer, ReceivedRequest)> {
    let mut calls = Vec::new();
    for method in [
        "generateContent",
        "streamGenerateContent?alt=sse",
        "streamGenerateContent",
        "countTokens",
    ] {
        let path = format!("/v1beta/models/{MODEL}:{method}");
        let answer = agent.post(&path, REQUEST).await;
        calls.push((answer, upstream.requests().pop().unwrap()));
    }
    calls
}

/// Hooks in observe mode that return every kind of change, deny, or fail.
fn observing_hooks() -> Vec<Value> {
    let edits = json!({ "decision": "deny", "reason": "no", "continue": false,
    "systemMessage": "look", "hookSpecificOutput": {
        "llm_request": { "model": "other", "config": { "temperature": 0 },
            "messages": [{ "role": "user", "content": "new" }] },
        "llm_response": { "text": "new" },
        "toolConfig": { "mode": "NONE" },
    } });
    let mut answer = edits.clone();
    for key in ["decision", "continue"] {
        answer.as_object_mut().unwrap().shift_remove(key);
    }
    [
        hook::printing("all", &edits),
        hook::printing("edit", &answer),
        hook::denying("guard", "no"),
        hook::command("broken", "exit 1"),
        hook::command("late", "exec sleep 60"),
    ]
    .into_iter()
    .map(|mut hook| {
        hook["mode"] = json!("observe");
        hook["on_failure"] = json!("closed");
        hook["document"] = json!(true);
        hook["timeout"] = json!(if hook["name"] == "late" { 50 } else { 20_000 });
        hook
    })
    .collect()
}

#[track_caller]
fn assert_same(
    (answer, asked): &(Answer, ReceivedRequest),
    (plain, plain_request): &(Answer, ReceivedRequest),
) {
    assert_eq!(asked.body, plain_request.body);
    // JSON arrays are always requested from upstream as SSE, so that hooks can check each chunk.
    assert_eq!(asked.path, plain_request.path);
    assert_eq!(asked.headers, plain_request.headers);
    assert_eq!((answer.status, answer.text()), (plain.status, plain.text()));
    let media_type = "content-type";
    assert_eq!(answer.header(media_type), plain.header(media_type));
}

#[tokio::test]
async fn hooks_in_observe_mode_change_no_byte() {
    let upstream = start_upstream().await;
    let plain = TestGateway::start(&upstream, "").await;
    let expected = call_each_method(&plain.agent(), &upstream).await;
    let settings = ["", "after_model: buffered\n", "denials: error\n"];
    let settings = settings
        .iter()
        .flat_map(|setting| [(setting, false), (setting, true)]);
    for (more, sequential) in settings {
        let group = json!([{ "sequential": sequential, "hooks": observing_hooks() }]);
        let events = ["BeforeModel", "BeforeToolSelection", "AfterModel"];
        let hooks: Value = events
            .map(|event| (event.to_owned(), group.clone()))
            .into_iter()
            .collect();
        let gate = TestGateway::start(&upstream, &format!("{more}hooks: {hooks}")).await;

        let observed = call_each_method(&gate.agent(), &upstream).await;

        for (observed, plain) in observed.iter().zip(&expected) {
            assert_same(observed, plain);
        }
        let ran = |name: &&str| !gate.file(name).is_empty();
        assert!(["all.json", "guard.json"].iter().all(ran));
    }
    assert_eq!(expected[0].1.body, REQUEST);
}

/// Every permutation of three indices.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Starts a gateway with hooks of several families on one event, in this order.
async fn gateway_with_families(
    upstream: &Upstream,
    event: &str,
    hooks: &[(&str, Value)],
) -> TestGateway {
    let mut entries = Vec::new();
    let mut files = Vec::new();
    for (protocol, output) in hooks {
        let path = format!("{protocol}.json");
        let group = json!({ "hooks": [hook::printing(&format!("{protocol}-saw"), output)] });
        files.push((
            path.clone(),
            json!({ "hooks": { event: [group] } }).to_string(),
        ));
        entries.push(json!({ "path": path, "protocol": protocol }));
    }
    let config = format!("hook_files: {}", Value::Array(entries));
    let files: Vec<(&str, &str)> = files.iter().map(|file| (&*file.0, &*file.1)).collect();
    TestGateway::with_files(upstream, &config, &files).await
}

#[tokio::test]
async fn the_order_of_hooks_does_not_change_which_tools_are_allowed() {
    let select = |names: &[&str]| hook::tools(&json!({ "allowedFunctionNames": names }));
    let hooks = [
        ("gemini", select(&["f", "ghost"])),
        ("tabnine", hook::tools(&json!({ "mode": "AUTO" }))),
        ("llxprt", select(&["h"])),
    ];
    let mut body = prompt("go");
    let declared = ["f", "g", "h"].map(|name| json!({ "name": name }));
    body["tools"] = json!([{ "functionDeclarations": declared }]);
    for order in ORDERS {
        let upstream = Upstream::mock().await;
        let hooks = order.map(|index| hooks[index].clone());
        let gate = gateway_with_families(&upstream, "BeforeToolSelection", &hooks).await;

        gate.agent().generate(MODEL, &body).await;

        let sent = upstream.only_request().json();
        let kept = json!([{ "functionDeclarations": [{ "name": "f" }, { "name": "h" }] }]);
        assert_eq!(sent["tools"], kept, "{order:?}");
        let mode = &sent["toolConfig"]["functionCallingConfig"];
        assert_eq!(mode, &json!({ "mode": "AUTO" }), "{order:?}");
    }
}

#[tokio::test]
async fn the_strictest_hook_decides_in_any_order() {
    let answer = hook::response(&json!({ "text": "mine" }));
    let hooks = [
        ("terminai", json!({ "decision": "allow" }), "pass"),
        ("llxprt", answer, "respond"),
        (
            "gemini",
            json!({ "decision": "block", "reason": "no" }),
            "deny",
        ),
    ];
    for order in ORDERS {
        for count in 1..=3 {
            let upstream = Upstream::mock().await;
            let order = &order[..count];
            let outputs: Vec<_> = order
                .iter()
                .map(|index| (hooks[*index].0, hooks[*index].1.clone()))
                .collect();
            let gate = gateway_with_families(&upstream, "BeforeModel", &outputs).await;

            let answer = gate.agent().generate(MODEL, &prompt("go")).await;

            let strictest = order.iter().max().unwrap();
            let action = answer.header("x-hookgate-action");
            assert_eq!(action, hooks[*strictest].2, "{order:?}");
        }
    }
}
