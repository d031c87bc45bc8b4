//! Messages, tool selections, answers and sessions of hooks with the protocol `llxprt`.

use serde_json::{Value, json};

use super::{MODEL, ask, gate, printing, report};
use crate::harness::{Upstream, hook, prompt};

#[tokio::test]
async fn a_system_message_of_llxprt_before_a_tool_is_context_for_the_model() {
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });
    let message = json!({ "systemMessage": "careful" });
    let files = |group: Value| {
        [
            ("llxprt", "BeforeTool", printing("careful", &message)),
            ("gemini", "BeforeTool", printing("silent", &message)),
            ("llxprt", "BeforeTool", group),
        ]
    };
    let failing = json!({ "hooks": [hook::command("broken", "echo stack trace >&2; exit 1")] });
    let (response, _gate) = report(&files(failing), &event).await;
    assert_eq!(response["hookgate"]["context"], "careful");
    assert_eq!(
        response["hookSpecificOutput"]["additionalContext"],
        "careful"
    );
    let shown = "careful\ncareful\nWarning: stack trace";
    assert_eq!(response["systemMessage"], shown);

    let refusing = json!({ "hooks": [hook::denying("guard", "no")] });
    let (response, _gate) = report(&files(refusing), &event).await;
    assert_eq!(response["decision"], "deny");
    assert_eq!(response.get("hookSpecificOutput"), None);
}

#[tokio::test]
async fn a_system_message_of_llxprt_is_added_to_the_conversation() {
    let upstream = Upstream::mock().await;
    let output = json!({ "systemMessage": "careful" });
    let files = [("llxprt", "BeforeModel", printing("careful", &output))];
    let gate = gate(&upstream, &files).await;
    let parts = json!([{ "text": "hello" }, { "text": "careful" }]);

    let counted = prompt("hello").to_string();
    ask(&gate, "countTokens", &counted).await;
    assert_eq!(upstream.requests()[0].json()["contents"][0]["parts"], parts);

    let only_model = json!({ "contents": [{ "role": "model", "parts": [{ "text": "so" }] }] });
    ask(&gate, "generateContent", &only_model.to_string()).await;
    let sent = upstream.requests()[1].json();
    let added = json!({ "role": "user", "parts": [{ "text": "careful" }] });
    assert_eq!(sent["contents"][1], added);

    let embedded = json!({ "content": { "parts": [{ "text": "hello" }] } });
    ask(&gate, "embedContent", &embedded.to_string()).await;
    assert_eq!(upstream.requests()[2].json(), embedded);
}

#[tokio::test]
async fn an_empty_tool_list_disables_tools_for_llxprt_only() {
    let empty = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": [] }));
    let mut body = prompt("hello");
    body["tools"] = json!([{ "functionDeclarations": [{ "name": "f" }] }]);
    for (protocol, mode) in [("gemini", "AUTO"), ("llxprt", "NONE")] {
        let upstream = Upstream::mock().await;
        let files = [(protocol, "BeforeToolSelection", printing("none", &empty))];
        let gate = gate(&upstream, &files).await;

        ask(&gate, "generateContent", &body.to_string()).await;

        let sent = upstream.only_request().json();
        let sent = &sent["toolConfig"]["functionCallingConfig"]["mode"];
        assert_eq!(sent, mode, "{protocol}");
    }
}

#[tokio::test]
async fn an_answer_edit_of_llxprt_has_parts_as_objects() {
    let upstream = Upstream::mock().await;
    let edit = hook::response(&json!({ "candidates": [{ "content": {
        "role": "model", "parts": [{ "text": "[x]" }],
    } }] }));
    let files = [("llxprt", "AfterModel", printing("mask", &edit))];
    let gate = gate(&upstream, &files).await;

    let answer = gate.agent().generate(MODEL, &prompt("hello")).await;

    let parts = &answer.json()["candidates"][0]["content"]["parts"];
    assert_eq!(parts, &json!([{ "text": "[x]" }]));
    let shown = gate.json("mask.json");
    assert!(shown["llm_request"]["contents"].is_array(), "{shown}");
    assert_eq!(shown["llm_response"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn an_llxprt_session_can_start_with_source_compress() {
    let mut group = printing("start", &json!({ "systemMessage": "welcome" }));
    group["matcher"] = json!("compress|resume");
    let event = json!({ "hook_event_name": "SessionStart", "source": "compress" });

    let (response, gate) = report(&[("llxprt", "SessionStart", group)], &event).await;

    assert_eq!(gate.json("start.json")["source"], "compress");
    assert_eq!(response["hookgate"]["context"], "welcome");
}
