//! Calls in which the model is asked again: each round begins with the request of the agent.

use serde_json::{Value, json};

use super::{Chat, call, script, text};
use crate::harness::{Answer, TestGateway, Upstream};

const SWAP: &str = "{ policy: model_swap, swap: { gemini-2.5-pro: gemini-2.5-flash, gemini-2.5-flash: gemini-2.5-flash-lite } }";
const GUARD: &str = "{ policy: tool_guard, deny: [write_file] }";

/// Makes a call to which the model first responds with a denied call.
async fn ask(config: &str, body: &Value) -> (Answer, Upstream) {
    let answers = [
        json!([call("write_file", &json!({}))]),
        json!([text("done")]),
    ];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, config).await;
    let path = "/v1beta/models/gemini-2.5-pro:generateContent";
    let answer = gate.agent().post(path, body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (answer, upstream)
}

#[tokio::test]
async fn a_model_is_swapped_once_however_often_it_is_asked() {
    let config = format!("policies: [{SWAP}, {GUARD}]\n");
    let mut body = Chat::with_prompt("go").body();
    for named in [Value::Null, json!("models/gemini-2.5-pro")] {
        if named.is_string() {
            body["model"] = named;
        }

        let (_, upstream) = ask(&config, &body).await;

        let paths: Vec<String> = upstream
            .requests()
            .into_iter()
            .map(|seen| seen.path)
            .collect();
        let swapped = "/v1beta/models/gemini-2.5-flash:generateContent";
        assert_eq!(paths, [swapped, swapped]);
    }
}

#[tokio::test]
async fn conditions_see_the_model_of_the_agent_in_every_round() {
    let mask = "{ policy: redact, detect: [email], when: 'event != \"BeforeModel\" || request.model == \"gemini-2.5-pro\"' }";
    // Redaction comes after the swap in the file, so its condition is evaluated before it.
    let config = format!("policies: [{SWAP}, {mask}, {GUARD}]\n");
    let body = Chat::with_prompt("write to jo@example.com").body();

    let (_, upstream) = ask(&config, &body).await;

    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(!request.body.contains("jo@example.com"), "{}", request.body);
    }
}

#[tokio::test]
async fn a_selection_of_tools_holds_for_its_own_round() {
    let select = json!({ "hookSpecificOutput": { "toolConfig": {
        "mode": "ANY", "allowedFunctionNames": ["read_file"],
    } } });
    let hook = json!({
        "name": "select", "when": "request.contents == 1", "command": format!("echo '{select}'"),
    });
    let hooks = json!({ "BeforeToolSelection": [{ "hooks": [hook] }] });
    let first = json!([call("write_file", &json!({ "n": 1 }))]);
    let second = json!([call("write_file", &json!({ "n": 2 }))]);
    let answers = [first, second.clone(), json!([text("done")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &format!("hooks: {hooks}\n")).await;

    let answer = Chat::with_prompt("go").send(&gate).await;

    assert_eq!(answer["candidates"][0]["content"]["parts"], second);
}
