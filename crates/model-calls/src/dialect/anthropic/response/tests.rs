//! Reading of responses and streams, and writing of edits.

mod calls;
mod masked_texts;
mod messages;
mod properties;

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::dialect::{
    CallDecision, ReadChunks, ResponseDocument, ResponseTextEditor, TextChannel, TextEnd, TextKind,
    TextRest, WriteChunks,
};

/// Returns the data of events as the API sends them.
fn events(listed: &[Value]) -> Vec<Bytes> {
    listed
        .iter()
        .map(|event| event.to_string().into())
        .collect()
}

fn start(model: &str) -> Value {
    json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "usage": { "input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1 },
    } })
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": 9 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn text_block(index: u64, texts: &[&str]) -> Vec<Value> {
    let mut block = vec![
        json!({ "type": "content_block_start", "index": index, "content_block": { "type": "text", "text": "" } }),
    ];
    for text in texts {
        block.push(json!({ "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": text } }));
    }
    block.push(json!({ "type": "content_block_stop", "index": index }));
    block
}

fn thinking_block(index: u64) -> Vec<Value> {
    let delta =
        |delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    vec![
        json!({ "type": "content_block_start", "index": index, "content_block": { "type": "thinking", "thinking": "", "signature": "" } }),
        delta(json!({ "type": "thinking_delta", "thinking": "h" })),
        delta(json!({ "type": "thinking_delta", "thinking": "m" })),
        delta(json!({ "type": "signature_delta", "signature": "sig" })),
        json!({ "type": "content_block_stop", "index": index }),
    ]
}

fn call_block(index: u64, name: &str, pieces: &[&str]) -> Vec<Value> {
    let mut block = vec![
        json!({ "type": "content_block_start", "index": index, "content_block": {
        "type": "tool_use", "id": format!("t{index}"), "name": name, "input": {},
    } }),
    ];
    for piece in pieces {
        block.push(json!({ "type": "content_block_delta", "index": index, "delta": { "type": "input_json_delta", "partial_json": piece } }));
    }
    block.push(json!({ "type": "content_block_stop", "index": index }));
    block
}

fn message(blocks: &[Vec<Value>], reason: &str) -> Vec<Value> {
    let mut all = vec![start("m")];
    all.extend(blocks.iter().flatten().cloned());
    all.extend(end(reason));
    all
}

/// Writes events as the API sends them.
fn sse(listed: &[Value]) -> String {
    let mut sent = String::new();
    for event in listed {
        let name = event["type"].as_str().unwrap();
        write!(sent, "event: {name}\ndata: {event}\n\n").unwrap();
    }
    sent
}

fn read(listed: &[Value]) -> Vec<ResponseDocument> {
    let mut reader = MessageReader::default();
    let chunks = events(listed)
        .into_iter()
        .filter_map(|data| reader.read(data).unwrap());
    let mut chunks: Vec<ResponseDocument> = chunks.collect();
    chunks.extend(reader.finish().unwrap());
    chunks
}

fn written(chunks: &[ResponseDocument]) -> Vec<Value> {
    let text = written_text(chunks);
    text.split("\n\n")
        .filter(|event| !event.is_empty())
        .map(|event| {
            let (name, data) = event.split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        })
        .collect()
}

fn written_text(chunks: &[ResponseDocument]) -> String {
    let mut writer = MessageWriter::default();
    for chunk in chunks {
        writer.write(chunk).unwrap();
    }
    writer.write_end().unwrap();
    String::from_utf8(writer.output().to_vec()).unwrap()
}

/// Joins the texts of a stream, by block.
fn texts(events: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], texts.len());
                assert!(event["content_block"].is_object(), "{event}");
                texts.push(String::new());
            }
            "content_block_delta" => {
                let index: usize = event["index"].to_string().parse().unwrap();
                let delta = &event["delta"];
                let piece = ["text", "thinking", "partial_json"]
                    .iter()
                    .find_map(|field| delta[*field].as_str());
                texts[index].push_str(piece.unwrap_or_default());
            }
            _ => (),
        }
    }
    texts
}

fn stop_reason(events: &[Value]) -> &str {
    let end = events.iter().find(|event| event["type"] == "message_delta");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    end.unwrap()["delta"]["stop_reason"].as_str().unwrap()
}

#[test]
fn an_unedited_stream_keeps_its_bytes() {
    let mut listed = message(
        &[
            thinking_block(0),
            text_block(1, &["a", "b"]),
            text_block(2, &[]),
            call_block(3, "f", &["", "{\"a\"", ":1}"]),
        ],
        "tool_use",
    );
    listed.insert(2, json!({ "type": "ping" }));
    listed.insert(8, json!({ "type": "ping" }));
    let sent = sse(&listed);
    assert_eq!(written_text(&read(&listed)), sent);
}

#[test]
fn each_delta_is_a_chunk_and_each_call_is_one() {
    let chunks = read(&message(
        &[
            thinking_block(0),
            text_block(1, &["a", "b"]),
            call_block(2, "f", &["{\"a\"", ":1.0}"]),
        ],
        "tool_use",
    ));
    let texts: Vec<String> = chunks
        .iter()
        .flat_map(|chunk| chunk.plain_texts().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(texts, ["a", "b"]);
    let calls: Vec<_> = chunks
        .iter()
        .flat_map(|chunk| chunk.calls().unwrap())
        .collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].1.name, "f");
    assert_eq!(calls[0].1.arguments.to_string(), r#"{"a":1.0}"#);
    let last = chunks.last().unwrap();
    assert!(last.is_complete().unwrap());
    assert_eq!(last.total_tokens().unwrap(), Some(16));
    let ends = chunks.iter().map(ResponseDocument::text_end);
    let ends = ends.filter(|end| *end != TextEnd::None);
    // A thought ends with its signature and with its block, a text with its block.
    assert_eq!(ends.count(), 3);
}

#[test]
fn a_second_response_continues_the_message() {
    let first = message(
        &[text_block(0, &["a"]), call_block(1, "f", &["{}"])],
        "tool_use",
    );
    let second = message(
        &[text_block(0, &["b"]), call_block(1, "g", &["{\"x\":1}"])],
        "tool_use",
    );
    let mut chunks = read(&first);
    chunks.retain(|chunk| chunk.calls().unwrap().is_empty() && !chunk.has_finish_reason());
    chunks.extend(read(&second));
    let sent = written(&chunks);
    assert_eq!(
        sent.iter()
            .filter(|event| event["type"] == "message_start")
            .count(),
        1
    );
    assert_eq!(texts(&sent), ["a", "b", "{\"x\":1}"]);
    assert_eq!(stop_reason(&sent), "tool_use");
}

#[test]
fn a_stream_that_is_cut_off_is_not_complete() {
    let listed = message(&[text_block(0, &["a"])], "end_turn");
    for count in 0..listed.len() - 2 {
        let mut reader = MessageReader::default();
        for data in events(&listed[..count]) {
            reader.read(data).unwrap();
        }
        assert!(reader.finish().is_err(), "{count}");
    }
}

#[test]
fn an_error_of_the_api_ends_the_stream() {
    let error =
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
    let listed = vec![start("m"), error.clone()];
    let sent = written(&read(&listed));
    assert_eq!(sent, listed);
}

#[test]
fn events_of_a_block_that_is_not_open_are_refused() {
    let events = |index: u64| {
        [
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": "a" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "b" } }),
        ]
    };
    let accepted = |index: u64| {
        let mut reader = MessageReader::default();
        let events = [vec![start("m")], events(index).to_vec()].concat();
        let read = events
            .iter()
            .map(|event| reader.read(event.to_string().into()));
        read.take_while(Result::is_ok).count()
    };
    // Not the last one, although it is alike the one before.
    assert_eq!(accepted(0), 4);
    assert_eq!(accepted(1), 2);
}

#[test]
fn a_piece_of_json_in_a_text_or_a_thought_is_refused() {
    let is_refused = |block: Value| {
        let events = [
            start("m"),
            json!({ "type": "content_block_start", "index": 0, "content_block": block }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": "a" } }),
        ];
        let mut reader = MessageReader::default();
        let read = events.map(|event| reader.read(event.to_string().into()).is_err());
        read == [false, false, true]
    };
    assert!(is_refused(json!({ "type": "text", "text": "" })));
    assert!(is_refused(json!({ "type": "thinking", "thinking": "" })));
}

#[test]
fn only_an_empty_piece_of_a_thought_may_follow_its_signature() {
    let piece = |text: &str| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "thinking_delta", "thinking": text } });
    let mut block = thinking_block(0);
    block.insert(4, piece(""));
    let listed = message(std::slice::from_ref(&block), "end_turn");
    assert_eq!(written_text(&read(&listed)), sse(&listed));

    block.insert(5, piece("more"));
    let listed = message(&[block], "end_turn");
    let mut reader = MessageReader::default();
    let refused = events(&listed)
        .into_iter()
        .position(|data| reader.read(data).is_err());
    // Behind the starts of message and block, two pieces, the signature and the empty piece.
    assert_eq!(refused, Some(6));
}

#[test]
fn events_that_parsers_read_differently_are_refused() {
    let refused = |data: &'static str| {
        MessageReader::default()
            .read(Bytes::from_static(data.as_bytes()))
            .is_err()
    };
    assert!(refused(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","text":"b"}}"#
    ));
    assert!(refused(
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#
    ));
    assert!(refused(
        r#"{"type":"message_start","message":{"content":[{"type":"text","text":"a"}]}}"#
    ));
    assert!(refused(r#"{"index":0}"#));
}
