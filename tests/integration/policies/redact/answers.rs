//! Answers that say things in odd places, and in odd pieces.

use serde_json::{Value, json};

use super::{KEY, MASK, MODEL, stream};
use crate::harness::{TestGateway, Upstream, prompt};

const FIRST: &str = "x AKIAIOSF";
const LAST: &str = "ODNN7EXAMPLE y";

/// A candidate with these parts, and other fields.
fn candidate(parts: &Value, others: &Value) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts } });
    for (key, value) in others.as_object().unwrap() {
        candidate[key] = value.clone();
    }
    candidate
}

fn saying(text: &str, others: &Value) -> Value {
    candidate(&json!([{ "text": text }]), others)
}

fn chunk(candidate: &Value) -> Value {
    json!({ "candidates": [candidate] })
}

fn calling(partial_args: &Value) -> Value {
    let call = json!({ "name": "f", "willContinue": true, "partialArgs": partial_args });
    chunk(&candidate(&json!([{ "functionCall": call }]), &json!({})))
}

/// What agents receive of these chunks, chunk by chunk and as a whole.
async fn told(chunks: &[Value]) -> [String; 2] {
    let chunks = chunks.to_vec();
    let upstream = Upstream::with(move |_| stream(&chunks)).await;
    let ask = async |config: &str| {
        let gate = TestGateway::start(&upstream, config).await;
        let answer = gate.agent().stream(MODEL, &prompt("go")).await;
        answer.text().to_owned()
    };
    let buffered = format!("after_model: buffered\n{MASK}");
    [ask(MASK).await, ask(&buffered).await]
}

#[tokio::test]
async fn no_place_in_an_answer_hides_a_secret() {
    let grounded = |said: &str| chunk(&saying("a", &json!({ "groundingMetadata": { "q": said } })));
    let cases = [
        vec![json!({ "promptFeedback": { "blockReasonMessage": KEY } })],
        vec![json!({ "error": { "code": 500, "message": KEY } })],
        vec![json!({ "new": { KEY: [] } })],
        vec![chunk(
            &json!({ "finishReason": "OTHER", "finishMessage": KEY }),
        )],
        vec![chunk(&saying(
            "a",
            &json!({ "citationMetadata": { "citationSources": [{ "uri": KEY }] } }),
        ))],
        vec![grounded(KEY), grounded("nothing")],
        vec![chunk(&candidate(
            &json!([{ "functionResponse": { "response": {}, "extra": KEY } }]),
            &json!({}),
        ))],
    ];
    for chunks in cases {
        for told in told(&chunks).await {
            assert!(!told.contains(KEY), "{told}");
        }
    }
    let number = calling(&json!([{ "jsonPath": "$.n", "numberValue": 4_111_111_111_111_111_u64 }]));
    let edited = json!([{ "jsonPath": "$.n", "stringValue": "[REDACTED:card]" }]);
    for told in told(&[number]).await {
        assert!(told.contains(&edited.to_string()), "{told}");
    }
}

#[tokio::test]
async fn pieces_of_one_text_are_known_as_such() {
    let stop = json!({ "finishReason": "STOP" });
    let one = json!({ "index": 1 });
    let end = json!({ "index": 1, "finishReason": "STOP" });
    let none = json!({});
    let cases = [
        // A second candidate, alone in its later chunks.
        vec![
            json!({ "candidates": [saying("a", &none), saying(FIRST, &one)] }),
            chunk(&saying(LAST, &end)),
            chunk(&saying("b", &stop)),
        ],
        // The first candidate, its index left out, behind the second.
        vec![
            json!({ "candidates": [saying("a", &one), saying(FIRST, &none)] }),
            chunk(&saying(LAST, &stop)),
        ],
        // One candidate twice in a chunk.
        vec![json!({ "candidates": [saying(FIRST, &one), saying(LAST, &one)] })],
        // A reason to finish that is none.
        vec![
            chunk(&saying(
                FIRST,
                &json!({ "finishReason": "FINISH_REASON_UNSPECIFIED" }),
            )),
            chunk(&saying("", &json!({ "finishReason": "" }))),
            chunk(&saying(LAST, &stop)),
        ],
        // Arguments without a path.
        vec![
            calling(&json!([{ "stringValue": FIRST, "willContinue": true }])),
            calling(&json!([{ "stringValue": LAST }])),
        ],
    ];
    for chunks in cases {
        for told in told(&chunks).await {
            assert!(!told.contains("AKIA") && !told.contains("ODNN"), "{told}");
            assert!(told.contains("[REDACTED:aws_key]"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_text_that_goes_on_after_its_end_is_one() {
    let stop = json!({ "finishReason": "STOP" });
    let chunks = [chunk(&saying(FIRST, &stop)), chunk(&saying(LAST, &stop))];

    for told in told(&chunks).await {
        assert!(!told.contains("AKIA") && !told.contains("ODNN"), "{told}");
        assert!(told.contains("[REDACTED:aws_key] y"), "{told}");
    }
}

#[tokio::test]
async fn each_candidate_gets_its_own_words_back() {
    let says = |index: u64, text: &str, reason: Value| {
        saying(text, &json!({ "index": index, "finishReason": reason }))
    };
    let chunks = [
        json!({ "candidates": [says(0, "wo", Value::Null), says(1, "wor", Value::Null)] }),
        chunk(&says(1, "k", json!("STOP"))),
        chunk(&json!({ "index": 0, "finishReason": "MAX_TOKENS", "content": null })),
    ];

    for told in told(&chunks).await {
        let events: Vec<Value> = crate::harness::event_data(&told)
            .iter()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        let said = |index: u64| -> String {
            let all = events
                .iter()
                .flat_map(|it| it["candidates"].as_array().unwrap());
            let own = all.filter(|it| it["index"] == index);
            own.filter_map(|it| it["content"]["parts"][0]["text"].as_str())
                .collect()
        };
        assert_eq!(
            (said(0).as_str(), said(1).as_str()),
            ("wo", "work"),
            "{told}"
        );
        let last = events.last().unwrap()["candidates"]
            .as_array()
            .unwrap()
            .iter();
        assert!(
            last.clone().any(|it| it["finishReason"] == "MAX_TOKENS"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn what_was_held_comes_before_what_came_after_it() {
    let call = json!([{ "functionCall": { "name": "f", "args": {} } }]);
    let chunks = [
        chunk(&saying("Let me look", &json!({}))),
        chunk(&candidate(&call, &json!({ "finishReason": "STOP" }))),
    ];

    let [told, _] = told(&chunks).await;

    let (held, call) = (
        told.find("look").unwrap(),
        told.find("functionCall").unwrap(),
    );
    assert!(held < call, "{told}");
}

#[tokio::test]
async fn a_call_that_never_ends_leaves_no_empty_chunk() {
    let chunks = [calling(
        &json!([{ "jsonPath": "$.a", "stringValue": FIRST, "willContinue": true }]),
    )];

    let [told, _] = told(&chunks).await;

    assert!(!told.contains(r#""candidates":[]"#), "{told}");
    assert!(!told.contains("AKIA"), "{told}");
}
