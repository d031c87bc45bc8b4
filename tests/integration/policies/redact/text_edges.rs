//! Secrets at the edges of the texts of an answer, and over them.

use serde_json::{Value, json};

use super::{KEY, MASK};
use crate::{
    families::family::{Family, Part, Turn, events},
    harness::{Answer, Upstream, respond},
};

/// Two texts, a secret in them, and what is sent of them.
const PAIRS: &[([&str; 2], &str, [&str; 2])] = &[
    (
        ["The key is AKIAIOSFODNN7EXAMPLE", "Anything else?"],
        KEY,
        ["The key is [REDACTED:aws_key]", "Anything else?"],
    ),
    (
        ["The key", "AKIAIOSFODNN7EXAMPLE, ok"],
        KEY,
        ["The key", "[REDACTED:aws_key], ok"],
    ),
    (["The key", KEY], KEY, ["The key", "[REDACTED:aws_key]"]),
    (
        ["I found it.", "4111 1111 1111 1111 is the card"],
        "4111",
        ["I found it.", "[REDACTED:card] is the card"],
    ),
    (
        ["Mail jane.doe@example.com", "Done"],
        "jane.doe",
        ["Mail [REDACTED:email]", "Done"],
    ),
    (
        ["SSN: 078-05-1120", "2 more follow"],
        "078-05",
        ["SSN: [REDACTED:us_ssn]", "2 more follow"],
    ),
    (
        ["IBAN DE89 3704 0044 0532 0130 00", "Done"],
        "DE89",
        ["IBAN [REDACTED:iban]", "Done"],
    ),
    (["see you", " at noon"], KEY, ["see you", " at noon"]),
];

/// A text in pieces of so many bytes.
fn cut(text: &str, size: usize) -> Part {
    let pieces = text.as_bytes().chunks(size);
    let pieces: Vec<&str> = pieces
        .map(|piece| std::str::from_utf8(piece).unwrap())
        .collect();
    Part::text(&pieces)
}

/// The texts of the blocks of a message, or of the items of a response.
fn texts_of(family: Family, is_stream: bool, answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = || -> Vec<Value> {
        let data = events(answer).into_iter();
        data.map(|(_, data)| serde_json::from_str(&data).unwrap())
            .collect()
    };
    match (family, is_stream) {
        (Family::Anthropic, false) => {
            let blocks = answer.json()["content"].as_array().cloned().unwrap();
            blocks.iter().map(|block| text(&block["text"])).collect()
        }
        (Family::Anthropic, true) => {
            let mut texts: Vec<String> = Vec::new();
            for event in events() {
                match event["type"].as_str().unwrap() {
                    "content_block_start" => texts.push(String::new()),
                    "content_block_delta" => {
                        let delta = text(&event["delta"]["text"]);
                        texts.last_mut().unwrap().push_str(&delta);
                    }
                    _ => (),
                }
            }
            texts
        }
        (_, false) => item_texts(&answer.json()),
        (_, true) => item_texts(&events().last().unwrap()["response"]),
    }
}

fn item_texts(response: &Value) -> Vec<String> {
    let items = response["output"].as_array().unwrap().iter();
    let blocks = items.flat_map(|item| item["content"].as_array().unwrap());
    let texts = blocks.map(|block| block["text"].as_str().unwrap().to_owned());
    texts.collect()
}

#[tokio::test]
async fn a_secret_at_the_edge_of_a_text_is_masked_in_its_place() {
    for family in [Family::Anthropic, Family::Responses] {
        for mode in ["chunk", "buffered"] {
            check_pairs(family, mode).await;
        }
    }
}

async fn check_pairs(family: Family, mode: &str) {
    // Pieces of an answer that is no stream are joined.
    let forms = [(false, 100), (true, 1), (true, 4), (true, 100)];
    let answers = PAIRS.iter().flat_map(|(texts, ..)| {
        let answer = |(_, size): (bool, usize)| texts.map(|text| cut(text, size)).to_vec();
        forms.map(answer)
    });
    let upstream = family.upstream(answers.collect()).await;
    let config = format!("after_model: {mode}\n{MASK}");
    let gateway = family.gateway(&upstream, &config).await;
    for (texts, secret, masked) in PAIRS {
        for (is_stream, size) in forms {
            let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

            let case = format!("{family:?} {mode} {texts:?} in {size}: {}", answer.text());
            assert_eq!(texts_of(family, is_stream, &answer), *masked, "{case}");
            assert!(!answer.text().contains(secret), "{case}");
        }
    }
}

#[tokio::test]
async fn a_secret_at_the_edge_of_a_text_denies_the_answer() {
    let config = "policies: [{ policy: redact, action: deny }]\n";
    let parts = vec![
        Part::text(&["The key is AKIAIOSFODNN7EXAMPLE"]),
        Part::text(&["Anything else?"]),
    ];
    for family in [Family::Anthropic, Family::Responses] {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, config).await;
        for is_stream in [false, true] {
            let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

            let body = answer.text();
            assert!(!body.contains(KEY) && !body.contains("Anything"), "{body}");
            assert!(body.contains("Not allowed here: aws_key."), "{body}");
        }
    }
}

/// Detectors that hold nothing of most texts back, and a text that begins with a secret.
#[tokio::test]
async fn a_secret_behind_a_text_that_is_sent_completely_is_masked() {
    let config = "policies: [{ policy: redact, detect: [aws_key, card] }]\n";
    let text = |text: &str| Part::text(&[text]);
    let thought = |text: &str| Part::Thought(vec![text.to_owned()]);
    let starts = [
        ("Your key is", format!("{KEY} ok")),
        ("Your card.", "4111 1111 1111 1111 ok".to_owned()),
    ];
    for family in [Family::Anthropic, Family::Responses] {
        for (first, next) in &starts {
            let mut answers = vec![
                vec![text(first), text(next)],
                vec![text(first), thought("hm"), text(next)],
                vec![thought(first), thought(next), text("ok")],
            ];
            if family == Family::Anthropic {
                answers.push(vec![text(first), Part::call("look", "x"), text(next)]);
            }
            for parts in answers {
                assert_masked(family, config, parts, next).await;
            }
        }
    }
}

/// Checks that this text of an answer is masked, whole and streamed.
async fn assert_masked(family: Family, config: &str, parts: Vec<Part>, text: &str) {
    let upstream = family.upstream(vec![parts.clone()]).await;
    let gateway = family.gateway(&upstream, config).await;
    for is_stream in [false, true] {
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

        let body = answer.text();
        assert!(!body.contains(text), "{family:?} {parts:?}: {body}");
        assert!(body.contains("[REDACTED:"), "{family:?} {parts:?}: {body}");
    }
}

/// Between the secret and the next text is a call, or the end of a thought.
#[tokio::test]
async fn a_secret_in_front_of_the_text_behind_another_part_is_masked() {
    let text = || Part::text(&["The key is AKIAIOSFODNN7EXAMPLE"]);
    let thought = |text: &str| Part::Thought(vec![text.to_owned()]);
    for parts in [
        vec![text(), Part::call("look", "x"), Part::text(&["Anything"])],
        vec![thought(KEY), thought("Anything"), Part::text(&["ok"])],
    ] {
        let upstream = Family::Anthropic.upstream(vec![parts]).await;
        let gateway = Family::Anthropic.gateway(&upstream, MASK).await;
        for is_stream in [false, true] {
            let answer = Family::Anthropic
                .ask(&gateway, is_stream, &[Turn::User("hi")])
                .await;

            let body = answer.text();
            assert!(!body.contains(KEY), "{body}");
            assert!(body.contains("[REDACTED:aws_key]"), "{body}");
            assert!(body.contains("Anything"), "{body}");
        }
    }
}

#[tokio::test]
async fn a_secret_in_front_of_a_refusal_or_block_of_a_completion_is_masked() {
    let text = format!("The key is {KEY}");
    let blocks = [&*text, "No"].map(|text| json!({ "type": "text", "text": text }));
    for (content, refusal) in [(json!(text), json!("No")), (json!(blocks), Value::Null)] {
        let mut answer = Family::Chat.whole(&[Part::text(&["hi"])]);
        answer["choices"][0]["message"]["content"] = content;
        answer["choices"][0]["message"]["refusal"] = refusal;
        let upstream = Upstream::answering(&answer).await;
        let gateway = Family::Chat.gateway(&upstream, MASK).await;

        let received = Family::Chat.ask(&gateway, false, &[Turn::User("hi")]).await;

        let expected = answer.to_string().replace(KEY, "[REDACTED:aws_key]");
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let message = |answer: &Value| answer["choices"][0]["message"].clone();
        assert_eq!(message(&received.json()), message(&expected));
    }
}

/// More chunks than may wait follow the end of the text, so that its end moves to the next text.
#[tokio::test]
async fn a_secret_behind_many_events_is_masked() {
    let whole = Family::Anthropic.events(&[Part::text(&["The key"]), Part::text(&[KEY])]);
    let stop = "event: content_block_stop";
    let pings = "event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(30);
    let body = whole.replacen(stop, &format!("{pings}{stop}"), 2);
    let body = body.replace(
        "event: content_block_delta",
        &format!("{pings}event: content_block_delta"),
    );
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
    let gateway = Family::Anthropic.gateway(&upstream, MASK).await;

    let answer = Family::Anthropic
        .ask(&gateway, true, &[Turn::User("hi")])
        .await;

    let texts = texts_of(Family::Anthropic, true, &answer);
    assert_eq!(texts.concat(), "The key[REDACTED:aws_key]");
}

/// The second text is compared with the first, and what follows it with itself alone.
#[tokio::test]
async fn a_secret_over_two_texts_in_front_of_another_part_is_masked() {
    let (start, end) = KEY.split_at(8);
    let text = |text: &str| Part::text(&[text]);
    for family in [Family::Anthropic, Family::Responses] {
        let parts = vec![
            text(&format!("k {start}")),
            text(&format!("{end} ok")),
            Part::Thought(vec!["hm".to_owned()]),
            text("bye"),
        ];
        assert_masked(family, MASK, parts, end).await;
    }
}

#[tokio::test]
async fn a_secret_of_a_thought_that_is_open_over_a_text_is_masked() {
    let (start, end) = KEY.split_at(8);
    let event = |value: Value| {
        format!(
            "event: {}\ndata: {value}\n\n",
            value["type"].as_str().unwrap()
        )
    };
    let started = |index: u64, block: Value| {
        event(json!({ "type": "content_block_start", "index": index, "content_block": block }))
    };
    let piece = |index: u64, delta: Value| {
        event(json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    };
    let stopped = |index: u64| event(json!({ "type": "content_block_stop", "index": index }));
    let thought = |text: &str| json!({ "type": "thinking_delta", "thinking": text });
    let blocks = [
        started(
            0,
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
        ),
        piece(0, thought(&format!("k {start}"))),
        started(1, json!({ "type": "text", "text": "" })),
        piece(1, json!({ "type": "text_delta", "text": "b" })),
        stopped(1),
        piece(0, thought(&format!("{end} z"))),
        piece(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        stopped(0),
    ];
    let whole = Family::Anthropic.events(&[Part::text(&["x"])]);
    let (head, rest) = whole.split_once("event: content_block_start").unwrap();
    let (_, end) = rest.split_once("event: message_delta").unwrap();
    let body = format!("{head}{}event: message_delta{end}", blocks.concat());
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
    let gateway = Family::Anthropic.gateway(&upstream, MASK).await;

    let answer = Family::Anthropic
        .ask(&gateway, true, &[Turn::User("hi")])
        .await;

    let mut thinking = String::new();
    for (_, data) in events(&answer) {
        let event: Value = serde_json::from_str(&data).unwrap();
        thinking.push_str(event["delta"]["thinking"].as_str().unwrap_or_default());
    }
    assert_eq!(thinking, "k [REDACTED:aws_key] z", "{}", answer.text());
}
