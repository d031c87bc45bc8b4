//! Tool calls in streams: whole, edited, withheld.

use super::*;

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
    reader.read(start("m").to_string().into()).unwrap();
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
        chunk
            .explain_withheld_calls(&std::collections::BTreeSet::new())
            .unwrap();
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

/// Drops what is held back with the first call, and has no content.
fn drop_held(chunks: &mut Vec<ResponseDocument>) {
    let held = chunks
        .iter()
        .position(|chunk| !chunk.calls().unwrap().is_empty());
    for mut chunk in chunks.split_off(held.unwrap()) {
        if chunk.remove_end().unwrap() {
            chunks.push(chunk);
        }
    }
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
    drop_held(&mut chunks);
    chunks.extend(read(&message(&[text_block(0, &["d"])], "end_turn")));
    let sent = written(&chunks);
    assert_eq!(texts(&sent), ["a", "bc", "d"]);
    assert_eq!(stop_reason(&sent), "end_turn");
}

#[test]
fn a_text_that_lost_its_block_is_in_front_of_the_next_answer() {
    let block = |index: u64, block: Value| {
        vec![
            json!({ "type": "content_block_start", "index": index, "content_block": block }),
            json!({ "type": "content_block_stop", "index": index }),
        ]
    };
    let mut chunks = read(&message(
        &[
            text_block(0, &["a"]),
            call_block(1, "f", &["{}"]),
            block(
                2,
                json!({ "type": "web_search_tool_result", "tool_use_id": "s", "content": [] }),
            ),
            text_block(3, &["found"]),
        ],
        "tool_use",
    ));
    drop_held(&mut chunks);
    chunks.extend(read(&message(&[text_block(0, &["now"])], "end_turn")));

    let sent = written(&chunks);

    assert_eq!(texts(&sent), ["a", "", "found", "now"]);
    let mut open = 0;
    for event in &sent {
        match event["type"].as_str().unwrap() {
            "content_block_start" => open += 1,
            "content_block_stop" => open -= 1,
            _ => (),
        }
        assert!(open <= 1, "{event}");
    }
    assert_eq!(open, 0);
}
