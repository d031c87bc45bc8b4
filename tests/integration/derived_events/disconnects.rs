//! Agents that give up before hooks have decided about a long history, and try again.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Chat, MODEL, log, log_command};
use crate::harness::{TEST_TIMEOUT, TestGateway, Upstream, eventually, hook};

/// Sends an unseen history to a gateway whose hook on `event` takes 0.6 s and logs a number in its
/// input. The agent gives up when hooks have begun to decide about `begun` items, and tries again.
/// Returns the logged numbers.
async fn log_of_two_attempts(event: &str, field: &str, chat: Chat, begun: usize) -> Vec<Value> {
    let upstream = Upstream::mock().await;
    let command = log_command(field, &json!({})) + "; sleep 0.6";
    let config = hook::config(&[(event, hook::command("slow", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let (agent, body) = (gate.agent(), chat.body());

    tokio::select! {
        answer = agent.generate(MODEL, &body) => panic!("{}", answer.text()),
        () = eventually("hooks", TEST_TIMEOUT, || log(&gate).len() >= begun) => (),
    }
    chat.send(&gate).await;

    log(&gate)
}

#[tokio::test]
async fn hooks_decide_once_about_prompts_of_an_agent_that_gives_up() {
    let mut chat = Chat::new();
    for number in 0..4 {
        chat = chat.user(&number.to_string()).model("A");
    }

    let logged = log_of_two_attempts("BeforeAgent", "[\"prompt\"]", chat.user("4"), 3).await;

    let of_first = logged.iter().filter(|prompt| *prompt == "0").count();
    assert_eq!(of_first, 1, "{logged:?}");
    assert!(logged.contains(&json!("4")), "{logged:?}");
}

#[tokio::test]
async fn hooks_decide_once_about_results_of_an_agent_that_gives_up() {
    let mut chat = Chat::with_prompt("go");
    for number in 0..20 {
        let result = json!({ "output": number.to_string() });
        chat = chat.call("read_file", &json!({ "number": number }));
        chat = chat.result("read_file", &result);
    }

    // Eight run at a time, so two rounds of them are over.
    let field = "[\"tool_input\"][\"number\"]";
    let logged = log_of_two_attempts("AfterTool", field, chat, 17).await;

    let of_first = logged.iter().filter(|number| **number == 0).count();
    assert_eq!(of_first, 1, "{logged:?}");
    assert!(logged.contains(&json!(19)), "{logged:?}");
}

#[tokio::test]
async fn a_stop_holds_although_the_agent_gave_up_before_all_results_were_decided() {
    let upstream = Upstream::mock().await;
    let stop = json!({ "continue": false, "stopReason": "Enough." });
    // The other result is decided at the second attempt only.
    let command = format!(
        "if grep -q bad; then sleep 1.1; touch decided; echo '{stop}'; \
         elif mkdir second; then sleep 60; fi"
    );
    let config = hook::config(&[("AfterTool", hook::command("slow", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent();
    let call = |number: u32| json!({ "functionCall": { "name": "f", "args": { "n": number } } });
    let result = |output: &str| json!({ "functionResponse": { "name": "f", "response": { "output": output } } });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
        { "role": "model", "parts": [call(1), call(2)] },
        { "role": "user", "parts": [result("bad"), result("fine")] },
    ] });

    tokio::select! {
        answer = agent.generate(MODEL, &body) => panic!("{}", answer.text()),
        () = eventually("the first decision", TEST_TIMEOUT, || gate.path("decided").exists()) => (),
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let answer = agent.generate(MODEL, &body).await;

    assert!(answer.text().contains("Enough."), "{}", answer.text());
    assert!(upstream.requests().is_empty());
}
