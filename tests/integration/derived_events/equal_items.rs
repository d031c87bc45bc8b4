//! Prompts and results whose texts are equal: each has its own decision, although no hook
//! evaluates them.

use serde_json::{Value, json};

use super::{
    Chat, MODEL, call,
    prompts::{first_text, received_texts},
    request_contents, script, text,
};
use crate::harness::{TestGateway, Upstream, hook};

#[tokio::test]
async fn a_prompt_is_in_later_requests_although_an_equal_one_was_denied() {
    let answers = ["B", "C"].map(|answer| json!([text(answer)]));
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = format!("policies: [{{ policy: model_allow, models: [{MODEL}] }}]\n");
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("start").model("A").user("continue");
    let denied = gate
        .agent()
        .generate("gemini-2.5-flash", &chat.body())
        .await;
    let chat = chat.answer(&denied.json()).user("continue");
    let answer = chat.send(&gate).await;

    let next = chat.answer(&answer).user("next");
    next.send(&gate).await;

    let received = received_texts(&upstream);
    assert_eq!(received, ["start", "A", "continue", "B", "next"]);
}

#[tokio::test]
async fn a_denied_call_is_in_later_requests_once_although_results_are_equal() {
    let read = || json!([call("read_file", &json!({}))]);
    let denied = json!([call("write_file", &json!({}))]);
    let answers = [read(), denied, read(), read(), json!([text("done")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = "policies: [{ policy: tool_guard, deny: [write_file] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let mut chat = Chat::with_prompt("go");
    for _ in 0..3 {
        let answer = chat.send(&gate).await;
        chat = chat.answer(&answer);
        chat = chat.result("read_file", &json!({ "output": "" }));
    }

    chat.send(&gate).await;

    let last = request_contents(&upstream).pop().unwrap();
    let is_denied = |content: &&Value| content["parts"][0]["functionCall"]["name"] == "write_file";
    assert_eq!(last.iter().filter(is_denied).count(), 1, "{last:?}");
}

#[tokio::test]
async fn a_turn_goes_on_although_one_with_an_equal_prompt_was_stopped() {
    let answers = ["A", "B"].map(|answer| json!([text(answer)]));
    let upstream = Upstream::scripted(&script(&answers)).await;
    let command = "if [ -e stopped ]; then echo '{}'; else touch stopped; echo '{\"continue\":false,\"stopReason\":\"enough\"}'; fi";
    let config = hook::config(&[("BeforeModel", hook::command("stop", command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("continue");
    let stopped = chat.send_in_session(&gate).await;
    let chat = chat.answer(&stopped).user("continue");
    chat.send_in_session(&gate).await;

    let called = chat.call("read_file", &json!({}));
    let called = called.result("read_file", &json!({ "output": "x" }));
    let answer = called.send_in_session(&gate).await;

    assert_eq!(first_text(&stopped), "enough");
    assert_eq!(first_text(&answer), "B");
}
