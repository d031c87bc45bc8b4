//! Behaviour that is the same on every API family, for JSON answers and for streams.

mod agent_hooks;
mod agents;
mod answer_fields;
mod anthropic;
mod anthropic_blocks;
mod anthropic_toolsets;
mod broken_streams;
mod client;
mod console;
mod denied_steps;
mod errors;
pub mod family;
mod fields;
mod finish_reasons;
mod invariants;
mod masking;
mod model;
mod rewritten_answers;
mod sessions;
mod stored_responses;
mod stream_errors;
mod tool_calls;
mod views;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use self::family::{ALL, Family, ParsedAnswer, Part, Turn, each};
use crate::harness::{Agent, Answer, Upstream, hook};

/// A hook command that reads its input and prints nothing.
const NO_OP_COMMAND: &str = "cat > /dev/null";

/// A config with a hook that changes nothing.
const NO_OP_HOOK: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }] }\n";

/// An access key of AWS, which `redact` masks.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLQ";

const REDACT: &str = "policies: [{ policy: redact, detect: [aws_key] }]\n";

/// A parsed answer that has only this text.
fn text_answer(text: &str) -> ParsedAnswer {
    ParsedAnswer {
        text: text.to_owned(),
        ..ParsedAnswer::default()
    }
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

/// A model API that answers `ok`.
async fn model_api(family: Family) -> Upstream {
    family.upstream(vec![vec![Part::text(&["ok"])]]).await
}

/// A request with one prompt.
fn body(family: Family) -> String {
    family.request(false, &[Turn::User("hi")]).to_string()
}

async fn post(family: Family, agent: &Agent) -> Answer {
    agent.post(family.path(false), body(family)).await
}

/// A request with further fields.
fn request_with(family: Family, fields: &Value) -> String {
    let mut request = family.request(false, &[Turn::User("hi")]);
    for (key, value) in fields.as_object().unwrap() {
        request[key] = value.clone();
    }
    request.to_string()
}

#[tokio::test]
async fn without_hooks_every_byte_passes() {
    let parts = vec![Part::text(&["hel", "lo"]), Part::call("look", "é")];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, "").await;
        // White space that no serializer would write.
        let body = family.request(is_stream, &[Turn::User("hi")]).to_string();
        let body = body.replacen('{', "{ \"metadata\" : {\"a\":\"b\"},  ", 1);
        let answer = family.post(&gateway, is_stream, body.clone()).await;
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(asked.body, body, "{family:?}");
        let expected = if is_stream {
            family.events(&parts)
        } else {
            family.whole(&parts).to_string()
        };
        assert_eq!(answer.text(), expected, "{family:?}");
    }
}

#[tokio::test]
async fn hooks_that_change_nothing_change_no_byte() {
    let parts = vec![
        Part::Thought(vec!["h".into(), "m".into()]),
        Part::text(&["hel", "lo"]),
        Part::Call("look".into(), vec!["{\"x\":".into(), " \"é\"}".into()]),
    ];
    let quiet = || hook::command("quiet", "cat > /dev/null");
    let hooks = hook::config(&[
        ("BeforeModel", quiet()),
        ("AfterModel", quiet()),
        ("BeforeTool", quiet()),
        ("AfterTool", quiet()),
        ("BeforeAgent", quiet()),
    ]);
    let turns = [
        Turn::User("hi"),
        Turn::Model("yes"),
        Turn::User("look"),
        Turn::Call("look", "a"),
        Turn::Result("look", "b"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, &format!("{hooks}{REDACT}")).await;
        let body = family.request(is_stream, &turns).to_string();
        let body = body.replacen('{', "{ \"metadata\" : {\"a\":\"b\"},  ", 1);
        let answer = family.post(&gateway, is_stream, body.clone()).await;
        assert_eq!(upstream.requests().pop().unwrap().body, body, "{family:?}");
        if is_stream {
            let data = |text: &str| {
                let lines = text.lines().filter(|line| line.starts_with("data:"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(
                data(answer.text()),
                data(&family.events(&parts)),
                "{family:?}"
            );
        } else {
            assert_eq!(
                answer.text(),
                family.whole(&parts).to_string(),
                "{family:?}"
            );
        }
        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed.text, "hello");
        assert_eq!(
            parsed.calls,
            [("look".to_owned(), json!({ "x": "é" }).to_string())]
        );
        assert!(parsed.wants_tools, "{family:?}");
    }
}

#[tokio::test]
async fn a_denied_prompt_is_answered_with_the_reason_and_never_reaches_upstream() {
    let deny = hook::config(&[("BeforeAgent", hook::denying("guard", "not today"))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::text(&["never"])]]).await;
        let gateway = family.gateway(&upstream, &deny).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.parse(is_stream, &answer),
            text_answer("not today"),
            "{family:?}"
        );
        assert!(upstream.requests().is_empty());
        let seen = gateway.json("guard.json");
        assert_eq!(seen["prompt"], "hi", "{family:?}");
    }
}

#[tokio::test]
async fn a_denial_within_a_stream_ends_it_as_a_valid_answer() {
    let parts = vec![Part::text(&["one ", "two ", "three"])];
    let script = "grep -q '\"two ' && { echo enough >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("AfterModel", hook::command("guard", script))]);
    for family in ALL.iter().copied() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
        let parsed = family.parse(true, &answer);
        assert_eq!(parsed, text_answer("one \n\nenough"), "{family:?}");
    }
}

#[tokio::test]
async fn the_reason_of_a_stop_before_a_tool_follows_the_text_in_front_of_the_call() {
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let hooks = hook::config(&[("BeforeTool", hook::printing("stop", &stop))]);
    for (family, is_stream) in each() {
        let parts = vec![Part::text(&["well"]), Part::call("rm", "x")];
        let upstream = family.upstream(vec![parts]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.parse(is_stream, &answer),
            text_answer("well\n\nenough"),
            "{family:?}, {is_stream}"
        );
    }
}

#[tokio::test]
async fn a_synthetic_response_has_the_form_of_the_api() {
    let answer = json!({ "candidates": [{ "content": { "parts": ["from a hook"] } }] });
    let hooks = hook::config(&[(
        "BeforeModel",
        hook::printing("answer", &hook::response(&answer)),
    )]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::text(&["never"])]]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.parse(is_stream, &answer),
            text_answer("from a hook"),
            "{family:?}"
        );
        assert!(upstream.requests().is_empty());
    }
}

#[tokio::test]
async fn hooks_edit_every_chunk_of_a_stream_and_a_json_answer() {
    let parts = vec![Part::text(&["a", "b"])];
    let edit = json!({ "candidates": [{ "content": { "parts": ["X"] } }] });
    let hooks = hook::config(&[("AfterModel", hook::printing("edit", &hook::response(&edit)))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let expected = if is_stream { "XX" } else { "X" };
        assert_eq!(
            family.parse(is_stream, &answer),
            text_answer(expected),
            "{family:?}"
        );
    }
}

#[tokio::test]
async fn the_stable_form_is_the_same_on_every_api() {
    let hooks = hook::config(&[("BeforeModel", hook::printing("see", &json!({})))]);
    let turns = [Turn::User("one"), Turn::Model("two"), Turn::User("three")];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        family.ask(&gateway, is_stream, &turns).await;
        let seen = &gateway.json("see.json")["llm_request"];
        let message = |role: &str, content: &str| json!({ "role": role, "content": content });
        let expected = json!([
            message("user", "one"),
            message("model", "two"),
            message("user", "three")
        ]);
        assert_eq!(seen["messages"], expected, "{family:?}");
        assert_eq!(seen["model"], "m", "{family:?}");
    }
}

#[tokio::test]
async fn a_growing_conversation_is_one_session_with_prompt_and_tool_events() {
    let record = "cat >> events.jsonl; echo >> events.jsonl";
    let hooks = hook::config(&[
        ("SessionStart", hook::command("start", record)),
        ("BeforeAgent", hook::command("prompt", record)),
        ("AfterTool", hook::command("tool", record)),
    ]);
    let answers = vec![
        vec![Part::call("look", "a")],
        vec![Part::text(&["done"])],
        vec![Part::text(&["bye"])],
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(answers.clone()).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let turns = [
            Turn::User("one"),
            Turn::Call("look", "a"),
            Turn::Result("look", "found"),
            Turn::Model("done"),
            Turn::User("two"),
        ];
        for end in [1, 3, 5] {
            let answer = family.ask(&gateway, is_stream, &turns[..end]).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let text = gateway.file("events.jsonl");
        let seen: Vec<Value> = text
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<&str> = seen
            .iter()
            .map(|event| event["hook_event_name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["SessionStart", "BeforeAgent", "AfterTool", "BeforeAgent"],
            "{family:?}"
        );
        let sessions: std::collections::BTreeSet<String> = seen
            .iter()
            .map(|event| event["session_id"].to_string())
            .collect();
        assert_eq!(sessions.len(), 1, "{family:?}: {sessions:?}");
        assert_eq!(seen[2]["tool_name"], "look");
        assert_eq!(seen[2]["tool_input"], json!({ "x": "a" }), "{family:?}");
        assert!(
            seen[2]["tool_response"].to_string().contains("found"),
            "{family:?}: {}",
            seen[2]
        );
    }
}

#[tokio::test]
async fn an_ambiguous_body_is_refused_with_an_error_of_the_api() {
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::text(&["never"])]]).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        let body = family.request(is_stream, &[Turn::User("hi")]).to_string();
        let field = match family {
            Family::Gemini => "contents",
            Family::Responses => "input",
            Family::Anthropic | Family::Chat => "messages",
        };
        for doubled in [
            body.replacen('{', &format!("{{\"{field}\":[],"), 1),
            body.replacen("\"role\"", "\"role\":\"user\",\"role\"", 1),
            format!("{body} {{}}"),
        ] {
            let answer = family.post(&gateway, is_stream, doubled.clone()).await;
            assert_eq!(
                answer.status,
                400,
                "{family:?}: {doubled}: {}",
                answer.text()
            );
            let error = answer.json();
            match family {
                Family::Gemini => assert_eq!(error["error"]["code"], 400),
                Family::Anthropic => {
                    assert_eq!(error["type"], "error", "{error}");
                    assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
                }
                Family::Responses | Family::Chat => {
                    assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
                }
            }
            assert!(error["error"]["message"].is_string(), "{error}");
        }
        assert!(upstream.requests().is_empty());
    }
}

#[tokio::test]
async fn a_truncated_upstream_stream_is_truncated_for_the_agent() {
    let quiet = hook::config(&[("AfterModel", hook::command("quiet", "cat > /dev/null"))]);
    let has_stop_event = |family: &Family| matches!(family, Family::Anthropic | Family::Responses);
    for family in ALL.iter().copied().filter(has_stop_event) {
        let parts = [Part::text(&["hel", "lo"])];
        let whole = family.events(&parts);
        // Without the last two events, of which one holds the stop reason.
        let (at, _) = whole.rmatch_indices("event:").nth(1).unwrap();
        let cut = whole[..at].to_owned();
        let upstream =
            Upstream::with(move |_| crate::harness::respond(200, "text/event-stream", cut.clone()))
                .await;
        let gateway = family.gateway(&upstream, &quiet).await;
        let agent = gateway.agent();
        let body = family.request(true, &[Turn::User("hi")]).to_string();
        let mut response = agent.open(family.path(true), body).await;
        let mut is_complete = false;
        let mut received = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(piece)) => received.extend_from_slice(&piece),
                Ok(None) => {
                    is_complete = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let text = String::from_utf8_lossy(&received);
        assert!(!is_complete, "{family:?}: {text}");
        assert!(text.contains("hel"), "{text}");
    }
}

#[tokio::test]
async fn a_json_answer_to_a_request_for_a_stream_becomes_a_stream() {
    let parts = [Part::text(&["hello ", SECRET]), Part::call("look", "a")];
    for family in ALL {
        let upstream = Upstream::answering(&family.whole(&parts)).await;
        let gateway = family.gateway(&upstream, REDACT).await;

        let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;

        let parsed = family.parse(true, &answer);
        assert!(parsed.text.starts_with("hello "), "{family:?}: {parsed:?}");
        assert!(!answer.text().contains(SECRET), "{family:?}");
        assert_eq!(parsed.calls.len(), 1, "{family:?}: {parsed:?}");
        assert_eq!(parsed.calls[0].0, "look");
    }
}
