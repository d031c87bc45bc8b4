//! Hooks of several families at one gateway: each gets and gives events in its
//! own words.

use serde_json::{Value, json};

use crate::harness::{TestGateway, Upstream, hook, prompt};

const MODEL: &str = "gemini-2.5-pro";

/// One settings file: its protocol, an event, and the group of hooks on it.
type File = (&'static str, &'static str, Value);

/// A gateway with these settings files, in this order.
async fn gate(upstream: &Upstream, files: &[File]) -> TestGateway {
    let mut entries = Vec::new();
    let mut texts = Vec::new();
    for (index, (protocol, event, group)) in files.iter().enumerate() {
        let path = format!("settings-{index}.json");
        entries.push(json!({ "path": path, "protocol": protocol }));
        texts.push((path, json!({ "hooks": { *event: [group] } }).to_string()));
    }
    let files: Vec<(&str, &str)> = texts
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let config = format!("hook_files: {}", Value::Array(entries));
    TestGateway::with_files(upstream, &config, &files).await
}

/// A group whose hook prints this output, and saves its input as `<name>.json`.
fn saying(name: &str, output: &Value) -> Value {
    json!({ "hooks": [hook::saying(name, output)] })
}

/// Many groups of hooks run in order if one of them says so.
fn in_order(mut group: Value) -> Value {
    group["sequential"] = json!(true);
    group
}

const CALL: &str = r#"{"functionCall":{"name":"f","args":{"n":1.0}},"thoughtSignature":"sig"}"#;
const RESULT: &str = r#"{"functionResponse":{"name":"f","response":{"ssn":"1-2"}}}"#;

/// A conversation with a call, its result, and an instruction.
fn talk() -> String {
    format!(
        r#"{{"systemInstruction":{{"parts":[{{"text":"SYS"}}]}},"generationConfig":{{"temperature":1.0,"stopSequences":["X"]}},"contents":[{{"role":"user","parts":[{{"text":"my ssn is 1-2"}}]}},{{"role":"model","parts":[{{"text":"calling "}},{CALL}]}},{{"role":"user","parts":[{RESULT}]}}]}}"#
    )
}

async fn ask(gate: &TestGateway, operation: &str, body: &str) {
    let path = format!("/v1beta/models/{MODEL}:{operation}");
    let answer = gate.agent().post(&path, body.to_owned()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The response to an agent that reports an event, explained.
async fn report(files: &[File], event: &Value) -> (Value, TestGateway) {
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, files).await;
    let answer = gate.agent().report(event, "explain=1&wait=1").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (answer.json(), gate)
}

fn four_families() -> [File; 4] {
    let call = format!("calling {CALL}");
    let masked = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my ssn is [x]" },
        { "role": "model", "content": call },
        { "role": "user", "content": RESULT },
    ] }));
    let mut told = hook::request(&json!({
        "generationConfig": { "topK": 3 },
        "systemInstruction": { "role": "system", "parts": ["NEW"] },
    }));
    told["systemMessage"] = json!("mind the step");
    let gemini = hook::request(&json!({ "config": { "temperature": 0.5 } }));
    let tabnine = hook::request(&json!({ "config": { "maxOutputTokens": 9 } }));
    [
        ("gemini", "BeforeModel", saying("gemini", &gemini)),
        ("terminai", "BeforeModel", saying("terminai", &masked)),
        ("tabnine", "BeforeModel", saying("tabnine", &tabnine)),
        ("llxprt", "BeforeModel", saying("llxprt", &told)),
    ]
}

/// What the four families make of [`talk`].
fn edited() -> Value {
    let mut edited: Value = serde_json::from_str(&talk()).unwrap();
    edited["systemInstruction"] = json!({ "parts": [{ "text": "NEW" }] });
    edited["generationConfig"] =
        json!({ "temperature": 0.5, "stopSequences": ["X"], "maxOutputTokens": 9, "topK": 3 });
    edited["contents"][0]["parts"][0]["text"] = json!("my ssn is [x]");
    let result: Value = serde_json::from_str(RESULT).unwrap();
    edited["contents"][2]["parts"] = json!([result, { "text": "mind the step" }]);
    edited
}

#[tokio::test]
async fn four_families_share_one_event() {
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &four_families()).await;

    ask(&gate, "generateContent", &talk()).await;

    assert_eq!(upstream.only().json(), edited());
    let messages = json!([
        { "role": "user", "content": "my ssn is 1-2" },
        { "role": "model", "content": "calling " },
    ]);
    for family in ["gemini", "tabnine"] {
        let shown = gate.json(&format!("{family}.json"))["llm_request"].clone();
        let config = json!({ "temperature": 1.0 });
        let expected = json!({ "model": MODEL, "messages": messages, "config": config });
        assert_eq!(shown, expected, "{family}");
    }
    let shown = gate.json("terminai.json")["llm_request"]["messages"].clone();
    let whole = json!([
        { "role": "user", "content": "my ssn is 1-2" },
        { "role": "model", "content": format!("calling {CALL}") },
        { "role": "user", "content": RESULT },
    ]);
    assert_eq!(shown, whole);
    let shown = gate.json("llxprt.json")["llm_request"].clone();
    let expected = json!({
        "model": MODEL,
        "contents": [
            { "role": "user", "parts": [{ "text": "my ssn is 1-2" }] },
            { "role": "model", "parts": [{ "text": "calling " }] },
        ],
        "systemInstruction": { "role": "system", "parts": [{ "text": "SYS" }] },
        "generationConfig": { "temperature": 1.0, "stopSequences": ["X"] },
    });
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn families_in_order_see_each_others_edits_in_their_own_words() {
    let upstream = Upstream::mock().await;
    let [gemini, terminai, tabnine, llxprt] = four_families();
    let nothing = saying("after", &json!({}));
    let seen = saying("seen", &json!({}));
    let files = [
        ("gemini", gemini.1, in_order(gemini.2)),
        terminai,
        ("llxprt", "BeforeModel", seen),
        tabnine,
        llxprt,
        ("terminai", "BeforeModel", nothing),
    ];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &talk()).await;

    assert_eq!(upstream.only().json(), edited());
    let seen = gate.json("seen.json")["llm_request"].clone();
    assert_eq!(
        seen["contents"],
        json!([
            { "role": "user", "parts": [{ "text": "my ssn is [x]" }] },
            { "role": "model", "parts": [{ "text": "calling " }] },
        ])
    );
    assert_eq!(seen["generationConfig"]["temperature"], json!(0.5));
    let after = gate.json("after.json")["llm_request"].clone();
    assert_eq!(after["messages"][0]["content"], "my ssn is [x]");
    assert_eq!(after["messages"][2]["content"], RESULT);
    let config = json!({ "temperature": 0.5, "maxOutputTokens": 9, "topK": 3 });
    assert_eq!(after["config"], config);
}

#[tokio::test]
async fn what_is_not_text_cannot_be_changed_by_text() {
    let upstream = Upstream::mock().await;
    let result = RESULT.replace("1-2", "[x]");
    let masked = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my ssn is [x]" },
        { "role": "model", "content": format!("{CALL} was called") },
        { "role": "user", "content": result },
    ] }));
    let files = [("terminai", "BeforeModel", saying("mask", &masked))];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &talk()).await;

    let sent = upstream.only().body;
    assert!(
        sent.contains(&format!(r#"{{"text":" was called"}},{CALL}"#)),
        "{sent}"
    );
    assert!(sent.contains(&format!(r#""parts":[{RESULT}]"#)), "{sent}");
    // What it made of the result is a text of its own.
    let text = json!({ "text": result }).to_string();
    assert!(sent.contains(&text), "{sent}");
}

#[tokio::test]
async fn an_untouched_conversation_stays_untouched() {
    let upstream = Upstream::mock().await;
    let echo = r#"import json, sys
shown = json.load(sys.stdin)["llm_request"]
print(json.dumps({"hookSpecificOutput": {"llm_request": shown}}))"#;
    let group = json!({ "hooks": [hook::running("echo", "python3 echo.py")] });
    for protocol in ["gemini", "terminai", "tabnine", "llxprt"] {
        let settings = json!({ "hooks": { "BeforeModel": [group] } }).to_string();
        for system_messages in [false, true] {
            let entry = json!({
                "path": "s.json", "protocol": protocol, "system_messages": system_messages,
            });
            let config = format!("hook_files: [{entry}]");
            let files = [("s.json", settings.as_str()), ("echo.py", echo)];
            let gate = TestGateway::with_files(&upstream, &config, &files).await;

            ask(&gate, "generateContent", &talk()).await;

            let sent: Value = upstream.seen().pop().unwrap().json();
            let talk: Value = serde_json::from_str(&talk()).unwrap();
            assert_eq!(sent, talk, "{protocol} {system_messages}");
        }
    }
}

#[tokio::test]
async fn arguments_are_laid_over_or_replaced_in_the_order_of_the_hooks() {
    let edit = |edit: Value| json!({ "hookSpecificOutput": { "tool_input": edit } });
    let files = |order: fn(Value) -> Value| {
        let first = saying("first", &edit(json!({ "a": 1, "b": 1 })));
        let second = saying("second", &edit(json!({ "c": 2, "b": 2 })));
        let third = saying("third", &edit(json!({ "c": 3, "d": 3 })));
        [
            ("gemini", "BeforeTool", order(first)),
            ("tabnine", "BeforeTool", second),
            ("terminai", "BeforeTool", third),
        ]
    };
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t",
        "tool_input": { "own": 0 } });
    let expected = json!({ "c": 3, "b": 2, "d": 3 });
    for order in [in_order, |it| it] {
        let (told, _gate) = report(&files(order), &event).await;
        assert_eq!(told["hookSpecificOutput"]["tool_input"], expected);
        assert_eq!(told["hookgate"]["arguments"], expected);
    }
    let (told, gate) = report(&files(in_order)[..2], &event).await;
    assert_eq!(told["hookgate"]["arguments"], json!({ "c": 2, "b": 2 }));
    let seen = gate.json("second.json")["tool_input"].clone();
    assert_eq!(seen, json!({ "own": 0, "a": 1, "b": 1 }));
    let (told, _gate) = report(&files(in_order)[..1], &event).await;
    let laid_over = json!({ "own": 0, "a": 1, "b": 1 });
    assert_eq!(told["hookgate"]["arguments"], laid_over);
}

#[tokio::test]
async fn context_is_in_the_conversation_in_the_form_of_each_family() {
    let context = |text: &str| {
        json!({ "systemMessage": format!("for people: {text}"),
            "hookSpecificOutput": { "additionalContext": text } })
    };
    let files = [
        ("gemini", "AfterTool", saying("a", &context("<a>"))),
        ("tabnine", "AfterTool", saying("b", &context("b"))),
        ("terminai", "AfterTool", saying("c", &context("<c>"))),
        ("llxprt", "AfterTool", saying("d", &context("<d>"))),
    ];
    let event = json!({ "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {},
        "tool_response": { "llmContent": "r" } });

    let (told, _gate) = report(&files, &event).await;

    assert_eq!(
        told["hookgate"]["context"],
        "<hook_context>&lt;a&gt;\nb</hook_context>\n<c>\n<d>\nfor people: <d>"
    );
    let context = &told["hookSpecificOutput"]["additionalContext"];
    assert_eq!(context, "<a>\nb\n<c>\n<d>\nfor people: <d>");
    let message = "for people: <a>\nfor people: b\nfor people: <c>\nfor people: <d>";
    assert_eq!(told["systemMessage"], message);
}

#[tokio::test]
async fn llxprts_message_about_a_tool_that_runs_is_for_the_model_too() {
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });
    let message = json!({ "systemMessage": "careful" });
    let files = |group: Value| {
        [
            ("llxprt", "BeforeTool", saying("careful", &message)),
            ("gemini", "BeforeTool", saying("silent", &message)),
            ("llxprt", "BeforeTool", group),
        ]
    };
    let failing = json!({ "hooks": [hook::running("broken", "echo stack trace >&2; exit 1")] });
    let (told, _gate) = report(&files(failing), &event).await;
    assert_eq!(told["hookgate"]["context"], "careful");
    assert_eq!(told["hookSpecificOutput"]["additionalContext"], "careful");
    let shown = "careful\ncareful\nWarning: stack trace";
    assert_eq!(told["systemMessage"], shown);

    let refusing = json!({ "hooks": [hook::refusing("guard", "no")] });
    let (told, _gate) = report(&files(refusing), &event).await;
    assert_eq!(told["decision"], "deny");
    assert_eq!(told.get("hookSpecificOutput"), None);
}

#[tokio::test]
async fn messages_for_the_model_are_part_of_the_conversation() {
    let upstream = Upstream::mock().await;
    let output = json!({ "systemMessage": "careful" });
    let files = [("llxprt", "BeforeModel", saying("careful", &output))];
    let gate = gate(&upstream, &files).await;
    let parts = json!([{ "text": "hello" }, { "text": "careful" }]);

    let counted = prompt("hello").to_string();
    ask(&gate, "countTokens", &counted).await;
    assert_eq!(upstream.seen()[0].json()["contents"][0]["parts"], parts);

    let only_model = json!({ "contents": [{ "role": "model", "parts": [{ "text": "so" }] }] });
    ask(&gate, "generateContent", &only_model.to_string()).await;
    let sent = upstream.seen()[1].json();
    let added = json!({ "role": "user", "parts": [{ "text": "careful" }] });
    assert_eq!(sent["contents"][1], added);

    let embedded = json!({ "content": { "parts": [{ "text": "hello" }] } });
    ask(&gate, "embedContent", &embedded.to_string()).await;
    assert_eq!(upstream.seen()[2].json(), embedded);
}

#[tokio::test]
async fn an_empty_list_of_tools_means_none_to_llxprt_alone() {
    let empty = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": [] }));
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "f" }] }]);
    for (protocol, mode) in [("gemini", "AUTO"), ("llxprt", "NONE")] {
        let upstream = Upstream::mock().await;
        let files = [(protocol, "BeforeToolSelection", saying("none", &empty))];
        let gate = gate(&upstream, &files).await;

        ask(&gate, "generateContent", &body.to_string()).await;

        let sent = upstream.only().json();
        let sent = &sent["toolConfig"]["functionCallingConfig"]["mode"];
        assert_eq!(sent, mode, "{protocol}");
    }
}

#[tokio::test]
async fn llxprts_edit_of_an_answer_has_parts_as_objects() {
    let upstream = Upstream::mock().await;
    let edit = hook::response(&json!({ "candidates": [{ "content": {
        "role": "model", "parts": [{ "text": "[x]" }],
    } }] }));
    let files = [("llxprt", "AfterModel", saying("mask", &edit))];
    let gate = gate(&upstream, &files).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    let parts = &answer.json()["candidates"][0]["content"]["parts"];
    assert_eq!(parts, &json!([{ "text": "[x]" }]));
    let shown = gate.json("mask.json");
    assert!(shown["llm_request"]["contents"].is_array(), "{shown}");
    assert_eq!(shown["llm_response"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn terminai_sees_what_is_not_text_beside_an_answer_too() {
    let upstream = Upstream::mock().await;
    let files = [("terminai", "AfterModel", saying("seen", &json!({})))];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &talk()).await;

    let shown = gate.json("seen.json")["llm_request"].clone();
    assert_eq!(shown["messages"][2]["content"], RESULT);
}

#[tokio::test]
async fn a_session_of_llxprt_may_start_by_compression() {
    let mut group = saying("start", &json!({ "systemMessage": "welcome" }));
    group["matcher"] = json!("compress|resume");
    let event = json!({ "hook_event_name": "SessionStart", "source": "compress" });

    let (told, gate) = report(&[("llxprt", "SessionStart", group)], &event).await;

    assert_eq!(gate.json("start.json")["source"], "compress");
    assert_eq!(told["hookgate"]["context"], "welcome");
}

#[tokio::test]
async fn each_family_switches_its_own_hooks_off() {
    let upstream = Upstream::mock().await;
    let deny = json!({ "decision": "deny", "reason": "no" });
    let hooks = json!({ "BeforeModel": [saying("guard", &deny)] });
    let off = [
        json!({ "hooks": hooks, "tools": { "enableHooks": false } }),
        json!({ "hooks": hooks, "hooksConfig": { "enabled": false }, "tools": { "enableHooks": true } }),
        json!({ "hooks": { "enabled": false, "BeforeModel": hooks["BeforeModel"] } }),
    ];
    let on = json!({ "hooks": { "BeforeModel": [saying("other", &json!({}))] } }).to_string();
    let protocols = ["terminai", "tabnine", "llxprt"];
    for (protocol, off) in protocols
        .into_iter()
        .flat_map(|it| off.iter().map(move |off| (it, off)))
    {
        let files = json!([
            { "path": "off.json", "protocol": protocol },
            { "path": "on.json", "protocol": protocol },
        ]);
        let files = format!("hook_files: {files}");
        let off = off.to_string();
        let gate =
            TestGateway::with_files(&upstream, &files, &[("off.json", &off), ("on.json", &on)])
                .await;

        let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

        assert_eq!(
            answer.header("x-hookgate-action"),
            "pass",
            "{protocol} {off}"
        );
        assert!(!gate.file("other.json").is_empty(), "{protocol} {off}");
    }
}
