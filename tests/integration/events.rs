//! Event API: agents report events over REST, and receive the result of hooks.

mod validation;

use std::time::{Duration, Instant};

use hookgate::event::EventName;
use serde_json::{Value, json};

use crate::harness::{TestGateway, Upstream, hook, prompt};

/// Reported event: its own fields, the output of a hook, the answer to the agent, and the
/// verdict.
struct Case {
    event: &'static str,
    input: Value,
    output: Value,
    answer: Value,
    verdict: &'static str,
}

fn llm_request() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }], "config": {} })
}

fn llm_response() -> Value {
    json!({ "text": "yes", "candidates": [{ "content": { "role": "model", "parts": ["yes"] } }] })
}

/// Events of sessions, prompts and model calls.
fn model_call_cases() -> [Case; 5] {
    [
        Case {
            event: "SessionStart",
            input: json!({ "source": "startup" }),
            output: json!({
                "decision": "deny", "hookSpecificOutput": { "additionalContext": "c" },
            }),
            answer: json!({ "hookSpecificOutput": {
                "hookEventName": "SessionStart", "additionalContext": "c",
            } }),
            verdict: "proceed",
        },
        Case {
            event: "BeforeAgent",
            input: json!({ "prompt": "hi" }),
            output: json!({ "continue": false, "stopReason": "enough", "systemMessage": "m" }),
            answer: json!({ "continue": false, "stopReason": "enough", "systemMessage": "m" }),
            verdict: "stop",
        },
        Case {
            event: "BeforeModel",
            input: json!({ "llm_request": llm_request() }),
            output: hook::response(&json!({ "text": "an answer" })),
            answer: json!({ "hookSpecificOutput": {
                "hookEventName": "BeforeModel", "llm_response": { "text": "an answer" },
            } }),
            verdict: "respond",
        },
        Case {
            event: "BeforeToolSelection",
            input: json!({ "llm_request": llm_request() }),
            output: hook::tools(&json!({ "allowedFunctionNames": ["b", "a"] })),
            answer: json!({ "hookSpecificOutput": {
                "hookEventName": "BeforeToolSelection",
                "toolConfig": { "mode": "AUTO", "allowedFunctionNames": ["a", "b"] },
            } }),
            verdict: "proceed",
        },
        Case {
            event: "AfterModel",
            input: json!({ "llm_request": llm_request(), "llm_response": llm_response() }),
            output: hook::response(&json!({ "text": "[x]" })),
            answer: json!({ "hookSpecificOutput": {
                "hookEventName": "AfterModel", "llm_response": { "text": "[x]" },
            } }),
            verdict: "proceed",
        },
    ]
}

/// Events of tools, final answers and notifications.
fn tool_and_advisory_cases() -> [Case; 6] {
    let denial = json!({ "decision": "deny", "systemMessage": "m", "continue": false });
    let advisory = |event, input| Case {
        event,
        input,
        output: denial.clone(),
        answer: json!({ "systemMessage": "m" }),
        verdict: "proceed",
    };
    [
        Case {
            event: "BeforeTool",
            input: json!({ "tool_name": "t", "tool_input": { "a": 1 } }),
            output: json!({
                "decision": "allow", "hookSpecificOutput": { "tool_input": { "a": 2 } },
            }),
            answer: json!({ "decision": "allow", "hookSpecificOutput": {
                "hookEventName": "BeforeTool", "tool_input": { "a": 2 },
            } }),
            verdict: "proceed",
        },
        Case {
            event: "AfterTool",
            input: json!({
                "tool_name": "t", "tool_input": {},
                "tool_response": { "llmContent": "r", "returnDisplay": "r" },
            }),
            output: json!({ "decision": "block", "reason": "hidden", "suppressOutput": true }),
            answer: json!({ "decision": "deny", "reason": "hidden", "suppressOutput": true }),
            verdict: "deny",
        },
        Case {
            event: "AfterAgent",
            input: json!({ "prompt": "hi", "prompt_response": "yes", "stop_hook_active": false }),
            output: json!({ "decision": "deny", "reason": "again", "clearContext": true }),
            answer: json!({ "decision": "deny", "reason": "again", "hookSpecificOutput": {
                "hookEventName": "AfterAgent", "clearContext": true,
            } }),
            verdict: "deny",
        },
        advisory("SessionEnd", json!({ "reason": "exit" })),
        advisory("PreCompress", json!({ "trigger": "auto" })),
        advisory(
            "Notification",
            json!({ "notification_type": "ToolPermission", "message": "may I", "details": {} }),
        ),
    ]
}

#[tokio::test]
async fn every_event_is_answered_in_the_form_of_hook_output() {
    let cases: Vec<Case> = model_call_cases()
        .into_iter()
        .chain(tool_and_advisory_cases())
        .collect();
    assert_eq!(cases.len(), EventName::ALL.len());
    for case in cases {
        let upstream = Upstream::mock().await;
        let hooks = hook::config(&[(case.event, hook::printing("hook", &case.output))]);
        let gate = TestGateway::start(&upstream, &hooks).await;
        let mut input = case.input.clone();
        input["hook_event_name"] = json!(case.event);
        input["session_id"] = json!("s-1");

        let plain = gate.agent().report(&input, "wait=1").await;
        let explained = gate.agent().report(&input, "wait=1&explain=1").await;

        assert_eq!(plain.status, 200, "{}: {}", case.event, plain.text());
        assert_eq!(plain.header("content-type"), "application/json");
        assert_eq!(plain.json(), case.answer, "{}", case.event);
        let mut answer = explained.json();
        let explanation = answer
            .as_object_mut()
            .unwrap()
            .shift_remove("hookgate")
            .unwrap();
        assert_eq!(answer, case.answer, "{}", case.event);
        assert_eq!(explanation["verdict"], case.verdict, "{}", case.event);
        assert_eq!(explanation["session"], "s-1");
        assert_eq!(explanation["hooks"][0]["name"], "hook");
        assert_eq!(explanation["hooks"][0]["status"], "ok");
        assert!(explanation["hooks"][0]["ms"].is_u64());
        let seen = gate.json("hook.json");
        for (key, value) in input.as_object().unwrap() {
            assert_eq!(&seen[key], value, "{}: {key}", case.event);
        }
        assert!(upstream.requests().is_empty());
    }
}

async fn start_with_hook(event: &str) -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[(event, hook::printing("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    (upstream, gate)
}

#[tokio::test]
async fn missing_base_fields_are_filled_in() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });

    let answer = gate.agent().report(&event, "explain=1").await.json();

    let seen = gate.json("hook.json");
    assert_eq!(seen["session_id"], answer["hookgate"]["session"]);
    assert_eq!(seen["session_id"].as_str().unwrap().len(), 36);
    assert_eq!(seen["transcript_path"], "");
    assert_eq!(seen["timestamp"].as_str().unwrap().len(), 24);
    assert!(seen["cwd"].as_str().unwrap().starts_with('/'));
}

#[tokio::test]
async fn an_empty_session_of_an_event_is_filled_in() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "", "tool_name": "t", "tool_input": {},
    });

    let first = gate.agent().report(&event, "explain=1").await.json();
    let second = gate.agent().report(&event, "explain=1").await.json();

    let sessions = [first, second].map(|answer| answer["hookgate"]["session"].clone());
    assert_ne!(sessions[0], sessions[1]);
    assert_eq!(gate.json("hook.json")["session_id"], sessions[1]);
    assert_ne!(sessions[1], "");
}

#[tokio::test]
async fn given_base_fields_are_passed_to_hooks() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let event = json!({
        "session_id": "s", "transcript_path": "/t", "cwd": "/laptop/repo",
        "hook_event_name": "BeforeTool", "timestamp": "2026-01-02T03:04:05.678Z",
        "tool_name": "t", "tool_input": { "n": 1 }, "mcp_context": { "server": "x" },
        "original_request_name": "o",
    });

    gate.agent().report(&event, "").await;

    assert_eq!(gate.json("hook.json"), event);
}

#[tokio::test]
async fn without_hooks_the_answer_is_empty() {
    let (_upstream, gate) = start_with_hook("BeforeModel").await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });

    let plain = gate.agent().report(&event, "").await;
    let explained = gate.agent().report(&event, "explain=1").await;

    assert_eq!(plain.json(), json!({}));
    assert_eq!(explained.json()["hookgate"]["hooks"], json!([]));
}

#[tokio::test]
async fn reports_do_not_wait_for_hooks_on_advisory_events() {
    let upstream = Upstream::mock().await;
    // The hook ends only after the answer has arrived.
    let wait = "until [ -e answered ]; do sleep 0.01; done; cat > hook.json";
    let advisory = [
        json!({ "hook_event_name": "SessionEnd", "reason": "exit" }),
        json!({ "hook_event_name": "PreCompress", "trigger": "manual" }),
        json!({ "hook_event_name": "Notification", "notification_type": "n", "message": "m" }),
    ];
    for event in advisory {
        let name = event["hook_event_name"].as_str().unwrap();
        let hooks = hook::config(&[(name, hook::command("hook", wait))]);
        let gate = TestGateway::start(&upstream, &hooks).await;

        let answer = gate.agent().report(&event, "").await;
        std::fs::write(gate.path("answered"), "").unwrap();

        assert_eq!((answer.status, answer.json()), (202, json!({})), "{name}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gate.file("hook.json").contains(name) {
            assert!(Instant::now() < deadline, "the hook on {name} never ran");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn each_hook_is_explained() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[
        ("BeforeTool", hook::command("chatty", "echo hello")),
        ("BeforeTool", hook::command("broken", "exit 1")),
        ("BeforeTool", hook::denying("guard", "no")),
        (
            "BeforeTool",
            hook::printing("wrong", &json!({ "decision": 5 })),
        ),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });

    let answer = gate.agent().report(&event, "explain=1").await.json();

    let fields = |key: &str| -> Vec<Value> {
        let hooks = answer["hookgate"]["hooks"].as_array().unwrap();
        hooks.iter().map(|hook| hook[key].clone()).collect()
    };
    assert_eq!(fields("name"), ["chatty", "broken", "guard", "wrong"]);
    assert_eq!(fields("status"), ["ok", "failed", "block", "ok"]);
    let codes: Vec<Value> = fields("diagnostics")
        .iter()
        .map(|diagnostics| diagnostics[0]["code"].clone())
        .collect();
    assert_eq!(
        codes,
        [
            json!("plain_text"),
            json!("failed"),
            Value::Null,
            json!("unknown_decision")
        ]
    );
    assert_eq!(answer["hookgate"]["verdict"], "deny");
    assert_eq!(answer["reason"], "no");
}

/// Diagnostics of a hook that prints an output on an event.
async fn diagnostics(event: &str, mut input: Value, output: &Value) -> Value {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[(event, hook::printing("hook", output))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    input["hook_event_name"] = json!(event);
    let answer = gate.agent().report(&input, "explain=1").await.json();
    answer["hookgate"]["hooks"][0]["diagnostics"].clone()
}

#[tokio::test]
async fn a_decision_without_an_effect_on_its_event_is_reported() {
    let denial = json!({ "decision": "deny", "reason": "r", "continue": false });
    let harmless = json!({ "decision": "approve", "reason": "r", "continue": true,
        "suppressOutput": true });
    let input = json!({ "source": "startup" });

    let found = diagnostics("SessionStart", input.clone(), &denial).await;
    let detail = "no effect on SessionStart: `decision`, `continue`";
    assert_eq!(found, json!([{ "code": "unknown_key", "detail": detail }]));

    let found = diagnostics("SessionStart", input, &harmless).await;
    assert!(found.as_array().is_none_or(Vec::is_empty), "{found}");
}

#[tokio::test]
async fn a_denial_by_exit_code_without_an_effect_on_its_event_is_reported() {
    for (event, input) in [
        ("SessionStart", json!({ "source": "startup" })),
        (
            "Notification",
            json!({ "notification_type": "t", "message": "m", "details": {} }),
        ),
        ("BeforeToolSelection", json!({ "llm_request": request() })),
    ] {
        let upstream = Upstream::mock().await;
        let hooks = hook::config(&[(event, hook::denying("guard", "no"))]);
        let gate = TestGateway::start(&upstream, &hooks).await;
        let mut input = input;
        input["hook_event_name"] = json!(event);

        let answer = gate.agent().report(&input, "explain=1&wait=1").await.json();

        let run = &answer["hookgate"]["hooks"][0];
        let detail = format!("no effect on {event}: exit code 2");
        let expected = json!([{ "code": "unknown_key", "detail": detail }]);
        assert_eq!(run["diagnostics"], expected, "{answer}");
    }
}

fn request() -> Value {
    let messages = json!([{ "role": "user", "content": "hello" }]);
    json!({ "model": "m", "messages": messages, "config": {} })
}

#[tokio::test]
async fn a_message_without_an_effect_on_its_event_is_reported() {
    let output = json!({ "systemMessage": "m" });
    let input = json!({ "llm_request": request() });

    let found = diagnostics("BeforeToolSelection", input, &output).await;

    let detail = "no effect on BeforeToolSelection: `systemMessage`";
    assert_eq!(found, json!([{ "code": "unknown_key", "detail": detail }]));
}

#[tokio::test]
async fn an_unusable_selection_of_tools_is_reported() {
    let (mode, names) = ("toolConfig.mode", "toolConfig.allowedFunctionNames");
    for (selection, unusable) in [
        (json!({ "mode": "none", "allowedFunctionNames": [] }), mode),
        (json!({ "mode": "none" }), mode),
        (
            json!({ "mode": "AUTO", "allowedFunctionNames": "read_file" }),
            names,
        ),
        (json!({ "allowedFunctionNames": [7] }), names),
        (json!("NONE"), "toolConfig"),
    ] {
        let upstream = Upstream::mock().await;
        let hook = hook::printing("hook", &hook::tools(&selection));
        let hooks = hook::config(&[("BeforeToolSelection", hook)]);
        let gate = TestGateway::start(&upstream, &hooks).await;
        let event = json!({ "hook_event_name": "BeforeToolSelection", "llm_request": request() });

        let answer = gate.agent().report(&event, "explain=1").await.json();

        let expected = json!([{ "code": "wrong_type", "detail": unusable }]);
        assert_eq!(answer["hookgate"]["diagnostics"], expected, "{selection}");
    }
}

#[tokio::test]
async fn a_replaced_result_without_an_effect_is_reported() {
    for field in ["updatedToolOutput", "updatedMCPToolOutput"] {
        let input = json!({ "tool_name": "t", "tool_input": {},
            "tool_response": { "llmContent": "r", "returnDisplay": "r" } });
        let output = json!({ "hookSpecificOutput": { field: "masked" } });

        let found = diagnostics("AfterTool", input, &output).await;

        let detail = format!("no effect in this protocol: `hookSpecificOutput.{field}`");
        assert_eq!(found, json!([{ "code": "unknown_key", "detail": detail }]));
    }
}

#[tokio::test]
async fn a_matcher_selects_the_hooks_of_a_tool() {
    let upstream = Upstream::mock().await;
    let group = json!({ "matcher": "^(?!safe_).*_file$", "hooks": [hook::denying("guard", "no")] });
    let hooks = format!("hooks: {}", json!({ "BeforeTool": [group] }));
    let gate = TestGateway::start(&upstream, &hooks).await;
    for (tool, status) in [
        ("write_file", Some("block")),
        ("safe_file", None),
        ("ls", None),
    ] {
        let event = json!({ "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": {} });

        let answer = gate.agent().report(&event, "explain=1").await.json();

        assert_eq!(
            answer["hookgate"]["hooks"][0]["status"].as_str(),
            status,
            "{tool}"
        );
    }
}

#[tokio::test]
async fn events_and_calls_run_the_same_hooks() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let agent = gate.agent().sending("x-hookgate-session", "s-1");

    agent.generate("gemini-2.5-pro", &prompt("hi")).await;
    let input = gate.json("guard.json");
    let answer = gate.agent().report(&input, "").await;

    assert_eq!(
        answer.json(),
        json!({ "decision": "deny", "reason": "not today" })
    );
    assert_eq!(gate.json("guard.json"), input);
}

#[tokio::test]
async fn a_denial_by_a_policy_has_one_reason_whatever_hooks_print() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: tool_guard, deny: [bad], reason: no }]\n";
    let message = json!({ "systemMessage": "seen" });
    let hooks = hook::config(&[("BeforeTool", hook::printing("hook", &message))]);
    let gate = TestGateway::start(&upstream, &format!("{policy}{hooks}")).await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "bad", "tool_input": {} });

    let answer = gate.agent().report(&event, "").await.json();

    let denied = json!({ "decision": "deny", "reason": "no", "systemMessage": "seen" });
    assert_eq!(answer, denied);
}
