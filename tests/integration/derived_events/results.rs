//! `AfterTool`: tool results are inspected before the model receives them.

use serde_json::{Value, json};

use super::{Chat, MODEL, log, log_command, request_contents};
use crate::{
    families::family::Family,
    harness::{TestGateway, Upstream, hook},
};

/// Appends a call of `read_file` and its result.
fn with_file_read(chat: Chat, output: &str) -> Chat {
    chat.call("read_file", &json!({ "file_path": "a" }))
        .result("read_file", &json!({ "output": output }))
}

/// Sends a request with the results of 40 calls, to each of which a hook adds 2,000 bytes and
/// logs it. Returns the status and the number of logged results.
async fn send_results_with_long_context(limits: &str) -> (u16, usize) {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "x".repeat(2000) } });
    let command = format!("cat > /dev/null; echo 1 >> log; echo '{output}'");
    let hooks = hook::config(&[("AfterTool", hook::command("long", &command))]);
    let gate = TestGateway::start(&upstream, &format!("{limits}\n{hooks}")).await;
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for id in 0..40 {
        let id = id.to_string();
        calls.push(json!({ "functionCall": { "id": id, "name": "read_file", "args": {} } }));
        let response = json!({ "output": id });
        let result = json!({ "id": id, "name": "read_file", "response": response });
        results.push(json!({ "functionResponse": result }));
    }
    let mut chat = Chat::with_prompt("read all");
    let messages = [("model", calls), ("user", results)];
    let messages = messages.map(|(role, parts)| json!({ "role": role, "parts": parts }));
    chat.contents.extend(messages);

    let answer = gate.agent().generate(MODEL, &chat.body()).await;

    assert!(upstream.requests().is_empty());
    (answer.status, log(&gate).len())
}

/// Config with an `AfterTool` hook that denies results with `SECRET`, and logs each result.
fn guard() -> String {
    let python = "import json,sys; e=json.load(sys.stdin); t=json.dumps(e[\"tool_response\"]); print(t, file=open(\"log\",\"a\")); print(json.dumps({\"decision\":\"deny\",\"reason\":\"hidden\"} if \"SECRET\" in t else {}))";
    hook::config(&[(
        "AfterTool",
        hook::command("dlp", &format!("python3 -c '{python}'")),
    )])
}

#[tokio::test]
async fn a_denied_result_is_hidden_in_every_later_request() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard()).await;
    let mut chat = with_file_read(Chat::with_prompt("read a"), "SECRET");

    for turn in 0..10 {
        let answer = chat.send(&gate).await;
        chat = chat.answer(&answer).user(&format!("turn {turn}"));
    }

    assert_eq!(upstream.requests().len(), 10);
    for seen in upstream.requests() {
        assert!(!seen.body.contains("SECRET"), "{}", seen.body);
        let response = &seen.json()["contents"][2]["parts"][0]["functionResponse"]["response"];
        assert_eq!(*response, json!({ "error": "hidden" }));
    }
    assert_eq!(log(&gate).len(), 1);
}

#[tokio::test]
async fn hooks_see_the_call_and_its_result() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterTool", hook::printing("seen", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;

    with_file_read(Chat::with_prompt("read a"), "text")
        .send(&gate)
        .await;

    let seen = gate.json("seen.json");
    assert_eq!(seen["tool_name"], "read_file");
    assert_eq!(seen["tool_input"], json!({ "file_path": "a" }));
    assert_eq!(
        seen["tool_response"],
        json!({ "llmContent": "text", "returnDisplay": "text" })
    );
}

#[tokio::test]
async fn a_result_whose_error_is_null_has_not_failed() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterTool", hook::printing("seen", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let result = json!({ "output": "ok", "error": null });
    let chat = Chat::with_prompt("read a").call("read_file", &json!({}));

    chat.result("read_file", &result).send(&gate).await;

    let seen = gate.json("seen.json")["tool_response"].clone();
    let text = result.to_string();
    assert_eq!(seen, json!({ "llmContent": result, "returnDisplay": text }));
}

#[tokio::test]
async fn context_is_appended_to_the_result_in_every_later_request() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "mind <this>" } });
    let command = log_command("[\"tool_name\"]", &output);
    let config = hook::config(&[("AfterTool", hook::command("log", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = with_file_read(Chat::with_prompt("read a"), "text");

    let answer = chat.send(&gate).await;
    chat.answer(&answer).user("and?").send(&gate).await;

    for contents in request_contents(&upstream) {
        let output = &contents[2]["parts"][0]["functionResponse"]["response"]["output"];
        assert_eq!(
            *output,
            "text\n\n<hook_context>mind &lt;this&gt;</hook_context>"
        );
    }
    assert_eq!(log(&gate), ["read_file"]);
}

#[tokio::test]
async fn no_more_results_are_inspected_once_their_edits_exceed_the_body_limit() {
    let (status, runs) = send_results_with_long_context("limits: { body: 16KiB }").await;

    assert_eq!(status, 413);
    // Eight hooks run at the same time.
    assert!(runs < 30, "{runs} runs");
}

#[tokio::test]
async fn edits_of_results_count_against_the_memory_limit() {
    let limits = "limits: { body: 64KiB, memory: 64KiB }";
    let (status, _runs) = send_results_with_long_context(limits).await;

    assert_eq!(status, 503);
}

#[tokio::test]
async fn context_is_added_to_a_result_whose_keys_differ_in_underscores() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "mind" } });
    let config = hook::config(&[("AfterTool", hook::printing("hook", &output))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let found = json!({ "user_id": "1", "userId": "2" });
    let chat = Chat::with_prompt("who").call("find", &json!({}));

    chat.result("find", &found).send(&gate).await;

    let context = "<hook_context>mind</hook_context>";
    let expected = json!({ "user_id": "1", "userId": "2", "hook_context": context });
    let sent = upstream.only_request().json();
    let result = &sent["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!(result["response"], expected);
}

#[tokio::test]
async fn a_result_in_an_unknown_history_is_inspected() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard()).await;
    let chat = with_file_read(Chat::with_prompt("read a"), "SECRET").model("I know it.");

    with_file_read(chat.user("again"), "other")
        .send(&gate)
        .await;

    assert!(!upstream.only_request().body.contains("SECRET"));
    assert_eq!(log(&gate).len(), 2);
}

#[tokio::test]
async fn media_beside_a_denied_result_are_removed() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterTool", hook::denying("dlp", "hidden"))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let mut chat = Chat::with_prompt("look").call("read_file", &json!({}));
    let result =
        json!({ "functionResponse": { "name": "read_file", "response": { "output": "1 item" } } });
    let media = json!({ "inlineData": { "mimeType": "image/png", "data": "U0VDUkVU" } });
    chat.contents
        .push(json!({ "role": "user", "parts": [result, media] }));

    chat.send(&gate).await;

    assert!(!upstream.only_request().body.contains("U0VDUkVU"));
}

#[tokio::test]
async fn a_hook_can_stop_the_tool_loop() {
    let upstream = Upstream::mock().await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let config = hook::config(&[("AfterTool", hook::printing("stop", &stop))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = with_file_read(Chat::with_prompt("read a"), "text");

    let stopped = chat.send(&gate).await;
    chat.answer(&stopped).user("go on").send(&gate).await;

    let text: &Value = &stopped["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(*text, "enough");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_result_of_a_stopped_tool_loop_stays_hidden() {
    let stop = hook::printing(
        "stop",
        &json!({ "continue": false, "stopReason": "enough" }),
    );
    let mut broken = hook::command("broken", "exit 1");
    broken["on_failure"] = json!("closed");
    for hiding in [hook::denying("deny", "hidden"), broken] {
        let upstream = Upstream::mock().await;
        let config = hook::config(&[("AfterTool", hiding), ("AfterTool", stop.clone())]);
        let gate = TestGateway::start(&upstream, &config).await;
        let chat = with_file_read(Chat::with_prompt("read a"), "SECRET");

        let stopped = chat.send(&gate).await;
        chat.answer(&stopped).user("go on").send(&gate).await;

        let text: &Value = &stopped["candidates"][0]["content"]["parts"][0]["text"];
        assert_eq!(*text, "enough", "{config}");
        let sent = upstream.only_request().body;
        assert!(!sent.contains("SECRET"), "{config}: {sent}");
    }
}

#[tokio::test]
async fn a_denied_result_is_hidden_in_a_token_count() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard()).await;
    let chat = with_file_read(Chat::with_prompt("read a"), "SECRET");

    let path = "/v1beta/models/m:countTokens";
    gate.agent()
        .post(path, json!({ "contents": chat.contents }).to_string())
        .await;

    assert!(!upstream.only_request().body.contains("SECRET"));
}

#[tokio::test]
async fn failed_results_of_claude_code_are_inspected_although_it_reports_the_others() {
    let upstream = Upstream::mock().await;
    let gate = Family::Anthropic.gateway(&upstream, &guard()).await;
    let agent = gate.agent().sending("x-claude-code-session-id", "s");
    let report = json!({
        "hook_event_name": "AfterTool", "session_id": "s", "tool_name": "Bash",
        "tool_input": {}, "tool_response": { "llmContent": "fine", "returnDisplay": "fine" },
    });
    agent.report(&report, "").await;
    let calls = ["toolu_01", "toolu_02"]
        .map(|id| json!({ "type": "tool_use", "id": id, "name": "Bash", "input": {} }));
    let results = json!([
        { "type": "tool_result", "tool_use_id": "toolu_01", "content": "fine" },
        { "type": "tool_result", "tool_use_id": "toolu_02", "content": "SECRET", "is_error": true },
    ]);
    let messages = json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": calls },
        { "role": "user", "content": results },
    ]);
    let body = json!({ "model": "claude", "max_tokens": 9, "messages": messages });

    for _ in 0..2 {
        let answer = agent.post("/v1/messages", body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    for request in upstream.requests() {
        assert!(!request.body.contains("SECRET"), "{}", request.body);
        assert!(request.body.contains("hidden"), "{}", request.body);
    }
    let inspected = log(&gate);
    assert_eq!(inspected.len(), 2, "{inspected:?}");
    assert_eq!(inspected[1]["error"]["message"], "SECRET");
}
