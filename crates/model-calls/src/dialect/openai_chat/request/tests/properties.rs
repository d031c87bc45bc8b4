//! Property tests of random conversations.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{close, open};
use crate::dialect::{TextEditor, TextKind, edit_request_texts};

/// Puts `[x]` for every `a` in a text.
struct Marks;

fn marked(text: &str) -> String {
    text.replace('a', "[x]")
}

impl TextEditor for Marks {
    fn edit_joined(&mut self, _kind: TextKind, texts: &mut [String]) -> bool {
        let is_edited = texts.iter().any(|text| text.contains('a'));
        for text in texts {
            *text = marked(text);
        }
        is_edited
    }

    fn edit(&mut self, _kind: TextKind, text: &str) -> Option<String> {
        text.contains('a').then(|| marked(text))
    }
}

fn any_text() -> impl Strategy<Value = String> {
    "[a-c \"\\\\\\né]{0,6}"
}

fn any_content() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        any_text().prop_map(|text| json!({ "type": "text", "text": text })),
        any_text().prop_map(|text| json!({ "type": "odd", "b": [text, 1.0] })),
        Just(json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,b" } })),
    ];
    prop_oneof![
        any_text().prop_map(Value::from),
        prop::collection::vec(block, 0..3).prop_map(Value::from),
    ]
}

fn any_message() -> impl Strategy<Value = Value> {
    let call = (any_text(), 0..3_u8).prop_map(|(text, number)| {
        let arguments = json!({ "k": text }).to_string();
        let function = json!({ "name": "f", "arguments": arguments });
        json!({ "id": format!("c{number}"), "type": "function", "function": function })
    });
    prop_oneof![
        (
            prop::sample::select(vec!["system", "developer", "user"]),
            any_content()
        )
            .prop_map(|(role, content)| json!({ "role": role, "content": content })),
        (any_text(), prop::collection::vec(call, 0..3)).prop_map(|(text, calls)| {
            json!({ "role": "assistant", "content": text, "reasoning": "b", "tool_calls": calls })
        }),
        (any_content(), 0..3_u8).prop_map(|(content, number)| {
            json!({ "role": "tool", "tool_call_id": format!("c{number}"), "content": content })
        }),
    ]
}

fn any_request() -> impl Strategy<Value = Value> {
    prop::collection::vec(any_message(), 0..5).prop_map(
        |messages| json!({ "model": "m", "messages": messages, "temperature": 1.0, "user": "b" }),
    )
}

/// Replaces every text of a request as [`Marks`] does.
fn expected(value: &mut Value) {
    match value {
        Value::String(text) => {
            // Arguments are JSON in a string, and are written anew if they are edited.
            match serde_json::from_str::<Value>(text) {
                Ok(mut inner @ Value::Object(_)) => {
                    let before = inner.clone();
                    mark_all(&mut inner);
                    if inner != before {
                        *text = inner.to_string();
                    }
                }
                Ok(_) | Err(_) => *text = marked(text),
            }
        }
        Value::Array(list) => list.iter_mut().for_each(expected),
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_text = ["content", "text", "b", "arguments"].contains(&key.as_str());
                if is_text || value.is_array() || value.is_object() {
                    expected(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Replaces every text of a call's arguments.
fn mark_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = marked(text),
        Value::Array(list) => list.iter_mut().for_each(mark_all),
        Value::Object(fields) => fields.values_mut().for_each(mark_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

proptest! {
    #[test]
    fn an_unedited_request_keeps_its_bytes(request in any_request()) {
        let body = serde_json::to_string_pretty(&request).unwrap();
        let (call, opened) = open(&body).unwrap();
        let rebuilt = crate::dialect::Document::from_checked(opened.form.to_bytes()).unwrap();
        prop_assert_eq!(close(&call, &opened, &rebuilt), body);
    }

    #[test]
    fn every_text_is_edited_and_nothing_else(request in any_request()) {
        let (call, opened) = open(&request.to_string()).unwrap();
        let mut document = opened.form.clone();
        edit_request_texts(&call, &mut document, &mut Marks).unwrap();
        let closed: Value = serde_json::from_slice(&close(&call, &opened, &document)).unwrap();
        let mut request = request;
        for message in request["messages"].as_array_mut().unwrap() {
            join_result(message);
        }
        expected(&mut request["messages"]);
        let mut closed = closed;
        for message in closed["messages"].as_array_mut().unwrap() {
            join_result(message);
        }
        prop_assert_eq!(closed, request);
    }
}

#[test]
fn messages_between_results_keep_their_position() {
    let result = |text: &str| json!({ "role": "tool", "tool_call_id": "c0", "content": text });
    let question = json!({ "role": "user", "content": "b" });
    let request = json!({ "model": "m", "messages": [result("a"), question, result("c")] });
    let (call, opened) = open(&request.to_string()).unwrap();
    let mut document = opened.form.clone();
    edit_request_texts(&call, &mut document, &mut Marks).unwrap();
    let closed: Value = serde_json::from_slice(&close(&call, &opened, &document)).unwrap();
    let expected = [result("[x]"), question, result("c")];
    assert_eq!(closed["messages"], json!(expected));
}

/// Joins the texts of a tool's result, which are shown and written as one, and counts its media.
fn join_result(message: &mut Value) {
    if message["role"] != "tool" {
        return;
    }
    let Some(blocks) = message["content"].as_array() else {
        return;
    };
    if blocks.iter().all(|block| block["type"] != "odd") {
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        let text: String = texts.collect();
        let media = blocks.iter().filter(|block| block["type"] == "image_url");
        message["content"] = json!([text, media.count()]);
    }
}
