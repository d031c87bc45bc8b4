//! Tests of reading streams, and of writing edits into every copy of a text.

mod calls;
mod masked_texts;
mod refusals;
mod test_stream;

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use self::test_stream::*;
use super::*;
use crate::dialect::{
    api_dialect::{ReadChunks, WriteChunks},
    google::{CallDecision, ResponseDocument},
    text_edit::{ResponseTextEditor, TextChannel, TextKind, TextRest},
};

#[test]
fn an_unedited_stream_keeps_its_bytes() {
    let items = [
        Item::Reasoning("think".to_owned()),
        text(&["Hel", "lo"]),
        Item::Search("q".to_owned()),
        call("read"),
        Item::Custom("free text".to_owned()),
    ];
    let data = stream_of("r1", &items);
    assert_eq!(written(&chunks_of(&data)), sse(&data));
    checked(&sse(&data));
}

#[test]
fn a_whole_response_becomes_the_events_of_a_stream() {
    let items = [
        Item::Reasoning("think".to_owned()),
        text(&["Hello"]),
        Item::Search("q".to_owned()),
        call("read"),
        Item::Custom("free text".to_owned()),
    ];
    let streamed = stream_of("r1", &items);
    let end: Value = serde_json::from_slice(streamed.last().unwrap()).unwrap();
    let mut body = end["response"].clone();

    let events = body_events(&body.to_string().into()).unwrap();

    let chunks = chunks_of(&events);
    assert_eq!(written(&chunks), sse(&events));
    checked(&sse(&events));
    let names = |events: &[Bytes]| -> Vec<Value> {
        let events = events.iter();
        let events = events.map(|event| serde_json::from_slice::<Value>(event).unwrap());
        events.map(|event| event["type"].clone()).collect()
    };
    let mut expected = names(&streamed);
    // The test stream has calls in two pieces, and events about the progress of a search.
    expected.dedup();
    expected.retain(|name| !name.as_str().unwrap().contains("web_search"));
    assert_eq!(names(&events), expected);

    // One that has not ended has no end, and one with an unknown status has.
    body["status"] = "in_progress".into();
    let running = body_events(&body.to_string().into()).unwrap();
    assert_eq!(running.len(), events.len() - 1);
    let event = json!({ "type": "error", "message": "m" }).to_string();
    assert_eq!(body_events(&event.clone().into()).unwrap(), [event]);
}

#[test]
fn a_call_without_arguments_in_a_whole_response_has_no_events_about_them() {
    for mut item in [json!({}), json!({ "arguments": null })] {
        for (key, value) in [("type", "function_call"), ("call_id", "c"), ("name", "now")] {
            item[key] = value.into();
        }
        let body = response("r1", "completed", &[item]);
        let events = body_events(&body.to_string().into()).unwrap();
        let events = parsed(&written(&chunks_of(&events)));
        let names: Vec<&str> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            names[2..],
            [
                "response.output_item.added",
                "response.output_item.done",
                "response.completed"
            ]
        );
    }
}

#[test]
fn an_item_may_begin_after_a_piece_without_an_index() {
    let mut data = stream_of("r1", &[text(&["a"])]);
    let piece = json!({ "type": "response.output_text.delta", "sequence_number": 2, "delta": "x" });
    data.insert(2, Bytes::from(piece.to_string()));

    let chunks = chunks_of(&data);

    let texts = chunks.iter().flat_map(ResponseDocument::plain_texts);
    assert_eq!(texts.collect::<String>(), "xa");
    let (text, output) = checked(&written(&chunks));
    assert_eq!((text.as_str(), output.len()), ("xa", 2));
}

#[test]
fn items_that_end_without_an_index_are_all_sent() {
    let message = |text: &str| {
        json!({ "type": "message", "id": text, "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
    };
    let output = ["a", "b", "bc"].map(message);
    let mut events =
        vec![json!({ "type": "response.created", "response": response("r1", "in_progress", &[]) })];
    events.extend(
        output
            .iter()
            .map(|item| named("response.output_item.done", json!({ "item": item }))),
    );
    let end = json!({ "response": response("r1", "completed", &output) });
    events.push(named("response.completed", end));
    let data: Vec<Bytes> = events
        .iter()
        .map(|event| event.to_string().into())
        .collect();

    let chunks = chunks_of(&data);

    let texts: Vec<String> = chunks
        .iter()
        .flat_map(ResponseDocument::plain_texts)
        .map(str::to_owned)
        .collect();
    assert_eq!(texts, ["a", "b", "bc"]);
    let sent = parsed(&written(&chunks));
    let done = sent
        .iter()
        .filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<&Value> = done
        .map(|event| &event["item"]["content"][0]["text"])
        .collect();
    assert_eq!(done, ["a", "b", "bc"]);
    let last = &sent.last().unwrap()["response"]["output"];
    assert_eq!(last.as_array().unwrap().len(), 3, "{last}");
}

#[test]
fn a_second_round_continues_the_first() {
    let mut first = chunks_of(&stream_of("r1", &[text(&["a"]), call("rm")]));
    withhold(&mut first, "rm");
    let mut held = false;
    first.retain_mut(|chunk| {
        held |= chunk.has_withheld_calls();
        !held || chunk.remove_end().unwrap()
    });
    let second = chunks_of(&stream_of("r2", &[text(&["b"]), call("ls")]));
    let stream = written(&[first, second].concat());
    let (text, output) = checked(&stream);
    assert_eq!(text, "ab");
    assert_eq!(output.len(), 3);
    let events = parsed(&stream);
    let created = events
        .iter()
        .filter(|event| event["type"] == "response.created");
    assert_eq!(created.count(), 1);
    assert_eq!(events.last().unwrap()["response"]["id"], "r1");
}

#[test]
fn an_answer_of_our_own_is_a_complete_stream() {
    let form = json!({
        "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [{ "text": "no" }] } }],
        "modelVersion": "gpt-x",
        "responseId": "hookgate-1",
    });
    let own = ResponseDocument::parse(form.to_string().into()).unwrap();
    let stream = written(&[own]);
    let (text, output) = checked(&stream);
    assert_eq!(text, "no");
    assert_eq!(output[0]["role"], "assistant");
    let names: Vec<String> = parsed(&stream)
        .iter()
        .map(|event| event["type"].as_str().unwrap().replace("response.", ""))
        .collect();
    assert_eq!(
        names.join(" "),
        "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
    );
}

#[test]
fn a_late_denial_completes_the_open_text() {
    let data = stream_of("r1", &[text(&["a", "b"])]);
    let mut chunks = chunks_of(
        &data[..5]
            .iter()
            .chain(data.last())
            .cloned()
            .collect::<Vec<_>>(),
    );
    chunks.pop();
    let form = json!({ "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "parts": [{ "text": " no" }] } }] });
    chunks.push(ResponseDocument::parse(form.to_string().into()).unwrap());
    assert_eq!(checked(&written(&chunks)).0, "a no");
}

#[test]
fn a_stream_without_an_end_is_an_error() {
    let data = stream_of("r1", &[text(&["a"])]);
    let mut reader = EventReader::default();
    for data in &data[..data.len() - 1] {
        reader.read(data.clone()).unwrap();
    }
    assert!(reader.finish().is_err());
}

#[test]
fn texts_without_pieces_are_seen() {
    let data = stream_of("r1", &[text(&["secret"])]);
    let (first, last) = (data.first().unwrap(), data.last().unwrap());
    let item_done = &data[data.len() - 2];
    for data in [
        vec![first.clone(), item_done.clone(), last.clone()],
        vec![first.clone(), last.clone()],
    ] {
        let chunks = chunks_of(&data);
        let texts: String = chunks
            .iter()
            .flat_map(ResponseDocument::plain_texts)
            .collect();
        assert_eq!(texts, "secret");
        assert_eq!(written(&chunks), sse(&data));
        assert!(!masked(&data).contains("secret"));
    }
    let (text, _) = checked(&masked(&[first.clone(), last.clone()]));
    assert_eq!(text, "*ecret");
}

/// A late denial: the model's stream breaks off, and a text of hooks follows.
fn denied_after(data: &[Bytes], position: usize) -> String {
    let mut reader = EventReader::default();
    let read = data.iter().take(position);
    let read = read.map(|data| reader.read(data.clone()).unwrap());
    let mut chunks: Vec<ResponseDocument> = read.flatten().collect();
    let form = json!({ "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "parts": [{ "text": "denied" }] } }] });
    chunks.push(ResponseDocument::parse(form.to_string().into()).unwrap());
    written(&chunks)
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let pieces = vec("[a-zs]{0,3}|secret|é\"\\\\", 0..4).prop_map(Item::Text);
    let item = prop_oneof![
        3 => pieces,
        1 => "[a-s]{0,4}".prop_map(Item::Reasoning),
        1 => Just(call("rm")),
        1 => Just(call("ls")),
        1 => "[a-s]{0,4}".prop_map(Item::Custom),
        1 => "[a-s]{0,4}".prop_map(Item::Search),
    ];
    vec(item, 0..5)
}

proptest! {
    #[test]
    fn unedited_streams_keep_their_bytes(items in items()) {
        let data = stream_of("r1", &items);
        prop_assert_eq!(written(&chunks_of(&data)), sse(&data));
    }

    #[test]
    fn masked_streams_hold_no_secret_and_agree(items in items()) {
        let data = stream_of("r1", &items);
        let stream = masked(&data);
        let texts: String = items.iter().filter_map(|item| match item {
            Item::Text(pieces) => Some(pieces.concat().replace('s', "*")),
            _ => None,
        }).collect();
        prop_assert_eq!(checked(&stream).0, texts);
    }

    #[test]
    fn late_denials_leave_consistent_streams(items in items(), position in 0..40_usize) {
        let data = stream_of("r1", &items);
        let (text, _) = checked(&denied_after(&data, position.min(data.len() - 1)));
        prop_assert!(text.ends_with("denied"));
    }

    #[test]
    fn withheld_calls_leave_consistent_streams(items in items()) {
        let mut chunks = chunks_of(&stream_of("r1", &items));
        withhold(&mut chunks, "rm");
        let stream = written(&chunks);
        prop_assert!(!stream.contains("rm.txt"));
        checked(&stream);
    }
}
