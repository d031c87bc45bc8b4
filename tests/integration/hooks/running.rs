//! Selection, order and failure modes of hooks.

use serde_json::{Value, json};

use super::MODEL;
use crate::harness::{Answer, TestGateway, Upstream, hook, prompt};

/// Starts a gateway with this config, and makes one call.
async fn call_with(config: &str) -> (Answer, Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, config).await;
    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;
    (answer, upstream, gate)
}

fn with(mut hook: Value, key: &str, value: Value) -> Value {
    hook[key] = value;
    hook
}

/// Failing hooks (exit code, signal, timeout), each with the start of its error message.
fn failing_hooks() -> [(Value, &'static str); 3] {
    let hook = |command| hook::command("broken", command);
    [
        (hook("echo oops >&2; exit 1"), "Hook broken failed: "),
        (hook("kill -9 $$"), "Hook broken failed: "),
        (
            with(hook("exec sleep 60"), "timeout", json!(100)),
            "Hook broken failed: timed out",
        ),
    ]
}

#[tokio::test]
async fn a_failing_hook_lets_the_call_pass_if_it_fails_open() {
    for (broken, _) in failing_hooks() {
        let (answer, upstream, _gate) = call_with(&hook::config(&[("BeforeModel", broken)])).await;

        assert_eq!(answer.status, 200);
        assert_eq!(upstream.only_request().json(), prompt("hello"));
    }
}

#[tokio::test]
async fn a_failing_hook_refuses_the_call_if_it_fails_closed() {
    for (broken, reason) in failing_hooks() {
        let closed = with(broken.clone(), "on_failure", json!("closed"));
        let own = hook::config(&[("BeforeModel", closed)]);
        let default = hook::config(&[("BeforeModel", broken)]);
        let default = default + "hook_defaults: { on_failure: closed }";
        for hooks in [own, default] {
            let (answer, upstream, _gate) = call_with(&(hooks + "\ndenials: error")).await;

            assert_eq!(answer.status, 403);
            let message = answer.json()["error"]["message"].clone();
            assert!(message.as_str().unwrap().starts_with(reason), "{message}");
            assert!(upstream.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn a_hook_in_observe_mode_changes_nothing() {
    let guard = with(
        hook::denying("guard", "not today"),
        "mode",
        json!("observe"),
    );
    let swap = hook::printing("swap", &hook::request(&json!({ "model": "other" })));
    let swap = with(swap, "mode", json!("observe"));
    let broken = with(failing_hooks()[0].0.clone(), "mode", json!("observe"));
    let broken = with(broken, "on_failure", json!("closed"));
    let hooks = [
        ("BeforeModel", guard),
        ("BeforeModel", swap),
        ("BeforeModel", broken),
    ];

    let (answer, upstream, gate) = call_with(&hook::config(&hooks)).await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!(
        upstream.only_request().path,
        format!("/v1beta/models/{MODEL}:generateContent")
    );
    let event = gate.json("guard.json");
    let explained = gate.agent().report(&event, "explain=1").await.json();
    let would: Vec<&Value> = explained["hookgate"]["hooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hook| &hook["would"])
        .collect();
    assert_eq!(would, ["deny", "proceed", "deny"]);
    assert_eq!(explained["hookgate"]["verdict"], "proceed");
}

fn two_editing_hooks(sequential: bool) -> String {
    let first = hook::printing(
        "first",
        &hook::request(&json!({ "config": { "temperature": 0 } })),
    );
    let second = hook::printing(
        "second",
        &hook::request(&json!({ "config": { "topP": 1 } })),
    );
    let group = json!({ "sequential": sequential, "hooks": [first, second] });
    format!("hooks: {}\n", json!({ "BeforeModel": [group] }))
}

#[tokio::test]
async fn sequential_hooks_see_the_edits_of_earlier_hooks() {
    let (_answer, upstream, gate) = call_with(&two_editing_hooks(true)).await;

    let seen = gate.json("second.json");
    assert_eq!(seen["llm_request"]["config"], json!({ "temperature": 0 }));
    let both = json!({ "temperature": 0, "topP": 1 });
    assert_eq!(upstream.only_request().json()["generationConfig"], both);
}

#[tokio::test]
async fn parallel_hooks_get_the_same_input_and_their_edits_are_merged() {
    let (_answer, upstream, gate) = call_with(&two_editing_hooks(false)).await;

    assert_eq!(gate.file("first.json"), gate.file("second.json"));
    assert_eq!(gate.json("first.json")["llm_request"]["config"], json!({}));
    let both = json!({ "temperature": 0, "topP": 1 });
    assert_eq!(upstream.only_request().json()["generationConfig"], both);
}

#[tokio::test]
async fn parallel_hooks_run_at_the_same_time() {
    // Each hook waits for the other; in sequence they would time out.
    let wait_for_other = |own: &str, other: &str| {
        let command = format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done");
        let hook = hook::command(own, &command);
        with(
            with(hook, "timeout", json!(20_000)),
            "on_failure",
            json!("closed"),
        )
    };
    let hooks = [
        ("BeforeModel", wait_for_other("left", "right")),
        ("BeforeModel", wait_for_other("right", "left")),
    ];

    let (answer, upstream, _gate) = call_with(&hook::config(&hooks)).await;

    assert_eq!(answer.header("x-hookgate-action"), "pass");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn the_same_hook_in_two_groups_runs_once() {
    let count = |name| ("BeforeModel", hook::command(name, "echo run >> count"));

    let (answer, _upstream, gate) =
        call_with(&hook::config(&[count("one"), count("one"), count("other")])).await;

    assert_eq!(gate.file("count"), "run\nrun\n");
    let names = answer.header("x-hookgate-hooks").split(", ");
    let names: Vec<_> = names.map(|run| run.split(';').next().unwrap()).collect();
    assert_eq!(names, ["one", "other"]);
}

#[tokio::test]
async fn a_disabled_hook_does_not_run() {
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    for switch in ["{ disabled: [guard] }", "{ enabled: false }"] {
        let (answer, upstream, _gate) = call_with(&format!("{hooks}hooksConfig: {switch}")).await;

        assert_eq!(answer.header("x-hookgate-action"), "pass");
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn hooks_of_a_settings_file_run_before_those_of_the_config() {
    let upstream = Upstream::mock().await;
    let first = json!({ "hooks": { "BeforeModel": [{ "hooks": [
        { "type": "command", "name": "first", "command": "echo first >> order" },
    ] }] }, "ui": { "theme": "dark" } });
    let second = json!([{ "sequential": true, "hooks": [
        hook::command("second", "echo second >> order"),
    ] }]);
    let config = format!(
        "hook_files: [{{ path: settings.json }}]\nhooks: {}",
        json!({ "BeforeModel": second })
    );
    let files = [("settings.json", &*first.to_string())];
    let gate = TestGateway::with_files(&upstream, &config, &files).await;

    gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(gate.file("order"), "first\nsecond\n");
}

#[tokio::test]
async fn a_settings_file_disables_hooks_of_settings_files_but_none_of_the_config() {
    let upstream = Upstream::mock().await;
    let guard = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let config = format!("hook_files: [{{ path: user.json }}, {{ path: project.json }}]\n{guard}");
    let user = json!({ "hooksConfig": { "disabled": ["guard", "lint"] } }).to_string();
    let lint = json!([{ "hooks": [hook::command("lint", "touch linted")] }]);
    let project = json!({ "hooks": { "BeforeModel": lint } }).to_string();
    let files = [
        ("user.json", user.as_str()),
        ("project.json", project.as_str()),
    ];
    let gate = TestGateway::with_files(&upstream, &config, &files).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    assert_eq!(answer.header("x-hookgate-action"), "deny");
    assert_eq!(upstream.requests().len(), 0);
    assert!(!gate.path("linted").exists());
}

/// Hook that replaces a word in the answer.
fn replacing(name: &str, word: &str) -> Value {
    let python = format!(
        r#"import json,sys; t=json.load(sys.stdin)["llm_response"]["text"]; print(json.dumps({{"hookSpecificOutput":{{"llm_response":{{"text":t.replace("{word}","***")}}}}}}))"#
    );
    hook::command(name, &format!("python3 -c '{python}'"))
}

/// Hook that changes only how the answer ends, and saves its input as `end.json`.
fn ending() -> Value {
    let end = json!({ "candidates": [{ "finishReason": "MAX_TOKENS" }] });
    hook::printing("end", &hook::response(&end))
}

#[tokio::test]
async fn sequential_hooks_see_and_keep_the_changes_of_the_answer_before_them() {
    let hooks = [replacing("a", "AAA"), replacing("b", "BBB"), ending()];
    let group = json!({ "sequential": true, "hooks": hooks });
    let config = format!("hooks: {}\n", json!({ "AfterModel": [group] }));
    let answer = json!({ "candidates": [{
        "content": { "role": "model", "parts": [
            { "text": "thinking AAA", "thought": true }, { "text": "AAA BBB" },
        ] },
        "finishReason": "STOP",
    }] });
    let upstream = Upstream::answering(&answer).await;
    let gate = TestGateway::start(&upstream, &config).await;

    let received = gate.agent().generate(MODEL, &prompt("go")).await.json();

    assert_eq!(gate.json("end.json")["llm_response"]["text"], "*** ***");
    let candidate = &received["candidates"][0];
    let parts = &candidate["content"]["parts"];
    assert_eq!(*parts, json!([{ "text": "*** ***" }]));
    assert_eq!(candidate["finishReason"], "MAX_TOKENS");
}

#[tokio::test]
async fn hooks_on_a_reported_answer_see_and_keep_what_policies_mask() {
    let policy = json!({ "policy": "redact", "detect": ["email"] });
    for sequential in [true, false] {
        let group = json!({ "sequential": sequential, "hooks": [ending()] });
        let hooks = json!({ "AfterModel": [group] });
        let config = format!("policies: [{policy}]\nhooks: {hooks}\n");
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;
        let text = "mail jo@example.com";
        let event = json!({
            "hook_event_name": "AfterModel",
            "llm_request": { "model": MODEL, "messages": [{ "role": "user", "content": "hi" }] },
            "llm_response": { "text": text, "candidates": [{
                "content": { "role": "model", "parts": [text] }, "finishReason": "STOP",
            }] },
        });

        let answer = gate.agent().report(&event, "").await.json();

        let shown = gate.json("end.json");
        assert_eq!(shown["llm_response"]["text"], "mail [REDACTED:email]");
        let candidate = &answer["hookSpecificOutput"]["llm_response"]["candidates"][0];
        let masked = json!(["mail [REDACTED:email]"]);
        assert_eq!(candidate["content"]["parts"], masked);
        assert_eq!(candidate["finishReason"], "MAX_TOKENS");
    }
}

#[tokio::test]
async fn the_text_of_a_reported_answer_is_masked_apart_from_thoughts() {
    let thought_and_text = json!(["thinking ", "mail jo@example.com"]);
    let candidates = json!([{ "content": { "role": "model", "parts": thought_and_text } }]);
    for candidates in [candidates, json!([])] {
        let hooks = json!({ "AfterModel": [{ "hooks": [ending()] }] });
        let config = format!("policies: [{{ policy: redact }}]\nhooks: {hooks}\n");
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, &config).await;
        let event = json!({
            "hook_event_name": "AfterModel",
            "llm_request": { "model": MODEL, "messages": [{ "role": "user", "content": "hi" }] },
            "llm_response": { "text": "mail jo@example.com", "candidates": candidates },
        });

        let answer = gate.agent().report(&event, "").await;

        let shown = gate.json("end.json");
        assert_eq!(shown["llm_response"]["text"], "mail [REDACTED:email]");
        let answer = answer.text();
        assert!(answer.contains("mail [REDACTED:email]"), "{answer}");
    }
}

#[tokio::test]
async fn sequential_hooks_see_the_tools_that_others_selected() {
    let select = |name| hook::tools(&json!({ "mode": "ANY", "allowedFunctionNames": [name] }));
    let hooks = [
        hook::printing("first", &select("f")),
        hook::printing("second", &select("g")),
        hook::printing("third", &json!({})),
    ];
    let group = json!({ "sequential": true, "hooks": hooks });
    let config = format!("hooks: {}\n", json!({ "BeforeToolSelection": [group] }));
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config).await;
    let mut body = prompt("go");
    let declared = ["f", "g", "h"].map(|name| json!({ "name": name }));
    body["tools"] = json!([{ "functionDeclarations": declared }]);

    gate.agent().generate(MODEL, &body).await;

    let shown = |hook: &str| gate.json(hook)["llm_request"]["toolConfig"].clone();
    let selection = |names: &[&str]| json!({ "mode": "ANY", "allowedFunctionNames": names });
    assert_eq!(shown("second.json"), selection(&["f"]));
    assert_eq!(shown("third.json"), selection(&["f", "g"]));
}

/// Runs a hook that adds a system message with a secret before one that masks the whole list.
async fn masked_by_the_second_hook(list: &Value) -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let added = json!({ "messages": [{ "role": "system", "content": "TOKEN=s3cret" }] });
    let hooks = [
        hook::printing("add", &hook::request(&added)),
        hook::printing("mask", &hook::request(&json!({ "messages": list }))),
    ];
    let group = json!({ "sequential": true, "hooks": hooks });
    let config = format!("hooks: {}\n", json!({ "BeforeModel": [group] }));
    let gate = TestGateway::start(&upstream, &config).await;
    (upstream, gate)
}

#[tokio::test]
async fn a_sequential_hook_masks_system_messages_of_an_earlier_one() {
    let masked = json!([
        { "role": "system", "content": "TOKEN=***" },
        { "role": "user", "content": "hi" },
    ]);
    let (upstream, gate) = masked_by_the_second_hook(&masked).await;

    gate.agent().generate(MODEL, &prompt("hi")).await;

    let shown = gate.json("mask.json");
    let first = &shown["llm_request"]["messages"][0];
    assert_eq!(first["content"], "TOKEN=s3cret", "{shown}");
    let sent = upstream.only_request().json();
    let texts = json!([{ "text": "TOKEN=***" }]);
    assert_eq!(sent["systemInstruction"]["parts"], texts);

    let messages = json!([{ "role": "user", "content": "hi" }]);
    let event = hook::reported_request(&messages);
    let answer = gate.agent().report(&event, "").await.json();
    let edited = &answer["hookSpecificOutput"]["llm_request"];
    assert_eq!(edited["messages"], masked);
}

/// Hook that returns a field of its input with a mask in it.
fn masking(field: &str) -> Value {
    let script = format!(
        "import json, sys; shown = json.dumps(json.load(sys.stdin)[\"{field}\"]); \
         masked = json.loads(shown.replace(\"SECRET\", \"MASK\")); \
         print(json.dumps({{\"hookSpecificOutput\": {{\"{field}\": masked}}}}))"
    );
    hook::command("mask", &format!("python3 -c '{script}'"))
}

#[tokio::test]
async fn a_parallel_hook_that_returns_what_it_was_shown_undoes_no_mask() {
    let arguments = json!({ "command": "ls SECRET", "n": 1 });
    let call = json!({ "functionCall": { "name": "f", "args": arguments } });
    let content = json!({ "role": "model", "parts": [{ "text": "a SECRET" }, call] });
    let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
    let mut body = prompt("my SECRET");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "f" }] }]);
    for (event, field, text) in [
        ("BeforeModel", "llm_request", "my"),
        ("AfterModel", "llm_response", "a"),
        ("BeforeTool", "tool_input", "ls"),
    ] {
        let mask = (event, masking(field));
        let echo = (event, hook::returning("echo", field));
        for hooks in [[mask.clone(), echo.clone()], [echo, mask]] {
            let upstream = Upstream::answering(&answer).await;
            let gate = TestGateway::start(&upstream, &hook::config(&hooks)).await;

            let answer = gate.agent().generate(MODEL, &body).await;

            let seen = upstream.only_request().body + answer.text();
            assert!(seen.contains(&format!("{text} MASK")), "{event}: {seen}");
            assert!(!seen.contains(&format!("{text} SECRET")), "{event}: {seen}");
        }
    }
}
