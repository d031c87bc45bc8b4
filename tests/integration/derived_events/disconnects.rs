//! Agents that give up before hooks have decided about a long history, and try again.

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

    for number in ["0", "1"] {
        let count = logged.iter().filter(|seen| *seen == number).count();
        assert_eq!(count, 1, "{logged:?}");
    }
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

    for number in 0..9 {
        let count = logged.iter().filter(|seen| **seen == number).count();
        assert_eq!(count, 1, "{logged:?}");
    }
    assert!(logged.contains(&json!(19)), "{logged:?}");
}
