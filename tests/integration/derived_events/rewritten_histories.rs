//! `BeforeAgent`: decisions on prompts of a history that an agent rewrites.

use serde_json::json;

use super::{
    Chat, MODEL, log, log_command,
    prompts::{denying_gate, first_text, received_texts},
    script, text,
};
use crate::harness::{TestGateway, Upstream, hook};

/// Config with a `BeforeAgent` hook that logs prompts, and prints `outputs`: dictionaries of
/// Python with conditions on the prompt `p`.
fn deciding(outputs: &str) -> String {
    let python = format!(
        "import json,sys; p=json.load(sys.stdin)[\"prompt\"]; print(json.dumps(p), file=open(\"log\",\"a\")); print(json.dumps({outputs} else {{}}))"
    );
    hook::config(&[(
        "BeforeAgent",
        hook::command("guard", &format!("python3 -c '{python}'")),
    )])
}

#[tokio::test]
async fn a_denied_prompt_of_several_texts_stays_denied_behind_a_text_in_front_of_it() {
    let in_one_message = Chat::new().user_texts(&["summary", "bad idea", "please"]);
    let in_two_messages = Chat::with_prompt("summary").user_texts(&["bad idea", "please"]);
    for chat in [in_one_message, in_two_messages] {
        let upstream = Upstream::mock().await;
        let outputs = r#"{"decision": "deny", "reason": "not that"} if p[:3] == "bad""#;
        let gate = TestGateway::start(&upstream, &deciding(outputs)).await;
        let denied = Chat::new().user_texts(&["bad idea", "please"]);
        denied.send_in_session(&gate).await;

        let rewritten = chat.model("not that").user("go");
        rewritten.send_in_session(&gate).await;

        let seen = ["bad idea\n\nplease", "summary\n\nbad idea\n\nplease", "go"];
        assert_eq!(log(&gate), seen);
        assert_eq!(received_texts(&upstream), ["go"]);
    }
}

#[tokio::test]
async fn a_stop_at_a_denied_prompt_behind_another_text_has_its_own_reason() {
    let upstream = Upstream::mock().await;
    let outputs = r#"{"continue": False, "stopReason": "enough"} if "summary" in p else {"decision": "deny", "reason": "not that"} if p[:3] == "bad""#;
    let gate = TestGateway::start(&upstream, &deciding(outputs)).await;
    Chat::with_prompt("bad idea").send_in_session(&gate).await;

    let rewritten = Chat::new()
        .user_texts(&["summary", "bad idea"])
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "b" }));
    let stopped = rewritten.send_in_session(&gate).await;
    let next = rewritten.answer(&stopped).user("go");
    next.send_in_session(&gate).await;

    assert_eq!(first_text(&stopped), "enough");
    assert_eq!(received_texts(&upstream), ["go"]);
}

#[tokio::test]
async fn a_summary_by_the_model_is_no_part_of_the_prompt_behind_it() {
    let summary =
        "The user wants a fix of the parser, and the model has found the cause of the fault.";
    let answers = ["found it", summary, "done"].map(|answer| json!([text(answer)]));
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = hook::config(&[
        (
            "BeforeAgent",
            hook::command("log", &log_command("[\"prompt\"]", &json!({}))),
        ),
        ("AfterModel", hook::command("reader", "cat > /dev/null")),
    ]);
    let gate = TestGateway::start(&upstream, &config).await;
    let helper = gate.agent().sending(
        "user-agent",
        "GeminiCLI-tui/0.61.0/m (linux; x64; terminal)",
    );
    let chat = Chat::with_prompt("fix the parser");
    let answer = chat.send(&gate).await;
    let chat = chat.answer(&answer).user("summarise");
    let body = json!({ "contents": chat.contents });
    helper.generate(MODEL, &body).await;

    let rewritten = Chat::with_prompt(summary)
        .user("fix the parser")
        .model("found it");
    rewritten.user("go").send(&gate).await;

    assert_eq!(log(&gate), ["fix the parser", "go"]);
    let received = received_texts(&upstream);
    assert_eq!(received, [summary, "fix the parser", "found it", "go"]);
}

#[tokio::test]
async fn a_denied_prompt_of_several_texts_is_inspected_again_if_its_reason_was_too_long_to_keep() {
    let upstream = Upstream::mock().await;
    let outputs = r#"{"decision": "deny", "reason": "x" * 600000} if p[:3] == "bad""#;
    let gate = TestGateway::start(&upstream, &deciding(outputs)).await;
    let mut chat = Chat::new();
    for number in 0..5 {
        let texts = [format!("bad {number}"), format!("please {number}")];
        chat = chat.user_texts(&texts.each_ref().map(String::as_str));
        chat.send_in_session(&gate).await;
        chat = chat.model("no");
    }

    chat.user("go").send_in_session(&gate).await;

    let received = received_texts(&upstream);
    assert!(
        received.iter().all(|text| text == "no" || text == "go"),
        "{received:?}"
    );
}

#[tokio::test]
async fn a_denial_does_not_apply_to_a_moved_prompt_with_the_same_end() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let denied = Chat::new().user_texts(&["bad idea", "continue"]);
    denied.send_in_session(&gate).await;
    let allowed = Chat::new().user_texts(&["my file", "continue"]);
    allowed.send_in_session(&gate).await;

    let rewritten = Chat::with_prompt("summary")
        .model("A")
        .user_texts(&["my file", "continue"])
        .model("B");
    rewritten.user("go").send_in_session(&gate).await;

    let received = received_texts(&upstream);
    let all = ["summary", "A", "my file", "continue", "B", "go"];
    assert_eq!(received, all);
}

#[tokio::test]
async fn a_moved_prompt_stays_denied_if_hooks_add_context_to_another_with_the_same_end() {
    let upstream = Upstream::mock().await;
    let outputs = r#"{"decision": "deny", "reason": "not that"} if p == "bad idea" else {"hookSpecificOutput": {"additionalContext": "today"}} if "my file" in p"#;
    let gate = TestGateway::start(&upstream, &deciding(outputs)).await;
    Chat::with_prompt("bad idea").send_in_session(&gate).await;
    let with_context = Chat::new().user_texts(&["my file", "bad idea"]);
    with_context.send_in_session(&gate).await;

    let rewritten = Chat::with_prompt("summary")
        .model("A")
        .user("bad idea")
        .model("not that");
    rewritten.user("go").send_in_session(&gate).await;

    assert_eq!(received_texts(&upstream), ["summary", "A", "go"]);
}
