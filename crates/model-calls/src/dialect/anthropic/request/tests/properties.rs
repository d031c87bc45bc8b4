//! Property tests of random requests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{body, call, edited, open_body};
use crate::dialect::{
    anthropic::{fields::parse_strict, request::close_body},
    tests::mark_texts,
};

fn text() -> impl Strategy<Value = String> {
    "[ -~é\n]{0,12}"
}

/// Blocks that a user or the model may send.
fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({ "type": "text", "text": text })),
        text().prop_map(|text| {
            json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } })
        }),
        text().prop_map(|text| {
            json!({ "type": "tool_use", "id": "t", "name": "f", "input": { "a b": [text, 1.0] } })
        }),
        text().prop_map(|text| {
            json!({ "type": "tool_result", "tool_use_id": "t", "content": text })
        }),
        text().prop_map(|text| json!({
            "type": "tool_result", "tool_use_id": "t", "is_error": true,
            "content": [{ "type": "text", "text": text }, { "type": "text", "text": "2" }],
        })),
        text().prop_map(|text| json!({ "type": "thinking", "thinking": text, "signature": "s" })),
        text().prop_map(|data| json!({
            "type": "image",
            "source": { "type": "base64", "media_type": "image/png", "data": data },
        })),
        text().prop_map(|text| json!({ "type": "new_kind", "words": [text] })),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        prop::collection::vec(block(), 0..4).prop_map(Value::from),
    ]
}

fn request() -> impl Strategy<Value = Value> {
    let role = prop_oneof![Just("user"), Just("assistant"), Just("system")];
    let messages = prop::collection::vec((role, content()), 0..5);
    let system = prop::option::of(content());
    (messages, system).prop_map(|(messages, system)| {
        let messages: Vec<Value> = messages
            .into_iter()
            .map(|(role, content)| json!({ "role": role, "content": content }))
            .collect();
        let mut request = json!({ "model": "m", "max_tokens": 9, "messages": messages });
        if let Some(system) = system {
            request["system"] = system;
        }
        request
    })
}

proptest! {
    #[test]
    fn an_unedited_request_keeps_its_bytes(request in request()) {
        let text = serde_json::to_string_pretty(&request).unwrap();
        let body = parse_strict(text.clone().into()).unwrap();
        let mut call = call();
        let form = open_body(&mut call, &body).unwrap();
        prop_assert_eq!(close_body(&call, &body, &form).unwrap(), text);
    }

    #[test]
    fn edited_texts_are_read_back_and_nothing_else_changes(request in request()) {
        let mut count = 0;
        let closed = edited(&request, |form| count = mark_texts(form));
        let mut call = call();
        let mut expected: Value =
            serde_json::from_slice(&open_body(&mut call, &body(&request)).unwrap().to_bytes()).unwrap();
        mark_texts(&mut expected);
        let read: Value =
            serde_json::from_slice(&open_body(&mut call, &body(&closed)).unwrap().to_bytes()).unwrap();
        prop_assert_eq!(read, expected);
        let stars = |value: &Value| value.to_string().matches('*').count();
        prop_assert_eq!(stars(&closed), stars(&request) + count);
    }
}
