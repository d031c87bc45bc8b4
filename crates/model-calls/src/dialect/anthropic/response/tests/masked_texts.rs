//! Texts that a policy masks, across the pieces of a stream.

use super::*;

/// Holds the last two characters of each text back, and masks `secret`.
#[derive(Debug, Default)]
pub(super) struct Masker(Vec<(TextChannel, String)>);

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

    fn open_channels(&self, candidate: Option<u64>) -> Vec<TextChannel> {
        let held = self.0.iter().map(|(channel, _)| channel.clone());
        held.filter(|channel| candidate.is_none_or(|index| channel.candidate == index))
            .collect()
    }
}

pub(super) fn masked(listed: &[Value]) -> Vec<Value> {
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

/// Returns the citations that are sent with a text block of these events. A hook replaces the text
/// `secret` by the texts of `edit`.
fn citations(deltas: &[Value], edit: &Value) -> (usize, Vec<String>) {
    let delta =
        |delta: &Value| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    let mut block = text_block(0, &[]);
    block.splice(1..1, deltas.iter().map(delta));
    let mut chunks = read(&message(&[block], "end_turn"));
    let edit = json!({ "candidates": [{ "content": { "parts": edit } }] });
    let edit = crate::model::ResponseMutation::read(&edit).unwrap();
    for chunk in &mut chunks {
        if chunk.plain_texts().any(|text| text == "secret") {
            chunk.write(&edit).unwrap();
        }
    }
    let sent = written(&chunks);
    let is_citation = |event: &&Value| event["delta"]["type"] == "citations_delta";
    (sent.iter().filter(is_citation).count(), texts(&sent))
}

#[test]
fn citations_of_an_edited_text_are_dropped() {
    let citation = json!({ "type": "citations_delta", "citation": { "cited_text": "secret" } });
    let text = |text: &str| json!({ "type": "text_delta", "text": text });
    let behind = [text("secret"), citation.clone()];
    let in_front = [citation.clone(), text("secret")];
    let between = [text("a"), citation.clone(), text("secret"), citation];
    for (deltas, edit, sent, written) in [
        (&behind[..], json!(["secret"]), 1, &["secret"][..]),
        (&behind, json!(["x"]), 0, &["x"]),
        (&behind, json!([]), 0, &[]),
        (&in_front, json!(["secret"]), 1, &["secret"]),
        (&in_front, json!(["x"]), 0, &["x"]),
        (&in_front, json!([]), 0, &[]),
        (&between, json!(["x"]), 1, &["ax"]),
        (&between, json!([]), 1, &["a"]),
    ] {
        assert_eq!(citations(deltas, &edit).0, sent, "{edit} {deltas:?}");
        assert_eq!(citations(deltas, &edit).1, written, "{edit} {deltas:?}");
    }
}

#[test]
fn citations_of_a_text_that_a_hook_shortens_are_dropped() {
    let citation = json!({ "type": "citations_delta", "citation": { "cited_text": "secret" } });
    let text = |text: &str| json!({ "type": "text_delta", "text": text });
    let behind = [text("secret"), citation.clone()];
    let in_front = [citation.clone(), text("secret"), text("b"), text("c")];
    let between = [text("a"), citation.clone(), text("secret"), citation];
    for (deltas, edit, sent, written) in [
        (&behind[..], json!(["sec"]), 0, &["sec"][..]),
        (&behind, json!([""]), 0, &[]),
        (&in_front, json!(["sec"]), 0, &["secbc"]),
        (&in_front, json!([""]), 0, &["bc"]),
        (&between, json!(["sec"]), 1, &["asec"]),
        (&between, json!([""]), 1, &["a"]),
    ] {
        assert_eq!(citations(deltas, &edit).0, sent, "{edit} {deltas:?}");
        assert_eq!(citations(deltas, &edit).1, written, "{edit} {deltas:?}");
    }
}

#[test]
fn citations_in_the_start_of_an_edited_text_are_dropped() {
    let sent = |text: &str, delta: &str, edit: &str| {
        let mut block = text_block(0, &[delta]);
        block[0]["content_block"] =
            json!({ "type": "text", "text": text, "citations": [{ "cited_text": "secret" }] });
        let mut chunks = read(&message(&[block], "end_turn"));
        let edit = crate::model::ResponseMutation::read(&json!({ "text": edit })).unwrap();
        for chunk in &mut chunks {
            if chunk.plain_texts().any(|text| text == "secret") {
                chunk.write(&edit).unwrap();
            }
        }
        let sent = written(&chunks);
        assert_eq!(sent[1]["content_block"]["type"], "text");
        json!(sent).to_string().contains("cited_text")
    };
    assert!(sent("secret", "b", "secret"));
    assert!(sent("a", "secret", "x"));
    assert!(!sent("secret", "b", "x"));
    assert!(!sent("secret", "b", "sec"));
    assert!(!sent("secret", "b", ""));
    assert!(!sent("", "secret", "x"));
    assert!(!sent("", "secret", "sec"));
}

#[test]
fn citations_that_wait_for_a_text_are_bounded() {
    let cited = "x".repeat(1024 * 1024);
    let mut block = text_block(0, &[]);
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "citations_delta", "citation": { "cited_text": cited } } });
    block.splice(1..1, vec![delta; 20]);
    let mut writer = MessageWriter::default();
    let mut chunks = read(&message(&[block], "end_turn")).into_iter();

    let refused = chunks.position(|chunk| writer.write(&chunk).is_err());

    // Behind the starts of message and block.
    assert_eq!(refused, Some(2 + 3));
}

#[test]
fn citations_of_a_text_that_is_held_back_are_kept() {
    let citation = json!({ "type": "citations_delta", "citation": {} });
    let mut block = text_block(0, &["a te", "xt"]);
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": citation });
    block.insert(3, delta.clone());
    block.insert(2, delta);
    let sent = masked(&message(&[block], "end_turn"));
    let is_citation = |event: &&Value| event["delta"]["type"] == "citations_delta";
    assert_eq!(sent.iter().filter(is_citation).count(), 2);
    assert_eq!(texts(&sent), ["a text"]);
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
fn ciphertext_and_ids_of_tools_that_the_api_ran_are_kept() {
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "secret", "content": [{ "type": "web_search_result", "title": "a secret", "encrypted_content": "secret" }] });
    let citation = json!({ "type": "x", "cited_text": "the secret", "encrypted_index": "secret" });
    let listed = message(
        &[vec![
            json!({ "type": "content_block_start", "index": 0, "content_block": result }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "citations_delta", "citation": citation } }),
            json!({ "type": "content_block_stop", "index": 1 }),
        ]],
        "end_turn",
    );
    let sent = json!(masked(&listed)).to_string();
    for kept in ["tool_use_id", "encrypted_content", "encrypted_index"] {
        assert!(sent.contains(&format!(r#""{kept}":"secret""#)), "{sent}");
    }
    assert!(sent.contains("a #") && sent.contains("the #"), "{sent}");
}
