//! Finish reasons that hooks set, in the form of each API.

use serde_json::{Value, json};

use super::family::{Family, Part, Turn, each, events};
use crate::harness::{Answer, hook};

/// The reason of each API for the end of an answer: of Gemini, Anthropic, Responses and Chat.
const REASONS: [(&str, [&str; 4]); 3] = [
    (
        "SAFETY",
        ["SAFETY", "refusal", "content_filter", "content_filter"],
    ),
    (
        "PROHIBITED_CONTENT",
        [
            "PROHIBITED_CONTENT",
            "refusal",
            "content_filter",
            "content_filter",
        ],
    ),
    (
        "MAX_TOKENS",
        ["MAX_TOKENS", "max_tokens", "max_output_tokens", "length"],
    ),
];

/// A change of the finish reason, or a synthetic response with it.
fn ending(reason: &str, content: &Value) -> Value {
    let mut candidate = content.clone();
    candidate["finishReason"] = reason.into();
    hook::response(&json!({ "candidates": [candidate] }))
}

/// The last reason in an answer.
fn reason(family: Family, is_stream: bool, answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
    let documents = if is_stream {
        let data = events(answer).into_iter();
        data.filter_map(|(_, data)| serde_json::from_str(&data).ok())
            .collect()
    } else {
        vec![answer.json()]
    };
    let mut reasons = documents.iter().rev().filter_map(|document| {
        let pointer = match (family, is_stream) {
            (Family::Gemini, _) => "/candidates/0/finishReason",
            (Family::Anthropic, false) => "/stop_reason",
            (Family::Anthropic, true) => "/delta/stop_reason",
            (Family::Responses, false) => "/incomplete_details/reason",
            (Family::Responses, true) => "/response/incomplete_details/reason",
            (Family::Chat, _) => "/choices/0/finish_reason",
        };
        document.pointer(pointer).filter(|reason| !reason.is_null())
    });
    reasons.next().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_finish_reason_of_a_hook_ends_the_answer() {
    for (name, expected) in REASONS {
        let output = ending(name, &json!({}));
        let hooks = hook::config(&[("AfterModel", hook::printing("end", &output))]);
        for (family, is_stream) in each() {
            for mode in ["chunk", "buffered"] {
                let config = format!("{hooks}\nafter_model: {mode}\n");
                let upstream = family.upstream(vec![vec![Part::text(&["a", "b"])]]).await;
                let gateway = family.gateway(&upstream, &config).await;

                let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

                let context = format!("{family:?}, {is_stream}, {mode}: {}", answer.text());
                let found = reason(family, is_stream, &answer);
                assert_eq!(found, expected[family as usize], "{context}");
                let text = answer.text();
                let is_incomplete = text.contains(r#""status":"incomplete""#);
                assert_eq!(is_incomplete, family == Family::Responses, "{context}");
                assert!(!text.contains("response.completed"), "{context}");
            }
        }
    }
}

#[tokio::test]
async fn a_synthetic_response_ends_with_its_finish_reason() {
    for (name, expected) in REASONS {
        let output = ending(name, &json!({ "content": { "parts": ["c"] } }));
        let hooks = hook::config(&[("BeforeModel", hook::printing("answer", &output))]);
        for (family, is_stream) in each() {
            let upstream = family.upstream(vec![vec![Part::text(&["never"])]]).await;
            let gateway = family.gateway(&upstream, &hooks).await;

            let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

            let found = reason(family, is_stream, &answer);
            assert_eq!(found, expected[family as usize], "{family:?}, {is_stream}");
        }
    }
}
