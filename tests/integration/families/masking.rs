//! Masking of secrets in requests, answers and streams of every API.

use serde_json::json;

use super::{
    REDACT, SECRET,
    family::{ALL, Part, Turn, each},
    text_answer,
};
use crate::harness::hook;

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
