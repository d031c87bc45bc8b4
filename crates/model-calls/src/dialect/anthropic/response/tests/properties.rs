//! Property tests of random streams.

use proptest::prelude::*;
use serde_json::Value;

use super::{
    call_block, masked_texts::masked, message, read, sse, stop_reason, text_block, texts,
    thinking_block, written, written_text,
};
use crate::dialect::CallDecision;

/// One block of a stream.
#[derive(Debug, Clone)]
enum Block {
    Text(Vec<String>),
    Thinking,
    Call(Vec<String>),
}

/// Splits a text at up to two positions.
fn pieces(text: &str, first: usize, second: usize) -> Vec<String> {
    let (first, second) = (first.min(text.len()), second.min(text.len()));
    let (first, second) = (first.min(second), first.max(second));
    let (rest, last) = text.split_at(second);
    let (one, other) = rest.split_at(first);
    [one, other, last].map(str::to_owned).into()
}

fn block() -> impl Strategy<Value = Block> {
    let cuts = (0_usize..20, 0_usize..20);
    prop_oneof![
        ("[a-d ]{0,4}(secret)?[a-d ]{0,4}(secret)?", cuts.clone())
            .prop_map(|(text, (one, other))| Block::Text(pieces(&text, one, other))),
        Just(Block::Thinking),
        cuts.prop_map(|(one, other)| Block::Call(pieces(r#"{"a":"a secret"}"#, one, other))),
    ]
}

fn block_events(blocks: &[Block], offset: u64) -> Vec<Vec<Value>> {
    let numbered = (offset..).zip(blocks);
    numbered
        .map(|(index, block)| {
            let owned = |pieces: &[String]| {
                pieces
                    .iter()
                    .map(String::as_str)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            match block {
                Block::Thinking => thinking_block(index),
                Block::Text(pieces) => {
                    let pieces = owned(pieces);
                    text_block(
                        index,
                        &pieces.iter().map(String::as_str).collect::<Vec<_>>(),
                    )
                }
                Block::Call(pieces) => {
                    let pieces = owned(pieces);
                    call_block(
                        index,
                        "f",
                        &pieces.iter().map(String::as_str).collect::<Vec<_>>(),
                    )
                }
            }
        })
        .collect()
}

fn expected_stop_reason(blocks: &[Block]) -> &'static str {
    if blocks.iter().any(|block| matches!(block, Block::Call(_))) {
        "tool_use"
    } else {
        "end_turn"
    }
}

/// Returns the text of a block after masking. `None` for a block without text, which must not be
/// sent.
fn expected(block: &Block) -> Option<String> {
    match block {
        Block::Thinking => Some("hm".to_owned()),
        Block::Text(pieces) => {
            Some(pieces.concat().replace("secret", "#")).filter(|text| !text.is_empty())
        }
        Block::Call(pieces) => Some(pieces.concat().replace("secret", "#")),
    }
}

proptest! {
    #[test]
    fn an_unedited_stream_keeps_its_bytes(blocks in prop::collection::vec(block(), 0..5)) {
        let events = message(&block_events(&blocks, 0), expected_stop_reason(&blocks));
        let sent = sse(&events);
        prop_assert_eq!(written_text(&read(&events)), sent);
    }

    #[test]
    fn texts_are_masked_at_every_cut(blocks in prop::collection::vec(block(), 0..5)) {
        let events = message(&block_events(&blocks, 0), expected_stop_reason(&blocks));
        let sent = masked(&events);
        let all: Vec<String> = blocks.iter().filter_map(expected).collect();
        prop_assert_eq!(texts(&sent), all);
        prop_assert_eq!(stop_reason(&sent), expected_stop_reason(&blocks));
    }

    #[test]
    fn withheld_calls_leave_no_gap_and_a_second_round_continues(
        first in prop::collection::vec(block(), 0..4),
        second in prop::collection::vec(block(), 0..4),
    ) {
        let events = message(&block_events(&first, 0), expected_stop_reason(&first));
        let mut chunks = read(&events);
        for chunk in &mut chunks {
            let withheld = chunk.calls().unwrap().iter().map(|_| CallDecision::Drop).collect();
            chunk.decide_calls(withheld).unwrap();
        }
        chunks.retain(|chunk| !chunk.has_finish_reason());
        let events = message(&block_events(&second, 0), expected_stop_reason(&second));
        chunks.extend(read(&events));
        let sent = written(&chunks);
        let is_call = |block: &&Block| matches!(block, Block::Call(_));
        let kept = first.iter().filter(|block| !is_call(block)).chain(&second);
        let kept: Vec<String> = kept.map(|block| match block {
            Block::Thinking => "hm".to_owned(),
            Block::Text(pieces) | Block::Call(pieces) => pieces.concat(),
        }).collect();
        prop_assert_eq!(texts(&sent), kept);
        prop_assert_eq!(stop_reason(&sent), expected_stop_reason(&second));
        prop_assert_eq!(sent.iter().filter(|event| event["type"] == "message_start").count(), 1);
    }
}
