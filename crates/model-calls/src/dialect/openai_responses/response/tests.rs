use serde_json::{Value, json};

use super::*;
use crate::dialect::google::{CallDecision, ResponseDocument};

fn body(output: &Value) -> Bytes {
    let body = json!({
        "id": "resp_1",
        "status": "completed",
        "incomplete_details": null,
        "model": "gpt-x",
        "output": output,
        "usage": { "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 },
    });
    body.to_string().into()
}

fn message(text: &str) -> Value {
    let block = json!({ "type": "output_text", "text": text, "annotations": [{ "title": "t" }] });
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [block] })
}

fn call(name: &str) -> Value {
    json!({ "id": "fc_1", "type": "function_call", "name": name, "call_id": "call_1", "arguments": "{ \"n\": 1.0 }" })
}

fn reasoning() -> Value {
    json!({ "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA" })
}

fn open(body: &Bytes) -> ResponseDocument {
    ResponseDocument::from_form(&open_response(body).unwrap(), vec![body.clone()]).unwrap()
}

fn close(document: &ResponseDocument) -> Value {
    let original = document.original_events().and_then(|events| events.first());
    let view = ChunkView::read(document.document()).unwrap();
    serde_json::from_slice(&close_response(original, &view).unwrap()).unwrap()
}

fn write(document: &mut ResponseDocument, response: &Value) {
    let mutation = crate::model::ResponseMutation::read(response).unwrap();
    document.write(&mutation).unwrap();
}

#[test]
fn an_unedited_response_keeps_its_bytes() {
    let body = body(&json!([reasoning(), message("hi"), call("read")]));
    let document = open(&body);
    let view = ChunkView::read(document.document()).unwrap();
    assert_eq!(close_response(Some(&body), &view).unwrap(), body);
    assert_eq!(document.plain_texts().collect::<String>(), "hi");
    assert!(document.is_complete().unwrap());
    assert_eq!(document.total_tokens().unwrap(), Some(5));
}

#[test]
fn an_edited_text_keeps_everything_but_its_marks() {
    let mut document = open(&body(&json!([
        reasoning(),
        message("secret"),
        call("read")
    ])));
    write(&mut document, &json!({ "text": "[x]" }));
    let closed = close(&document);
    let mut expected = message("[x]");
    expected["content"][0]["annotations"] = json!([]);
    assert_eq!(
        closed["output"],
        json!([reasoning(), expected, call("read")])
    );
}

#[test]
fn a_withheld_call_is_removed_with_its_reasoning() {
    let mut document = open(&body(&json!([message("a"), reasoning(), call("rm")])));
    let refuse = CallDecision::Refuse("no".to_owned());
    document.decide_calls(vec![refuse]).unwrap();
    assert_eq!(close(&document)["output"], json!([message("a")]));
    document
        .explain_withheld_calls(&std::collections::BTreeSet::new())
        .unwrap();
    let output = &close(&document)["output"];
    assert_eq!(
        output[1]["content"][0]["text"],
        "Tool execution blocked: no"
    );
}

#[test]
fn edited_arguments_are_a_string() {
    let mut document = open(&body(&json!([call("read")])));
    let arguments = json!({ "n": 2 }).as_object().unwrap().clone();
    document
        .decide_calls(vec![CallDecision::Rewrite(arguments)])
        .unwrap();
    assert_eq!(close(&document)["output"][0]["arguments"], r#"{"n":2}"#);
}

#[test]
fn malformed_arguments_are_a_text_that_guards_refuse() {
    for arguments in ["{", "[]", "null", r#"{"a":1,}"#, r#"{"a":1,"a":2}"#] {
        let mut call = call("read");
        call["arguments"] = arguments.into();
        let body = body(&json!([call]));
        let document = open(&body);
        let (_, shown) = document.calls().unwrap().remove(0);
        assert_eq!(shown.arguments, arguments);
        assert_eq!(close(&document)["output"], json!([call]));
    }
    for (arguments, expected) in [
        ("", json!({})),
        (
            r#"{"malformed_arguments":"a"}"#,
            json!({ "malformed_arguments": "a" }),
        ),
    ] {
        let mut call = call("read");
        call["arguments"] = arguments.into();
        let document = open(&body(&json!([call])));
        let (_, shown) = document.calls().unwrap().remove(0);
        assert_eq!(shown.arguments, expected);
    }
}

#[test]
fn other_numbers_of_texts_replace_all_texts() {
    let mut document = open(&body(&json!([message("a"), call("read"), message("b")])));
    let parts = json!([{ "text": "x" }]);
    write(
        &mut document,
        &json!({ "candidates": [{ "content": { "parts": parts } }] }),
    );
    let output = close(&document)["output"].clone();
    assert_eq!(output.as_array().unwrap().len(), 2);
    assert_eq!(output[0]["content"][0]["text"], "x");
    assert_eq!(output[0]["id"], "msg_1");
    assert_eq!(output[1], call("read"));
}

#[test]
fn the_end_of_a_response_is_read() {
    let reason = |status: &str, details: Value| {
        let mut body: Value = serde_json::from_slice(&body(&json!([message("a")]))).unwrap();
        body["status"] = status.into();
        body["incomplete_details"] = details;
        let form = open_response(&body.to_string().into()).unwrap();
        form["candidates"][0]["finishReason"].clone()
    };
    assert_eq!(reason("completed", Value::Null), "STOP");
    let details = |reason: &str| json!({ "reason": reason });
    assert_eq!(
        reason("incomplete", details("max_output_tokens")),
        "MAX_TOKENS"
    );
    assert_eq!(reason("incomplete", details("content_filter")), "SAFETY");
    assert_eq!(reason("failed", Value::Null), "OTHER");
    let refusal = json!([{ "type": "message", "role": "assistant", "content": [{ "type": "refusal", "refusal": "no" }] }]);
    let document = open(&body(&refusal));
    assert_eq!(document.plain_texts().collect::<String>(), "no");
    assert!(!document.is_complete().unwrap());
}

#[test]
fn an_edited_end_is_written_as_status_and_details() {
    let end = |reason: &str| {
        let mut document = open(&body(&json!([message("a")])));
        write(
            &mut document,
            &json!({ "candidates": [{ "finishReason": reason }] }),
        );
        let closed = close(&document);
        let status = closed["status"].as_str().unwrap().to_owned();
        (status, closed["incomplete_details"]["reason"].clone())
    };
    let incomplete = |reason: &str| ("incomplete".to_owned(), json!(reason));
    assert_eq!(end("MAX_TOKENS"), incomplete("max_output_tokens"));
    assert_eq!(end("SAFETY"), incomplete("content_filter"));
    assert_eq!(end("OTHER"), ("completed".to_owned(), Value::Null));
}

#[test]
fn a_response_of_our_own_has_every_field_that_clients_need() {
    let form = json!({
        "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [{ "text": "no" }] } }],
        "usageMetadata": { "totalTokenCount": 7 },
        "modelVersion": "gpt-x",
        "responseId": "hookgate-1",
    });
    let own = ResponseDocument::parse(form.to_string().into()).unwrap();
    let closed = close(&own);
    assert_eq!(closed["id"], "resp_hookgate-1");
    assert_eq!(closed["model"], "gpt-x");
    assert_eq!(closed["status"], "completed");
    assert_eq!(closed["output"][0]["content"][0]["text"], "no");
    assert_eq!(closed["usage"]["total_tokens"], 7);
    assert!(
        closed["output"][0]["id"]
            .as_str()
            .unwrap()
            .starts_with("msg_")
    );
}
