//! What is read from responses and streams, and how edits are written back.

mod laws;

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::*;
use crate::dialect::{
    CallDecision, DialectError, ReadChunks, ResponseDocument, ResponseTextEditor, TextChannel,
    TextKind, TextRest, WriteChunks,
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
    let mut out = BytesMut::new();
    for chunk in chunks {
        writer.write(&mut out, chunk).unwrap();
    }
    writer.write_end(&mut out).unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

/// Joins the texts of a stream, by block.
fn texts(events: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], texts.len());
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
    assert_eq!(chunks.iter().filter(|chunk| chunk.ends_text()).count(), 2);
}

#[test]
fn arguments_that_cannot_be_read_are_no_object() {
    for pieces in [&["{\"a\":1,\"a\":2}"][..], &["{"], &["[1]"]] {
        let chunks = read(&message(&[call_block(0, "f", pieces)], "tool_use"));
        let calls: Vec<_> = chunks
            .iter()
            .flat_map(|chunk| chunk.calls().unwrap())
            .collect();
        assert!(!calls[0].1.arguments.is_object());
    }
}

#[test]
fn calls_are_bounded() {
    let mut reader = MessageReader::default();
    let block = call_block(0, "f", &[&"x".repeat(1024 * 1024)]);
    let [open, piece, _] = events(&block).try_into().unwrap();
    reader.read(open).unwrap();
    let refused = (0..20).find(|_| reader.read(piece.clone()).is_err());
    assert_eq!(refused, Some(15));
}

#[test]
fn a_withheld_call_is_not_sent_and_the_others_are_renumbered() {
    let listed = message(
        &[
            text_block(0, &["a"]),
            call_block(1, "f", &["{}"]),
            call_block(2, "g", &["{\"b\":2}"]),
        ],
        "tool_use",
    );
    let mut chunks = read(&listed);
    for chunk in &mut chunks {
        let decisions = chunk
            .calls()
            .unwrap()
            .iter()
            .map(|(_, call)| {
                if call.name == "f" {
                    CallDecision::Drop
                } else {
                    CallDecision::Keep
                }
            })
            .collect();
        chunk.decide_calls(decisions).unwrap();
    }
    let sent = written(&chunks);
    assert_eq!(texts(&sent), ["a", "{\"b\":2}"]);
    assert_eq!(stop_reason(&sent), "tool_use");
}

#[test]
fn a_stream_without_its_calls_ends_its_turn() {
    let mut chunks = read(&message(&[call_block(0, "f", &["{}"])], "tool_use"));
    for chunk in &mut chunks {
        let decisions = chunk
            .calls()
            .unwrap()
            .iter()
            .map(|_| CallDecision::Refuse("no".to_owned()))
            .collect();
        chunk.decide_calls(decisions).unwrap();
        chunk.explain_withheld_calls().unwrap();
    }
    let sent = written(&chunks);
    assert_eq!(texts(&sent), ["Tool execution blocked: no"]);
    assert_eq!(stop_reason(&sent), "end_turn");
}

#[test]
fn changed_arguments_are_one_piece() {
    let mut chunks = read(&message(
        &[
            text_block(0, &["a"]),
            call_block(1, "f", &["{\"a\"", ":1}"]),
        ],
        "tool_use",
    ));
    for chunk in &mut chunks {
        let arguments = json!({ "a": 2 }).as_object().unwrap().clone();
        let decisions = chunk
            .calls()
            .unwrap()
            .iter()
            .map(|_| CallDecision::Rewrite(arguments.clone()))
            .collect();
        chunk.decide_calls(decisions).unwrap();
    }
    let sent = written(&chunks);
    let mut expected = message(
        &[text_block(0, &["a"]), call_block(1, "f", &["{\"a\":2}"])],
        "tool_use",
    );
    expected.retain(|event| event["type"] != "ping");
    assert_eq!(sent, expected);
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
fn a_text_whose_block_was_dropped_with_a_call_is_a_block_of_its_own() {
    let mut chunks = read(&message(
        &[
            text_block(0, &["a"]),
            call_block(1, "f", &["{}"]),
            text_block(2, &["b", "c"]),
        ],
        "tool_use",
    ));
    // What is held back with a call, and has no content, is dropped.
    let held = chunks
        .iter()
        .position(|chunk| !chunk.calls().unwrap().is_empty());
    let held = chunks.split_off(held.unwrap());
    for mut chunk in held {
        if chunk.remove_end().unwrap() {
            chunks.push(chunk);
        }
    }
    chunks.extend(read(&message(&[text_block(0, &["d"])], "end_turn")));
    let sent = written(&chunks);
    assert_eq!(texts(&sent), ["a", "bc", "d"]);
    assert_eq!(stop_reason(&sent), "end_turn");
}

fn denial(text: &str) -> ResponseDocument {
    let form = json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0 },
        "modelVersion": "m", "responseId": "hookgate-1",
    });
    ResponseDocument::parse(form.to_string().into()).unwrap()
}

#[test]
fn a_denial_is_a_message_of_its_own_or_ends_the_one_that_is_open() {
    let sent = written(&[denial("no")]);
    let kinds: Vec<&str> = sent
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert_eq!(sent[0]["message"]["id"], "hookgate-1");
    assert_eq!(stop_reason(&sent), "end_turn");
    for (count, expected) in [(3, &["a", "no"][..]), (4, &["ano"]), (6, &["ab", "no"])] {
        // Begun: the thinking of no block is open, so a text block of our own follows.
        let listed = match count {
            3 => message(&[thinking_block(0)], "end_turn"),
            _ => message(&[text_block(0, &["a", "b"])], "end_turn"),
        };
        let mut chunks = read(&listed);
        chunks.truncate(if count == 4 { 3 } else { count.min(5) });
        chunks.push(denial("no"));
        let sent = written(&chunks);
        if count == 3 {
            assert_eq!(texts(&sent), ["h", "no"]);
        } else if count == 6 {
            assert_eq!(texts(&sent), expected);
        } else {
            assert_eq!(texts(&sent), ["ano"]);
        }
        assert_eq!(stop_reason(&sent), "end_turn");
    }
}

/// Holds the last two characters of each text back, and masks `secret`.
#[derive(Debug, Default)]
struct Masker(Vec<(TextChannel, String)>);

impl ResponseTextEditor for Masker {
    fn edit_piece(&mut self, channel: &TextChannel, text: &str, rest: TextRest) -> Option<String> {
        let held = self.0.iter().position(|(known, _)| known == channel);
        let held = held.map(|position| self.0.remove(position).1);
        let mut whole = held.unwrap_or_default() + text;
        whole = whole.replace("secret", "#");
        if rest == TextRest::MayFollow {
            let keep = whole.len().saturating_sub(5);
            let tail = whole.split_off(keep);
            if !tail.is_empty() {
                self.0.push((channel.clone(), tail));
            }
        }
        Some(whole)
    }

    fn edit(&mut self, _kind: TextKind, text: &str) -> Option<String> {
        text.contains("secret").then(|| text.replace("secret", "#"))
    }

    fn held_back(&self, candidate: Option<u64>) -> Vec<TextChannel> {
        let held = self.0.iter().map(|(channel, _)| channel.clone());
        held.filter(|channel| candidate.is_none_or(|index| channel.candidate == index))
            .collect()
    }
}

fn masked(listed: &[Value]) -> Vec<Value> {
    let mut masker = Masker::default();
    let mut chunks = read(listed);
    let count = chunks.len();
    for (index, chunk) in chunks.iter_mut().enumerate() {
        let rest = if index + 1 == count {
            TextRest::None
        } else {
            TextRest::MayFollow
        };
        chunk.edit_texts(&mut masker, rest).unwrap();
    }
    written(&chunks)
}

#[test]
fn a_text_is_masked_at_every_cut() {
    let text = "a secret b";
    for cut in 0..=text.len() {
        for second in cut..=text.len() {
            let (rest, last) = text.split_at(second);
            let (one, other) = rest.split_at(cut);
            let pieces = [one, other, last];
            let listed = message(
                &[
                    thinking_block(0),
                    text_block(1, &pieces),
                    text_block(2, &["more"]),
                    call_block(3, "f", &["{\"a\":\"se", "cret\"}"]),
                ],
                "tool_use",
            );
            let sent = masked(&listed);
            assert_eq!(
                texts(&sent),
                ["hm", "a # b", "more", "{\"a\":\"#\"}"],
                "{pieces:?}"
            );
            assert_eq!(stop_reason(&sent), "tool_use");
        }
    }
}

#[test]
fn a_text_that_is_blanked_leaves_no_block() {
    let mut chunks = read(&message(
        &[text_block(0, &["a"]), text_block(1, &["b"])],
        "end_turn",
    ));
    for chunk in &mut chunks {
        if chunk.plain_texts().any(|text| text == "a") {
            let mutation = crate::model::ResponseMutation {
                candidates: vec![crate::model::CandidateMutation {
                    parts: Some(vec![String::new()]),
                    ..Default::default()
                }],
                usage_metadata: None,
            };
            chunk.write(&mutation).unwrap();
        }
    }
    assert_eq!(texts(&written(&chunks)), ["b"]);
}

#[test]
fn blocks_that_the_api_ran_are_shown_and_masked() {
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "s", "content": [{ "type": "web_search_result", "title": "a secret" }] });
    let delta = |delta: Value| json!({ "type": "content_block_delta", "index": 2, "delta": delta });
    let listed = message(
        &[vec![
            json!({ "type": "content_block_start", "index": 0, "content_block": search }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": "{\"query\":\"secret\"}" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "content_block_start", "index": 1, "content_block": result }),
            json!({ "type": "content_block_stop", "index": 1 }),
            json!({ "type": "content_block_start", "index": 2, "content_block": { "type": "text", "text": "" } }),
            delta(json!({ "type": "text_delta", "text": "found" })),
            delta(
                json!({ "type": "citations_delta", "citation": { "type": "x", "cited_text": "the secret" } }),
            ),
            json!({ "type": "content_block_stop", "index": 2 }),
        ]],
        "end_turn",
    );
    let sent = sse(&listed);
    assert_eq!(written_text(&read(&listed)), sent);
    let all = json!(masked(&listed)).to_string();
    assert!(!all.contains("secret"), "{all}");
    assert!(
        all.contains("the #") && all.contains("a #") && all.contains("found"),
        "{all}"
    );
}

#[test]
fn a_stream_that_is_cut_off_is_not_complete() {
    let listed = message(&[text_block(0, &["a"])], "end_turn");
    for count in 1..listed.len() - 2 {
        let mut reader = MessageReader::default();
        for data in events(&listed[..count]) {
            reader.read(data).unwrap();
        }
        assert!(reader.finish().is_err(), "{count}");
    }
    assert!(MessageReader::default().finish().unwrap().is_none());
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

fn whole() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "redacted_thinking", "data": "d" },
            { "type": "text", "text": "a secret", "citations": [] },
            { "type": "tool_use", "id": "t", "name": "f", "input": { "a": 1.0 } },
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": { "input_tokens": 5, "cache_creation_input_tokens": 1, "output_tokens": 3 },
    })
}

fn open(message: &Value) -> ResponseDocument {
    open_message(message.to_string().into()).unwrap()
}

fn close(response: &ResponseDocument) -> Value {
    serde_json::from_slice(&close_message(response).unwrap()).unwrap()
}

#[test]
fn a_whole_message_is_read_and_edited() -> Result<(), DialectError> {
    let text = serde_json::to_string_pretty(&whole()).unwrap();
    let response = open_message(text.clone().into())?;
    assert_eq!(close_message(&response)?, text);
    let read = response.read()?;
    assert_eq!(read.text, "a secret");
    assert_eq!(read.candidates[0].finish_reason.as_deref(), Some("STOP"));
    assert_eq!(response.total_tokens()?, Some(9));
    let mut masked = open(&whole());
    masked.edit_texts(&mut Masker::default(), TextRest::None)?;
    let mut expected = whole();
    expected["content"][2] = json!({ "type": "text", "text": "a #" });
    assert_eq!(close(&masked), expected);
    let mut refused = open(&whole());
    refused.decide_calls(vec![CallDecision::Drop])?;
    let mut expected = whole();
    expected["content"].as_array_mut().unwrap().remove(3);
    expected["stop_reason"] = "end_turn".into();
    assert_eq!(close(&refused), expected);
    Ok(())
}

#[test]
fn a_denial_is_a_whole_message() {
    let sent = close(&denial("no"));
    assert_eq!(sent["content"], json!([{ "type": "text", "text": "no" }]));
    assert_eq!(sent["stop_reason"], "end_turn");
    assert_eq!(sent["type"], "message");
    assert_eq!(
        sent["usage"],
        json!({ "input_tokens": 0, "output_tokens": 0 })
    );
}

#[test]
fn merged_responses_keep_the_thinking_of_their_calls_unless_it_was_masked() {
    let merged = |thinking: &str| {
        let form = open(&whole()).to_bytes();
        let form = String::from_utf8(form.to_vec())
            .unwrap()
            .replace("\"text\":\"hm\"", thinking);
        close(&ResponseDocument::parse(form.into()).unwrap())["content"].clone()
    };
    let content = merged("\"text\":\"hm\"");
    let mut expected = whole()["content"].clone();
    let text = json!({ "type": "text", "text": "a secret" });
    expected = json!([text, expected[0], expected[1], expected[3]]);
    // Thinking may be anywhere in front of its call.
    let kinds = |list: &Value| -> Vec<Value> {
        let mut kinds: Vec<Value> = list.as_array().unwrap().clone();
        kinds.sort_by_key(Value::to_string);
        kinds
    };
    assert_eq!(kinds(&content), kinds(&expected));
    assert_eq!(merged("\"text\":\"#\"").as_array().unwrap().len(), 2);
}
