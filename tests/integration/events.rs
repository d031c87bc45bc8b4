//! Agents report events over REST, and receive the outcome of hooks.

use std::time::{Duration, Instant};

use hookgate::event::EventName;
use serde_json::{Value, json};

use crate::harness::{Answer, TestGateway, Upstream, assert_refused, hook, prompt};

/// One event: its own fields, what a hook prints, what the agent receives, and
/// the verdict.
struct Case {
    event: &'static str,
    input: Value,
    output: Value,
    told: Value,
    verdict: &'static str,
}

fn llm_request() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }], "config": {} })
}

fn llm_response() -> Value {
    json!({ "text": "yes", "candidates": [{ "content": { "role": "model", "parts": ["yes"] } }] })
}

/// Events that lead up to a model call, and the call itself.
fn before() -> [Case; 5] {
    [
        Case {
            event: "SessionStart",
            input: json!({ "source": "startup" }),
            output: json!({ "decision": "deny", "hookSpecificOutput": { "additionalContext": "c" } }),
            told: json!({ "hookSpecificOutput": {
                "hookEventName": "SessionStart", "additionalContext": "c",
            } }),
            verdict: "proceed",
        },
        Case {
            event: "BeforeAgent",
            input: json!({ "prompt": "hi" }),
            output: json!({ "continue": false, "stopReason": "enough", "systemMessage": "m" }),
            told: json!({ "continue": false, "stopReason": "enough", "systemMessage": "m" }),
            verdict: "stop",
        },
        Case {
            event: "BeforeModel",
            input: json!({ "llm_request": llm_request() }),
            output: hook::response(&json!({ "text": "an answer" })),
            told: json!({ "hookSpecificOutput": {
                "hookEventName": "BeforeModel", "llm_response": { "text": "an answer" },
            } }),
            verdict: "respond",
        },
        Case {
            event: "BeforeToolSelection",
            input: json!({ "llm_request": llm_request() }),
            output: hook::tools(&json!({ "allowedFunctionNames": ["b", "a"] })),
            told: json!({ "hookSpecificOutput": {
                "hookEventName": "BeforeToolSelection",
                "toolConfig": { "mode": "AUTO", "allowedFunctionNames": ["a", "b"] },
            } }),
            verdict: "proceed",
        },
        Case {
            event: "AfterModel",
            input: json!({ "llm_request": llm_request(), "llm_response": llm_response() }),
            output: hook::response(&json!({ "text": "[x]" })),
            told: json!({ "hookSpecificOutput": {
                "hookEventName": "AfterModel", "llm_response": { "text": "[x]" },
            } }),
            verdict: "proceed",
        },
    ]
}

/// Events of tools, and of the end.
fn after() -> [Case; 6] {
    let refusal = json!({ "decision": "deny", "systemMessage": "m", "continue": false });
    let noted = |event, input| Case {
        event,
        input,
        output: refusal.clone(),
        told: json!({ "systemMessage": "m" }),
        verdict: "proceed",
    };
    [
        Case {
            event: "BeforeTool",
            input: json!({ "tool_name": "t", "tool_input": { "a": 1 } }),
            output: json!({ "decision": "allow", "hookSpecificOutput": { "tool_input": { "a": 2 } } }),
            told: json!({ "decision": "allow", "hookSpecificOutput": {
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
            told: json!({ "decision": "deny", "reason": "hidden", "suppressOutput": true }),
            verdict: "deny",
        },
        Case {
            event: "AfterAgent",
            input: json!({ "prompt": "hi", "prompt_response": "yes", "stop_hook_active": false }),
            output: json!({ "decision": "deny", "reason": "again", "clearContext": true }),
            told: json!({ "decision": "deny", "reason": "again", "hookSpecificOutput": {
                "hookEventName": "AfterAgent", "clearContext": true,
            } }),
            verdict: "deny",
        },
        noted("SessionEnd", json!({ "reason": "exit" })),
        noted("PreCompress", json!({ "trigger": "auto" })),
        noted(
            "Notification",
            json!({ "notification_type": "ToolPermission", "message": "may I", "details": {} }),
        ),
    ]
}

#[tokio::test]
async fn every_event_is_answered_as_a_hook_would_print_it() {
    let cases: Vec<Case> = before().into_iter().chain(after()).collect();
    assert_eq!(cases.len(), EventName::ALL.len());
    for case in cases {
        let upstream = Upstream::mock().await;
        let hooks = hook::config(&[(case.event, hook::saying("hook", &case.output))]);
        let gate = TestGateway::start(&upstream, &hooks).await;
        let mut input = case.input.clone();
        input["hook_event_name"] = json!(case.event);
        input["session_id"] = json!("s-1");

        let plain = gate.agent().report(&input, "wait=1").await;
        let explained = gate.agent().report(&input, "wait=1&explain=1").await;

        assert_eq!(plain.status, 200, "{}: {}", case.event, plain.text());
        assert_eq!(plain.header("content-type"), "application/json");
        assert_eq!(plain.json(), case.told, "{}", case.event);
        let mut told = explained.json();
        let explanation = told
            .as_object_mut()
            .unwrap()
            .shift_remove("hookgate")
            .unwrap();
        assert_eq!(told, case.told, "{}", case.event);
        assert_eq!(explanation["verdict"], case.verdict, "{}", case.event);
        assert_eq!(explanation["session"], "s-1");
        assert_eq!(explanation["hooks"][0]["name"], "hook");
        assert_eq!(explanation["hooks"][0]["status"], "ok");
        assert!(explanation["hooks"][0]["ms"].is_u64());
        let seen = gate.json("hook.json");
        for (key, value) in input.as_object().unwrap() {
            assert_eq!(&seen[key], value, "{}: {key}", case.event);
        }
        assert!(upstream.seen().is_empty());
    }
}

async fn listening(event: &str) -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[(event, hook::saying("hook", &json!({})))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    (upstream, gate)
}

#[tokio::test]
async fn missing_base_fields_are_filled_in() {
    let (_upstream, gate) = listening("BeforeTool").await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });

    let told = gate.agent().report(&event, "explain=1").await.json();

    let seen = gate.json("hook.json");
    assert_eq!(seen["session_id"], told["hookgate"]["session"]);
    assert_eq!(seen["session_id"].as_str().unwrap().len(), 36);
    assert_eq!(seen["transcript_path"], "");
    assert_eq!(seen["timestamp"].as_str().unwrap().len(), 24);
    assert!(seen["cwd"].as_str().unwrap().starts_with('/'));
}

#[tokio::test]
async fn given_base_fields_are_handed_on() {
    let (_upstream, gate) = listening("BeforeTool").await;
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
    let (_upstream, gate) = listening("BeforeModel").await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });

    let plain = gate.agent().report(&event, "").await;
    let explained = gate.agent().report(&event, "explain=1").await;

    assert_eq!(plain.json(), json!({}));
    assert_eq!(explained.json()["hookgate"]["hooks"], json!([]));
}

#[tokio::test]
async fn reports_do_not_wait_for_hooks_on_advisory_events() {
    let upstream = Upstream::mock().await;
    // The hook ends only after the answer is here.
    let wait = "until [ -e answered ]; do sleep 0.01; done; cat > hook.json";
    let advisory = [
        json!({ "hook_event_name": "SessionEnd", "reason": "exit" }),
        json!({ "hook_event_name": "PreCompress", "trigger": "manual" }),
        json!({ "hook_event_name": "Notification", "notification_type": "n", "message": "m" }),
    ];
    for event in advisory {
        let name = event["hook_event_name"].as_str().unwrap();
        let hooks = hook::config(&[(name, hook::running("hook", wait))]);
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
        ("BeforeTool", hook::running("chatty", "echo hello")),
        ("BeforeTool", hook::running("broken", "exit 1")),
        ("BeforeTool", hook::refusing("guard", "no")),
        (
            "BeforeTool",
            hook::saying("wrong", &json!({ "decision": 5 })),
        ),
    ]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });

    let told = gate.agent().report(&event, "explain=1").await.json();

    let of = |key: &str| -> Vec<Value> {
        let hooks = told["hookgate"]["hooks"].as_array().unwrap();
        hooks.iter().map(|it| it[key].clone()).collect()
    };
    assert_eq!(of("name"), ["chatty", "broken", "guard", "wrong"]);
    assert_eq!(of("status"), ["ok", "failed", "block", "ok"]);
    let codes: Vec<Value> = of("diagnostics")
        .iter()
        .map(|it| it[0]["code"].clone())
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
    assert_eq!(told["hookgate"]["verdict"], "deny");
    assert_eq!(told["reason"], "no");
}

#[tokio::test]
async fn a_matcher_chooses_the_hooks_of_a_tool() {
    let upstream = Upstream::mock().await;
    let group =
        json!({ "matcher": "^(?!safe_).*_file$", "hooks": [hook::refusing("guard", "no")] });
    let hooks = format!("hooks: {}", json!({ "BeforeTool": [group] }));
    let gate = TestGateway::start(&upstream, &hooks).await;
    for (tool, status) in [
        ("write_file", Some("block")),
        ("safe_file", None),
        ("ls", None),
    ] {
        let event = json!({ "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": {} });

        let told = gate.agent().report(&event, "explain=1").await.json();

        assert_eq!(
            told["hookgate"]["hooks"][0]["status"].as_str(),
            status,
            "{tool}"
        );
    }
}

/// Bodies that are no event, and what the message names.
const BAD: [(&str, &str); 14] = [
    ("{", "BAD_JSON"),
    ("", "BAD_JSON"),
    ("[]", "object"),
    ("{}", "`hook_event_name`"),
    (r#"{"hook_event_name":5}"#, "`hook_event_name`"),
    (r#"{"hook_event_name":"BeforeLunch"}"#, "`hook_event_name`"),
    (
        r#"{"hook_event_name":"BeforeTool","hook_event_name":"AfterTool"}"#,
        "hook_event_name",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_input":{}}"#,
        "tool_name",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":[]}"#,
        "`tool_input`",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":{},"session_id":5}"#,
        "`session_id`",
    ),
    (
        r#"{"hook_event_name":"BeforeAgent","prompt":["p"]}"#,
        "`prompt`",
    ),
    (
        r#"{"hook_event_name":"BeforeModel","llm_request":{"model":"m","messages":[{"role":"user","content":5}]}}"#,
        "llm_request.messages",
    ),
    (
        r#"{"hook_event_name":"SessionEnd","reason":null}"#,
        "`reason`",
    ),
    (
        r#"{"hook_event_name":"Notification","notification_type":"n","message":7}"#,
        "`message`",
    ),
];

#[tokio::test]
async fn what_is_remembered_of_an_agent_is_short() {
    let (_upstream, gate) = listening("BeforeTool").await;
    let event = |length| {
        let id = "é".repeat(length);
        json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {}, "session_id": id })
    };
    let agent = gate.agent().sending("user-agent", "u".repeat(20_000));

    let long = agent.report(&event(257), "").await;
    let short = agent.report(&event(256), "").await;
    let call = agent.sending("x-hookgate-session", "s");
    assert_eq!(call.generate("m", &prompt("hi")).await.status, 200);

    assert_refused(&long, 400, "BAD_EVENT");
    assert_eq!(short.status, 200, "{}", short.text());
    let sessions = gate.operator().get("/sessions").await;
    assert_eq!(sessions.json()["sessions"].as_array().unwrap().len(), 2);
    assert!(sessions.body.len() < 3000, "{}", sessions.text());
}

#[tokio::test]
async fn a_bad_event_is_refused_by_the_name_of_its_field() {
    let (_upstream, gate) = listening("BeforeTool").await;
    for (body, named) in BAD {
        let answer = gate.agent().post("/hookgate/v1/events", body).await;

        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["status"], "INVALID_ARGUMENT", "{body}");
        assert!(answer.text().contains(named), "{body}: {}", answer.text());
        let id = &error["details"][0]["metadata"]["request_id"];
        assert_eq!(id, answer.header("x-hookgate-request-id"));
    }
    assert_eq!(gate.file("hook.json"), "");
}

#[tokio::test]
async fn only_json_is_posted() {
    let (_upstream, gate) = listening("BeforeTool").await;
    let reason = |it: &Answer| it.json()["error"]["details"][0]["reason"].clone();

    let text = gate.agent().sending("content-type", "text/plain");
    let text = text.post("/hookgate/v1/events", "{}").await;
    let get = gate.agent().get("/hookgate/v1/events").await;
    let elsewhere = gate.agent().post("/hookgate/v1/other", "{}").await;

    assert_eq!(
        (text.status, reason(&text)),
        (415, json!("UNSUPPORTED_MEDIA_TYPE"))
    );
    assert_eq!(
        (get.status, reason(&get)),
        (405, json!("METHOD_NOT_ALLOWED"))
    );
    assert_eq!(
        (elsewhere.status, reason(&elsewhere)),
        (403, json!("UNKNOWN_PATH"))
    );
}

#[tokio::test]
async fn an_event_over_the_limit_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { event: 1KiB }").await;
    let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "x".repeat(2000) });

    let answer = gate.agent().report(&event, "").await;

    assert_eq!(answer.status, 413);
    assert_eq!(
        answer.json()["error"]["details"][0]["reason"],
        "BODY_TOO_LARGE"
    );
}

#[tokio::test]
async fn events_and_calls_run_the_same_hooks() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::refusing("guard", "not today"))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let agent = gate.agent().sending("x-hookgate-session", "s-1");

    agent.generate("gemini-2.5-pro", &prompt("hi")).await;
    let shown = gate.json("guard.json");
    let told = gate.agent().report(&shown, "").await;

    assert_eq!(
        told.json(),
        json!({ "decision": "deny", "reason": "not today" })
    );
    assert_eq!(gate.json("guard.json"), shown);
}
