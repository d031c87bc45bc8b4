//! Blocks and fields of the Messages API that edits empty, that hold further texts, or that only
//! some methods have.

use serde_json::{Value, json};

use super::family::{Family, Part, Turn};
use crate::harness::{TestGateway, hook};

const FAMILY: Family = Family::Anthropic;

/// Sends a request. Returns what upstream received.
async fn forwarded(config: &str, path: &str, request: &Value) -> Value {
    let upstream = FAMILY.upstream(vec![vec![Part::text(&["ok"])]]).await;
    let gateway: TestGateway = FAMILY.gateway(&upstream, config).await;
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    agent.post(path, request.to_string()).await;
    upstream.only_request().json()
}

fn request(turns: &[Turn<'_>]) -> Value {
    FAMILY.request(false, turns)
}

#[tokio::test]
async fn a_text_block_that_masking_empties_is_removed_and_its_cache_mark_moves() {
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let mark = json!({ "type": "ephemeral" });
    let mut body = request(&[Turn::User("")]);
    body["messages"][0]["content"] = json!([
        { "type": "text", "text": "Hello", "cache_control": mark },
        { "type": "text", "text": " mail jo@example.com" },
    ]);
    let sent = forwarded(config, "/v1/messages", &body).await;
    let text = "Hello mail [REDACTED:email]";
    assert_eq!(
        sent["messages"][0]["content"],
        json!([{ "type": "text", "text": text, "cache_control": mark }])
    );
}

#[tokio::test]
async fn a_message_that_a_hook_empties_is_removed() {
    let messages = json!([
        { "role": "user", "content": "one" },
        { "role": "model", "content": "" },
        { "role": "user", "content": "two" },
    ]);
    let edit = hook::request(&json!({ "messages": messages }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
    let turns = [Turn::User("one"), Turn::Model("no"), Turn::User("two")];
    let sent = forwarded(&hooks, "/v1/messages", &request(&turns)).await;
    let expected = json!([
        { "role": "user", "content": "one" },
        { "role": "user", "content": "two" },
    ]);
    assert_eq!(sent["messages"], expected);
}
