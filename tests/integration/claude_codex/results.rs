//! Tool results, prompts and answers that hooks of Claude Code and Codex edit or block.

use serde_json::{Value, json};

use super::{
    MODEL, answer_parts, gate, gate_with, last_result, on, printing, request_with_tool, result,
    user, with_result,
};
use crate::harness::Upstream;

/// Tool result that the model receives: in the first request, and in a later one.
async fn results(protocol: &str, output: &Value, config: &str) -> (Value, Value) {
    let upstream = Upstream::mock().await;
    let hooks = json!({ "PostToolUse": on("Bash", "seen", &printing(output)) });
    let gate = gate_with(&upstream, protocol, &hooks, config).await;
    let contents = with_result("run_shell_command", &json!({ "command": "env" }), "KEY=1");
    let agent = gate.agent();

    let parts = answer_parts(&agent, &request_with_tool("run_shell_command", &contents)).await;
    let first = last_result(&upstream);
    let mut later = contents.as_array().unwrap().clone();
    later.push(json!({ "role": "model", "parts": parts }));
    later.push(user("again"));
    answer_parts(
        &agent,
        &request_with_tool("run_shell_command", &json!(later)),
    )
    .await;
    let request = upstream.requests().pop().unwrap().json();
    let again = request["contents"][2]["parts"][0]["functionResponse"]["response"].clone();
    (first, again)
}

#[tokio::test]
async fn the_model_receives_the_replaced_result_in_every_request() {
    let shell = json!({ "stdout": "KEY=***", "stderr": "", "interrupted": false });
    for protocol in ["claude", "codex"] {
        for output in [json!("KEY=***"), shell.clone()] {
            let (first, again) = results(protocol, &result(&output), "").await;
            assert_eq!(first, json!({ "output": "KEY=***" }), "{protocol}");
            assert_eq!(again, first, "{protocol}");
        }
    }
}

#[tokio::test]
async fn a_replaced_result_remains_replaced_when_the_hook_stops_the_turn() {
    let upstream = Upstream::mock().await;
    let mut output = result(&json!("KEY=***"));
    output["continue"] = json!(false);
    let hooks = json!({ "PostToolUse": on("Bash", "seen", &printing(&output)) });
    let gate = gate(&upstream, "claude", &hooks).await;
    let contents = with_result("Bash", &json!({ "command": "env" }), "KEY=1");

    let parts = answer_parts(&gate.agent(), &request_with_tool("Bash", &contents)).await;
    assert!(upstream.requests().is_empty(), "{parts}");
    let mut later = contents.as_array().unwrap().clone();
    later.extend([json!({ "role": "model", "parts": parts }), user("go on")]);
    answer_parts(&gate.agent(), &request_with_tool("Bash", &json!(later))).await;

    let sent = upstream.only_request().body;
    assert!(
        sent.contains("KEY=***") && !sent.contains("KEY=1"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_blocked_result_is_marked_in_claude_code_and_replaced_in_codex() {
    let block = json!({ "decision": "block", "reason": "careful" });
    let (marked, again) = results("claude", &block, "").await;
    let expected = "KEY=1\n\n<hook_context>careful</hook_context>";
    assert_eq!(marked, json!({ "output": expected }));
    assert_eq!(again, marked);
    let (replaced, again) = results("codex", &block, "").await;
    assert_eq!(replaced, json!({ "error": "careful" }));
    assert_eq!(again, replaced);
}

#[tokio::test]
async fn a_guard_that_fails_closed_hides_the_result() {
    for command in ["exit 1", &printing(&result(&json!(true)))] {
        let upstream = Upstream::mock().await;
        let mut groups = on("Bash", "seen", command);
        groups[0]["hooks"][0]["on_failure"] = json!("closed");
        let gate = gate(&upstream, "claude", &json!({ "PostToolUse": groups })).await;
        let contents = with_result("Bash", &json!({ "command": "env" }), "KEY=1");

        answer_parts(&gate.agent(), &request_with_tool("Bash", &contents)).await;

        let error = last_result(&upstream)["error"].clone();
        assert!(error.as_str().unwrap().contains("failed"), "{error}");
    }
}

#[tokio::test]
async fn policies_inspect_results_that_hooks_edited() {
    let key = "AKIAIOSFODNN7EXAMPLE";
    let policy = "policies: [{ policy: redact, on: [tool_results] }]\n";
    let output = result(&json!(format!("key {key}")));
    let (first, _) = results("claude", &output, policy).await;
    assert!(!first.to_string().contains(key), "{first}");
}

#[tokio::test]
async fn a_blocked_prompt_never_reaches_the_model() {
    for command in [
        printing(&json!({ "decision": "block", "reason": "no secrets" })),
        "echo 'no secrets' >&2; exit 2".to_owned(),
    ] {
        let upstream = Upstream::mock().await;
        let hooks = json!({ "UserPromptSubmit": on("", "seen", &command) });
        let gate = gate(&upstream, "claude", &hooks).await;

        let parts = answer_parts(
            &gate.agent(),
            &request_with_tool("Bash", &json!([user("my key")])),
        )
        .await;

        assert_eq!(parts, json!([{ "text": "no secrets" }]));
        assert!(upstream.requests().is_empty());
        assert_eq!(gate.json("seen.json")["prompt"], "my key");
    }
}

#[tokio::test]
async fn a_stop_hook_that_blocks_causes_another_model_call() {
    let upstream = Upstream::mock().await;
    let once =
        "grep -q '\"stop_hook_active\":true' seen.json && exit 0; echo 'run the tests' >&2; exit 2";
    let gate = gate(&upstream, "codex", &json!({ "Stop": on("", "seen", once) })).await;

    answer_parts(
        &gate.agent(),
        &request_with_tool("Bash", &json!([user("fix it")])),
    )
    .await;

    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    let last = requests[1].json()["contents"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(last["parts"][0]["text"], "run the tests");
}

#[tokio::test]
async fn stop_hooks_run_for_a_reported_event_with_an_empty_agent_id() {
    let upstream = Upstream::mock().await;
    let hooks = json!({ "Stop": on("", "stop", "echo again >&2; exit 2") });
    let gate = gate(&upstream, "claude", &hooks).await;
    let event = json!({ "hook_event_name": "AfterAgent", "agent_id": "", "prompt": "p",
        "prompt_response": "r", "stop_hook_active": false });

    let answer = gate.agent().report(&event, "").await;

    assert_eq!(answer.json()["decision"], "deny", "{}", answer.text());
}

#[tokio::test]
async fn stop_hooks_run_for_the_agent_and_subagent_stop_hooks_for_its_sub_agents() {
    let hooks = json!({
        "Stop": on("", "stop", "exit 0"),
        "SubagentStop": on("", "subagent", "exit 0"),
    });
    for (header, value, main) in [
        ("x-unrelated", "1", true),
        ("x-claude-code-agent-id", "a1", false),
        ("x-codex-turn-metadata", r#"{"agent_name":"/root"}"#, true),
        (
            "x-codex-turn-metadata",
            r#"{"agent_name":"/root/explorer"}"#,
            false,
        ),
    ] {
        let upstream = Upstream::mock().await;
        let gate = gate(&upstream, "claude", &hooks).await;
        let agent = gate.agent().sending(header, value);

        let answer = agent
            .generate(MODEL, &request_with_tool("Bash", &json!([user("go")])))
            .await;

        assert_eq!(answer.status, 200);
        assert_eq!(!gate.file("stop.json").is_empty(), main, "{value}");
        assert_eq!(!gate.file("subagent.json").is_empty(), !main, "{value}");
        if !main {
            let seen = gate.json("subagent.json");
            assert_eq!(seen["hook_event_name"], "SubagentStop");
            assert!(seen["agent_id"].is_string(), "{seen}");
        }
    }
}
