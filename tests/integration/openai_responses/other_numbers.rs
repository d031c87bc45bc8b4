//! Streams of compatible servers whose ids, indexes and last events differ from those of the API.

use serde_json::{Value, json};

use super::{ask, completed, created, events, gateway, message, stream, streaming, text};
use crate::harness::{Answer, hook};

const PIECES: [&str; 3] = ["to ann@", "example.com", " now"];
const TEXT: &str = "to ann@example.com now";
const MASKED: &str = "to [REDACTED:email] now";

fn look() -> String {
    hook::config(&[("AfterModel", hook::command("look", "cat >> seen"))])
}

const REDACT: &str = "policies: [{ policy: redact, detect: [email] }]\n";

/// An event about an item. Its block has the index 0.
fn event(name: &str, id: &str, index: u64, fields: &Value) -> Value {
    let mut event = json!({ "type": format!("response.{name}"), "item_id": id,
        "output_index": index, "content_index": 0 });
    let fields = fields.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn added(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": index, "item": item })
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn part_added(id: &str, index: u64) -> Value {
    let part = json!({ "type": "output_text", "text": "", "annotations": [] });
    event("content_part.added", id, index, &json!({ "part": part }))
}

fn part_done(id: &str, index: u64) -> Value {
    let part = json!({ "type": "output_text", "text": TEXT, "annotations": [] });
    event("content_part.done", id, index, &json!({ "part": part }))
}

/// The pieces of a text.
fn deltas(name: &str, id: &str, index: u64) -> Vec<Value> {
    let pieces = PIECES.iter();
    pieces
        .map(|piece| {
            event(
                &format!("{name}.delta"),
                id,
                index,
                &json!({ "delta": piece }),
            )
        })
        .collect()
}

fn text_done(name: &str, id: &str, index: u64) -> Value {
    let name = format!("{name}.done");
    event(&name, id, index, &json!({ "text": TEXT }))
}

fn message_item(id: &str, text: Option<&str>) -> Value {
    let block = |text| json!({ "type": "output_text", "text": text, "annotations": [] });
    let content: Vec<Value> = text.into_iter().map(block).collect();
    json!({ "type": "message", "id": id, "role": "assistant", "content": content })
}

fn reasoning_item(id: &str, text: Option<&str>) -> Value {
    let block = |text| json!({ "type": "reasoning_text", "text": text });
    let content: Vec<Value> = text.into_iter().map(block).collect();
    json!({ "type": "reasoning", "id": id, "summary": [], "content": content })
}

fn call_item(id: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": "read",
        "arguments": arguments, "status": "completed" })
}

/// The events of an item whose end has another index, and for reasoning another id.
fn late_item(item: (&str, Value, Value), indexes: [u64; 2]) -> Vec<Value> {
    let (name, start, end) = item;
    let id = start["id"].as_str().unwrap().to_owned();
    let mut sent = vec![added(indexes[0], &start), part_added(&id, indexes[0])];
    sent.extend(deltas(name, &id, indexes[0]));
    sent.push(text_done(name, &id, indexes[1]));
    if name == "output_text" {
        sent.push(part_done(&id, indexes[1]));
    }
    sent.push(done(indexes[1], &end));
    sent
}

/// Events of `SGLang`, and of `TensorRT-LLM` with empty ids: the end of an item has the next index.
fn late_ends(id: &str, end_id: &str) -> Vec<Value> {
    let reasoning = (
        "reasoning_text",
        reasoning_item(id, None),
        reasoning_item(end_id, Some(TEXT)),
    );
    let message = (
        "output_text",
        message_item(id, None),
        message_item(id, Some(TEXT)),
    );
    [late_item(reasoning, [0, 1]), late_item(message, [1, 2])].concat()
}

/// Events of vLLM without gpt-oss: each one has another block, and the message begins with the id
/// and the index of the reasoning.
fn vllm_events() -> Vec<Value> {
    let mut reasoning = vec![added(0, &reasoning_item("u1", None)), part_added("u1", 0)];
    reasoning.extend(deltas("reasoning_text", "u1", 0));
    reasoning.push(text_done("reasoning_text", "u1", 0));
    reasoning.push(done(0, &reasoning_item("u1", Some(TEXT))));
    let mut message = vec![added(0, &message_item("u1", None)), part_added("u2", 1)];
    message.extend(deltas("output_text", "u2", 1));
    message.push(text_done("output_text", "u2", 1));
    message.push(part_done("u2", 1));
    message.push(done(1, &message_item("u2", Some(TEXT))));
    for events in [&mut reasoning, &mut message] {
        let events = events.iter_mut();
        let blocks = events.filter(|event| event["content_index"].is_u64());
        for (block, event) in blocks.enumerate() {
            event["content_index"] = block.into();
        }
    }
    [reasoning, message].concat()
}

/// Events of items that have one id, of which two are open at once.
fn one_id_events() -> Vec<Value> {
    let id = "__fake_id__";
    let mut sent = vec![added(0, &reasoning_item(id, None))];
    sent.extend(deltas("reasoning_text", id, 0));
    sent.push(done(0, &reasoning_item(id, Some(TEXT))));
    sent.push(added(1, &message_item(id, None)));
    sent.push(part_added(id, 1));
    sent.extend(deltas("output_text", id, 1));
    sent.push(added(2, &call_item(id, "")));
    let piece = json!({ "type": "response.function_call_arguments.delta", "item_id": id,
        "output_index": 2, "delta": "{}" });
    sent.push(piece);
    sent.push(part_done(id, 1));
    sent.push(done(1, &message_item(id, Some(TEXT))));
    sent.push(done(2, &call_item(id, "{}")));
    sent
}

/// The pieces of the events of this type.
fn pieces(answer: &Answer, name: &str) -> String {
    let events = events(answer);
    let is_it = |event: &&Value| event["type"] == format!("response.{name}.delta");
    let pieces = events.iter().filter(is_it);
    pieces.filter_map(|event| event["delta"].as_str()).collect()
}

/// Answers to a request for this stream: with a hook that edits nothing, with a mask, and with one
/// that is buffered, with the text that each has.
async fn answers(sent: &[Value], output: &Value) -> Vec<(&'static str, Answer)> {
    let mut all = vec![created()];
    all.extend(sent.iter().cloned());
    all.push(completed(output));
    let upstream = streaming(&all).await;
    let buffered = format!("{REDACT}after_model: buffered\n");
    let mut answers = Vec::new();
    for (config, expected) in [
        (look(), TEXT),
        (REDACT.to_owned(), MASKED),
        (buffered, MASKED),
    ] {
        let gateway = gateway(&upstream, &config).await;
        let body = json!({ "model": "m", "input": "hello", "stream": true });
        answers.push((expected, ask(&gateway, &body).await));
    }
    answers
}

#[tokio::test]
async fn texts_of_items_with_other_numbers_are_sent_once() {
    let output = json!([
        reasoning_item("rs_9", Some(TEXT)),
        message_item("msg_9", Some(TEXT))
    ]);
    let id = "__fake_id__";
    let one_id = json!([
        reasoning_item(id, Some(TEXT)),
        message_item(id, Some(TEXT)),
        call_item(id, "{}")
    ]);
    for (server, sent, output) in [
        ("vllm", vllm_events(), &output),
        ("sglang", late_ends("item_1", "rs_1"), &output),
        ("tensorrt", late_ends("", ""), &output),
        ("one id", one_id_events(), &one_id),
    ] {
        let answers = answers(&sent, output).await;
        for (number, (expected, answer)) in answers.into_iter().enumerate() {
            let (_, response) = stream(&answer);
            let all = answer.text();
            assert_eq!(pieces(&answer, "output_text"), expected, "{server}: {all}");
            let items = response["output"].as_array().unwrap();
            let message = items.iter().find(|item| item["type"] == "message");
            let content = message.unwrap()["content"].as_array().unwrap();
            assert_eq!(content.len(), 1, "{server}: {all}");
            assert_eq!(content[0]["text"], expected, "{server}: {all}");
            // A buffered stream has no reasoning but that of a call.
            if number < 2 {
                let thought = pieces(&answer, "reasoning_text");
                assert_eq!(thought, expected, "{server}: {all}");
                let thought = &items[0]["content"][0]["text"];
                assert_eq!(thought, expected, "{server}: {all}");
                let count = output.as_array().unwrap().len();
                assert_eq!(items.len(), count, "{server}: {all}");
                let mut indexes = events(&answer).into_iter();
                let is_first = indexes.all(|event| event["content_index"].as_u64() <= Some(0));
                assert!(is_first, "{server}: {all}");
            }
        }
    }
}

#[tokio::test]
async fn calls_that_have_one_id_are_two() {
    let call = |call_id: &str, arguments: &str| {
        let mut call = call_item("__fake_id__", arguments);
        call["call_id"] = call_id.into();
        call
    };
    let calls = [call("c1", "{}"), call("c2", "{}")];
    let sent = [
        added(0, &call("c1", "")),
        added(1, &call("c2", "")),
        done(0, &calls[0]),
        done(1, &calls[1]),
    ];
    for (_, answer) in answers(&sent, &json!(calls)).await {
        let (_, response) = stream(&answer);
        let items = response["output"].as_array().unwrap();
        let ids: Vec<&Value> = items.iter().map(|item| &item["call_id"]).collect();
        assert_eq!(ids, ["c1", "c2"], "{}", answer.text());
    }
}

/// gpt-oss on vLLM: the end of a call has the next index, another `call_id`, and no id.
#[tokio::test]
async fn a_call_ends_with_the_index_of_the_next_item() {
    let mut call = call_item("", r#"{"path":"/tmp"}"#);
    call["call_id"] = "fc_2".into();
    let piece = json!({ "type": "response.function_call_arguments.delta", "item_id": "fc_1",
        "output_index": 0, "delta": call["arguments"] });
    let sent = [added(0, &call_item("fc_1", "")), piece, done(1, &call)];
    for (_, answer) in answers(&sent, &json!([call_item("fc_3", r#"{"path":"/tmp"}"#)])).await {
        let (_, response) = stream(&answer);
        let items = response["output"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{}", answer.text());
        assert_eq!(items[0]["arguments"], call["arguments"], "{response}");
    }
}

#[tokio::test]
async fn a_piece_in_front_of_the_beginning_of_its_item_is_sent_once() {
    for id in ["", "msg_1"] {
        let whole = format!("\n\n{TEXT}");
        let mut sent = vec![
            event("output_text.delta", id, 0, &json!({ "delta": "\n\n" })),
            added(0, &message_item(id, None)),
            part_added(id, 0),
        ];
        sent.extend(deltas("output_text", id, 0));
        let end = json!({ "text": whole });
        sent.push(event("output_text.done", id, 0, &end));
        sent.push(done(0, &message_item(id, Some(&whole))));
        let output = json!([message_item("msg_9", Some(&whole))]);

        for (expected, answer) in answers(&sent, &output).await {
            let expected = format!("\n\n{expected}");
            let (_, response) = stream(&answer);
            assert_eq!(
                pieces(&answer, "output_text"),
                expected,
                "{}",
                answer.text()
            );
            assert_eq!(text(&response), expected, "{}", answer.text());
        }
    }
}

/// LiteLLM announces the message before the thoughts in front of it, and no reasoning.
#[tokio::test]
async fn thoughts_of_no_item_behind_the_beginning_of_a_message_are_in_the_last_event_only() {
    let summary = json!([{ "type": "summary_text", "text": TEXT }]);
    let reasoning = json!({ "type": "reasoning", "id": "rs_9", "summary": summary });
    for id in ["msg_1", "chatcmpl_1"] {
        let part = json!({ "type": "reasoning_text", "reasoning": TEXT });
        let mut sent = vec![
            added(0, &message_item("msg_1", None)),
            part_added("msg_1", 0),
        ];
        sent.extend(deltas("reasoning_summary_text", "rs_1", 0));
        sent.extend(deltas("output_text", id, 0));
        sent.push(text_done("output_text", "msg_1", 0));
        sent.push(event(
            "content_part.done",
            "msg_1",
            0,
            &json!({ "part": part }),
        ));
        sent.push(done(0, &message_item("msg_1", Some(TEXT))));
        let output = json!([reasoning, message_item("msg_9", Some(TEXT))]);

        let answers = answers(&sent, &output).await;
        for (expected, answer) in answers.into_iter().take(2) {
            let (_, response) = stream(&answer);
            let all = answer.text();
            assert_eq!(pieces(&answer, "output_text"), expected, "{all}");
            assert_eq!(pieces(&answer, "reasoning_summary_text"), "", "{all}");
            let thought = &response["output"][0]["summary"][0]["text"];
            assert_eq!(thought, expected, "{all}");
            let block = &response["output"][1]["content"][0];
            assert_eq!(block["text"], expected, "{all}");
            let parts = events(&answer);
            let part = parts
                .iter()
                .find(|event| event["type"] == "response.content_part.done");
            let part = &part.unwrap()["part"];
            assert_eq!(
                (&part["type"], &part["text"]),
                (&json!("output_text"), &json!(expected))
            );
        }
    }
}

#[tokio::test]
async fn items_of_the_last_event_only_are_kept_in_front_of_and_behind_those_before() {
    let output = json!([
        reasoning_item("rs_1", Some(TEXT)),
        message("ok"),
        call_item("fc_1", r#"{"to":"ann@example.com"}"#)
    ]);
    let sent = [
        added(0, &message_item("msg_1", None)),
        done(0, &message("ok")),
    ];
    for (expected, answer) in answers(&sent, &output).await.into_iter().take(2) {
        let (_, response) = stream(&answer);
        let items = response["output"].as_array().unwrap();
        let types: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
        assert_eq!(
            types,
            ["reasoning", "message", "function_call"],
            "{response}"
        );
        assert_eq!(items[0]["content"][0]["text"], expected, "{response}");
        let is_masked = !items[2]["arguments"].as_str().unwrap().contains("ann@");
        assert_eq!(is_masked, expected == MASKED, "{response}");
    }
}

#[tokio::test]
async fn a_call_of_the_last_event_only_is_sent_if_the_event_has_another_text() {
    let sent = [
        added(0, &message_item("m", None)),
        done(0, &message_item("m", Some("Hello"))),
    ];
    let output = json!([message_item("m", Some("Hello!")), call_item("fc_1", "{}")]);
    for (_, answer) in answers(&sent, &output).await {
        let (_, response) = stream(&answer);
        let items = response["output"].as_array().unwrap();
        assert_eq!(items.len(), 2, "{response}");
        assert_eq!(items[1]["name"], "read", "{response}");
        assert_eq!(text(&response), "Hello", "{response}");
    }
}
