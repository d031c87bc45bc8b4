//! `AfterAgent`: the final answer of a turn.

use serde_json::{Value, json};

use super::{Chat, MODEL, asked, call, log, parts, script, text};
use crate::harness::{TestGateway, Upstream, hook};

/// Refuses answers that hold `draft`, and logs its input.
fn guard(output: &Value) -> String {
    let output = output.to_string().replace('"', "\\\"");
    let python = format!(
        "import json,sys; e=json.load(sys.stdin); print(json.dumps([e[\"prompt\"],e[\"prompt_response\"],e[\"stop_hook_active\"]]), file=open(\"log\",\"a\")); print(\"{output}\" if \"draft\" in e[\"prompt_response\"] else \"{{}}\")"
    );
    hook::config(&[(
        "AfterAgent",
        hook::running("guard", &format!("python3 -c '{python}'")),
    )])
}

fn better() -> Value {
    json!({ "decision": "deny", "reason": "Make it better." })
}

#[tokio::test]
async fn a_denied_answer_is_tried_again_with_the_reason_as_prompt() {
    let answers = [json!([text("a "), text("draft")]), json!([text("final")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &guard(&better())).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("write").body())
        .await
        .events();

    assert_eq!(
        json!(parts(&events)),
        json!([text("a "), text("draft"), text("\n\nfinal")])
    );
    let finished = |it: &&Value| it["candidates"][0].get("finishReason").is_some();
    assert_eq!(events.iter().filter(finished).count(), 1);
    let again = &asked(&upstream)[1];
    assert_eq!(
        again[1],
        json!({ "role": "model", "parts": [{ "text": "a draft" }] })
    );
    assert_eq!(
        again[2],
        json!({ "role": "user", "parts": [{ "text": "Make it better." }] })
    );
    assert_eq!(
        log(&gate),
        [
            json!(["write", "a draft", false]),
            json!(["write", "final", true])
        ]
    );
}

#[tokio::test]
async fn an_answer_that_never_gets_better_is_accepted() {
    let answers: Vec<Value> = (0..9).map(|_| json!([text("draft")])).collect();
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = guard(&better()) + "events: { max_answer_retries: 2 }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Chat::asking("write").ask(&gate).await;

    assert_eq!(upstream.seen().len(), 3);
    assert_eq!(answer["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn a_cleared_context_is_that_of_a_session_that_starts() {
    let answers = [json!([text("draft")]), json!([text("final")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let clears = json!({ "decision": "deny", "reason": "Anew.", "clearContext": true });
    let starts = json!({ "hookSpecificOutput": { "additionalContext": "house rules" } });
    let hooks = [
        ("SessionStart", hook::saying("start", &starts)),
        ("AfterAgent", hook::saying("again", &clears)),
    ];
    let bounds = "events: { max_answer_retries: 1 }\n";
    let config = format!("{bounds}{}", hook::config(&hooks));
    let gate = TestGateway::start(&upstream, &config).await;

    let chat = Chat::asking("one").model("two").user("three");
    chat.ask(&gate).await;

    let lead = text("<hook_context>house rules</hook_context>");
    let parts = json!([lead, text("Anew.")]);
    assert_eq!(
        asked(&upstream)[1],
        [json!({ "role": "user", "parts": parts })]
    );
}

#[tokio::test]
async fn a_hook_that_fails_gets_no_other_answer() {
    let upstream = Upstream::scripted(&script(&[json!([text("final")])])).await;
    let mut broken = hook::running("guard", "exit 1");
    broken["on_failure"] = json!("closed");
    let gate = TestGateway::start(&upstream, &hook::config(&[("AfterAgent", broken)])).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("write").body())
        .await
        .events();

    assert_eq!(upstream.seen().len(), 1);
    let said = parts(&events);
    assert!(
        said[1]["text"]
            .as_str()
            .unwrap()
            .starts_with("\n\nHook guard failed"),
        "{said:?}"
    );
}

#[tokio::test]
async fn calls_are_no_final_answer() {
    let answers = [json!([text("draft"), call("read_file", &json!({}))])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &guard(&better())).await;

    Chat::asking("write").ask(&gate).await;

    assert_eq!(log(&gate), [Value::Null; 0]);
}

#[tokio::test]
async fn a_hook_may_stop_the_session_there() {
    let upstream = Upstream::scripted(&script(&[json!([text("draft")])])).await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let gate = TestGateway::start(&upstream, &guard(&stop)).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("write").body())
        .await
        .events();

    assert_eq!(
        json!(parts(&events)),
        json!([text("draft"), text("\n\nenough")])
    );
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn an_event_without_hooks_is_not_derived() {
    let upstream = Upstream::scripted(&script(&[json!([text("draft")])])).await;
    let config = guard(&better()) + "events: { derive: [BeforeTool] }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    Chat::asking("write").ask(&gate).await;

    assert_eq!(log(&gate), [Value::Null; 0]);
}
