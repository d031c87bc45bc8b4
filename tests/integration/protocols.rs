//! Hooks of several families on one gateway: each receives and returns events in the form of its
//! own protocol.

mod llxprt;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, hook, hookgate, prompt,
};

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
fn printing(name: &str, output: &Value) -> Value {
    json!({ "hooks": [hook::printing(name, output)] })
}

/// A group that makes all groups of its event run in order.
fn sequential(mut group: Value) -> Value {
    group["sequential"] = json!(true);
    group
}

const CALL: &str = r#"{"functionCall":{"name":"f","args":{"n":1.0}},"thoughtSignature":"sig"}"#;
const RESULT: &str = r#"{"functionResponse":{"name":"f","response":{"ssn":"1-2"}}}"#;

/// A conversation with a call, its result, and an instruction.
fn conversation() -> String {
    format!(
        r#"{{"systemInstruction":{{"parts":[{{"text":"SYS"}}]}},"generationConfig":{{"temperature":1.0,"stopSequences":["X"]}},"contents":[{{"role":"user","parts":[{{"text":"my ssn is 1-2"}}]}},{{"role":"model","parts":[{{"text":"calling "}},{CALL}]}},{{"role":"user","parts":[{RESULT}]}}]}}"#
    )
}

async fn ask(gate: &TestGateway, operation: &str, body: &str) {
    let path = format!("/v1beta/models/{MODEL}:{operation}");
    let answer = gate.agent().post(&path, body.to_owned()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Reports an event with `explain`, and returns the response.
async fn report(files: &[File], event: &Value) -> (Value, TestGateway) {
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, files).await;
    let answer = gate.agent().report(event, "explain=1&wait=1").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (answer.json(), gate)
}

#[tokio::test]
async fn equal_commands_of_two_families_run_in_the_form_of_each() {
    let command = r#"grep -q '"tool_name":"Bash"' || exit 0; echo no >&2; exit 2"#;
    let group = json!({ "hooks": [{ "type": "command", "command": command }] });
    let files = [
        ("gemini", "BeforeTool", group.clone()),
        ("claude", "PreToolUse", group),
    ];
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "run_shell_command",
        "tool_input": { "command": "ls" } });

    let (answer, _gate) = report(&files, &event).await;

    let runs = answer["hookgate"]["hooks"].as_array().unwrap();
    let statuses: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["ok", "block"]);
    assert_eq!(
        (&answer["decision"], &answer["reason"]),
        (&json!("deny"), &json!("no"))
    );
}

fn four_families() -> [File; 4] {
    let call = format!("calling {CALL}");
    let masked = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my ssn is [x]" },
        { "role": "model", "content": call },
        { "role": "user", "content": RESULT },
    ] }));
    let mut llxprt = hook::request(&json!({
        "generationConfig": { "topK": 3 },
        "systemInstruction": { "role": "system", "parts": ["NEW"] },
    }));
    llxprt["systemMessage"] = json!("mind the step");
    let gemini = hook::request(&json!({ "config": { "temperature": 0.5 } }));
    let tabnine = hook::request(&json!({ "config": { "maxOutputTokens": 9 } }));
    [
        ("gemini", "BeforeModel", printing("gemini", &gemini)),
        ("terminai", "BeforeModel", printing("terminai", &masked)),
        ("tabnine", "BeforeModel", printing("tabnine", &tabnine)),
        ("llxprt", "BeforeModel", printing("llxprt", &llxprt)),
    ]
}

/// [`conversation`] with the edits of [`four_families`].
fn edited() -> Value {
    let mut edited: Value = serde_json::from_str(&conversation()).unwrap();
    edited["systemInstruction"] = json!({ "parts": [{ "text": "NEW" }] });
    edited["generationConfig"] =
        json!({ "temperature": 0.5, "stopSequences": ["X"], "maxOutputTokens": 9, "topK": 3 });
    edited["contents"][0]["parts"][0]["text"] = json!("my ssn is [x]");
    let result: Value = serde_json::from_str(RESULT).unwrap();
    edited["contents"][2]["parts"] = json!([result, { "text": "mind the step" }]);
    edited
}

#[tokio::test]
async fn hooks_of_four_families_edit_one_request() {
    let upstream = Upstream::mock().await;
    let gate = gate(&upstream, &four_families()).await;

    ask(&gate, "generateContent", &conversation()).await;

    assert_eq!(upstream.only_request().json(), edited());
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
async fn sequential_hooks_see_earlier_edits_in_the_form_of_their_own_family() {
    let upstream = Upstream::mock().await;
    let [gemini, terminai, tabnine, llxprt] = four_families();
    let nothing = printing("after", &json!({}));
    let seen = printing("seen", &json!({}));
    let files = [
        ("gemini", gemini.1, sequential(gemini.2)),
        terminai,
        ("llxprt", "BeforeModel", seen),
        tabnine,
        llxprt,
        ("terminai", "BeforeModel", nothing),
    ];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &conversation()).await;

    assert_eq!(upstream.only_request().json(), edited());
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
async fn an_edit_of_text_cannot_change_calls_or_results() {
    let upstream = Upstream::mock().await;
    let result = RESULT.replace("1-2", "[x]");
    let masked = hook::request(&json!({ "messages": [
        { "role": "user", "content": "my ssn is [x]" },
        { "role": "model", "content": format!("{CALL} was called") },
        { "role": "user", "content": result },
    ] }));
    let files = [("terminai", "BeforeModel", printing("mask", &masked))];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &conversation()).await;

    let sent = upstream.only_request().body;
    assert!(
        sent.contains(&format!(r#"{{"text":" was called"}},{CALL}"#)),
        "{sent}"
    );
    assert!(sent.contains(&format!(r#""parts":[{RESULT}]"#)), "{sent}");
    // The edited result is sent as a separate text.
    let text = json!({ "text": result }).to_string();
    assert!(sent.contains(&text), "{sent}");
}

#[tokio::test]
async fn a_hook_of_terminai_sees_calls_without_white_space_and_escapes() {
    let upstream = Upstream::mock().await;
    let files = [("terminai", "BeforeModel", printing("guard", &json!({})))];
    let gate = gate(&upstream, &files).await;
    let call = r#"{ "functionCall" : { "name": "\u0072m", "args": { "n": 1.0 } } }"#;
    let body = format!(
        r#"{{"contents":[{{"role":"user","parts":[{{"text":"go"}}]}},{{"role":"model","parts":[{call}]}},{{"role":"user","parts":[{RESULT}]}}]}}"#
    );

    ask(&gate, "generateContent", &body).await;

    let shown = gate.json("guard.json")["llm_request"]["messages"].clone();
    let compact = r#"{"functionCall":{"name":"rm","args":{"n":1.0}}}"#;
    assert_eq!(shown[1]["content"], compact);
    assert!(upstream.only_request().body.contains(call));
}

#[tokio::test]
async fn a_hook_of_terminai_removes_all_text() {
    let media = r#"{"inlineData":{"mimeType":"image/png","data":"aGk="}}"#;
    let picture =
        format!(r#"{{"contents":[{{"role":"user","parts":[{{"text":"my SECRET "}},{media}]}}]}}"#);
    let tool = format!(
        r#"{{"contents":[{{"role":"user","parts":[{{"text":"SECRET"}}]}},{{"role":"model","parts":[{CALL}]}},{{"role":"user","parts":[{RESULT}]}}]}}"#
    );
    let rest = json!([{ "role": "model", "content": CALL }, { "role": "user", "content": RESULT }]);
    for (body, messages, kept) in [
        (
            picture,
            json!([{ "role": "user", "content": media }]),
            media,
        ),
        (tool, rest, RESULT),
    ] {
        let upstream = Upstream::mock().await;
        let edit = hook::request(&json!({ "messages": messages }));
        let files = [("terminai", "BeforeModel", printing("blank", &edit))];
        let gate = gate(&upstream, &files).await;

        ask(&gate, "generateContent", &body).await;

        let sent = upstream.only_request().body;
        assert!(sent.contains(kept) && !sent.contains("SECRET"), "{sent}");
    }
}

#[tokio::test]
async fn a_request_that_a_hook_returns_as_received_is_not_changed() {
    let upstream = Upstream::mock().await;
    let echo = r#"import json, sys
shown = json.load(sys.stdin)["llm_request"]
print(json.dumps({"hookSpecificOutput": {"llm_request": shown}}))"#;
    let group = json!({ "hooks": [hook::command("echo", "python3 echo.py")] });
    for protocol in ["gemini", "terminai", "tabnine", "llxprt"] {
        let settings = json!({ "hooks": { "BeforeModel": [group] } }).to_string();
        for system_messages in [false, true] {
            let entry = json!({
                "path": "s.json", "protocol": protocol, "system_messages": system_messages,
            });
            let config = format!("hook_files: [{entry}]");
            let files = [("s.json", settings.as_str()), ("echo.py", echo)];
            let gate = TestGateway::with_files(&upstream, &config, &files).await;

            ask(&gate, "generateContent", &conversation()).await;

            let sent: Value = upstream.requests().pop().unwrap().json();
            let conversation: Value = serde_json::from_str(&conversation()).unwrap();
            assert_eq!(sent, conversation, "{protocol} {system_messages}");
        }
    }
}

#[tokio::test]
async fn tool_arguments_are_merged_or_replaced_in_the_order_of_the_hooks() {
    let edit = |edit: Value| json!({ "hookSpecificOutput": { "tool_input": edit } });
    let files = |order: fn(Value) -> Value| {
        let first = printing("first", &edit(json!({ "a": 1, "b": 1 })));
        let second = printing("second", &edit(json!({ "c": 2, "b": 2 })));
        let third = printing("third", &edit(json!({ "c": 3, "d": 3 })));
        [
            ("gemini", "BeforeTool", order(first)),
            ("tabnine", "BeforeTool", second),
            ("terminai", "BeforeTool", third),
        ]
    };
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t",
        "tool_input": { "own": 0 } });
    // A parallel hook does not remove what it was not shown.
    let orders = [
        (
            sequential as fn(Value) -> Value,
            json!({ "c": 3, "b": 2, "d": 3 }),
        ),
        (|hook| hook, json!({ "a": 1, "c": 3, "b": 2, "d": 3 })),
    ];
    for (order, expected) in orders {
        let (response, _gate) = report(&files(order), &event).await;
        assert_eq!(response["hookSpecificOutput"]["tool_input"], expected);
        assert_eq!(response["hookgate"]["arguments"], expected);
    }
    let (response, gate) = report(&files(sequential)[..2], &event).await;
    assert_eq!(response["hookgate"]["arguments"], json!({ "c": 2, "b": 2 }));
    let seen = gate.json("second.json")["tool_input"].clone();
    assert_eq!(seen, json!({ "own": 0, "a": 1, "b": 1 }));
    let (response, _gate) = report(&files(sequential)[..1], &event).await;
    let merged = json!({ "own": 0, "a": 1, "b": 1 });
    assert_eq!(response["hookgate"]["arguments"], merged);
}

#[tokio::test]
async fn a_parallel_replacement_of_arguments_keeps_what_it_does_not_change() {
    let edit = |edit: Value| json!({ "hookSpecificOutput": { "tool_input": edit } });
    let mask = edit(json!({ "command": "ls MASK", "old": 0, "n": 1 }));
    let change = edit(json!({ "command": "ls SECRET", "n": 2 }));
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t",
        "tool_input": { "command": "ls SECRET", "old": 0, "n": 1 } });
    for protocol in ["tabnine", "gemini", "llxprt"] {
        let mask = (protocol, "BeforeTool", printing("mask", &mask));
        let change = ("tabnine", "BeforeTool", printing("change", &change));
        for files in [[mask.clone(), change.clone()], [change, mask]] {
            let (response, _gate) = report(&files, &event).await;

            let arguments = &response["hookgate"]["arguments"];
            assert_eq!(
                *arguments,
                json!({ "command": "ls MASK", "n": 2 }),
                "{protocol}"
            );
        }
    }
}

#[tokio::test]
async fn additional_context_has_the_form_of_each_family() {
    let context = |text: &str| {
        json!({ "systemMessage": format!("for people: {text}"),
            "hookSpecificOutput": { "additionalContext": text } })
    };
    let files = [
        ("gemini", "AfterTool", printing("a", &context("<a>"))),
        ("tabnine", "AfterTool", printing("b", &context("b"))),
        ("terminai", "AfterTool", printing("c", &context("<c>"))),
        ("llxprt", "AfterTool", printing("d", &context("<d>"))),
    ];
    let event = json!({ "hook_event_name": "AfterTool", "tool_name": "t", "tool_input": {},
        "tool_response": { "llmContent": "r" } });

    let (response, _gate) = report(&files, &event).await;

    assert_eq!(
        response["hookgate"]["context"],
        "<hook_context>&lt;a&gt;\nb</hook_context>\n<c>\n<d>\nfor people: <d>"
    );
    let context = &response["hookSpecificOutput"]["additionalContext"];
    assert_eq!(context, "<a>\nb\n<c>\n<d>\nfor people: <d>");
    let message = "for people: <a>\nfor people: b\nfor people: <c>\nfor people: <d>";
    assert_eq!(response["systemMessage"], message);
}

#[tokio::test]
async fn empty_context_changes_no_byte() {
    let empty = json!({ "systemMessage": "", "hookSpecificOutput": { "additionalContext": "" } });
    let events = ["SessionStart", "BeforeAgent", "BeforeModel", "AfterTool"];
    for protocol in ["gemini", "terminai", "llxprt"] {
        let upstream = Upstream::mock().await;
        let files = events.map(|event| (protocol, event, printing(event, &empty)));
        let gate = gate(&upstream, &files).await;
        let prompt = prompt("hello").to_string();

        for body in [prompt, conversation()] {
            ask(&gate, "generateContent", &body).await;

            let sent = upstream.requests().pop().unwrap().body;
            assert_eq!(sent, body, "{protocol}");
        }
        gate.json("AfterTool.json");
    }
}

#[tokio::test]
async fn changed_json_of_terminai_is_logged_as_a_warning() {
    let upstream = Upstream::mock().await;
    let changed = hook::request(&json!({ "messages": [
        { "role": "user", "content": RESULT.replace("1-2", "[x]") },
    ] }));
    let folder = TempDir::new().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    let hooks = json!({ "BeforeModel": [printing("mask", &changed)] });
    write("settings.json", &json!({ "hooks": hooks }).to_string());
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlog: {{ level: warn }}\n\
         hook_files: [{{ path: settings.json, protocol: terminai }}]\n",
        upstream.addr
    );
    write("hookgate.yaml", &config);
    let mut gateway = ServerProcess::folder(folder.path());
    let body = format!(r#"{{"contents":[{{"role":"user","parts":[{RESULT}]}}]}}"#);

    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let answer = Agent::at(gateway.addr()).post(&path, body).await;
    gateway.terminate();
    let ended = tokio::task::spawn_blocking(move || gateway.ended(TEST_TIMEOUT));
    let (_, log) = ended.await.unwrap();

    assert_eq!(answer.status, 200, "{}", answer.text());
    let ignored = |line: &&str| line.contains("part of the hook output ignored");
    let lines: Vec<&str> = log.lines().filter(ignored).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("edit_dropped"), "{log}");
}

#[tokio::test]
async fn terminai_receives_tool_results_in_after_model() {
    let upstream = Upstream::mock().await;
    let files = [("terminai", "AfterModel", printing("seen", &json!({})))];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &conversation()).await;

    let shown = gate.json("seen.json")["llm_request"].clone();
    assert_eq!(shown["messages"][2]["content"], RESULT);
}

#[tokio::test]
async fn context_of_terminai_is_not_part_of_a_request() {
    let upstream = Upstream::mock().await;
    let context = json!({ "hookSpecificOutput": { "additionalContext": "EXTRA" } });
    let files = [("terminai", "BeforeModel", printing("seen", &context))];
    let gate = gate(&upstream, &files).await;

    ask(&gate, "generateContent", &conversation()).await;

    assert_eq!(upstream.only_request().body, conversation());
}

#[tokio::test]
async fn the_folder_of_a_settings_file_selects_its_protocol() {
    let event =
        json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": { "a": 1 } });
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "b": 2 } } });
    let hooks = json!({
        "BeforeModel": [printing("seen", &json!({}))],
        "BeforeTool": [printing("edit", &edit)],
    });
    let settings = json!({ "hooks": hooks }).to_string();
    let (merged, replaced) = (json!({ "a": 1, "b": 2 }), json!({ "b": 2 }));
    for (path, has_contents, has_results, arguments) in [
        (".gemini/settings.json", false, false, &merged),
        (".terminai/settings.json", false, true, &merged),
        (".tabnine/agent/settings.json", false, false, &replaced),
        (".llxprt/settings.json", true, false, &replaced),
    ] {
        let upstream = Upstream::mock().await;
        let config = format!("hook_files: [{{ path: {path} }}]\n");
        let gate = TestGateway::with_files(&upstream, &config, &[(path, &settings)]).await;

        ask(&gate, "generateContent", &conversation()).await;
        let answer = gate.agent().report(&event, "explain=1").await.json();

        let shown = gate.json("seen.json")["llm_request"].clone();
        assert_eq!(
            shown["contents"].is_array(),
            has_contents,
            "{path}: {shown}"
        );
        let result = &shown["messages"][2]["content"];
        assert_eq!(result == RESULT, has_results, "{path}: {shown}");
        assert_eq!(&answer["hookgate"]["arguments"], arguments, "{path}");
    }
}

#[tokio::test]
async fn a_relative_path_of_a_settings_file_selects_the_protocol_of_its_folder() {
    let settings = json!({ "hooks": { "BeforeTool": [printing("seen", &json!({}))] } });
    let config = "hook_files: [{ path: settings.json }]\n";
    for (directory, option, path, protocol) in [
        (".llxprt", "--hooks", "settings.json", "llxprt"),
        (".llxprt", "--config", "gate.yaml", "llxprt"),
        (".tabnine", "--hooks", "agent/settings.json", "tabnine"),
        (".terminai/hooks", "--hooks", "../settings.json", "terminai"),
    ] {
        let folder = TempDir::new().unwrap();
        let directory = folder.path().join(directory);
        let file = directory.join(path);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file.with_file_name("settings.json"), settings.to_string()).unwrap();
        std::fs::write(file.with_file_name("gate.yaml"), config).unwrap();
        let mut command = hookgate(&["serve", option, path, "--upstream", "http://127.0.0.1:9"]);
        command
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .current_dir(directory);
        let mut gateway = ServerProcess::start(command);
        gateway.addr();

        let hooks = Agent::at(gateway.operators()).get("/hooks").await.json();

        assert_eq!(hooks[0]["protocol"], protocol, "{option} {path}: {hooks}");
    }
}

#[tokio::test]
async fn a_settings_file_can_disable_its_own_hooks_only() {
    let upstream = Upstream::mock().await;
    let deny = json!({ "decision": "deny", "reason": "no" });
    let hooks = json!({ "BeforeModel": [printing("guard", &deny)] });
    let off = [
        json!({ "hooks": hooks, "tools": { "enableHooks": false } }),
        json!({ "hooks": hooks, "hooksConfig": { "enabled": false }, "tools": { "enableHooks": true } }),
        json!({ "hooks": { "enabled": false, "BeforeModel": hooks["BeforeModel"] } }),
    ];
    let on = json!({ "hooks": { "BeforeModel": [printing("other", &json!({}))] } }).to_string();
    let protocols = ["terminai", "tabnine", "llxprt"];
    for (protocol, off) in protocols
        .into_iter()
        .flat_map(|protocol| off.iter().map(move |off| (protocol, off)))
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
