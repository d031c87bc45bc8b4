//! Secrets in unusual fields of responses, and split over unusual chunks.

use serde_json::{Value, json};

use super::{KEY, MASK, MODEL, sse_response};
use crate::harness::{TestGateway, Upstream, prompt, respond};

const FIRST_HALF: &str = "x AKIAIOSF";
const SECOND_HALF: &str = "ODNN7EXAMPLE y";

/// A candidate with these parts, and other fields.
pub(super) fn candidate(parts: &Value, others: &Value) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts } });
    for (key, value) in others.as_object().unwrap() {
        candidate[key] = value.clone();
    }
    candidate
}

fn text_candidate(text: &str, others: &Value) -> Value {
    candidate(&json!([{ "text": text }]), others)
}

pub(super) fn chunk(candidate: &Value) -> Value {
    json!({ "candidates": [candidate] })
}

/// A chunk with an unfinished function call.
fn call_chunk(partial_args: &Value) -> Value {
    let call = json!({ "name": "f", "willContinue": true, "partialArgs": partial_args });
    chunk(&candidate(&json!([{ "functionCall": call }]), &json!({})))
}

/// The bodies that an agent receives for these chunks, streamed and buffered.
async fn received_bodies(chunks: &[Value]) -> [String; 2] {
    let chunks = chunks.to_vec();
    let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
    let receive = async |config: &str| {
        let gateway = TestGateway::start(&upstream, config).await;
        let answer = gateway.agent().stream(MODEL, &prompt("go")).await;
        answer.text().to_owned()
    };
    let buffered = format!("after_model: buffered\n{MASK}");
    [receive(MASK).await, receive(&buffered).await]
}

#[tokio::test]
async fn secrets_in_any_field_of_a_response_are_masked() {
    let grounded = |query: &str| {
        chunk(&text_candidate(
            "a",
            &json!({ "groundingMetadata": { "q": query } }),
        ))
    };
    let cases = [
        vec![json!({ "promptFeedback": { "blockReasonMessage": KEY } })],
        vec![json!({ "error": { "code": 500, "message": KEY } })],
        vec![json!({ "new": { KEY: [] } })],
        vec![chunk(
            &json!({ "finishReason": "OTHER", "finishMessage": KEY }),
        )],
        vec![chunk(&text_candidate(
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
        for body in received_bodies(&chunks).await {
            assert!(!body.contains(KEY), "{body}");
        }
    }
    let number =
        call_chunk(&json!([{ "jsonPath": "$.n", "numberValue": 4_111_111_111_111_111_u64 }]));
    let edited = json!([{ "jsonPath": "$.n", "stringValue": "[REDACTED:card]" }]);
    for body in received_bodies(&[number]).await {
        assert!(body.contains(&edited.to_string()), "{body}");
    }
}

#[tokio::test]
async fn every_field_of_an_argument_in_pieces_is_searched() {
    let answer = |email: &str, ssn: &str| {
        let piece = json!({
            "jsonPath": format!("$.users['{email}'].ssn"), "stringValue": ssn,
            "nullValue": email, "structValue": { email: [email] },
        });
        let call = json!({ "name": "f", "partialArgs": [piece] });
        chunk(&candidate(&json!([{ "functionCall": call }]), &json!({})))
    };
    let upstream = Upstream::answering(&answer("jo@example.com", "078-05-1120")).await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    let denied = "policies: [{ policy: redact, detect: [email], action: deny }]\n";
    let strict = TestGateway::start(&upstream, denied).await;

    let unary = gateway.agent().generate(MODEL, &prompt("go")).await;
    let streamed = gateway.agent().stream(MODEL, &prompt("go")).await;
    let refused = strict.agent().generate(MODEL, &prompt("go")).await;

    let masked = answer("[REDACTED:email]", "[REDACTED:us_ssn]");
    for received in [unary.json(), streamed.events().remove(0)] {
        assert_eq!(received, masked);
    }
    let text = &refused.json()["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(*text, "Not allowed here: email.");
}

#[tokio::test]
async fn a_masked_number_of_an_answer_that_must_be_json_is_a_string() {
    let pieces = [r#"{"who": "jo@example.com", "card": 41111111"#, "11111111}"];
    let chunks = pieces.map(|piece| chunk(&text_candidate(piece, &json!({}))));
    let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
    let mut asked = prompt("go");
    asked["generationConfig"] = json!({ "responseMimeType": "application/json" });
    for mode in ["", "after_model: buffered\n"] {
        let gateway = TestGateway::start(&upstream, &format!("{mode}{MASK}")).await;
        let answer = gateway.agent().stream(MODEL, &asked).await;
        let chunks = answer.text().lines();
        let chunks = chunks.filter_map(|line| line.strip_prefix("data: "));
        let texts = chunks.map(|chunk| {
            let chunk: Value = serde_json::from_str(chunk).unwrap();
            let text = chunk["candidates"][0]["content"]["parts"][0]["text"].as_str();
            text.unwrap_or_default().to_owned()
        });
        let text: String = texts.collect();
        let expected = r#"{"who": "[REDACTED:email]", "card": "[REDACTED:card]"}"#;
        assert_eq!(text, expected, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_key_split_over_unusual_chunks_is_masked() {
    let stop = json!({ "finishReason": "STOP" });
    let one = json!({ "index": 1 });
    let end = json!({ "index": 1, "finishReason": "STOP" });
    let none = json!({});
    let cases = [
        // A second candidate, alone in its later chunks.
        vec![
            json!({ "candidates": [text_candidate("a", &none), text_candidate(FIRST_HALF, &one)] }),
            chunk(&text_candidate(SECOND_HALF, &end)),
            chunk(&text_candidate("b", &stop)),
        ],
        // The first candidate, without an index, after the second.
        vec![
            json!({ "candidates": [text_candidate("a", &one), text_candidate(FIRST_HALF, &none)] }),
            chunk(&text_candidate(SECOND_HALF, &stop)),
        ],
        // One candidate twice in a chunk.
        vec![json!({ "candidates": [
                text_candidate(FIRST_HALF, &one),
                text_candidate(SECOND_HALF, &one),
            ] })],
        // Finish reasons that do not end the text.
        vec![
            chunk(&text_candidate(
                FIRST_HALF,
                &json!({ "finishReason": "FINISH_REASON_UNSPECIFIED" }),
            )),
            chunk(&text_candidate("", &json!({ "finishReason": "" }))),
            chunk(&text_candidate(SECOND_HALF, &stop)),
        ],
        // Arguments without a path.
        vec![
            call_chunk(&json!([{ "stringValue": FIRST_HALF, "willContinue": true }])),
            call_chunk(&json!([{ "stringValue": SECOND_HALF }])),
        ],
    ];
    for chunks in cases {
        for body in received_bodies(&chunks).await {
            assert!(!body.contains("AKIA") && !body.contains("ODNN"), "{body}");
            assert!(body.contains("[REDACTED:aws_key]"), "{body}");
        }
    }
}

#[tokio::test]
async fn a_key_split_by_a_finish_reason_is_masked() {
    let stop = json!({ "finishReason": "STOP" });
    let chunks = [
        chunk(&text_candidate(FIRST_HALF, &stop)),
        chunk(&text_candidate(SECOND_HALF, &stop)),
    ];

    for body in received_bodies(&chunks).await {
        assert!(!body.contains("AKIA") && !body.contains("ODNN"), "{body}");
        assert!(body.contains("[REDACTED:aws_key] y"), "{body}");
    }
}

#[tokio::test]
async fn withheld_text_is_released_to_its_own_candidate() {
    let piece = |index: u64, text: &str, reason: Value| {
        text_candidate(text, &json!({ "index": index, "finishReason": reason }))
    };
    let chunks = [
        json!({ "candidates": [piece(0, "wo", Value::Null), piece(1, "wor", Value::Null)] }),
        chunk(&piece(1, "k", json!("STOP"))),
        chunk(&json!({ "index": 0, "finishReason": "MAX_TOKENS", "content": null })),
    ];

    for body in received_bodies(&chunks).await {
        let events: Vec<Value> = crate::harness::event_data(&body)
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect();
        let text_of = |index: u64| -> String {
            let candidates = events
                .iter()
                .flat_map(|event| event["candidates"].as_array().unwrap());
            let own = candidates.filter(|candidate| candidate["index"] == index);
            own.filter_map(|candidate| candidate["content"]["parts"][0]["text"].as_str())
                .collect()
        };
        assert_eq!(
            (text_of(0).as_str(), text_of(1).as_str()),
            ("wo", "work"),
            "{body}"
        );
        let last = events.last().unwrap()["candidates"]
            .as_array()
            .unwrap()
            .iter();
        assert!(
            last.clone()
                .any(|candidate| candidate["finishReason"] == "MAX_TOKENS"),
            "{body}"
        );
    }
}

/// The chunks of a stream whose text is cut in two, and what may follow its finish reason.
fn finished_streams(first: &str, second: &str) -> Vec<Vec<Value>> {
    let end = json!({ "finishReason": "STOP" });
    let usage = json!({ "usageMetadata": { "totalTokenCount": 3 } });
    let empty = chunk(&json!({ "index": 0, "content": { "role": "model" } }));
    let one = |text: &str, others: &Value| {
        let mut candidate = text_candidate(text, others);
        candidate["index"] = json!(1);
        chunk(&candidate)
    };
    let (start, stop) = (
        chunk(&text_candidate(first, &json!({}))),
        chunk(&text_candidate(second, &end)),
    );
    let other_ends = one("It ends", &end);
    vec![
        vec![start.clone(), stop.clone(), usage.clone()],
        vec![start.clone(), stop.clone(), empty.clone(), usage.clone()],
        vec![start.clone(), other_ends.clone(), stop.clone()],
        vec![
            one("Both", &json!({})),
            start.clone(),
            other_ends,
            chunk(&text_candidate(second, &json!({}))),
            chunk(&text_candidate("", &end)),
            usage,
        ],
        vec![
            start,
            stop.clone(),
            one("and", &json!({})),
            one(" on", &end),
        ],
        vec![chunk(&text_candidate(first, &end)), empty, stop],
    ]
}

/// Asserts that no text of a candidate follows its last finish reason.
#[track_caller]
fn assert_ends_with_finish_reason(body: &str, index: u64) -> String {
    let (mut text, mut is_finished) = (String::new(), false);
    for event in crate::harness::event_data(body) {
        let event: Value = serde_json::from_str(event).unwrap();
        let candidates = event["candidates"].as_array().cloned().unwrap_or_default();
        let position = |candidate: &Value| candidate["index"].as_u64().unwrap_or(0);
        for candidate in candidates.iter().filter(|one| position(one) == index) {
            let parts = candidate["content"]["parts"].as_array().cloned();
            let parts = parts.unwrap_or_default();
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            let new: String = texts.collect();
            let finishes = candidate["finishReason"].is_string();
            assert!(!is_finished || finishes || new.is_empty(), "{body}");
            is_finished |= finishes;
            text += &new;
        }
    }
    assert!(is_finished, "{body}");
    text
}

#[tokio::test]
async fn no_text_follows_the_finish_reason_of_its_candidate() {
    const TEXT: &str = "AKIAIOSFODNN7EXAMPLE, final answer";
    let upstream = Upstream::with(|request| {
        let prompt = request.json()["contents"][0]["parts"][0]["text"].clone();
        let (cut, kind) = prompt.as_str().unwrap().split_once(' ').unwrap();
        let (first, second) = TEXT.split_at(cut.parse().unwrap());
        sse_response(&finished_streams(first, second)[kind.parse::<usize>().unwrap()])
    })
    .await;
    let gateway = TestGateway::start(&upstream, MASK).await;
    for cut in 1..TEXT.len() {
        for kind in 0..finished_streams("", "").len() {
            let request = prompt(&format!("{cut} {kind}"));
            let answer = gateway.agent().stream(MODEL, &request).await;

            let body = answer.text();
            let text = assert_ends_with_finish_reason(body, 0);
            assert_eq!(text, "[REDACTED:aws_key], final answer", "{cut}: {body}");
            if body.contains(r#""index":1"#) {
                assert_ends_with_finish_reason(body, 1);
            }
        }
    }
}

#[tokio::test]
async fn withheld_text_is_released_before_a_later_function_call() {
    let call = json!([{ "functionCall": { "name": "f", "args": {} } }]);
    let chunks = [
        chunk(&text_candidate("Let me look", &json!({}))),
        chunk(&candidate(&call, &json!({ "finishReason": "STOP" }))),
    ];

    let [body, _] = received_bodies(&chunks).await;

    let (text_at, call_at) = (
        body.find("look").unwrap(),
        body.find("functionCall").unwrap(),
    );
    assert!(text_at < call_at, "{body}");
}

#[tokio::test]
async fn an_unfinished_call_leaves_no_empty_chunk() {
    let chunks = [call_chunk(
        &json!([{ "jsonPath": "$.a", "stringValue": FIRST_HALF, "willContinue": true }]),
    )];

    let [body, _] = received_bodies(&chunks).await;

    assert!(!body.contains(r#""candidates":[]"#), "{body}");
    assert!(!body.contains("AKIA"), "{body}");
}

#[tokio::test]
async fn text_that_is_only_cut_otherwise_is_not_edited() {
    let chunks = |texts: &[&str]| -> Vec<Value> {
        let chunks = texts.iter();
        chunks
            .map(|text| chunk(&text_candidate(text, &json!({}))))
            .collect()
    };
    for (texts, action) in [
        (&["hello"][..], "pass"),
        (&["so jo", "hn went"], "pass"),
        (&["mail jo", "@example.com now"], "edit"),
    ] {
        let chunks = chunks(texts);
        let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
        let config = "log: { level: info }\npolicies: [{ policy: redact, detect: [email] }]\n";
        let gateway = TestGateway::start(&upstream, config).await;

        let answer = gateway.agent().stream(MODEL, &prompt("go")).await;

        assert_eq!(answer.status, 200);
        let series = format!("action=\"{action}\"");
        let metrics = gateway.operator().get("/metrics").await;
        let counted = metrics
            .text()
            .lines()
            .find(|line| line.starts_with("hookgate_requests_total{") && line.contains(&series));
        assert!(
            counted.is_some_and(|line| line.ends_with(" 1")),
            "{texts:?}: {}",
            metrics.text()
        );
    }
}

#[tokio::test]
async fn a_word_of_a_whole_or_buffered_answer_stays_in_front_of_code() {
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    let parts = json!([{ "text": "the sum" }, code, { "text": " of both" }]);
    let upstream = Upstream::answering(&chunk(&candidate(&parts, &json!({})))).await;
    let config = "after_model: buffered\npolicies: [{ policy: redact, detect: [email] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let whole = gateway.agent().generate(MODEL, &prompt("go")).await;
    let buffered = gateway.agent().stream(MODEL, &prompt("go")).await;

    for received in [whole.json(), buffered.events().remove(0)] {
        assert_eq!(received["candidates"][0]["content"]["parts"], parts);
    }
}

#[tokio::test]
async fn a_match_in_a_piece_of_a_clean_text_denies_nothing() {
    let url = ["Clone https://ci-", "bot@git.example.com"];
    let stop = json!({ "finishReason": "STOP" });
    let chunks = [
        chunk(&text_candidate(url[0], &json!({}))),
        chunk(&text_candidate(url[1], &stop)),
    ];
    let config = "policies: [{ policy: redact, detect: [email], action: deny }]\n";

    let upstream = Upstream::with(move |_| sse_response(&chunks)).await;
    let gateway = TestGateway::start(&upstream, config).await;
    let streamed = gateway.agent().stream(MODEL, &prompt("go")).await;

    let parts = streamed.events().into_iter();
    let parts = parts.map(|event| event["candidates"][0]["content"]["parts"][0].clone());
    let texts = parts.filter_map(|part| Some(part["text"].as_str()?.to_owned()));
    assert_eq!(texts.collect::<String>(), url.concat());
}

#[tokio::test]
async fn no_field_repeats_a_piece_of_a_masked_secret() {
    const BASE64: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
    let answers = |line: &str| {
        let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        let sources = json!([{ "web": { "uri": "https://x", "title": "t" } }]);
        let fields = json!({
            "finishReason": "STOP",
            "citationMetadata": { "citationSources": [{ "startIndex": 30, "endIndex": 82 }] },
            "groundingMetadata": {
                "groundingChunks": sources,
                "groundingSupports": [{ "segment": { "text": line } }],
            },
        });
        let texts = [format!("It is {begin}\n{line}"), format!("\n{end}\nBye.")];
        let whole = chunk(&text_candidate(&texts.concat(), &fields));
        let [first, last] = texts;
        let first = chunk(&text_candidate(&first, &json!({})));
        [
            vec![whole],
            vec![first, chunk(&text_candidate(&last, &fields))],
        ]
    };
    for chunks in answers(BASE64) {
        let sent = chunks.clone();
        let upstream = Upstream::with(move |asked| match asked.query.as_str() {
            "alt=sse" => sse_response(&sent),
            _ if asked.path.ends_with("streamGenerateContent") => {
                respond(200, "application/json", json!(sent).to_string())
            }
            _ => respond(200, "application/json", sent[0].to_string()),
        })
        .await;
        let gateway = TestGateway::start(&upstream, MASK).await;
        let agent = gateway.agent();
        let mut answers = vec![
            agent.stream(MODEL, &prompt("go")).await,
            agent.array(MODEL, &prompt("go")).await,
        ];
        if chunks.len() == 1 {
            answers.push(agent.generate(MODEL, &prompt("go")).await);
        }
        for answer in answers {
            let text = answer.text();
            assert!(text.contains("[REDACTED:private_key]"), "{text}");
            assert!(!text.contains(BASE64), "{text}");
            assert!(!text.contains("groundingSupports"), "{text}");
            assert!(!text.contains("citationMetadata"), "{text}");
            assert!(text.contains("groundingChunks"), "{text}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_match_keeps_its_grounding() {
    let metadata = json!({ "groundingSupports": [{ "segment": { "text": "a" } }] });
    let fields = json!({
        "finishReason": "STOP", "groundingMetadata": metadata, "avgLogprobs": -0.5,
    });
    let sent = chunk(&text_candidate("a", &fields));
    let upstream = Upstream::answering(&sent).await;
    let gateway = TestGateway::start(&upstream, MASK).await;

    let whole = gateway.agent().generate(MODEL, &prompt("go")).await;
    let streamed = gateway.agent().stream(MODEL, &prompt("go")).await;

    assert_eq!(whole.text(), sent.to_string());
    assert_eq!(streamed.events(), [sent]);
}

fn grounded(query: &str) -> Value {
    let metadata = json!({ "groundingMetadata": { "q": query } });
    chunk(&text_candidate("x", &metadata))
}

#[tokio::test]
async fn an_unchanged_buffered_stream_keeps_fields_that_differ_by_chunk() {
    let chunks = [grounded("a"), grounded("b")];
    let sent = chunks.clone();
    let upstream = Upstream::with(move |_| sse_response(&sent)).await;
    let gateway = TestGateway::start(&upstream, &format!("after_model: buffered\n{MASK}")).await;

    let answer = gateway.agent().stream(MODEL, &prompt("go")).await;

    assert_eq!(answer.events(), chunks);
}

#[tokio::test]
async fn an_edited_buffered_stream_has_the_fields_of_its_last_chunk() {
    let [_, buffered] = received_bodies(&[grounded(KEY), grounded("b")]).await;

    let event = buffered.trim().strip_prefix("data: ").unwrap();
    let event: Value = serde_json::from_str(event).unwrap();
    let metadata = json!({ "groundingMetadata": { "q": "b" } });
    assert_eq!(event, chunk(&text_candidate("xx", &metadata)));
}
