//! Every API family, whole and as a stream, from one table: what holds for one, holds for all.

mod agent_hooks;
mod agents;
mod answer_fields;
mod anthropic;
mod client;
mod console;
pub mod family;
mod fields;
mod laws;
mod model;
mod views;

use serde_json::{Value, json};

use self::family::{ALL, Family, Heard, Said, Turn, each};
use crate::harness::{Upstream, hook};

/// A hook that says nothing.
const QUIET_TOOL_HOOK: &str = "cat > /dev/null";

/// A key in the form of AWS's, which `redact` masks.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLQ";

const REDACT: &str = "policies: [{ policy: redact, detect: [aws_key] }]\n";

const DENY_RM: &str = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";

fn heard(text: &str) -> Heard {
    Heard {
        text: text.to_owned(),
        ..Heard::default()
    }
}

#[tokio::test]
async fn without_hooks_every_byte_passes() {
    let said = vec![Said::text(&["hel", "lo"]), Said::call("look", "é")];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, "").await;
        // White space and numbers as no writer would put them.
        let body = family.request(is_stream, &[Turn::User("hi")]).to_string();
        let body = body.replacen('{', "{ \"metadata\" : {\"a\":\"b\"},  ", 1);
        let answer = family.post(&gateway, is_stream, body.clone()).await;
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(asked.body, body, "{family:?}");
        let expected = if is_stream {
            family.events(&said)
        } else {
            family.whole(&said).to_string()
        };
        assert_eq!(answer.text(), expected, "{family:?}");
    }
}

#[tokio::test]
async fn hooks_that_change_nothing_change_no_byte() {
    let said = vec![
        Said::Thought(vec!["h".into(), "m".into()]),
        Said::text(&["hel", "lo"]),
        Said::Call("look".into(), vec!["{\"x\":".into(), " \"é\"}".into()]),
    ];
    let quiet = || hook::running("quiet", "cat > /dev/null");
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
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, &format!("{hooks}{REDACT}")).await;
        let body = family.request(is_stream, &turns).to_string();
        let body = body.replacen('{', "{ \"metadata\" : {\"a\":\"b\"},  ", 1);
        let answer = family.post(&gateway, is_stream, body.clone()).await;
        assert_eq!(upstream.seen().pop().unwrap().body, body, "{family:?}");
        if is_stream {
            let data = |text: &str| {
                let lines = text.lines().filter(|line| line.starts_with("data:"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(
                data(answer.text()),
                data(&family.events(&said)),
                "{family:?}"
            );
        } else {
            assert_eq!(answer.text(), family.whole(&said).to_string(), "{family:?}");
        }
        let heard = family.heard(is_stream, &answer);
        assert_eq!(heard.text, "hello");
        assert_eq!(
            heard.calls,
            [("look".to_owned(), json!({ "x": "é" }).to_string())]
        );
        assert!(heard.wants_tools, "{family:?}");
    }
}

#[tokio::test]
async fn secrets_are_masked_in_requests() {
    let turns = [
        Turn::User("my key is AKIAIOSFODNN7EXAMPLQ, ok"),
        Turn::Call("look", "AKIAIOSFODNN7EXAMPLQ"),
        Turn::Result("look", "found AKIAIOSFODNN7EXAMPLQ"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["fine"])]]).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        let answer = family.ask(&gateway, is_stream, &turns).await;
        assert_eq!(family.heard(is_stream, &answer), heard("fine"));
        let asked = upstream.seen().pop().unwrap().body;
        assert!(!asked.contains(SECRET), "{family:?}: {asked}");
        assert!(
            asked.contains("my key is ") && asked.contains("found "),
            "{asked}"
        );
    }
}

#[tokio::test]
async fn secrets_are_masked_at_every_cut_of_a_stream() {
    let text = format!("key {SECRET} end");
    let arguments = json!({ "x": SECRET }).to_string();
    for family in ALL.iter().copied() {
        let answers: Vec<Vec<Said>> = (1..text.len())
            .map(|cut| {
                let pieces = |text: &str| {
                    let cut = cut.min(text.len() - 1);
                    vec![text[..cut].to_owned(), text[cut..].to_owned()]
                };
                // Only whole arguments are JSON in the Gemini API.
                vec![
                    Said::Thought(pieces(&text)),
                    Said::Text(pieces(&text)),
                    Said::Call("look".to_owned(), pieces(&arguments)),
                ]
            })
            .collect();
        let count = answers.len();
        let upstream = family.upstream(answers).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        for cut in 1..=count {
            let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
            let heard = family.heard(true, &answer);
            assert!(
                heard.text.starts_with("key ") && heard.text.ends_with(" end"),
                "{family:?} {cut}: {heard:?}"
            );
            assert!(
                heard.thoughts.starts_with("key ") && heard.thoughts.ends_with(" end"),
                "{family:?} {cut}: {heard:?}"
            );
            let all = format!("{heard:?}");
            assert!(
                !all.contains(SECRET) && !answer.text().contains(SECRET),
                "{family:?} {cut}: {all}"
            );
            assert_eq!(heard.calls.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_masked_stream_stays_masked_when_a_hook_repeats_it() {
    let said = vec![Said::text(&[
        "the ", "key ", "is AKI", "AIOSFO", "DNN7EX", "AMPLQ, ", "ok ", "then",
    ])];
    let repeat = "import json, sys; seen = json.load(sys.stdin)['llm_response']['candidates']; print(json.dumps({'hookSpecificOutput': {'hookEventName': 'AfterModel', 'llm_response': {'candidates': seen}}}))";
    let command = format!("python3 -c \"{repeat}\"");
    let hooks = hook::config(&[("AfterModel", hook::running("repeat", &command))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, &format!("{hooks}{REDACT}")).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.heard(is_stream, &answer),
            heard("the key is [REDACTED:aws_key], ok then"),
            "{family:?} {is_stream}"
        );
    }
}

#[tokio::test]
async fn a_masked_whole_answer_is_valid() {
    let said = vec![
        Said::text(&["key AKIAIOSFODNN7EXAMPLQ end"]),
        Said::call("look", SECRET),
    ];
    for family in ALL.iter().copied() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        let answer = family.ask(&gateway, false, &[Turn::User("hi")]).await;
        let heard = family.heard(false, &answer);
        assert!(
            !answer.text().contains(SECRET),
            "{family:?}: {}",
            answer.text()
        );
        assert!(heard.text.starts_with("key ") && heard.text.ends_with(" end"));
        assert!(heard.wants_tools);
    }
}

#[tokio::test]
async fn a_denied_call_goes_back_to_the_model() {
    let first = vec![
        Said::text(&["let me ", "see"]),
        Said::call("rm", "/"),
        Said::call("look", "a"),
    ];
    let second = vec![Said::text(&["all ", "good"])];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![first.clone(), second.clone()]).await;
        let gateway = family.gateway(&upstream, DENY_RM).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let heard = family.heard(is_stream, &answer);
        assert_eq!(heard.calls, [], "{family:?}");
        assert!(!heard.wants_tools, "{family:?}");
        assert!(
            heard.text.contains("let me see") && heard.text.ends_with("all good"),
            "{heard:?}"
        );
        let asked = upstream.seen();
        assert_eq!(asked.len(), 2, "{family:?}");
        // The model learns of both calls and their results.
        let again = &asked[1].body;
        assert!(again.contains("not here"), "{family:?}: {again}");
        assert!(
            again.contains("\"rm\"") && again.contains("\"look\""),
            "{again}"
        );
        check_pairs(family, &asked[1].json());
    }
}

/// Each call has a result with its id.
#[track_caller]
fn check_pairs(family: Family, request: &Value) {
    let text = request.to_string();
    let ids = |field: &str| {
        let marker = format!("\"{field}\":\"");
        let mut found: Vec<String> = text
            .split(&marker)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect();
        found.sort();
        found
    };
    match family {
        Family::Gemini => (),
        Family::Anthropic => {
            let calls: Vec<String> = ids("id")
                .into_iter()
                .filter(|id| id.starts_with("toolu"))
                .collect();
            assert_eq!(calls, ids("tool_use_id"), "{text}");
        }
        Family::Responses => assert_eq!(ids("call_id").len(), 4, "{text}"),
        Family::Chat => {
            let calls: Vec<String> = ids("id")
                .into_iter()
                .filter(|id| id.starts_with("call_"))
                .collect();
            assert_eq!(calls, ids("tool_call_id"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_call_that_hooks_rewrite_is_what_the_agent_gets() {
    let said = vec![Said::call("look", "a"), Said::call("look", "keep")];
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "x": "b" } } });
    let script = format!("grep -q keep || echo '{edit}'");
    let hooks = hook::config(&[("BeforeTool", hook::running("edit", &script))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let call = |x: &str| ("look".to_owned(), json!({ "x": x }).to_string());
        assert_eq!(
            family.heard(is_stream, &answer).calls,
            [call("b"), call("keep")],
            "{family:?}"
        );
    }
}

#[tokio::test]
async fn denied_prompts_are_answered_once_and_normally() {
    let deny = hook::config(&[("BeforeAgent", hook::refusing("guard", "not today"))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["never"])]]).await;
        let gateway = family.gateway(&upstream, &deny).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.heard(is_stream, &answer),
            heard("not today"),
            "{family:?}"
        );
        assert!(upstream.seen().is_empty());
        let seen = gateway.json("guard.json");
        assert_eq!(seen["prompt"], "hi", "{family:?}");
    }
}

#[tokio::test]
async fn a_late_denial_ends_the_answer_normally() {
    let said = vec![Said::text(&["one ", "two ", "three"])];
    let script = "grep -q '\"two ' && { echo enough >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("AfterModel", hook::running("guard", script))]);
    for family in ALL.iter().copied() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
        let heard = family.heard(true, &answer);
        assert!(
            heard.text.starts_with("one ") && heard.text.contains("enough"),
            "{family:?}: {heard:?}"
        );
        assert!(
            !heard.text.contains("two") && !heard.text.contains("three"),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn hooks_answer_in_the_form_of_the_api() {
    let answer = json!({ "candidates": [{ "content": { "parts": ["from a hook"] } }] });
    let hooks = hook::config(&[(
        "BeforeModel",
        hook::saying("answer", &hook::response(&answer)),
    )]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["never"])]]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(
            family.heard(is_stream, &answer),
            heard("from a hook"),
            "{family:?}"
        );
        assert!(upstream.seen().is_empty());
    }
}

#[tokio::test]
async fn hooks_change_every_chunk_and_the_whole() {
    let said = vec![Said::text(&["a", "b"])];
    let edit = json!({ "candidates": [{ "content": { "parts": ["X"] } }] });
    let hooks = hook::config(&[("AfterModel", hook::saying("edit", &hook::response(&edit)))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let expected = if is_stream { "XX" } else { "X" };
        assert_eq!(
            family.heard(is_stream, &answer),
            heard(expected),
            "{family:?}"
        );
    }
}

#[tokio::test]
async fn hooks_and_policies_choose_another_model_and_fewer_tools() {
    let config = "policies:
  - { policy: model_swap, swap: { m: other } }
  - { policy: tool_guard, allow: [look] }
";
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["ok"])]]).await;
        let gateway = family.gateway(&upstream, config).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(family.heard(is_stream, &answer), heard("ok"));
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(family.model(&asked), "other", "{family:?}");
        assert_eq!(family.tools(&asked), ["look"], "{family:?}");
    }
}

#[tokio::test]
async fn a_selection_of_tools_binds_the_answer() {
    let selection = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": ["look"] }));
    let hooks = hook::config(&[("BeforeToolSelection", hook::saying("select", &selection))]);
    let first = vec![Said::call("rm", "/")];
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![first.clone(), vec![Said::text(&["ok"])]])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let heard = family.heard(is_stream, &answer);
        assert_eq!(heard.calls, [], "{family:?}: {heard:?}");
        let asked = upstream.seen().remove(0);
        assert_eq!(family.tools(&asked), ["look"], "{family:?}");
    }
}

#[tokio::test]
async fn the_stable_form_is_the_same_for_all() {
    let hooks = hook::config(&[("BeforeModel", hook::saying("see", &json!({})))]);
    let turns = [Turn::User("one"), Turn::Model("two"), Turn::User("three")];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["ok"])]]).await;
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
async fn a_conversation_keeps_its_session_and_tools_their_events() {
    let record = "cat >> events.jsonl; echo >> events.jsonl";
    let hooks = hook::config(&[
        ("SessionStart", hook::running("start", record)),
        ("BeforeAgent", hook::running("prompt", record)),
        ("AfterTool", hook::running("tool", record)),
    ]);
    let answers = vec![
        vec![Said::call("look", "a")],
        vec![Said::text(&["done"])],
        vec![Said::text(&["bye"])],
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
            .filter(|it| !it.is_empty())
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        let names: Vec<&str> = seen
            .iter()
            .map(|it| it["hook_event_name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["SessionStart", "BeforeAgent", "AfterTool", "BeforeAgent"],
            "{family:?}"
        );
        let sessions: std::collections::BTreeSet<String> =
            seen.iter().map(|it| it["session_id"].to_string()).collect();
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
async fn a_hidden_result_stays_hidden_for_ten_turns() {
    let script = "grep -q secret && { echo hidden by policy >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("AfterTool", hook::running("guard", script))]);
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![
                vec![Said::call("look", "a")],
                vec![Said::text(&["done"])],
            ])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let mut turns = vec![Turn::User("one")];
        family.ask(&gateway, is_stream, &turns).await;
        turns.extend([Turn::Call("look", "a"), Turn::Result("look", "the secret")]);
        for _ in 0..10 {
            let answer = family.ask(&gateway, is_stream, &turns).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let asked = upstream.seen().pop().unwrap().body;
            assert!(
                !asked.contains("the secret") && asked.contains("hidden by policy"),
                "{family:?}: {asked}"
            );
            turns.extend([Turn::Model("done"), Turn::User("go on")]);
        }
    }
}

#[tokio::test]
async fn a_body_that_parsers_read_differently_is_refused_in_the_form_of_the_api() {
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["never"])]]).await;
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
        assert!(upstream.seen().is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_complete_for_the_agent() {
    let quiet = hook::config(&[("AfterModel", hook::running("quiet", "cat > /dev/null"))]);
    let ends = |family: &Family| matches!(family, Family::Anthropic | Family::Responses);
    for family in ALL.iter().copied().filter(ends) {
        let said = [Said::text(&["hel", "lo"])];
        let whole = family.events(&said);
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
