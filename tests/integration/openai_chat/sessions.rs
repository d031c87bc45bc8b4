//! Sessions: events that are derived from a conversation as it grows.

use serde_json::{Value, json};

use super::{Form, ask, gateway, text, upstream_streaming};
use crate::harness::hook;

fn tools() -> Value {
    json!([{ "type": "function", "function": { "name": "look", "parameters": { "type": "object" } } }])
}

fn conversation(messages: &[Value]) -> Value {
    json!({ "model": "m", "messages": messages, "tools": tools() })
}

/// A hook that saves its event, and appends a line to a file for each event.
fn counting_hook(event: &'static str) -> (&'static str, Value) {
    let command = format!("cat > {event}.json; echo x >> {event}.count");
    (event, hook::command(event, &command))
}

#[tokio::test]
async fn a_conversation_is_one_session_with_prompts_and_results() {
    let upstream = upstream_streaming(&["done"]).await;
    let hooks = ["SessionStart", "BeforeAgent", "AfterTool"].map(counting_hook);
    let gate = gateway(&upstream, &hook::config(&hooks)).await;
    let count = |event: &str| gate.file(&format!("{event}.count")).lines().count();
    let mut messages = vec![
        json!({ "role": "system", "content": "be brief" }),
        json!({ "role": "user", "content": "first" }),
    ];

    ask(&gate, Form::Stream, &conversation(&messages)).await;
    messages.extend([
        json!({ "role": "assistant", "content": "done" }),
        json!({ "role": "user", "content": "second" }),
    ]);
    // A changed system message does not start another session.
    messages[0] = json!({ "role": "system", "content": "be long" });
    ask(&gate, Form::Stream, &conversation(&messages)).await;

    assert_eq!(count("SessionStart"), 1);
    assert_eq!(count("BeforeAgent"), 2);
    assert_eq!(gate.json("BeforeAgent.json")["prompt"], "second");

    let call = json!({ "name": "look", "arguments": "{\"path\": \"a\"}" });
    messages.extend([
        json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": call }] }),
        json!({ "role": "tool", "tool_call_id": "c", "content": "alpha" }),
    ]);
    ask(&gate, Form::Whole, &conversation(&messages)).await;

    assert_eq!(count("SessionStart"), 1);
    assert_eq!(count("BeforeAgent"), 2);
    assert_eq!(count("AfterTool"), 1);
    let result = gate.json("AfterTool.json");
    assert_eq!(result["tool_name"], "look");
    assert_eq!(result["tool_input"], json!({ "path": "a" }));
    assert!(result["tool_response"].to_string().contains("alpha"));
}

#[tokio::test]
async fn context_is_added_to_prompts_and_hidden_results_remain_hidden() {
    let upstream = upstream_streaming(&["done"]).await;
    let context = json!({ "hookSpecificOutput": { "additionalContext": "remember" } });
    let hooks = [
        ("BeforeAgent", hook::printing("context", &context)),
        ("AfterTool", hook::denying("hide", "hidden")),
    ];
    let gate = gateway(&upstream, &hook::config(&hooks)).await;
    let call = json!({ "name": "look", "arguments": "{}" });
    let mut messages = vec![json!({ "role": "user", "content": "first" })];
    ask(&gate, Form::Whole, &conversation(&messages)).await;
    messages.extend([
        json!({ "role": "assistant", "tool_calls": [{ "id": "c", "type": "function", "function": call }] }),
        json!({ "role": "tool", "tool_call_id": "c", "content": "alpha" }),
    ]);
    ask(&gate, Form::Whole, &conversation(&messages)).await;
    messages.push(json!({ "role": "assistant", "content": "done" }));
    messages.push(json!({ "role": "user", "content": "second" }));

    let answer = ask(&gate, Form::Stream, &conversation(&messages)).await;

    assert_eq!(text(Form::Stream, &answer), "done");
    let sent = upstream.requests().pop().unwrap().json();
    let sent = sent["messages"].as_array().unwrap();
    let prompt = sent.last().unwrap()["content"].as_str().unwrap();
    assert!(
        prompt.starts_with("second\n\n") && prompt.contains("remember"),
        "{prompt}"
    );
    let tool = sent
        .iter()
        .find(|message| message["role"] == "tool")
        .unwrap();
    assert!(!tool.to_string().contains("alpha"), "{tool}");
    assert!(tool["content"].as_str().unwrap().contains("hidden"));
    assert_eq!(tool["tool_call_id"], "c");
}

#[tokio::test]
async fn the_session_header_identifies_the_session() {
    let upstream = upstream_streaming(&["done"]).await;
    let gate = gateway(&upstream, &hook::config(&[counting_hook("SessionStart")])).await;
    let agent = gate.agent().sending("x-hookgate-session", "s-1");
    for prompt in ["one", "two"] {
        let body = conversation(&[json!({ "role": "user", "content": prompt })]);
        agent.post(super::PATH, body.to_string()).await;
    }
    assert_eq!(gate.file("SessionStart.count").lines().count(), 1);
}
