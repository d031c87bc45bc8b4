//! `AfterAgent`: the final answer of a turn.

use serde_json::{Value, json};

use super::{Chat, MODEL, call, log, parts, request_contents, script, text};
use crate::harness::{TestGateway, Upstream, hook};

/// Config with an `AfterAgent` hook that logs its input, and prints `output` for answers that
/// contain `draft`.
fn guard(output: &Value) -> String {
    let output = output.to_string().replace('"', "\\\"");
    let python = format!(
        "import json,sys; e=json.load(sys.stdin); print(json.dumps([e[\"prompt\"],e[\"prompt_response\"],e[\"stop_hook_active\"]]), file=open(\"log\",\"a\")); print(\"{output}\" if \"draft\" in e[\"prompt_response\"] else \"{{}}\")"
    );
    hook::config(&[(
        "AfterAgent",
        hook::command("guard", &format!("python3 -c '{python}'")),
    )])
}

fn denial() -> Value {
    json!({ "decision": "deny", "reason": "Make it better." })
}

/// Config with an `AfterAgent` hook that fails closed.
fn failing_closed() -> String {
    let mut broken = hook::command("guard", "exit 1");
    broken["on_failure"] = json!("closed");
    hook::config(&[("AfterAgent", broken)])
}

#[tokio::test]
async fn a_denied_answer_is_retried_with_the_reason_as_the_prompt() {
    let answers = [json!([text("a "), text("draft")]), json!([text("final")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &guard(&denial())).await;

    let events = Chat::with_prompt("write").stream(&gate).await;

    assert_eq!(
        json!(parts(&events)),
        json!([text("a "), text("draft"), text("\n\nfinal")])
    );
    let finished = |event: &&Value| event["candidates"][0].get("finishReason").is_some();
    assert_eq!(events.iter().filter(finished).count(), 1);
    let retry = &request_contents(&upstream)[1];
    assert_eq!(
        retry[1],
        json!({ "role": "model", "parts": [{ "text": "a draft" }] })
    );
    assert_eq!(
        retry[2],
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
async fn a_denied_answer_of_which_nothing_was_sent_is_replaced() {
    let answers = [json!([text("draft")]), json!([text("final")])];
    for path in ["generateContent", "streamGenerateContent?alt=sse"] {
        let upstream = Upstream::scripted(&script(&answers)).await;
        let gate = TestGateway::start(&upstream, &guard(&denial())).await;
        let path = format!("/v1beta/models/{MODEL}:{path}");
        let body = Chat::with_prompt("write").body().to_string();

        let answer = gate.agent().post(&path, body).await;

        assert!(!answer.text().contains("draft"), "{}", answer.text());
        assert!(
            answer.text().contains(r#""text":"final""#),
            "{}",
            answer.text()
        );
        assert_eq!(
            request_contents(&upstream)[1][1]["parts"][0]["text"],
            "draft"
        );
    }
}

/// Returns a request whose answer must be JSON.
fn json_request() -> Value {
    let mut body = Chat::with_prompt("write").body();
    body["generationConfig"] = json!({ "responseMimeType": "application/json" });
    body
}

#[tokio::test]
async fn a_stream_of_json_waits_for_the_decision_on_the_answer() {
    let draft = json!([text("{\"a\":"), text("\"draft\"}"), text("")]);
    let answers = [draft, json!([text("{\"a\":"), text("2}")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &guard(&denial())).await;

    let events = gate.agent().stream(MODEL, &json_request()).await.events();

    assert_eq!(json!(parts(&events)), json!([text("{\"a\":"), text("2}")]));
}

#[tokio::test]
async fn the_end_of_a_turn_is_an_error_instead_of_text_behind_json() {
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let answers = [json!([text("{\"a\":"), text("\"draft\"}")])];
    for path in ["generateContent", "streamGenerateContent?alt=sse"] {
        let upstream = Upstream::scripted(&script(&answers)).await;
        let gate = TestGateway::start(&upstream, &guard(&stop)).await;
        let path = format!("/v1beta/models/{MODEL}:{path}");

        let answer = gate.agent().post(&path, json_request().to_string()).await;

        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(answer.text().contains("enough"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_stop_in_place_of_a_whole_answer_ends_the_turn() {
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let hooks = hook::config(&[("AfterModel", hook::printing("stop", &stop))]);
    let upstream = Upstream::scripted(&script(&[json!([text("a")]), json!([text("b")])])).await;
    let gate = TestGateway::start(&upstream, &hooks).await;

    let chat = Chat::with_prompt("write").call("read_file", &json!({}));
    let chat = chat.result("read_file", &json!({ "output": "x" }));
    for _ in 0..2 {
        let answer = chat.send(&gate).await;
        assert!(answer.to_string().contains("enough"), "{answer}");
    }

    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_denied_answer_is_accepted_after_the_last_retry() {
    let answers: Vec<Value> = (0..9).map(|_| json!([text("draft")])).collect();
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = guard(&denial()) + "events: { max_answer_retries: 2 }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Chat::with_prompt("write").send(&gate).await;

    assert_eq!(upstream.requests().len(), 3);
    assert_eq!(answer["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn a_retry_with_cleared_context_has_session_context_and_reason_only() {
    let answers = [json!([text("draft")]), json!([text("final")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let clear = json!({ "decision": "deny", "reason": "Anew.", "clearContext": true });
    let start = json!({ "hookSpecificOutput": { "additionalContext": "house rules" } });
    let hooks = [
        ("SessionStart", hook::printing("start", &start)),
        ("AfterAgent", hook::printing("again", &clear)),
    ];
    let limits = "events: { max_answer_retries: 1 }\n";
    let config = format!("{limits}{}", hook::config(&hooks));
    let gate = TestGateway::start(&upstream, &config).await;

    let chat = Chat::with_prompt("one").model("two").user("three");
    chat.send(&gate).await;

    let context = text("<hook_context>house rules</hook_context>");
    let parts = json!([context, text("Anew.")]);
    assert_eq!(
        request_contents(&upstream)[1],
        [json!({ "role": "user", "parts": parts })]
    );
}

#[tokio::test]
async fn a_hook_that_fails_closed_appends_its_error_without_a_retry() {
    let upstream = Upstream::scripted(&script(&[json!([text("final"), text(".")])])).await;
    let gate = TestGateway::start(&upstream, &failing_closed()).await;

    let events = Chat::with_prompt("write").stream(&gate).await;

    assert_eq!(upstream.requests().len(), 1);
    let failure = text("\n\nHook guard failed: exit code 1");
    assert_eq!(
        json!(parts(&events)),
        json!([text("final"), text("."), failure])
    );
}

#[tokio::test]
async fn a_hook_that_fails_closed_withholds_an_answer_of_which_nothing_was_sent() {
    for path in ["generateContent", "streamGenerateContent?alt=sse"] {
        let upstream = Upstream::scripted(&script(&[json!([text("final")])])).await;
        let gate = TestGateway::start(&upstream, &failing_closed()).await;
        let path = format!("/v1beta/models/{MODEL}:{path}");
        let body = Chat::with_prompt("write").body().to_string();

        let answer = gate.agent().post(&path, body).await;

        assert!(!answer.text().contains("final"), "{}", answer.text());
        let failure = r#""text":"Hook guard failed: exit code 1""#;
        assert!(answer.text().contains(failure), "{}", answer.text());
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_is_withheld_if_one_hook_fails_closed_and_another_stops_the_turn() {
    let mut broken = hook::command("guard", "exit 1");
    broken["on_failure"] = json!("closed");
    let stop = hook::printing(
        "stop",
        &json!({ "continue": false, "stopReason": "enough" }),
    );
    let config = hook::config(&[("AfterAgent", broken), ("AfterAgent", stop)]);
    let upstream = Upstream::scripted(&script(&[json!([text("final")])])).await;
    let gate = TestGateway::start(&upstream, &config).await;
    let path = format!("/v1beta/models/{MODEL}:generateContent");

    let answer = gate
        .agent()
        .post(&path, Chat::with_prompt("write").body().to_string())
        .await;

    assert!(!answer.text().contains("final"), "{}", answer.text());
    assert!(answer.text().contains("enough"), "{}", answer.text());
    assert_eq!(answer.header("x-hookgate-action"), "stop");
}

#[tokio::test]
async fn a_hook_that_fails_without_a_denial_does_not_prevent_a_retry() {
    let again = "if grep -q draft; then echo better >&2; exit 2; fi";
    let open = hook::command("metrics", "exit 1");
    let mut observing = open.clone();
    observing["mode"] = json!("observe");
    observing["on_failure"] = json!("closed");
    for broken in [open, observing] {
        let answers = [json!([text("draft")]), json!([text("final")])];
        let upstream = Upstream::scripted(&script(&answers)).await;
        let again = ("AfterAgent", hook::command("again", again));
        let config = hook::config(&[again, ("AfterAgent", broken)]);
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = Chat::with_prompt("write").send(&gate).await;

        let content = &answer["candidates"][0]["content"];
        assert_eq!(content["parts"], json!([text("final")]), "{config}");
    }
}

#[tokio::test]
async fn an_answer_with_tool_calls_is_not_a_final_answer() {
    let answers = [json!([text("draft"), call("read_file", &json!({}))])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &guard(&denial())).await;

    Chat::with_prompt("write").send(&gate).await;

    assert_eq!(log(&gate), [Value::Null; 0]);
}

/// A line of a script: an answer whose candidates have one part each.
fn candidates(parts: [Value; 2]) -> String {
    let candidates = parts.into_iter().enumerate().map(|(index, part)| {
        let content = json!({ "role": "model", "parts": [part] });
        json!({ "content": content, "finishReason": "STOP", "index": index })
    });
    let response = json!({ "candidates": candidates.collect::<Vec<_>>() });
    json!({ "method": "generateContent", "response": response }).to_string()
}

#[tokio::test]
async fn a_denied_answer_of_any_candidate_is_retried() {
    let answers = [
        candidates([text("fine"), text("draft")]),
        candidates([text("one"), text("two")]),
    ];
    let upstream = Upstream::scripted(&answers.join("\n")).await;
    let gate = TestGateway::start(&upstream, &guard(&denial())).await;

    let answer = Chat::with_prompt("write").send(&gate).await;

    assert!(!answer.to_string().contains("draft"), "{answer}");
    let seen = [
        json!(["write", "fine\n\ndraft", false]),
        json!(["write", "one\n\ntwo", true]),
    ];
    assert_eq!(log(&gate), seen);
    let retry = &request_contents(&upstream)[1];
    assert_eq!(retry[1]["parts"], json!([text("fine\n\ndraft")]));
}

#[tokio::test]
async fn a_denied_answer_beside_a_candidate_with_a_call_ends_the_turn() {
    let deny_calls = "policies: [{ policy: tool_guard, deny: [read_file] }]\n";
    for policies in ["", deny_calls] {
        let answer = candidates([call("read_file", &json!({})), text("draft")]);
        let upstream = Upstream::scripted(&answer).await;
        let config = guard(&denial()) + policies;
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = Chat::with_prompt("write").send(&gate).await;

        assert_eq!(log(&gate), [json!(["write", "draft", false])]);
        assert_eq!(parts(&[answer]), [text("Make it better.")]);
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_hook_can_stop_the_turn_after_the_answer() {
    let upstream = Upstream::scripted(&script(&[json!([text("draft")])])).await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let gate = TestGateway::start(&upstream, &guard(&stop)).await;

    let events = Chat::with_prompt("write").stream(&gate).await;

    assert_eq!(
        json!(parts(&events)),
        json!([text("draft"), text("\n\nenough")])
    );
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_event_that_is_not_listed_in_derive_fires_no_hook() {
    let upstream = Upstream::scripted(&script(&[json!([text("draft")])])).await;
    let config = guard(&denial()) + "events: { derive: [BeforeTool] }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    Chat::with_prompt("write").send(&gate).await;

    assert_eq!(log(&gate), [Value::Null; 0]);
}
