//! Events and requests with too many JSON values.

use serde_json::json;

use super::{GENERATE, HOOKED};
use crate::{
    families::family::Family,
    harness::{TestGateway, Upstream, assert_refused},
};

/// Number of values that is accepted.
const MAX_VALUES: usize = 524_288;

/// A list with this number of values, itself included.
fn list(values: usize) -> String {
    ["[", &vec!["0"; values - 1].join(","), "]"].concat()
}

#[tokio::test]
async fn an_event_with_too_many_values_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    // The event has four values around the list.
    let report = async |values: usize| {
        let head = r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":{"a":"#;
        let event = [head, &list(values - 4), "}}"].concat();
        gate.agent().post("/hookgate/v1/events", event).await
    };

    let accepted = report(MAX_VALUES).await;
    let refused = report(MAX_VALUES + 1).await;

    assert_eq!(accepted.status, 200, "{}", accepted.text());
    assert_refused(&refused, 400, "BAD_JSON");
}

#[tokio::test]
async fn a_request_with_too_many_values_in_a_tool_result_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, HOOKED).await;
    let result = json!({ "functionResponse": { "name": "t", "response": { "output": [["*"]] } } });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "hi" }] },
        { "role": "model", "parts": [{ "functionCall": { "name": "t", "args": {} } }] },
        { "role": "user", "parts": [result] },
    ] });
    let body = body.to_string().replace("\"*\"", &list(MAX_VALUES));

    let answer = gate.agent().post(GENERATE, body).await;

    assert_refused(&answer, 400, "BAD_JSON");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_request_with_too_many_values_in_arguments_that_are_strings_is_refused() {
    let arguments = format!("{{\"a\":{}}}", list(MAX_VALUES / 2));
    let function = json!({ "name": "t", "arguments": arguments });
    let call = |id: &str| json!({ "id": id, "type": "function", "function": function });
    let chat = json!({ "model": "m", "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "tool_calls": [call("1"), call("2")] },
        { "role": "tool", "tool_call_id": "1", "content": "ok" },
        { "role": "tool", "tool_call_id": "2", "content": "ok" },
    ] });
    let item = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "t", "arguments": arguments });
    let output =
        |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "ok" });
    let user = json!({ "role": "user", "content": "hi" });
    let input = json!([user, item("1"), item("2"), output("1"), output("2")]);
    let responses = json!({ "model": "m", "input": input });

    for (family, body) in [(Family::Chat, chat), (Family::Responses, responses)] {
        let upstream = Upstream::mock().await;
        let gateway = family.gateway(&upstream, HOOKED).await;

        let answer = family.post(&gateway, false, body.to_string()).await;

        assert_eq!(answer.status, 400, "{family:?}: {}", answer.text());
        assert!(answer.text().contains("more than 524,288 values"));
        assert!(upstream.requests().is_empty());
    }
}
