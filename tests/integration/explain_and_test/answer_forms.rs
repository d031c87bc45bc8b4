//! Answers of test cases and trials in the form of their API, and in that of the Gemini API.

use std::fs;

use serde_json::{Value, json};

use super::folder;
use crate::harness::run;

/// A guard on calls of a tool, which the cases of a file prove.
const CONFIG: &str = "\
upstreams: { gemini: { url: https://example.org }, anthropic: { url: https://example.org }, openai: { url: https://example.org } }
hooks:
  BeforeTool:
    - matcher: ^Bash$
      hooks: [{ name: shell, command: \"echo no >&2; exit 2\", on_failure: closed, must_deny: [cases.json] }]
  AfterModel:
    - hooks: [{ type: builtin, policy: redact, detect: [email], name: mask }]
";

/// Arguments of the call in all answers.
const ARGUMENTS: &str = r#"{"command":"ls"}"#;

/// Path, request and answers that call `Bash`: whole, and in events of a stream.
type NativeAnswer = (&'static str, Value, Value, Value);

fn native_answers() -> [NativeAnswer; 3] {
    [messages_answer(), responses_answer(), chat_answer()]
}

fn messages_answer() -> NativeAnswer {
    let block = json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "ls" } });
    let message = |content: Value, stop: Value| {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 },
        })
    };
    let started = json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} });
    (
        "/v1/messages",
        json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }],
            "tools": [{ "name": "Bash", "input_schema": { "type": "object" } }] }),
        message(json!([block]), json!("tool_use")),
        json!([
            { "type": "message_start", "message": message(json!([]), Value::Null) },
            { "type": "content_block_start", "index": 0, "content_block": started },
            { "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": ARGUMENTS } },
            { "type": "content_block_stop", "index": 0 },
            { "type": "message_delta", "delta": { "stop_reason": "tool_use", "stop_sequence": null }, "usage": { "output_tokens": 1 } },
            { "type": "message_stop" },
        ]),
    )
}

fn responses_answer() -> NativeAnswer {
    let item = json!({
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "Bash", "arguments": ARGUMENTS,
        "status": "completed",
    });
    let response = |status: &str, output: Value| json!({ "id": "resp_1", "object": "response", "model": "m", "status": status, "output": output });
    (
        "/v1/responses",
        json!({ "model": "m", "input": "hi", "tools": [{ "type": "function", "name": "Bash" }] }),
        response("completed", json!([item])),
        json!([
            { "type": "response.created", "sequence_number": 0, "response": response("in_progress", json!([])) },
            { "type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item },
            { "type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item },
            { "type": "response.completed", "sequence_number": 3, "response": response("completed", json!([item])) },
        ]),
    )
}

fn chat_answer() -> NativeAnswer {
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "Bash", "arguments": ARGUMENTS } });
    let mut delta = call.clone();
    delta["index"] = json!(0);
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        })
    };
    let delta = json!({ "role": "assistant", "tool_calls": [delta] });
    (
        "/v1/chat/completions",
        json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }],
            "tools": [{ "type": "function", "function": { "name": "Bash" } }] }),
        json!({
            "id": "c", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "finish_reason": "tool_calls",
                "message": { "role": "assistant", "content": null, "tool_calls": [call] } }],
        }),
        json!([
            chunk(delta, Value::Null),
            chunk(json!({}), json!("tool_calls"))
        ]),
    )
}

fn gemini_answer(part: &Value) -> Value {
    let content = json!({ "role": "model", "parts": [part] });
    json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] })
}

/// Cases whose answers call `Bash`, in every form.
fn cases() -> Vec<Value> {
    let in_form_of_gemini =
        gemini_answer(&json!({ "functionCall": { "name": "Bash", "args": {} } }));
    let mut cases = Vec::new();
    let mut add = |path: &str, request: &Value, answer: &Value| {
        cases.push(json!({
            "name": format!("{path} {}", cases.len()), "path": path, "request": request,
            "answer": answer, "then": gemini_answer(&json!({ "text": "Then not." })),
            "expect": { "verdict": "deny", "reason": "no" },
        }));
    };
    for (path, request, whole, events) in native_answers() {
        let mut streamed = request.clone();
        streamed["stream"] = json!(true);
        for answer in [&whole, &in_form_of_gemini] {
            add(path, &request, answer);
            add(path, &streamed, answer);
        }
        add(path, &streamed, &events);
    }
    cases
}

#[test]
fn answers_have_the_form_of_their_api_or_that_of_the_gemini_api() {
    let cases = cases();
    let file = json!({ "config": "hookgate.yaml", "cases": cases });
    let folder = folder(&[("hookgate.yaml", CONFIG), ("cases.json", &file.to_string())]);

    let tested = run(&["test", "cases.json"], folder.path());
    let proven = run(
        &["check", "--config", "hookgate.yaml", "--prove"],
        folder.path(),
    );

    assert_eq!((tested.0, tested.2.as_str()), (0, ""), "{}", tested.1);
    assert_eq!(proven.0, 0, "{}{}", proven.1, proven.2);
    let count = format!("proven: `shell` on BeforeTool, {} cases", cases.len());
    assert!(proven.1.contains(&count), "{}", proven.1);
}

#[test]
fn unknown_fields_of_a_native_answer_reach_policies_and_agents() {
    let (path, request, mut answer, _) = native_answers()[2].clone();
    answer["choices"][0]["message"] = json!({
        "role": "assistant", "content": "Hi.", "annotations": [{ "note": "ann@example.com" }],
    });
    answer["choices"][0]["finish_reason"] = json!("stop");
    let call = json!({ "path": path, "body": request, "answer": answer });
    let folder = folder(&[("hookgate.yaml", CONFIG), ("call.json", &call.to_string())]);
    fs::write(
        folder.path().join("cases.json"),
        json!({ "cases": cases() }).to_string(),
    )
    .unwrap();

    let explain = [
        "explain",
        "--config",
        "hookgate.yaml",
        "--json",
        "call.json",
    ];
    let (code, stdout, stderr) = run(&explain, folder.path());

    assert_eq!(code, 0, "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let message = &report["answer"]["choices"][0]["message"];
    assert_eq!(message["content"], "Hi.", "{report:#}");
    assert_eq!(
        message["annotations"][0]["note"], "[REDACTED:email]",
        "{report:#}"
    );
}

#[test]
fn an_answer_in_no_form_of_the_call_is_refused_with_its_position() {
    let [(_, _, message, _), _, (chat, request, ..)] = native_answers();
    for (field, path, reason) in [
        ("answer", chat, "in the form of neither `openai_chat` ("),
        ("then", chat, "in the form of neither `openai_chat` ("),
        (
            "answer",
            "/v1beta/models/m:generateContent",
            "not in the form of the Gemini API: it has no `candidates`",
        ),
    ] {
        let mut case = json!({
            "name": "n", "path": path, "request": request, "expect": { "verdict": "deny" },
            "answer": gemini_answer(&json!({ "text": "Hi." })),
        });
        case[field] = message.clone();
        let mut call = json!({ "path": path, "body": request, "answer": case["answer"] });
        call[field] = message.clone();
        let folder = folder(&[
            (
                "hookgate.yaml",
                "upstreams: { gemini: { url: https://example.org } }\n",
            ),
            ("cases.json", &json!({ "cases": [case] }).to_string()),
            ("call.json", &call.to_string()),
        ]);

        let (code, _, tested) = run(&["test", "cases.json"], folder.path());
        let (_, _, explained) = run(
            &["explain", "--config", "hookgate.yaml", "call.json"],
            folder.path(),
        );

        let message = format!("`{field}`: {reason}");
        assert_eq!(code, 78, "{tested}");
        assert!(
            tested.contains("cases.json:1:") && tested.contains(&message),
            "{tested}"
        );
        assert!(explained.contains(&message), "{explained}");
    }
}
