//! Hooks on prompts and final answers: `BeforeAgent`, `AfterAgent`.

use serde_json::{Value, json};

use super::{Scenario, contents, hook_context, printing, responses, settings, texts};
use crate::harness::ReceivedRequest;

#[tokio::test]
async fn context_is_added_to_a_prompt() {
    let context = "SYSTEM INSTRUCTION: You are in a secure environment. Always mention security compliance in your responses.";
    let hook = printing(&json!({ "decision": "allow", "hookSpecificOutput": {
        "hookEventName": "BeforeAgent", "additionalContext": context,
    }}));
    let scenario = Scenario::start("before-agent", &settings("BeforeAgent", "", &[&hook])).await;

    let answer = scenario.coder().ask("Hello, how are you?").await;

    assert!(answer.contains("security"), "{answer}");
    assert_eq!(
        scenario.last_texts()[1..],
        ["Hello, how are you?", &hook_context(context)]
    );
}

#[tokio::test]
async fn hooks_in_sequence_both_add_their_context() {
    let context = |text: &str| {
        printing(&json!({ "decision": "allow", "hookSpecificOutput": {
            "hookEventName": "BeforeAgent", "additionalContext": text,
        }}))
    };
    let steps = [
        "Step 1: Initial validation passed.",
        "Step 2: Security check completed.",
    ];
    let hooks = settings("BeforeAgent", "", &[&context(steps[0]), &context(steps[1])]);
    let scenario = Scenario::start("before-agent", &hooks).await;

    scenario
        .coder()
        .ask("Hello, please help me with a task")
        .await;

    let texts = scenario.last_texts();
    assert_eq!(texts.last().unwrap(), &hook_context(&steps.join("\n")));
}

#[tokio::test]
async fn a_hook_gets_the_prompt_and_the_answer_once_in_a_turn_with_tools() {
    let mut hooks = settings(
        "BeforeAgent",
        "",
        &["cat >> before.jsonl; echo >> before.jsonl"],
    );
    let after = settings(
        "AfterAgent",
        "",
        &["cat >> after.jsonl; echo >> after.jsonl"],
    );
    hooks["hooks"]["AfterAgent"] = after["hooks"]["AfterAgent"].clone();
    let scenario = Scenario::start("before-tool-selection", &hooks).await;
    let mut coder = scenario.coder();
    coder
        .files
        .insert("new_file_data.txt".to_owned(), String::new());

    coder.ask("Do a multi-step task").await;

    let lines = |file| -> Vec<Value> {
        let text = scenario.gate.file(file);
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let (before, after) = (lines("before.jsonl"), lines("after.jsonl"));
    assert_eq!((before.len(), after.len(), scenario.calls()), (1, 1, 2));
    assert_eq!(before[0]["prompt"], "Do a multi-step task");
    assert_eq!(after[0]["prompt"], "Do a multi-step task");
    assert_eq!(after[0]["prompt_response"], "Done.");
    assert_eq!(after[0]["stop_hook_active"], false);
}

#[tokio::test]
async fn a_denied_answer_is_retried_with_a_cleared_context() {
    let hook = printing(
        &json!({ "decision": "block", "reason": "Security policy triggered",
        "hookSpecificOutput": { "hookEventName": "AfterAgent", "clearContext": true } }),
    );
    let hooks = settings("AfterAgent", "", &[&hook]);
    let limits = "events: { max_answer_retries: 2 }\n";
    let scenario = Scenario::start_with(&responses("after-agent"), limits, &hooks).await;

    let answer = scenario.coder().ask("Hello test").await;

    assert!(answer.contains("Security policy triggered"), "{answer}");
    let seen = scenario.upstream.requests();
    let requests: Vec<Value> = seen.iter().map(ReceivedRequest::json).collect();
    let lengths: Vec<usize> = requests
        .iter()
        .map(|request| contents(request).len())
        .collect();
    assert_eq!(lengths, [1, 1, 1]);
    assert_eq!(
        texts(&requests[1]).last().unwrap(),
        "Security policy triggered"
    );
    assert!(!requests[1].to_string().contains("Hello test"));
}
