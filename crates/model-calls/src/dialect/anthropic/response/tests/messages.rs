//! Whole messages, and synthetic answers.

use super::{masked_texts::Masker, *};
use crate::{dialect::error::Result, model::ResponseMutation};

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
        // Begun: the thinking of no block is open, so a synthetic text block follows.
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

#[test]
fn a_citation_in_front_of_a_denied_text_is_not_sent() {
    let citation = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "citations_delta", "citation": { "cited_text": "secret" } } });
    let mut block = text_block(0, &["secret"]);
    block.insert(1, citation);
    let mut chunks = read(&message(&[block], "end_turn"));
    chunks.truncate(3);
    chunks.push(denial("no"));

    let sent = written(&chunks);

    assert_eq!(texts(&sent), ["no"]);
    assert!(!json!(sent).to_string().contains("cited_text"));
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
fn a_whole_message_is_read_and_edited() -> Result<()> {
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

/// Returns the whole answer of a stream, as it is written anew if a hook edits it.
fn merged(listed: &[Value]) -> ResponseDocument {
    ResponseDocument::merge(read(listed)).unwrap()
}

#[test]
fn a_stream_that_is_written_anew_keeps_its_blocks_and_its_token_counts() {
    let redacted = [
        json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "redacted_thinking", "data": "d" } }),
        json!({ "type": "content_block_stop", "index": 1 }),
    ];
    let listed = message(
        &[
            thinking_block(0),
            redacted.to_vec(),
            text_block(2, &["a secret"]),
            call_block(3, "f", &["{\"a\":1.0}"]),
        ],
        "tool_use",
    );
    let mut masked = merged(&listed);
    masked
        .edit_texts(&mut Masker::default(), TextRest::None)
        .unwrap();
    let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 9 });

    let sent = written(&[masked]);

    assert_eq!(texts(&sent), ["hm", "", "a #", "{\"a\":1.0}"]);
    assert_eq!(sent[0]["message"]["usage"], usage);
    let end = &sent[sent.len() - 2];
    assert_eq!((&end["usage"], stop_reason(&sent)), (&usage, "tool_use"));
    let starts = sent
        .iter()
        .filter(|event| event["type"] == "content_block_start");
    let blocks: Vec<&Value> = starts.map(|event| &event["content_block"]).collect();
    assert_eq!(
        *blocks[0],
        json!({ "type": "thinking", "thinking": "", "signature": "" })
    );
    assert_eq!(*blocks[1], redacted[0]["content_block"]);
    let signature = json!({ "type": "signature_delta", "signature": "sig" });
    assert!(sent.iter().any(|event| event["delta"] == signature));
}

#[test]
fn edited_token_counts_are_those_of_the_agent() {
    let mut response = merged(&message(&[text_block(0, &["a"])], "end_turn"));
    let edit = json!({ "usageMetadata": { "promptTokenCount": 1 } });
    response
        .write(&ResponseMutation::read(&edit).unwrap())
        .unwrap();
    let usage = &close(&response)["usage"];
    assert_eq!(*usage, json!({ "input_tokens": 1, "output_tokens": 9 }));
}

#[test]
fn neighbouring_texts_that_are_written_anew_stay_in_front_of_the_thinking() {
    let listed = message(
        &[
            text_block(0, &["a secret "]),
            text_block(1, &["b"]),
            thinking_block(2),
            call_block(3, "f", &["{}"]),
        ],
        "tool_use",
    );
    let mut masked = merged(&listed);
    masked
        .edit_texts(&mut Masker::default(), TextRest::None)
        .unwrap();

    assert_eq!(texts(&written(&[masked])), ["a # b", "hm", "{}"]);
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
    // What was not masked stays.
    let masked = merged("\"text\":\"#\"");
    assert_eq!(
        kinds(&masked),
        kinds(&json!([text, expected[2], expected[3]]))
    );
}
