use serde_json::{Value, json};

use super::{
    synthetic::synthetic_body,
    whole_answer::{close_whole, read_whole},
};
use crate::dialect::{Document, openai_chat::fields::parse};

fn form(body: &str) -> Value {
    read_whole(&parse(body.to_owned().into()).unwrap()).unwrap()
}

/// Edits the content form of a body and compares what is sent to the agent.
#[track_caller]
fn check(body: &str, edit: impl FnOnce(&mut Value), expected: &str) {
    let before = form(body);
    let mut after = before.clone();
    edit(&mut after);
    let document = |form: &Value| Document::from_checked(form.to_string().into()).unwrap();
    let closed = close_whole(
        body.to_owned().into(),
        &document(&before),
        &document(&after),
    );
    assert_eq!(closed.unwrap(), expected);
}

const ANSWER: &str = r#"{ "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
 "choices": [{"index": 0, "message": {"role": "assistant", "content": "I read", "refusal": null, "reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
  "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{ \"p\": 1.0 }"}, "extra_content": {"x": "sig"}},
                 {"id": "c2", "type": "function", "function": {"name": "rm", "arguments": "{}"}}]},
  "logprobs": {"content": [{"token": "I read"}]}, "finish_reason": "tool_calls"}],
 "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5, "x": 1.0} }"#;

#[test]
fn an_answer_has_the_content_form() {
    let expected = json!({
        "usageMetadata": { "promptTokenCount": 2, "candidatesTokenCount": 3, "totalTokenCount": 5 },
        "modelVersion": "m",
        "responseId": "chatcmpl-1",
        "candidates": [{
            "index": 0,
            "content": { "role": "model", "parts": [
                { "text": "hm", "thought": true, "hookgateSource": 0 },
                { "text": "I read", "hookgateSource": 1 },
                { "functionCall": { "id": "c1", "name": "read", "args": { "p": "1.0" } }, "hookgateSource": 2,
                  "hookgatePreceding": {
                      "message": { "reasoning": "hm", "reasoning_details": [{ "type": "reasoning.text", "text": "hm" }] },
                      "call": { "extra_content": { "x": "sig" } },
                  } },
                { "functionCall": { "id": "c2", "name": "rm", "args": {} }, "hookgateSource": 3 },
            ]},
            "finishReason": "STOP",
        }],
        "labels": [[{ "x": "sig" }]],
        "logprobsResult": {},
    });
    let expected = expected.to_string().replace("\"1.0\"", "1.0");
    assert_eq!(form(ANSWER).to_string(), expected);
}

#[test]
fn an_unedited_answer_keeps_its_bytes() {
    check(ANSWER, |_| (), ANSWER);
}

#[test]
fn edited_texts_are_spliced_with_all_their_copies() {
    check(
        ANSWER,
        |form| {
            let parts = &mut form["candidates"][0]["content"]["parts"];
            parts[0]["text"] = "*".into();
            parts[1]["text"] = "I *".into();
        },
        &ANSWER
            .replace(r#""content": "I read""#, r#""content": "I *""#)
            .replace(
                r#""reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],"#,
                r#""reasoning": "*","#,
            )
            .replace(
                r#""logprobs": {"content": [{"token": "I read"}]}"#,
                r#""logprobs": null"#,
            ),
    );
}

#[test]
fn a_withheld_call_is_removed_and_explained() {
    check(
        ANSWER,
        |form| {
            let parts = form["candidates"][0]["content"]["parts"].as_array_mut();
            let parts = parts.unwrap();
            parts.remove(3);
            parts.push(json!({ "text": "no" }));
        },
        &ANSWER
            .replace(r#""content": "I read""#, r#""content": "I read\n\nno""#)
            .replace(
                ",\n                 {\"id\": \"c2\", \"type\": \"function\", \"function\": {\"name\": \"rm\", \"arguments\": \"{}\"}}",
                "",
            )
            .replace(
                r#""logprobs": {"content": [{"token": "I read"}]}"#,
                r#""logprobs": null"#,
            ),
    );
}

#[test]
fn an_answer_without_calls_does_not_end_for_calls() {
    let body = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let remove = |form: &mut Value| {
        form["candidates"][0]["content"]["parts"] = json!([{ "text": "no" }]);
    };
    check(
        body,
        remove,
        r#"{"choices":[{"message":{"content":"no"},"finish_reason":"stop"}]}"#,
    );
    // An answer with calls ends for calls.
    check(
        body,
        |form| form["candidates"][0]["finishReason"] = "MAX_TOKENS".into(),
        body,
    );
}

#[test]
fn edited_arguments_are_written_as_a_string() {
    check(
        ANSWER,
        |form| {
            let call = &mut form["candidates"][0]["content"]["parts"][2]["functionCall"];
            call["args"] = json!({ "p": "x" });
        },
        &ANSWER
            .replace(r#""{ \"p\": 1.0 }""#, r#""{\"p\":\"x\"}""#)
            .replace(",\n                 {", ",{"),
    );
}

#[test]
fn a_refusal_is_text_that_ends_for_safety() {
    let body = r#"{"choices":[{"message":{"content":null,"refusal":"I cannot"},"finish_reason":"stop"},{"index":1,"message":{"content":"b"},"finish_reason":"length"}]}"#;
    let form = form(body);
    assert_eq!(form["candidates"][0]["finishReason"], "SAFETY");
    assert_eq!(
        form["candidates"][0]["content"]["parts"][0]["text"],
        "I cannot"
    );
    assert_eq!(form["candidates"][1]["finishReason"], "MAX_TOKENS");
    check(
        body,
        |form| form["candidates"][0]["content"]["parts"][0]["text"] = "*".into(),
        &body.replace("I cannot", "*"),
    );
}

#[test]
fn unknown_fields_are_labels() {
    let body = r#"{"choices":[{"message":{"content":"a","annotations":[{"title":"t"}]}}],"citations":["c"]}"#;
    check(
        body,
        |form| {
            let labels = &mut form["labels"][0];
            labels[1]["citations"][0] = "*".into();
            labels[0]["annotations"][0]["title"] = "+".into();
        },
        &body
            .replace(r#"["c"]"#, r#"["*"]"#)
            .replace(r#""t""#, r#""+""#),
    );
}

#[test]
fn annotations_go_with_the_text_that_they_refer_to() {
    let body = r#"{"choices":[{"message":{"content":"a","annotations":[{"title":"t"}]}}]}"#;
    check(
        body,
        |form| form["candidates"][0]["content"]["parts"][0]["text"] = "*".into(),
        r#"{"choices":[{"message":{"content":"*","annotations":[]}}]}"#,
    );
}

#[test]
fn token_counts_and_the_end_are_edited() {
    check(
        ANSWER,
        |form| form["usageMetadata"]["totalTokenCount"] = 7.into(),
        &ANSWER.replace(r#""total_tokens": 5"#, r#""total_tokens": 7"#),
    );
    let body = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    check(
        body,
        |form| form["candidates"][0]["finishReason"] = "SAFETY".into(),
        &body.replace("stop", "content_filter"),
    );
}

#[test]
fn an_answer_of_our_own_has_every_field_of_the_api() {
    let form = json!({
        "candidates": [{
            "content": { "role": "model", "parts": [
                { "text": "why", "thought": true }, { "text": "no" },
                { "functionCall": { "id": "c", "name": "f", "args": { "a": 1 } } },
            ]},
            "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata": { "totalTokenCount": 4 },
        "modelVersion": "m", "responseId": "hookgate-1",
    });
    let document = Document::from_checked(form.to_string().into()).unwrap();
    let mut body: Value = serde_json::from_slice(&synthetic_body(&document, &[]).unwrap()).unwrap();
    assert!(body["created"].as_u64().unwrap() > 1_700_000_000);
    body["created"] = 0.into();
    let expected = json!({
        "id": "chatcmpl-hookgate-1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": "no", "refusal": null, "reasoning_content": "why",
                "tool_calls": [{ "id": "c", "type": "function",
                    "function": { "name": "f", "arguments": "{\"a\":1}" } }],
            },
            "logprobs": null, "finish_reason": "tool_calls",
        }],
        "usage": { "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 4 },
    });
    assert_eq!(body, expected);
}

#[test]
fn calls_of_a_joined_answer_keep_their_signatures_and_nothing_unseen() {
    let details = json!([
        { "type": "reasoning.text", "text": "seen", "signature": "S1", "note": "unseen" },
        { "type": "reasoning.text", "text": "unseen", "signature": "S2" },
        { "type": "reasoning.encrypted", "data": "RD" },
    ]);
    let signature = json!({ "google": { "thought_signature": "S3", "note": "unseen" } });
    let part = json!({
        "functionCall": { "id": "c", "name": "ls", "args": {} },
        "hookgatePreceding": {
            "message": { "reasoning": "seen unseen", "reasoning_details": details },
            "call": { "extra_content": signature, "note": "unseen" },
        },
    });
    let parts = json!([{ "text": "seen *", "thought": true }, { "text": "first" }, part]);
    let candidate = json!({ "content": { "parts": parts }, "finishReason": "STOP" });
    let form = json!({ "candidates": [candidate] }).to_string();

    let body = synthetic_body(&Document::from_checked(form.into()).unwrap(), &[]).unwrap();

    let body: Value = serde_json::from_slice(&body).unwrap();
    let message = &body["choices"][0]["message"];
    assert_eq!(message["reasoning"], "seen *");
    let expected = json!([
        { "type": "reasoning.text", "text": "seen", "signature": "S1" },
        { "type": "reasoning.encrypted", "data": "RD" },
    ]);
    assert_eq!(message["reasoning_details"], expected);
    let call = &message["tool_calls"][0];
    assert_eq!(call["extra_content"]["google"]["thought_signature"], "S3");
    assert!(!body.to_string().contains("unseen"), "{body}");
}

#[test]
fn calls_outside_of_the_message_are_refused() {
    let call =
        r#"[{"index":0,"id":"a","type":"function","function":{"name":"rm","arguments":"{}"}}]"#;
    let in_choice = |fields: &str| {
        format!(r#"{{"choices":[{{"index":0,"message":{{"content":"x"}},{fields}}}]}}"#)
    };
    let refused = [
        in_choice(&format!(r#""delta":{{"tool_calls":{call}}}"#)),
        in_choice(&format!(r#""tool_calls":{call}"#)),
        in_choice(r#""function_call":{"name":"rm","arguments":"{}"}"#),
    ];
    for body in refused {
        let body = parse(body.into()).unwrap();
        assert!(read_whole(&body).is_err(), "{body:?}");
    }
    for empty in [r#""delta":{}"#, r#""delta":null"#, r#""tool_calls":[]"#] {
        form(&in_choice(empty));
    }
}

#[test]
fn a_text_in_the_place_of_a_refusal_and_a_thought_is_a_refusal() {
    for content in ["null", "[]"] {
        let body = |thought: &str, refusal: &str| {
            format!(
                r#"{{"choices":[{{"message":{{"content":{content},"reasoning_content":"{thought}","refusal":"{refusal}"}},"finish_reason":"stop"}}]}}"#
            )
        };
        check(
            &body("Hm", "I cannot"),
            |form| {
                let text = json!({ "text": "Sorry.", "hookgateRefusal": true });
                form["candidates"][0]["content"]["parts"] = json!([text]);
            },
            &body("", "Sorry."),
        );
    }
}

#[test]
fn the_refusals_of_two_answers_are_paragraphs() {
    let part = |text: &str, mark: Value| json!({ "text": text, "hookgateRefusal": mark });
    let parts = [
        part("I cannot", true.into()),
        part("Still no", "next".into()),
    ];
    let form = json!({ "candidates": [{ "content": { "parts": parts } }] });
    let form = Document::from_checked(form.to_string().into()).unwrap();

    let body: Value = serde_json::from_slice(&synthetic_body(&form, &[]).unwrap()).unwrap();

    assert_eq!(
        body["choices"][0]["message"]["refusal"],
        "I cannot\n\nStill no"
    );
}
