//! Validation of reported events: invalid bodies, limits, methods and media types.

use serde_json::json;

use super::start_with_hook;
use crate::harness::{Answer, Raw, TestGateway, Upstream, assert_refused, prompt};

/// Invalid bodies, each with a part of the error response.
const INVALID: [(&str, &str); 24] = [
    ("{", "BAD_JSON"),
    ("", "BAD_JSON"),
    ("[]", "object"),
    ("{}", "`hook_event_name`"),
    (r#"{"hook_event_name":5}"#, "`hook_event_name`"),
    (r#"{"hook_event_name":"BeforeLunch"}"#, "`hook_event_name`"),
    (
        r#"{"hook_event_name":"BeforeTool","hook_event_name":"AfterTool"}"#,
        "hook_event_name",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_input":{}}"#,
        "tool_name",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":[]}"#,
        "`tool_input`",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_name":"t","tool_input":{},"session_id":5}"#,
        "`session_id`",
    ),
    (
        r#"{"hook_event_name":"BeforeAgent","prompt":["p"]}"#,
        "`prompt`",
    ),
    (
        r#"{"hook_event_name":"BeforeModel","llm_request":{"model":"m","messages":[{"role":"user","content":5}]}}"#,
        "llm_request.messages",
    ),
    (
        r#"{"hook_event_name":"BeforeModel","llm_request":5}"#,
        "`llm_request`: invalid type: integer `5`, expected an object",
    ),
    (
        r#"{"hook_event_name":"BeforeModel","llm_request":["m",[{"role":"user","content":"x"}]]}"#,
        "`llm_request`: invalid type: sequence, expected an object",
    ),
    (
        r#"{"hook_event_name":"AfterModel","llm_request":[],"llm_response":{}}"#,
        "`llm_request`: invalid type: sequence, expected an object",
    ),
    (
        r#"{"hook_event_name":"AfterModel","llm_request":{},"llm_response":["T"]}"#,
        "`llm_response`: invalid type: sequence, expected an object",
    ),
    (
        r#"{"hook_event_name":"AfterModel","llm_request":{},"llm_response":{"candidates":[{},{"content":["model",["x"]]}]}}"#,
        "`llm_response.candidates[1].content`: invalid type: sequence, expected an object",
    ),
    (
        r#"{"hook_event_name":"AfterModel","llm_request":{},"llm_response":{"usageMetadata":[1]}}"#,
        "`llm_response.usageMetadata`: invalid type: sequence, expected an object",
    ),
    (
        r#"{"hook_event_name":"SessionEnd","reason":null}"#,
        "`reason`",
    ),
    (
        r#"{"hook_event_name":"SessionStart","source":"foo"}"#,
        "`source` must be one of startup, resume, clear, compress, compact, fork",
    ),
    (
        r#"{"hook_event_name":"SessionEnd","reason":"zz"}"#,
        "`reason` must be one of exit, ",
    ),
    (
        r#"{"hook_event_name":"PreCompress","trigger":""}"#,
        "`trigger` must be one of manual, auto",
    ),
    (
        r#"{"hook_event_name":"BeforeTool","tool_name":"","tool_input":{}}"#,
        "`tool_name`",
    ),
    (
        r#"{"hook_event_name":"Notification","notification_type":"n","message":7}"#,
        "`message`",
    ),
];

#[tokio::test]
async fn session_ids_and_user_agents_are_limited_in_length() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let event = |length| {
        let id = "é".repeat(length);
        json!({
            "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {}, "session_id": id,
        })
    };
    let agent = gate.agent().sending("user-agent", "u".repeat(20_000));

    let long = agent.report(&event(257), "").await;
    let short = agent.report(&event(256), "").await;
    let call = agent.sending("x-hookgate-session", "s");
    assert_eq!(call.generate("m", &prompt("hi")).await.status, 200);

    assert_refused(&long, 400, "BAD_EVENT");
    assert_eq!(short.status, 200, "{}", short.text());
    let sessions = gate.operator().get("/sessions").await;
    assert_eq!(sessions.json()["sessions"].as_array().unwrap().len(), 2);
    assert!(sessions.body.len() < 3000, "{}", sessions.text());
}

#[tokio::test]
async fn an_invalid_event_is_refused_with_the_name_of_its_field() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    for (body, expected) in INVALID {
        let answer = gate.agent().post("/hookgate/v1/events", body).await;

        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["status"], "INVALID_ARGUMENT", "{body}");
        assert!(
            answer.text().contains(expected),
            "{body}: {}",
            answer.text()
        );
        let id = &error["details"][0]["metadata"]["request_id"];
        assert_eq!(id, answer.header("x-hookgate-request-id"));
    }
    assert_eq!(gate.file("hook.json"), "");
}

#[tokio::test]
async fn the_event_api_accepts_only_posts_of_json() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let reason = |answer: &Answer| answer.json()["error"]["details"][0]["reason"].clone();

    let text = gate.agent().sending("content-type", "text/plain");
    let text = text.post("/hookgate/v1/events", "{}").await;
    let none = "host: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let none = format!("POST /hookgate/v1/events HTTP/1.1\r\n{none}");
    let none = Raw::send(gate.agents, none.as_bytes()).await;
    // One without a type is read as JSON, and lacks its event's name.
    assert_eq!(none.status, 400, "{none:?}");
    let get = gate.agent().get("/hookgate/v1/events").await;
    let unknown = gate.agent().post("/hookgate/v1/other", "{}").await;

    assert_eq!(
        (text.status, reason(&text)),
        (415, json!("UNSUPPORTED_MEDIA_TYPE"))
    );
    assert_eq!(
        (get.status, reason(&get)),
        (405, json!("METHOD_NOT_ALLOWED"))
    );
    assert_eq!(
        (unknown.status, reason(&unknown)),
        (403, json!("UNKNOWN_PATH"))
    );
}

#[tokio::test]
async fn a_query_that_has_no_single_meaning_is_refused() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });
    for (query, reason) in [
        ("explain=1&explain=0", "AMBIGUOUS"),
        ("wait=1&explain=1&wait=1", "AMBIGUOUS"),
        ("foo=1", "BAD_QUERY"),
        ("explain=true", "BAD_QUERY"),
        ("wait", "BAD_QUERY"),
        ("Explain=1", "BAD_QUERY"),
    ] {
        assert_refused(&gate.agent().report(&event, query).await, 400, reason);
    }
    assert_eq!(gate.file("hook.json"), "");
    for (query, is_explained) in [("explain=0&wait=1", false), ("&explain=1&", true)] {
        let answer = gate.agent().report(&event, query).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        let has_explanation = answer.json().get("hookgate").is_some();
        assert_eq!(has_explanation, is_explained, "{query}");
    }
}

#[tokio::test]
async fn an_event_over_the_limit_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { event: 1KiB }").await;
    let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "x".repeat(2000) });

    let answer = gate.agent().report(&event, "").await;

    assert_eq!(answer.status, 413);
    assert_eq!(
        answer.json()["error"]["details"][0]["reason"],
        "BODY_TOO_LARGE"
    );
}

#[tokio::test]
async fn a_session_in_the_path_is_checked_as_that_of_a_call() {
    let (_upstream, gate) = start_with_hook("BeforeTool").await;
    let event = json!({
        "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {}, "session_id": "other",
    });
    let report = async |session: &str, event: &serde_json::Value| {
        let path = format!("/s/{session}/hookgate/v1/events?explain=1");
        gate.agent().post(&path, event.to_string()).await
    };

    let named = report("named", &event).await;
    assert_eq!(named.json()["hookgate"]["session"], "named");
    assert_eq!(named.header("x-content-type-options"), "nosniff");
    for malformed in ["", "a%20b", "%6eamed", "a@b"] {
        assert_refused(&report(malformed, &event).await, 400, "BAD_SESSION");
    }
    let no_text = json!({
        "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {}, "session_id": 5,
    });
    assert_refused(&report("named", &no_text).await, 400, "BAD_EVENT");
    let twice = report("named/s/again", &event).await;
    assert_refused(&twice, 403, "UNKNOWN_PATH");
    let read = gate.agent().get("/s/named/hookgate/v1/events").await;
    assert_refused(&read, 405, "METHOD_NOT_ALLOWED");
}
