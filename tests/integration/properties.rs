//! What holds for all hooks, whatever they say, seen from outside. The proofs
//! are beside the engine.

use serde_json::{Value, json};

use crate::harness::{Agent, Answer, Asked, TestGateway, Upstream, hook, prompt, respond};

const MODEL: &str = "gemini-2.5-pro";

/// A request that no printer of JSON would write so.
const REQUEST: &str = "{ \"contents\":[ {\"role\":\"user\" ,\"parts\":[{\"text\":\"a\\u0041\"}]},\r\n\
    {\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"n\":1.0e0}},\"thoughtSignature\":\"s\"}]},\
    {\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"f\",\"response\":{}}}]}], \
    \"tools\":[{\"function_declarations\":[{\"name\":\"f\"},{\"name\":\"g\"}]}], \
    \"generationConfig\":{\"temperature\":0.50,\"x-unknown\":10000000000000000000001} }\n";

/// Chunks of an answer, in the same spirit.
const CHUNKS: [&str; 3] = [
    r#"{"candidates": [ {"content":{"role":"model","parts":[{"text":"secr\u0065t "}]},"index":0}] }"#,
    r#"{ "candidates":[{"content":{"parts":[{"functionCall":{"name":"g","args":{"n":1.50}}}],"role":"model"}}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"totalTokenCount":7.0}}"#,
];

async fn upstream() -> Upstream {
    Upstream::with(|asked: Asked| {
        let stream = CHUNKS.map(|it| format!("data: {it}\r\n\r\n")).concat();
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

/// One call of each kind; what upstream saw, and what the agent got.
async fn calls(agent: &Agent, upstream: &Upstream) -> Vec<(Answer, Asked)> {
    let mut calls = Vec::new();
    for method in [
        "generateContent",
        "streamGenerateContent?alt=sse",
        "streamGenerateContent",
        "countTokens",
    ] {
        let path = format!("/v1beta/models/{MODEL}:{method}");
        let answer = agent.post(&path, REQUEST).await;
        calls.push((answer, upstream.seen().pop().unwrap()));
    }
    calls
}

/// Everything that a hook could say to change something, and failures.
fn meddling() -> Vec<Value> {
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
        hook::saying("all", &edits),
        hook::saying("edit", &answer),
        hook::refusing("guard", "no"),
        hook::running("broken", "exit 1"),
        hook::running("late", "exec sleep 60"),
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
fn assert_same((answer, asked): &(Answer, Asked), (plain, plainly): &(Answer, Asked)) {
    assert_eq!(asked.body, plainly.body);
    // An array is always asked for as events, so that it can be judged.
    assert_eq!(asked.path, plainly.path);
    assert_eq!(asked.headers, plainly.headers);
    assert_eq!((answer.status, answer.text()), (plain.status, plain.text()));
    let media_type = "content-type";
    assert_eq!(answer.header(media_type), plain.header(media_type));
}

#[tokio::test]
async fn hooks_that_observe_change_no_byte() {
    let upstream = upstream().await;
    let plain = TestGateway::start(&upstream, "").await;
    let expected = calls(&plain.agent(), &upstream).await;
    let settings = ["", "after_model: buffered\n", "denials: error\n"];
    let settings = settings.iter().flat_map(|it| [(it, false), (it, true)]);
    for (more, sequential) in settings {
        let group = json!([{ "sequential": sequential, "hooks": meddling() }]);
        let events = ["BeforeModel", "BeforeToolSelection", "AfterModel"];
        let hooks: Value = events
            .map(|it| (it.to_owned(), group.clone()))
            .into_iter()
            .collect();
        let gate = TestGateway::start(&upstream, &format!("{more}hooks: {hooks}")).await;

        let observed = calls(&gate.agent(), &upstream).await;

        for (observed, plain) in observed.iter().zip(&expected) {
            assert_same(observed, plain);
        }
        let ran = |it: &&str| !gate.file(it).is_empty();
        assert!(["all.json", "guard.json"].iter().all(ran));
    }
    assert_eq!(expected[0].1.body, REQUEST);
}

/// Every order of three things.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// A gateway with hooks of several families on one event, in this order.
async fn families(upstream: &Upstream, event: &str, hooks: &[(&str, Value)]) -> TestGateway {
    let mut entries = Vec::new();
    let mut files = Vec::new();
    for (protocol, output) in hooks {
        let path = format!("{protocol}.json");
        let group = json!({ "hooks": [hook::saying(&format!("{protocol}-saw"), output)] });
        files.push((
            path.clone(),
            json!({ "hooks": { event: [group] } }).to_string(),
        ));
        entries.push(json!({ "path": path, "protocol": protocol }));
    }
    let config = format!("hook_files: {}", Value::Array(entries));
    let files: Vec<(&str, &str)> = files.iter().map(|it| (&*it.0, &*it.1)).collect();
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
    let declared = ["f", "g", "h"].map(|it| json!({ "name": it }));
    body["tools"] = json!([{ "functionDeclarations": declared }]);
    for order in ORDERS {
        let upstream = Upstream::mock().await;
        let hooks = order.map(|it| hooks[it].clone());
        let gate = families(&upstream, "BeforeToolSelection", &hooks).await;

        gate.agent().generate(MODEL, &body).await;

        let sent = upstream.only().json();
        let kept = json!([{ "functionDeclarations": [{ "name": "f" }, { "name": "h" }] }]);
        assert_eq!(sent["tools"], kept, "{order:?}");
        let mode = &sent["toolConfig"]["functionCallingConfig"];
        assert_eq!(mode, &json!({ "mode": "AUTO" }), "{order:?}");
    }
}

#[tokio::test]
async fn each_further_hook_is_as_strict_as_those_before_or_stricter() {
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
            let said: Vec<_> = order
                .iter()
                .map(|it| (hooks[*it].0, hooks[*it].1.clone()))
                .collect();
            let gate = families(&upstream, "BeforeModel", &said).await;

            let answer = gate.agent().generate(MODEL, &prompt("go")).await;

            let strictest = order.iter().max().unwrap();
            let action = answer.header("x-hookgate-action");
            assert_eq!(action, hooks[*strictest].2, "{order:?}");
        }
    }
}
