//! `BeforeAgent`: prompts are judged when they start a turn.

use serde_json::{Value, json};

use super::{Chat, asked, log, logging};
use crate::harness::{TestGateway, Upstream, hook};

/// Refuses prompts that hold `bad`, and logs all.
fn guard(output: &Value) -> String {
    let output = output.to_string().replace('"', "\\\"");
    let python = format!(
        "import json,sys; p=json.load(sys.stdin)[\"prompt\"]; print(json.dumps(p), file=open(\"log\",\"a\")); print(\"{output}\" if \"bad\" in p else \"{{}}\")"
    );
    hook::config(&[(
        "BeforeAgent",
        hook::running("guard", &format!("python3 -c '{python}'")),
    )])
}

fn said(answer: &Value) -> &Value {
    &answer["candidates"][0]["content"]["parts"][0]["text"]
}

#[tokio::test]
async fn a_denied_prompt_is_answered_once_and_the_next_one_works() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "decision": "deny", "reason": "not that" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::asking("bad idea");

    let told = chat.ask(&gate).await;
    let again = chat.ask(&gate).await;
    let next = Chat::asking("bad idea").heard(&told).user("hello");
    let heard = next.ask(&gate).await;
    next.heard(&heard).user("more").ask(&gate).await;

    assert_eq!(
        (said(&told), said(&again)),
        (&json!("not that"), &json!("not that"))
    );
    assert_eq!(log(&gate), ["bad idea", "hello", "more"]);
    let asked = asked(&upstream);
    assert_eq!(
        asked[0],
        [json!({ "role": "user", "parts": [{ "text": "hello" }] })]
    );
    assert_eq!(asked.len(), 2);
    assert!(!asked[1].iter().any(|it| it.to_string().contains("bad")));
}

#[tokio::test]
async fn a_denied_prompt_that_is_kept_without_an_answer_goes_too() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "decision": "deny", "reason": "not that" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::asking("bad idea");

    chat.ask(&gate).await;
    chat.user("hello").ask(&gate).await;

    assert_eq!(log(&gate), ["bad idea", "hello"]);
    assert_eq!(asked(&upstream)[0].len(), 1);
}

#[tokio::test]
async fn a_stopped_prompt_stays_in_the_history() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "continue": false, "stopReason": "enough" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::asking("bad idea");

    let told = chat.ask(&gate).await;
    chat.heard(&told).user("hello").ask(&gate).await;

    assert_eq!(*said(&told), "enough");
    assert_eq!(asked(&upstream)[0].len(), 3);
}

#[tokio::test]
async fn context_is_there_for_all_calls_of_its_turn_and_no_other() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "today" } });
    let command = logging("[\"prompt\"]", &output) + "; sed -i 's/x/x/' log";
    let only_first = format!("if grep -q . log 2>/dev/null; then echo '{{}}'; else {command}; fi");
    let config = hook::config(&[("BeforeAgent", hook::running("log", &only_first))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::asking("first");

    chat.ask(&gate).await;
    let chat = chat
        .calls("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));
    let heard = chat.ask(&gate).await;
    chat.heard(&heard).user("second").ask(&gate).await;

    let context = json!({ "text": "<hook_context>today</hook_context>" });
    let asked = asked(&upstream);
    for contents in &asked[..2] {
        assert_eq!(contents[0]["parts"], json!([{ "text": "first" }, context]));
    }
    assert_eq!(asked[2][0]["parts"], json!([{ "text": "first" }]));
}

#[tokio::test]
async fn a_tool_loop_is_no_new_turn() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[(
        "BeforeAgent",
        hook::running("log", &logging("[\"prompt\"]", &json!({}))),
    )]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::asking("first");

    chat.ask(&gate).await;
    let chat = chat
        .calls("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));
    chat.ask(&gate).await;
    chat.model("done").user("second").ask(&gate).await;

    assert_eq!(log(&gate), ["first", "second"]);
}

#[tokio::test]
async fn helpers_of_gemini_cli_start_no_turn() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[(
        "BeforeAgent",
        hook::running("log", &logging("[\"prompt\"]", &json!({}))),
    )]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending(
        "user-agent",
        "GeminiCLI-tui/0.61.0/m (linux; x64; terminal)",
    );

    let body = json!({ "contents": [{ "role": "user", "parts": [{ "text": "Summarize" }] }] });
    agent.generate(super::MODEL, &body).await;

    assert_eq!(log(&gate), [Value::Null; 0]);
    assert_eq!(upstream.seen().len(), 1);
}
