//! Streams of compatible servers whose events have no `output_index`.

use serde_json::{Value, json};

use super::{
    DENY_RM, ask, completed, created, events, gateway, message, no_op_hook, stream, streaming, text,
};
use crate::harness::hook;

pub fn piece(text: &str) -> Value {
    json!({ "type": "response.output_text.delta", "delta": text })
}

fn piece_of(index: u64, text: &str) -> Value {
    let mut piece = piece(text);
    piece["output_index"] = index.into();
    piece
}

#[tokio::test]
async fn calls_of_the_last_event_never_pass_unseen_behind_pieces_of_no_item() {
    let call = |id: &str| {
        json!({ "type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": "rm",
            "arguments": "{}", "status": "completed" })
    };
    let begun = json!({ "type": "response.output_item.added", "output_index": 0,
        "item": { "type": "message", "id": "m", "role": "assistant", "content": [] } });
    for pieces in [
        vec![piece("ok")],
        vec![piece("")],
        vec![piece_of(0, ""), piece_of(1, "")],
        vec![begun.clone()],
        vec![begun, piece_of(0, "ok")],
    ] {
        let mut sent = vec![created()];
        sent.extend(pieces.clone());
        sent.push(completed(&json!([call("f0"), call("f1")])));
        let upstream = streaming(&sent).await;
        let gateway = gateway(&upstream, DENY_RM).await;

        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let answer = ask(&gateway, &body).await;

        let is_sent = answer.text().contains("function_call");
        assert!(!is_sent, "{pieces:?}: {}", answer.text());
        stream(&answer);
    }
}

#[tokio::test]
async fn texts_without_an_index_are_in_the_last_event() {
    let item = message("to ann@example.com now");
    let block = item["content"][0].clone();
    let begun = json!({ "type": "response.output_item.added", "output_index": 0,
        "item": { "type": "message", "id": "msg_1", "role": "assistant", "content": [] } });
    let text_done = json!({ "type": "response.output_text.done", "text": block["text"] });
    let item_done = json!({ "type": "response.output_item.done", "item": item });
    let mut indexed_done = item_done.clone();
    indexed_done["output_index"] = 0.into();
    for (first, ends) in [
        (None, vec![]),
        (None, vec![text_done]),
        (None, vec![item_done]),
        (Some(begun), vec![indexed_done]),
    ] {
        let mut sent = vec![created()];
        sent.extend(first);
        sent.extend(["to ann@exam", "ple.com now"].map(piece));
        sent.extend(ends);
        sent.push(completed(&json!([item])));
        let upstream = streaming(&sent).await;
        for (config, expected) in [
            (DENY_RM, "to ann@example.com now"),
            (
                "policies: [{ policy: redact }]\n",
                "to [REDACTED:email] now",
            ),
        ] {
            let gateway = gateway(&upstream, config).await;

            let body = json!({ "model": "m", "input": "hello", "stream": true });
            let answer = ask(&gateway, &body).await;

            let (_, response) = stream(&answer);
            assert_eq!(text(&response), expected, "{}", answer.text());
            let events = events(&answer);
            let pieces = events.iter().filter_map(|event| event["delta"].as_str());
            assert_eq!(pieces.collect::<String>(), expected, "{}", answer.text());
        }
    }
}

/// Pieces of no item, and a last event with reasoning and the message.
fn unindexed_stream(pieces: &[Value], text: &str) -> (Vec<Value>, Value) {
    let summary = json!([{ "type": "summary_text", "text": "hm" }]);
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": summary,
        "encrypted_content": "gAAA" });
    let output = json!([reasoning, message(text)]);
    let mut sent = vec![created()];
    sent.extend(pieces.iter().cloned());
    sent.push(completed(&output));
    (sent, output)
}

#[tokio::test]
async fn a_text_of_no_item_is_the_message_of_the_last_event() {
    let look = hook::config(&[("AfterModel", hook::command("look", "cat >> seen"))]);
    let redact = format!("policies: [{{ policy: redact }}]\n{look}");
    for (config, pieces, text, expected) in [
        (&look, ["Hello ", "world"], "Hello world", "Hello world"),
        (&redact, ["Hello ", "world"], "Hello world", "Hello world"),
        (&look, ["Hello ", "wor"], "Hello world", "Hello world"),
        (&look, ["Hello ", "world"], "Bye", "Hello world"),
        (
            &redact,
            ["to ann@", "example.com"],
            "to ann@example.com",
            "to [REDACTED:email]",
        ),
    ] {
        let (sent, mut output) = unindexed_stream(&pieces.map(piece), text);
        let upstream = streaming(&sent).await;
        let gateway = gateway(&upstream, config).await;

        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let answer = ask(&gateway, &body).await;

        output[1]["content"][0]["text"] = expected.into();
        let (_, response) = stream(&answer);
        assert_eq!(response["output"], output, "{}", answer.text());
        let events = events(&answer);
        let pieces = events.iter().filter_map(|event| event["delta"].as_str());
        assert_eq!(pieces.collect::<String>(), expected, "{}", answer.text());
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{events:?}");
        }
    }
}

#[tokio::test]
async fn two_texts_of_no_item_are_sent_once() {
    let block = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let piece_of = |index: u64, text: &str| {
        let mut piece = piece(text);
        piece["content_index"] = index.into();
        piece
    };
    let mut message = message("one ");
    message["content"] = json!([block("one "), block("two")]);
    let last = completed(&json!([message]));
    let sent = [created(), piece_of(0, "one "), piece_of(1, "two"), last];
    let upstream = streaming(&sent).await;
    let gateway = gateway(&upstream, &no_op_hook()).await;

    let body = json!({ "model": "m", "input": "hello", "stream": true });
    let answer = ask(&gateway, &body).await;

    let (_, response) = stream(&answer);
    assert_eq!(text(&response), "one two", "{}", answer.text());
}

#[tokio::test]
async fn a_call_behind_a_text_of_no_item_is_guarded() {
    let call = json!({ "type": "function_call", "id": "f", "call_id": "c", "name": "rm",
        "arguments": "{}", "status": "completed" });
    let (mut sent, mut output) = unindexed_stream(&[piece("ok")], "ok");
    output.as_array_mut().unwrap().push(call);
    sent.pop();
    sent.push(completed(&output));
    let upstream = streaming(&sent).await;
    for (config, is_denied) in [(DENY_RM.to_owned(), true), (no_op_hook(), false)] {
        let gateway = gateway(&upstream, &config).await;

        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let answer = ask(&gateway, &body).await;

        let (_, response) = stream(&answer);
        assert!(text(&response).starts_with("ok"), "{response}");
        let is_sent = answer.text().contains("function_call");
        assert_eq!(is_sent, !is_denied, "{}", answer.text());
    }
}

#[tokio::test]
async fn thoughts_of_no_item_are_in_the_last_event_only() {
    let thought = |text: &str| {
        json!({ "type": "response.reasoning_summary_text.delta", "summary_index": 0,
            "delta": text })
    };
    let text = "mail ann@example.com now";
    let summary = json!([{ "type": "summary_text", "text": text }]);
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": summary });
    let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read",
        "arguments": "{}", "status": "completed" });
    let item = |name: &str, item: &Value| json!({ "type": format!("response.output_item.{name}"), "output_index": 1, "item": item });
    let thoughts = [thought("mail ann@"), thought("example.com now")];
    for (items, output) in [
        (vec![piece("ok")], json!([reasoning, message("ok")])),
        (
            vec![item("added", &call), item("done", &call)],
            json!([reasoning, call]),
        ),
    ] {
        let ends = [completed(&output)];
        let sent = [created()].into_iter().chain(thoughts.clone());
        let sent: Vec<Value> = sent.chain(items).chain(ends).collect();
        let upstream = streaming(&sent).await;
        let gateway = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let answer = ask(&gateway, &body).await;

        let (names, response) = stream(&answer);
        let is_thought = |name: &String| name.contains("reasoning");
        assert!(!names.iter().any(is_thought), "{}", answer.text());
        assert!(!answer.text().contains("ann@"), "{}", answer.text());
        let last = response["output"].as_array().unwrap().last();
        assert_eq!(last, output.as_array().unwrap().last());
        let dones = names.iter().filter(|name| name.ends_with("item.done"));
        assert!(dones.count() <= 1, "{}", answer.text());
    }
}

#[tokio::test]
async fn an_item_whose_only_event_has_no_index_is_sent_once() {
    let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read",
        "arguments": "{}", "status": "completed" });
    let (message, reasoning) = (
        message("Hello"),
        json!({ "type": "reasoning", "id": "rs_1",
        "summary": [{ "type": "summary_text", "text": "hm" }] }),
    );
    for (ended, output, count) in [
        (&call, json!([message, call]), 1),
        (&message, json!([reasoning, message]), 0),
    ] {
        let done = json!({ "type": "response.output_item.done", "item": ended });
        let upstream = streaming(&[created(), piece("Hello"), done, completed(&output)]).await;
        for config in ["policies: [{ policy: redact }]\n", DENY_RM] {
            let gateway = gateway(&upstream, config).await;

            let body = json!({ "model": "m", "input": "hello", "stream": true });
            let answer = ask(&gateway, &body).await;

            let (_, response) = stream(&answer);
            assert_eq!(text(&response), "Hello", "{}", answer.text());
            let output = response["output"].as_array().unwrap();
            let calls = output.iter().filter(|item| item["name"] == "read");
            assert_eq!(calls.count(), count, "{}", answer.text());
        }
    }
}
