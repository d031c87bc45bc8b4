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
