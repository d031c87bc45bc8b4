//! `BeforeTool`: tool calls are inspected before the agent receives them.

use serde_json::{Value, json};

use super::{
    Chat, MODEL, call, log, log_command, parts, prompts::first_text, request_contents, script, text,
};
use crate::harness::{TestGateway, Upstream, hook};

const NOT_RUN: &str =
    "Not run, because another call of this step was blocked. Ask for it again if it is needed.";

fn write() -> Value {
    call("write_file", &json!({ "file_path": "a" }))
}

fn read() -> Value {
    call("read_file", &json!({ "file_path": "b" }))
}

/// Config with a `BeforeTool` hook that matches `write_file` only.
fn on_write(command: &str) -> String {
    let hook = hook::command("guard", command);
    format!(
        "hooks: {}\n",
        json!({ "BeforeTool": [{ "matcher": "write_file", "hooks": [hook] }] })
    )
}

const DENY_COMMAND: &str = "cat > guard.json; echo 'not here' >&2; exit 2";

#[tokio::test]
async fn the_model_gets_an_error_for_a_denied_call_and_the_agent_its_next_answer() {
    let signed = json!({
        "functionCall": { "id": "c1", "name": "write_file", "args": { "file_path": "a" } },
        "thoughtSignature": "c2ln",
    });
    let first = json!([text("I write."), signed]);
    let upstream = Upstream::scripted(&script(&[first, json!([text("I may not.")])])).await;
    let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;
    let chat = Chat::with_prompt("write a");

    let unary = chat.send(&gate).await;
    let streamed = chat.stream(&gate).await;

    let expected = json!([{ "text": "I write." }, { "text": "\n\nI may not." }]);
    assert_eq!(json!(parts(&streamed)), expected);
    let candidate = &unary["candidates"][0];
    assert_eq!(
        candidate["content"]["parts"],
        json!([{ "text": "I write.\n\nI may not." }])
    );
    assert_eq!(candidate["finishReason"], "STOP");
    let finished = |event: &&Value| event["candidates"][0].get("finishReason").is_some();
    assert_eq!(streamed.iter().filter(finished).count(), 1);
    for pair in request_contents(&upstream).chunks(2) {
        assert_eq!(pair[1][0], pair[0][0]);
        assert_eq!(
            pair[1][1],
            json!({ "role": "model", "parts": [{ "text": "I write." }, signed] })
        );
        let response = json!({ "error": "Tool execution blocked: not here" });
        let response = json!({ "name": "write_file", "response": response, "id": "c1" });
        assert_eq!(
            pair[1][2],
            json!({ "role": "user", "parts": [{ "functionResponse": response }] })
        );
    }
    let input = gate.json("guard.json");
    assert_eq!(input["tool_name"], "write_file");
    assert_eq!(input["tool_input"], json!({ "file_path": "a" }));
}

#[tokio::test]
async fn other_calls_beside_a_denied_call_are_not_run_and_can_be_repeated() {
    let both = json!([read(), write()]);
    let upstream = Upstream::scripted(&script(&[both, json!([read()])])).await;
    let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;
    let chat = Chat::with_prompt("go");

    let streamed = chat.stream(&gate).await;

    assert_eq!(json!(parts(&streamed)), json!([read()]));
    let results = &request_contents(&upstream)[1][2]["parts"];
    assert_eq!(results[0]["functionResponse"]["response"]["error"], NOT_RUN);
    let blocked = &results[1]["functionResponse"]["response"]["error"];
    assert_eq!(*blocked, "Tool execution blocked: not here");
}

#[tokio::test]
async fn a_denied_call_and_its_error_are_part_of_later_requests() {
    let answers = [json!([write()]), json!([read()]), json!([text("done")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;
    let chat = Chat::with_prompt("go");
    let answer = chat.send(&gate).await;
    let chat = chat
        .answer(&answer)
        .result("read_file", &json!({ "output": "b" }));

    chat.send(&gate).await;

    let last = request_contents(&upstream).pop().unwrap();
    let called_name = |content: &Value| content["parts"][0]["functionCall"]["name"].clone();
    assert_eq!(last.len(), 5, "{last:?}");
    assert_eq!(called_name(&last[1]), "write_file");
    assert_eq!(
        last[2]["parts"][0]["functionResponse"]["name"],
        "write_file"
    );
    assert_eq!(called_name(&last[3]), "read_file");
}

#[tokio::test]
async fn later_requests_of_other_agents_with_the_same_prompt_do_not_have_a_denied_call() {
    let write_to = |path: &str| call("write_file", &json!({ "file_path": path }));
    let mut answers = vec![
        json!([write_to("a")]),
        json!([text("A")]),
        json!([text("I write."), write_to("b")]),
        json!([text("B\n")]),
        json!([text("C")]),
    ];
    answers.resize(8, json!([text("done")]));
    for is_named in [false, true] {
        let upstream = Upstream::scripted(&script(&answers)).await;
        let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;
        let send = async |chat: Chat| {
            if is_named {
                chat.send_in_session(&gate).await
            } else {
                chat.send(&gate).await
            }
        };
        let mut received = Vec::new();
        for _agent in 0..3 {
            let answer = send(Chat::with_prompt("go")).await;
            received.push(first_text(&answer).as_str().unwrap().to_owned());
        }

        for text in &received {
            // Some agents trim texts.
            let text = if is_named { text.trim() } else { text };
            send(Chat::with_prompt("go").model(text).user("more")).await;
        }

        assert_eq!(received, ["A", "I write.\n\nB\n", "C"]);
        let later = &request_contents(&upstream)[5..];
        let denied = later.iter().map(|contents| {
            let parts = contents.iter().map(|content| &content["parts"][0]);
            let paths = parts.map(|part| &part["functionCall"]["args"]["file_path"]);
            paths.filter_map(Value::as_str).collect()
        });
        let denied: Vec<Vec<&str>> = denied.collect();
        assert_eq!(denied, [vec![], vec!["b"], vec![]], "{is_named}");
    }
}

#[tokio::test]
async fn a_denied_step_is_sent_back_with_its_hosted_calls_and_signatures() {
    let search = json!({ "toolCall": { "id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": { "queries": ["x"] } }, "thoughtSignature": "c2ln" });
    let found = json!({ "toolResponse": { "id": "s", "toolType": "GOOGLE_SEARCH_WEB", "response": { "x": 1 } }, "thoughtSignature": "c2lnMg==" });
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" }, "thoughtSignature": "c2lnMw==" });
    let signed = json!({ "text": "found", "thoughtSignature": "c2lnNA==" });
    let step = json!([text("I search."), search, found, code, signed, write()]);
    let upstream = Upstream::scripted(&script(&[step.clone(), json!([text("ok")])])).await;
    let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;
    let chat = Chat::with_prompt("go");

    let answer = chat.send(&gate).await;
    chat.stream(&gate).await;

    for pair in request_contents(&upstream).chunks(2) {
        assert_eq!(pair[1][1], json!({ "role": "model", "parts": step }));
    }
    let received = &answer["candidates"][0]["content"]["parts"];
    assert_eq!((&received[1], &received[2]), (&search, &found), "{answer}");
}

#[tokio::test]
async fn a_denied_call_that_is_marked_as_a_thought_is_sent_back() {
    let mut marked = write();
    marked["thought"] = json!(true);
    let first = json!([{ "text": "hm", "thought": true }, marked]);
    let upstream = Upstream::scripted(&script(&[first, json!([text("ok")])])).await;
    let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;

    Chat::with_prompt("go").send(&gate).await;

    let second = &request_contents(&upstream)[1];
    assert_eq!(second[1], json!({ "role": "model", "parts": [marked] }));
}

#[tokio::test]
async fn a_hosted_call_that_never_got_a_result_is_not_sent_to_the_agent() {
    let search = json!({ "toolCall": { "id": "s", "toolType": "GOOGLE_SEARCH_WEB" } });
    let step = json!([text("I search."), search, write()]);
    let upstream = Upstream::scripted(&script(&[step.clone(), json!([text("ok")])])).await;
    let gate = TestGateway::start(&upstream, &on_write(DENY_COMMAND)).await;
    let chat = Chat::with_prompt("go");

    let answer = chat.send(&gate).await;
    let streamed = chat.stream(&gate).await;

    for pair in request_contents(&upstream).chunks(2) {
        assert_eq!(pair[1][1], json!({ "role": "model", "parts": step }));
    }
    let received = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*received, json!([text("I search.\n\nok")]));
    assert_eq!(parts(&streamed), [text("I search."), text("\n\nok")]);
}

#[tokio::test]
async fn the_turn_ends_after_max_denied_rounds() {
    let write_at = |number: usize| json!([call("write_file", &json!({ "file_path": number }))]);
    let answers: Vec<Value> = (0..9).map(write_at).collect();
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(DENY_COMMAND) + "events: { max_denied_rounds: 2 }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let events = Chat::with_prompt("go").stream(&gate).await;

    assert_eq!(upstream.requests().len(), 3);
    assert_eq!(json!(parts(&events)), json!([{ "text": "not here" }]));
    assert_eq!(events[0]["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn the_turn_ends_after_max_same_denials() {
    let answers: Vec<Value> = (0..9).map(|_| json!([write()])).collect();
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(DENY_COMMAND) + "events: { max_same_denials: 2, max_denied_rounds: 9 }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Chat::with_prompt("go").send(&gate).await;

    assert_eq!(upstream.requests().len(), 2);
    let reason = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(*reason, "not here");
}

#[tokio::test]
async fn arguments_are_rewritten_in_place() {
    let signed = json!({
        "functionCall": { "name": "write_file", "args": { "file_path": "a", "n": 1.50 } },
        "thoughtSignature": "c2ln",
    });
    let upstream = Upstream::scripted(&script(&[json!([signed])])).await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "file_path": "safe/a" } } });
    let config = hook::config(&[("BeforeTool", hook::printing("rewrite", &edit))]);
    let gate = TestGateway::start(&upstream, &config).await;

    let events = Chat::with_prompt("go").stream(&gate).await;

    let mut expected = signed;
    expected["functionCall"]["args"]["file_path"] = json!("safe/a");
    assert_eq!(json!(parts(&events)), json!([expected]));
}

/// Returns the errors that the model gets for the calls of an answer with 6 calls, under a hook
/// that runs `command` with `$text`, which has 1,000,000 bytes.
async fn errors_under_long_text(command: &str) -> Vec<String> {
    let write_at = |number: usize| call("write_file", &json!({ "file_path": number }));
    let calls: Vec<Value> = (0..6).map(write_at).collect();
    let answers = [json!(calls), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let text = "cat > /dev/null; text=$(head -c 1000000 /dev/zero | tr '\\0' x)";
    let gate = TestGateway::start(&upstream, &on_write(&format!("{text}; {command}"))).await;

    let answer = Chat::with_prompt("go").send(&gate).await;

    let received = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*received, json!([{ "text": "fine" }]));
    let results = request_contents(&upstream)[1][2]["parts"].clone();
    let results = results.as_array().unwrap().iter();
    let errors = results.map(|result| &result["functionResponse"]["response"]["error"]);
    errors
        .map(|error| error.as_str().unwrap().to_owned())
        .collect()
}

const TOO_LONG: &str = "Tool execution blocked: the reasons and edits of hooks for the calls of this answer are too long; ask for fewer calls at once";

#[tokio::test]
async fn calls_are_denied_with_a_short_reason_once_their_reasons_are_too_long() {
    let errors = errors_under_long_text("echo \"$text\" >&2; exit 2").await;

    let lengths: Vec<usize> = errors.iter().map(String::len).collect();
    let long = "Tool execution blocked: ".len() + 1_000_000;
    assert_eq!(lengths[..4], [long; 4]);
    assert_eq!(errors[4..], [TOO_LONG; 2]);
}

#[tokio::test]
async fn calls_are_denied_once_their_edits_are_too_long() {
    let edit = r#"{"hookSpecificOutput":{"tool_input":{"content":"%s"}}}"#;

    let errors = errors_under_long_text(&format!("printf '{edit}' \"$text\"")).await;

    assert_eq!(errors[..4], [NOT_RUN; 4]);
    assert_eq!(errors[4..], [TOO_LONG; 2]);
}

#[tokio::test]
async fn policies_inspect_arguments_that_hooks_edited() {
    let answers = [json!([write()]), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "file_path": "/etc/passwd" } } });
    let rules = "policies: [{ policy: tool_guard, rules: [{ tool: write_file, argument: /file_path, within: [/repo, .] }] }]\n";
    let config = hook::config(&[("BeforeTool", hook::printing("rewrite", &edit))]) + rules;
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Chat::with_prompt("go").send(&gate).await;

    assert_eq!(
        answer["candidates"][0]["content"]["parts"],
        json!([text("fine")])
    );
    assert!(!answer.to_string().contains("passwd"));
}

#[tokio::test]
async fn a_hook_decision_of_ask_is_denied_unless_the_config_allows_it() {
    let output = json!({
        "decision": "ask", "reason": "sure?",
        "hookSpecificOutput": { "tool_input": { "file_path": "x" } },
    });
    let hooks = hook::config(&[("BeforeTool", hook::printing("asking", &output))]);
    for (mode, expected) in [
        ("deny", json!([text("fine")])),
        (
            "allow",
            json!([call("write_file", &json!({ "file_path": "x" }))]),
        ),
    ] {
        let answers = [json!([write()]), json!([text("fine")])];
        let upstream = Upstream::scripted(&script(&answers)).await;
        let gate = TestGateway::start(&upstream, &format!("{hooks}ask: {mode}\n")).await;

        let answer = Chat::with_prompt("go").send(&gate).await;

        assert_eq!(
            answer["candidates"][0]["content"]["parts"], expected,
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_stopped_turn_makes_no_model_call_until_the_next_prompt() {
    let answers = [json!([text("well"), write()]), json!([text("hello")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let config = hook::config(&[("BeforeTool", hook::printing("stop", &stop))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("go");

    let events = chat.stream(&gate).await;
    assert_eq!(
        json!(parts(&events)),
        json!([text("well"), text("\n\nenough")])
    );
    let looping = Chat::with_prompt("go")
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));
    let stopped = looping.send(&gate).await;
    let next = chat.model("well\n\nenough").user("hello");

    assert_eq!(
        stopped["candidates"][0]["content"]["parts"][0]["text"],
        "enough"
    );
    assert_eq!(upstream.requests().len(), 1);
    next.stream(&gate).await;
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_tool_call_of_gemini_cli_with_cached_content_is_inspected() {
    let answers = [json!([write()]), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(DENY_COMMAND) + "coverage: { allow: [\"cachedContents.*\"] }\n";
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("user-agent", "GeminiCLI/0.61.0");
    let tools =
        json!({ "model": format!("models/{MODEL}"), "tools": [{ "functionDeclarations": [] }] });
    let cache = agent
        .post("/v1beta/cachedContents", tools.to_string())
        .await
        .json();
    let body =
        json!({ "contents": Chat::with_prompt("go").contents, "cachedContent": cache["name"] });

    let answer = agent.generate(MODEL, &body).await.json();

    let parts = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*parts, json!([text("fine")]));
}

#[tokio::test]
async fn text_and_allowed_calls_are_streamed_in_order() {
    let answer = json!([text("a"), text("b"), read(), text("c"), write()]);
    let upstream = Upstream::scripted(&script(std::slice::from_ref(&answer))).await;
    let config = on_write(&log_command("[\"tool_name\"]", &json!({})));
    let gate = TestGateway::start(&upstream, &config).await;

    let events = Chat::with_prompt("go").stream(&gate).await;

    assert_eq!(json!(parts(&events)), answer);
    assert_eq!(events.len(), 5);
    assert_eq!(log(&gate), ["write_file"]);
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_has_mcp_context() {
    let answer = json!([call("mcp_github_search_issues", &json!({}))]);
    let upstream = Upstream::scripted(&script(&[answer])).await;
    let config = hook::config(&[("BeforeTool", hook::printing("guard", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;

    Chat::with_prompt("go").send(&gate).await;

    let context = json!({ "server_name": "github", "tool_name": "search_issues" });
    assert_eq!(gate.json("guard.json")["mcp_context"], context);
}

#[tokio::test]
async fn partial_arguments_of_a_hooked_call_are_denied() {
    let piece = json!({ "functionCall": { "name": "write_file", "willContinue": true } });
    let partial_args = json!([{ "jsonPath": "$.file_path", "stringValue": "a" }]);
    let rest = json!({ "functionCall": { "partialArgs": partial_args } });
    let answers = [json!([piece, rest]), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = hook::config(&[("BeforeTool", hook::printing("guard", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;

    let events = Chat::with_prompt("go").stream(&gate).await;

    assert_eq!(json!(parts(&events)), json!([text("fine")]));
    let request = &request_contents(&upstream)[1];
    let call_parts = &request[1]["parts"];
    assert_eq!(
        *call_parts,
        json!([{ "functionCall": { "name": "write_file" } }])
    );
}

#[tokio::test]
async fn a_call_in_a_buffered_answer_is_denied() {
    let answers = [json!([text("I write."), write()]), json!([text("No.")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(DENY_COMMAND) + "after_model: buffered\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let events = Chat::with_prompt("go").stream(&gate).await;

    assert_eq!(
        json!(parts(&events)),
        json!([text("I write."), text("\n\nNo.")])
    );
}

#[tokio::test]
async fn before_tool_is_not_derived_after_the_agent_reports_it() {
    let answers = [json!([write()]), json!([write()])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = hook::config(&[(
        "BeforeTool",
        hook::command("log", &log_command("[\"tool_name\"]", &json!({}))),
    )]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s-1");
    let body = Chat::with_prompt("go").body();

    agent.generate(MODEL, &body).await;
    let report = json!({
        "hook_event_name": "BeforeTool", "session_id": "s-1",
        "tool_name": "reported", "tool_input": {},
    });
    gate.agent().report(&report, "").await;
    agent.generate(MODEL, &body).await;

    assert_eq!(log(&gate), ["write_file", "reported"]);
}
