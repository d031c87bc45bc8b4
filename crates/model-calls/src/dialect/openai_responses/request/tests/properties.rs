//! Property tests of random requests.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::Opened;
use crate::dialect::tests::mark_texts;

fn text() -> impl Strategy<Value = String> {
    "[ -~é\n]{0,12}"
}

fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({ "type": "input_text", "text": text })),
        text().prop_map(|text| json!({ "type": "output_text", "text": text, "annotations": [] })),
        text().prop_map(|text| json!({ "type": "refusal", "refusal": text })),
        text().prop_map(|text| json!({ "type": "new_kind", "words": [text] })),
        Just(json!({ "type": "input_image", "image_url": "data:image/png;base64,AAAA" })),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        vec(block(), 0..4).prop_map(Value::from),
    ]
}

fn item() -> impl Strategy<Value = Value> {
    let role = prop_oneof![
        Just("user"),
        Just("assistant"),
        Just("system"),
        Just("developer")
    ];
    prop_oneof![
        4 => (role, content()).prop_map(|(role, content)| json!({ "role": role, "content": content })),
        1 => text().prop_map(|text| json!({ "type": "reasoning", "id": "rs", "summary": [{ "type": "summary_text", "text": text }] })),
        1 => text().prop_map(|text| {
            let arguments = json!({ "a b": [text, 1.0] }).to_string();
            json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": arguments })
        }),
        1 => text().prop_map(|text| json!({ "type": "function_call_output", "call_id": "c", "output": text })),
        1 => text().prop_map(|text| json!({ "type": "web_search_call", "id": "w", "action": { "query": text } })),
    ]
}

fn request() -> impl Strategy<Value = Value> {
    let input = prop_oneof![
        text().prop_map(Value::from),
        vec(item(), 0..6).prop_map(Value::from),
    ];
    (input, prop::option::of(text())).prop_map(|(input, instructions)| {
        let mut request = json!({ "model": "gpt-x", "input": input });
        if let Some(text) = instructions {
            request["instructions"] = text.into();
        }
        request
    })
}

fn form_of(request: &Value) -> Value {
    serde_json::from_slice(&Opened::new(request).form.to_bytes()).unwrap()
}

proptest! {
    #[test]
    fn an_unedited_request_keeps_its_bytes(request in request()) {
        prop_assert_eq!(Opened::new(&request).close(), request);
    }

    #[test]
    fn edited_texts_are_read_back_and_nothing_else_changes(request in request()) {
        let mut opened = Opened::new(&request);
        let mut expected = form_of(&request);
        let count = mark_texts(&mut expected);
        for key in ["contents", "systemInstruction"] {
            if let Some(value) = expected.get(key) {
                opened.form.set(&[key], value).unwrap();
            }
        }
        let closed = opened.close();
        prop_assert_eq!(form_of(&closed), expected);
        let stars = |value: &Value| value.to_string().matches('*').count();
        prop_assert_eq!(stars(&closed), stars(&request) + count);
    }
}
