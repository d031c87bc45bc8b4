//! Masking of secrets in requests, answers and streams of every API.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    REDACT, SECRET,
    family::{ALL, Family, Part, Turn, each, events},
    text_answer,
};
use crate::harness::{Answer, Upstream, hook, respond};

#[tokio::test]
async fn secrets_are_masked_in_requests() {
    let turns = [
        Turn::User("my key is AKIAIOSFODNN7EXAMPLQ, ok"),
        Turn::Call("look", "AKIAIOSFODNN7EXAMPLQ"),
        Turn::Result("look", "found AKIAIOSFODNN7EXAMPLQ"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::text(&["fine"])]]).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        let answer = family.ask(&gateway, is_stream, &turns).await;
        assert_eq!(family.parse(is_stream, &answer), text_answer("fine"));
        let asked = upstream.requests().pop().unwrap().body;
        assert!(!asked.contains(SECRET), "{family:?}: {asked}");
        assert!(
            asked.contains("my key is ") && asked.contains("found "),
            "{asked}"
        );
    }
}

#[tokio::test]
async fn a_secret_split_at_any_byte_of_a_stream_is_masked() {
    let text = format!("key {SECRET} end");
    let arguments = json!({ "x": SECRET }).to_string();
    for family in ALL.iter().copied() {
        let answers: Vec<Vec<Part>> = (1..text.len())
            .map(|cut| {
                let split = |text: &str| {
                    let cut = cut.min(text.len() - 1);
                    vec![text[..cut].to_owned(), text[cut..].to_owned()]
                };
                // Only whole arguments are JSON in the Gemini API.
                vec![
                    Part::Thought(split(&text)),
                    Part::Text(split(&text)),
                    Part::Call("look".to_owned(), split(&arguments)),
                ]
            })
            .collect();
        let count = answers.len();
        let upstream = family.upstream(answers).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        for cut in 1..=count {
            let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
            let parsed = family.parse(true, &answer);
            assert!(
                parsed.text.starts_with("key ") && parsed.text.ends_with(" end"),
                "{family:?} {cut}: {parsed:?}"
            );
            assert!(
                parsed.thoughts.starts_with("key ") && parsed.thoughts.ends_with(" end"),
                "{family:?} {cut}: {parsed:?}"
            );
            let all = format!("{parsed:?}");
            assert!(
                !all.contains(SECRET) && !answer.text().contains(SECRET),
                "{family:?} {cut}: {all}"
            );
            assert_eq!(parsed.calls.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_masked_stream_remains_masked_when_a_hook_returns_its_chunks() {
    let parts = vec![Part::text(&[
        "the ", "key ", "is AKI", "AIOSFO", "DNN7EX", "AMPLQ, ", "ok ", "then",
    ])];
    let repeat = "import json, sys; seen = json.load(sys.stdin)['llm_response']['candidates']; print(json.dumps({'hookSpecificOutput': {'hookEventName': 'AfterModel', 'llm_response': {'candidates': seen}}}))";
    let command = format!("python3 -c \"{repeat}\"");
    let hooks = hook::config(&[("AfterModel", hook::command("repeat", &command))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, &format!("{hooks}{REDACT}")).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.parse(is_stream, &answer),
            text_answer("the key is [REDACTED:aws_key], ok then"),
            "{family:?} {is_stream}"
        );
    }
}

#[tokio::test]
async fn a_masked_json_answer_is_valid() {
    let parts = vec![
        Part::text(&["key AKIAIOSFODNN7EXAMPLQ end"]),
        Part::call("look", SECRET),
    ];
    for family in ALL.iter().copied() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        let answer = family.ask(&gateway, false, &[Turn::User("hi")]).await;
        let parsed = family.parse(false, &answer);
        assert!(
            !answer.text().contains(SECRET),
            "{family:?}: {}",
            answer.text()
        );
        assert!(parsed.text.starts_with("key ") && parsed.text.ends_with(" end"));
        assert!(parsed.wants_tools);
    }
}

#[tokio::test]
async fn each_of_several_policies_inspects_what_the_others_edited() {
    let mask = "{ policy: redact, detect: [email] }, { policy: redact, detect: [aws_key] }";
    let deny = mask.replace("[aws_key]", "[aws_key], action: deny");
    let arguments = json!({ "x": format!("jo@example.com {SECRET}") });
    let parts = vec![Part::call_with("look", &arguments)];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family
            .gateway(&upstream, &format!("policies: [{mask}]\n"))
            .await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let masked = json!({ "x": "[REDACTED:email] [REDACTED:aws_key]" });
        assert_eq!(
            family.parse(is_stream, &answer).calls,
            [("look".to_owned(), masked.to_string())],
            "{family:?}"
        );
        let gateway = family
            .gateway(&upstream, &format!("policies: [{deny}]\n"))
            .await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert!(!answer.text().contains("look"), "{}", answer.text());
    }
}

#[tokio::test]
async fn arguments_that_a_hook_edited_are_masked() {
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "x": SECRET } } });
    let hooks = hook::config(&[("BeforeTool", hook::printing("edit", &edit))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::call("look", "a")]]).await;
        let gateway = family.gateway(&upstream, &format!("{hooks}{REDACT}")).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let masked = json!({ "x": "[REDACTED:aws_key]" });
        assert_eq!(
            family.parse(is_stream, &answer).calls,
            [("look".to_owned(), masked.to_string())],
            "{family:?}"
        );
    }
}

/// Texts of the blocks of a stream of the Messages API.
fn block_texts(answer: &Answer) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for (name, data) in events(answer) {
        let event: Value = serde_json::from_str(&data).unwrap();
        match name.as_str() {
            "content_block_start" => texts.push(String::new()),
            "content_block_delta" => {
                let text = event["delta"]["text"].as_str().unwrap_or_default();
                texts.last_mut().unwrap().push_str(text);
            }
            _ => (),
        }
    }
    texts
}

#[tokio::test]
async fn a_secret_over_adjacent_texts_is_masked() {
    let parts = vec![
        Part::text(&["key AKI", "AIOSF"]),
        Part::text(&["ODNN7"]),
        Part::text(&["EXAM", "PLQ"]),
        Part::text(&[", end"]),
    ];
    // A message of Chat Completions has one text.
    for (family, is_stream) in each().filter(|(family, _)| *family != Family::Chat) {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let masked = text_answer("key [REDACTED:aws_key], end");
        assert_eq!(family.parse(is_stream, &answer), masked, "{family:?}");
        assert!(!answer.text().contains("ODNN7"), "{}", answer.text());
    }
}

/// Two texts that spell a secret together.
const HALVES: [&str; 2] = ["key AKIAIOSF", "ODNN7EXAMPLQ end"];

/// Checks that the secret in a conversation of Google's API is masked: `replaced` is at this
/// pointer in one of its turns.
async fn check_masked(turn: usize, pointer: &str, replaced: &Value) {
    let turns = [
        Turn::User("hi"),
        Turn::Call("look", "a"),
        Turn::Result("look", "b"),
    ];
    let family = Family::Gemini;
    let upstream = family.upstream(vec![vec![Part::text(&["fine"])]]).await;
    let gateway = family.gateway(&upstream, REDACT).await;
    let mut body = family.request(false, &turns);
    *body["contents"][turn].pointer_mut(pointer).unwrap() = replaced.clone();

    family.post(&gateway, false, body.to_string()).await;

    let asked = upstream.only_request().body;
    assert!(asked.contains("key [REDACTED:aws_key]"), "{asked}");
    assert!(!asked.contains("ODNN7"), "{asked}");
}

#[tokio::test]
async fn a_secret_over_adjacent_texts_of_an_mcp_result_is_masked() {
    // The form of google-genai.
    let blocks = HALVES.map(|text| json!({ "type": "text", "text": text }));
    let response = json!({ "result": { "content": blocks } });

    check_masked(2, "/parts/0/functionResponse/response", &response).await;
}

#[tokio::test]
async fn a_secret_that_ends_in_a_text_of_the_user_marked_as_a_thought_is_masked() {
    let [first, second] = HALVES;
    let parts = json!([{ "text": first }, { "text": second, "thought": true }]);

    check_masked(0, "/parts", &parts).await;
}

/// A stream of the Responses API with one message, which has a part for each text.
fn events_of_message(texts: [&str; 2]) -> String {
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let mut pieces = String::new();
    for (index, text) in texts.iter().enumerate() {
        for (name, field, value) in [
            ("content_part.added", "part", part("")),
            ("output_text.delta", "delta", json!(text)),
            ("output_text.done", "text", json!(text)),
            ("content_part.done", "part", part(text)),
        ] {
            let name = format!("response.{name}");
            let event = json!({ "type": name, "item_id": "msg_0", "output_index": 0, "content_index": index, field: value });
            write!(pieces, "event: {name}\ndata: {event}\n\n").unwrap();
        }
    }
    let frame = Family::Responses.events(&[Part::text(&[])]);
    let (begin, _) = frame.split_once("event: response.content_part").unwrap();
    let (_, end) = frame
        .split_once("event: response.output_item.done")
        .unwrap();
    let parts = texts.map(|text| part(text).to_string()).join(",");
    let end = end.replace(&part("").to_string(), &parts);
    let all = format!("{begin}{pieces}event: response.output_item.done{end}");
    let numbered = all.trim_end().split("\n\n").enumerate();
    let numbered = numbered.map(|(number, event)| {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        data["sequence_number"] = number.into();
        format!("{name}\ndata: {data}\n\n")
    });
    numbered.collect()
}

#[tokio::test]
async fn a_secret_over_two_parts_of_a_message_is_masked() {
    let events = events_of_message(["key AKIAIOSF", "ODNN7EXAMPLQ"]);
    assert_eq!(events.matches("ODNN7").count(), 5);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let gateway = Family::Responses.gateway(&upstream, REDACT).await;

    let answer = Family::Responses
        .ask(&gateway, true, &[Turn::User("hi")])
        .await;

    let parsed = Family::Responses.parse(true, &answer);
    assert_eq!(parsed, text_answer("key [REDACTED:aws_key]"));
    assert!(!answer.text().contains("ODNN7"), "{}", answer.text());
}

#[tokio::test]
async fn a_secret_over_two_texts_of_a_result_is_masked() {
    let turns = [
        Turn::User("hi"),
        Turn::Call("look", "x"),
        Turn::Result("look", "found"),
    ];
    let over_both = ["found AKIAIOSF", "ODNN7EXAMPLQ"];
    let in_second = ["found", "AKIAIOSFODNN7EXAMPLQ"];
    let masked_in = [
        (over_both, vec!["found [REDACTED:aws_key]"]),
        (in_second, vec!["found", "[REDACTED:aws_key]"]),
    ];
    let results = [
        (Family::Anthropic, "/messages/2/content/0/content", "text"),
        (Family::Responses, "/input/2/output", "input_text"),
        (Family::Chat, "/messages/2/content", "text"),
    ];
    for (family, pointer, kind) in results {
        for (texts, masked) in &masked_in {
            let block = |text: &&str| json!({ "type": kind, "text": text });
            let blocks = |texts: &[&str]| texts.iter().map(block).collect::<Value>();
            let mut body = family.request(false, &turns);
            *body.pointer_mut(pointer).unwrap() = blocks(texts);
            let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
            let gateway = family.gateway(&upstream, REDACT).await;

            family.post(&gateway, false, body.to_string()).await;

            let sent = upstream.only_request().json();
            assert_eq!(
                *sent.pointer(pointer).unwrap(),
                blocks(masked),
                "{family:?}"
            );
        }
    }
}

#[tokio::test]
async fn texts_without_a_secret_in_both_stay_in_their_blocks() {
    let family = Family::Anthropic;
    let parts = vec![
        Part::text(&["see ", "you"]),
        Part::text(&[" at ", "noon"]),
        Part::text(&[": AKIAIOSFODNN7EXAMPLQ"]),
        Part::text(&[" AKIAIOSF"]),
        Part::call("look", "x"),
        Part::text(&["ODNN7EXAMPLQ"]),
    ];
    let upstream = family.upstream(vec![parts]).await;
    let gateway = family
        .gateway(&upstream, "policies: [{ policy: redact }]\n")
        .await;

    let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;

    let expected = [
        "see you",
        " at noon",
        ": [REDACTED:aws_key]",
        " AKIAIOSF",
        "",
        "ODNN7EXAMPLQ",
    ];
    assert_eq!(block_texts(&answer), expected, "{}", answer.text());
}

const MASK_EMAILS: &str = "policies: [{ policy: redact, detect: [email] }]\n";

#[tokio::test]
async fn texts_of_a_whole_answer_keep_their_ends_and_citations() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let cited = |quoted: &str| {
        let citation =
            json!({ "type": "web_search_result_location", "cited_text": "c", "url": "u" });
        json!({ "type": "text", "text": quoted, "citations": [citation] })
    };
    let blocks = |last: &str| {
        json!([
            text("I look it up"),
            { "type": "server_tool_use", "id": "s", "name": "web_search", "input": { "query": "q" } },
            { "type": "web_search_tool_result", "tool_use_id": "s", "content": [] },
            cited("Paris is the capital"),
            text(". It has "),
            cited("two million people"),
            text(last),
            cited("since 1999"),
        ])
    };
    for (last, masked) in [
        (" in all, ", " in all, "),
        (", says jo@example.com ", ", says [REDACTED:email] "),
    ] {
        let mut answer = Family::Anthropic.whole(&[]);
        answer["content"] = blocks(last);
        let upstream = Upstream::answering(&answer).await;
        let gateway = Family::Anthropic.gateway(&upstream, MASK_EMAILS).await;

        let received = Family::Anthropic
            .ask(&gateway, false, &[Turn::User("hi")])
            .await;

        assert_eq!(received.json()["content"], blocks(masked));
    }
}

#[tokio::test]
async fn a_thought_ends_in_front_of_its_signature() {
    let pieces = ["a plan", " for jo"].map(str::to_owned).to_vec();
    let parts = vec![Part::Thought(pieces), Part::text(&["ok"])];
    let upstream = Family::Anthropic.upstream(vec![parts]).await;
    let gateway = Family::Anthropic.gateway(&upstream, MASK_EMAILS).await;

    let answer = Family::Anthropic
        .ask(&gateway, true, &[Turn::User("hi")])
        .await;

    let thoughts = Family::Anthropic.parse(true, &answer).thoughts;
    assert_eq!(thoughts, "a plan for jo");
    let (_, behind) = answer.text().split_once("signature_delta").unwrap();
    assert!(!behind.contains("thinking_delta"), "{behind}");
}

/// Asks for a stream with a thought of these deltas, as (field, text).
async fn ask_for_thought(deltas: &[(&str, &str)]) -> Answer {
    let delta = |(field, text): &(&str, &str)| {
        let delta = json!({ "type": format!("{field}_delta"), *field: text });
        json!({ "type": "content_block_delta", "index": 0, "delta": delta })
    };
    let message = json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "usage": { "input_tokens": 1, "output_tokens": 1 } });
    let mut events = vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "thinking", "thinking": "", "signature": "" } }),
    ];
    events.extend(deltas.iter().map(delta));
    events.extend([
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
            "usage": { "output_tokens": 2 } }),
        json!({ "type": "message_stop" }),
    ]);
    let named = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    let stream: String = events.iter().map(named).collect();
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
    let gateway = Family::Anthropic.gateway(&upstream, MASK_EMAILS).await;
    Family::Anthropic
        .ask(&gateway, true, &[Turn::User("hi")])
        .await
}

#[tokio::test]
async fn an_empty_signature_does_not_end_a_thought() {
    let deltas = [
        ("thinking", "abc ann@"),
        ("signature", ""),
        ("thinking", "example.com zz"),
        ("signature", "S"),
    ];

    let answer = ask_for_thought(&deltas).await;

    let thoughts = Family::Anthropic.parse(true, &answer).thoughts;
    assert_eq!(thoughts, "abc [REDACTED:email] zz");
}

#[tokio::test]
async fn an_empty_piece_of_a_thought_may_follow_its_signature() {
    let deltas = [("thinking", "abc"), ("signature", "S"), ("thinking", "")];

    let answer = ask_for_thought(&deltas).await;

    assert_eq!(Family::Anthropic.parse(true, &answer).thoughts, "abc");
}

#[tokio::test]
async fn a_label_in_a_text_beside_a_forced_call_has_no_quotes() {
    let family = Family::Anthropic;
    let answer = vec![Part::text(&["Mail ann@exa", "mple.com, ok"])];
    let upstream = family.upstream(vec![answer; 2]).await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gateway = family.gateway(&upstream, config).await;
    for is_stream in [false, true] {
        let mut body = family.request(is_stream, &[Turn::User("hi")]);
        body["tool_choice"] = json!({ "type": "tool", "name": "look" });

        let answer = family.post(&gateway, is_stream, body.to_string()).await;

        let text = family.parse(is_stream, &answer).text;
        assert_eq!(text, "Mail [REDACTED:email], ok", "{is_stream}");
    }
}
