//! `AfterTool`: what tools return is judged before the model sees it.

use serde_json::{Value, json};

use super::{Chat, asked, log, logging};
use crate::harness::{TestGateway, Upstream, hook};

fn reading(chat: Chat, secret: &str) -> Chat {
    chat.calls("read_file", &json!({ "file_path": "a" }))
        .result("read_file", &json!({ "output": secret }))
}

/// Refuses every result that holds `SECRET`, and logs those it sees.
fn guard() -> String {
    let python = "import json,sys; e=json.load(sys.stdin); t=json.dumps(e[\"tool_response\"]); print(t, file=open(\"log\",\"a\")); print(json.dumps({\"decision\":\"deny\",\"reason\":\"hidden\"} if \"SECRET\" in t else {}))";
    hook::config(&[(
        "AfterTool",
        hook::running("dlp", &format!("python3 -c '{python}'")),
    )])
}

#[tokio::test]
async fn a_denied_result_is_hidden_in_every_later_request() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard()).await;
    let mut chat = reading(Chat::asking("read a"), "SECRET");

    for turn in 0..10 {
        let heard = chat.ask(&gate).await;
        chat = chat.heard(&heard).user(&format!("turn {turn}"));
    }

    assert_eq!(upstream.seen().len(), 10);
    for seen in upstream.seen() {
        assert!(!seen.body.contains("SECRET"), "{}", seen.body);
        let response = &seen.json()["contents"][2]["parts"][0]["functionResponse"]["response"];
        assert_eq!(*response, json!({ "error": "hidden" }));
    }
    assert_eq!(log(&gate).len(), 1);
}

#[tokio::test]
async fn hooks_see_the_call_and_its_result() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterTool", hook::saying("seen", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;

    reading(Chat::asking("read a"), "text").ask(&gate).await;

    let seen = gate.json("seen.json");
    assert_eq!(seen["tool_name"], "read_file");
    assert_eq!(seen["tool_input"], json!({ "file_path": "a" }));
    assert_eq!(
        seen["tool_response"],
        json!({ "llmContent": "text", "returnDisplay": "text" })
    );
}

#[tokio::test]
async fn context_is_appended_to_the_result_and_stays_there() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "mind <this>" } });
    let command = logging("[\"tool_name\"]", &output);
    let config = hook::config(&[("AfterTool", hook::running("log", &command))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = reading(Chat::asking("read a"), "text");

    let heard = chat.ask(&gate).await;
    chat.heard(&heard).user("and?").ask(&gate).await;

    for contents in asked(&upstream) {
        let output = &contents[2]["parts"][0]["functionResponse"]["response"]["output"];
        assert_eq!(
            *output,
            "text\n\n<hook_context>mind &lt;this&gt;</hook_context>"
        );
    }
    assert_eq!(log(&gate), ["read_file"]);
}

#[tokio::test]
async fn a_result_that_came_before_the_gateway_is_judged_all_the_same() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard()).await;
    let chat = reading(Chat::asking("read a"), "SECRET").model("I know it.");

    reading(chat.user("again"), "other").ask(&gate).await;

    assert!(!upstream.only().body.contains("SECRET"));
    assert_eq!(log(&gate).len(), 2);
}

#[tokio::test]
async fn media_of_a_denied_result_go_too() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("AfterTool", hook::refusing("dlp", "hidden"))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let mut chat = Chat::asking("look").calls("read_file", &json!({}));
    let result =
        json!({ "functionResponse": { "name": "read_file", "response": { "output": "1 item" } } });
    let media = json!({ "inlineData": { "mimeType": "image/png", "data": "U0VDUkVU" } });
    chat.contents
        .push(json!({ "role": "user", "parts": [result, media] }));

    chat.ask(&gate).await;

    assert!(!upstream.only().body.contains("U0VDUkVU"));
}

#[tokio::test]
async fn a_hook_may_end_the_loop() {
    let upstream = Upstream::mock().await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let config = hook::config(&[("AfterTool", hook::saying("stop", &stop))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = reading(Chat::asking("read a"), "text");

    let told = chat.ask(&gate).await;
    chat.heard(&told).user("go on").ask(&gate).await;

    let said: &Value = &told["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(*said, "enough");
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn tokens_of_a_hidden_result_are_not_counted_by_others() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &guard()).await;
    let chat = reading(Chat::asking("read a"), "SECRET");

    let path = "/v1beta/models/m:countTokens";
    gate.agent()
        .post(path, json!({ "contents": chat.contents }).to_string())
        .await;

    assert!(!upstream.only().body.contains("SECRET"));
}
