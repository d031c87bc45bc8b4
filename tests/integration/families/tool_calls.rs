//! Denied and edited tool calls, withheld tools and hidden results on every API.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::{
    family::{Family, Part, Turn, each},
    text_answer,
};
use crate::harness::{Upstream, hook, read_to_end, respond};

const DENY_RM: &str = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";

#[tokio::test]
async fn the_model_receives_the_denial_of_a_tool_call() {
    let first = vec![
        Part::text(&["let me ", "see"]),
        Part::call("rm", "/"),
        Part::call("look", "a"),
    ];
    let second = vec![Part::text(&["all ", "good"])];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![first.clone(), second.clone()]).await;
        let gateway = family.gateway(&upstream, DENY_RM).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed.calls, [], "{family:?}");
        assert!(!parsed.wants_tools, "{family:?}");
        assert!(
            parsed.text.contains("let me see") && parsed.text.ends_with("all good"),
            "{parsed:?}"
        );
        let asked = upstream.requests();
        assert_eq!(asked.len(), 2, "{family:?}");
        // The second request contains both calls and their results.
        let second_request = &asked[1].body;
        assert!(
            second_request.contains("not here"),
            "{family:?}: {second_request}"
        );
        assert!(
            second_request.contains("\"rm\"") && second_request.contains("\"look\""),
            "{second_request}"
        );
        assert_each_call_has_a_result(family, &asked[1].json());
    }
}

#[tokio::test]
async fn a_denial_behind_text_of_an_earlier_round_is_a_paragraph_of_its_own() {
    let first = vec![Part::text(&["let me ", "see"]), Part::call("rm", "/")];
    let hook = json!({ "command": "echo no >&2; exit 2", "when": "request.contents == 3" });
    let hooks = json!({ "BeforeModel": [{ "hooks": [hook] }] });
    let config = format!("{DENY_RM}hooks: {hooks}\n");
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![first.clone()]).await;
        let gateway = family.gateway(&upstream, &config).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed, text_answer("let me see\n\nno"), "{family:?}");
        assert_eq!(upstream.requests().len(), 1, "{family:?}");
    }
}

/// Checks that each call of a request has a result with its id.
#[track_caller]
fn assert_each_call_has_a_result(family: Family, request: &Value) {
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
async fn an_error_behind_a_denied_call_takes_the_place_of_the_answer() {
    let first = [Part::text(&["let me see"]), Part::call("rm", "/")];
    let error = json!({ "error": { "message": "overloaded", "code": 502 } });
    for family in [Family::Gemini, Family::Chat] {
        let bodies = vec![family.whole(&first).to_string(), error.to_string()];
        let upstream = without_streams(bodies).await;
        let gateway = family.gateway(&upstream, DENY_RM).await;

        let answer = family.ask(&gateway, false, &[Turn::User("hi")]).await;

        assert_eq!(answer.json(), error, "{family:?}");
        assert_eq!(upstream.requests().len(), 2, "{family:?}");
    }
}

/// A model API that sends these JSON bodies in order, also to requests for a stream.
async fn without_streams(bodies: Vec<String>) -> Upstream {
    let count = Arc::new(AtomicUsize::new(0));
    Upstream::with(move |_| {
        let index = count.fetch_add(1, Ordering::Relaxed);
        respond(200, "application/json", bodies[index].clone())
    })
    .await
}

#[tokio::test]
async fn a_whole_answer_to_a_stream_is_evaluated_and_sent_as_a_stream() {
    let parts = [
        Part::Thought(vec!["hm".to_owned()]),
        Part::text(&["let me see"]),
        Part::call("rm", "/"),
        Part::call("look", "a"),
    ];
    let denying = hook::command("deny", "grep -q rm && { echo no >&2; exit 2; }; exit 0");
    let hooks = hook::config(&[("BeforeTool", denying)]);
    for family in [Family::Gemini, Family::Anthropic, Family::Chat] {
        for config in [DENY_RM, &hooks] {
            for mode in ["", "after_model: buffered\n"] {
                let answers = [&parts[..], &[Part::text(&["all good"])]];
                let bodies = answers.map(|parts| family.whole(parts).to_string());
                let upstream = without_streams(bodies.to_vec()).await;
                let gateway = family.gateway(&upstream, &format!("{config}{mode}")).await;
                let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
                let parsed = family.parse(true, &answer);
                assert_eq!(parsed.calls, [], "{family:?}");
                assert!(parsed.text.ends_with("all good"), "{parsed:?}");
                assert_eq!(upstream.requests().len(), 2, "{family:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_agent_receives_a_tool_call_as_hooks_edited_it() {
    let parts = vec![Part::call("look", "a"), Part::call("look", "keep")];
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "x": "b" } } });
    let script = format!("grep -q keep || echo '{edit}'");
    let hooks = hook::config(&[("BeforeTool", hook::command("edit", &script))]);
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let call = |x: &str| ("look".to_owned(), json!({ "x": x }).to_string());
        assert_eq!(
            family.parse(is_stream, &answer).calls,
            [call("b"), call("keep")],
            "{family:?}"
        );
    }
}

#[tokio::test]
async fn policies_replace_the_model_and_remove_tools() {
    let config = "policies:
  - { policy: model_swap, swap: { m: other } }
  - { policy: tool_guard, allow: [look] }
";
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
        let gateway = family.gateway(&upstream, config).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_eq!(family.parse(is_stream, &answer), text_answer("ok"));
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(family.model(&asked), "other", "{family:?}");
        assert_eq!(family.tools(&asked), ["look"], "{family:?}");
    }
}

#[tokio::test]
async fn a_tool_selection_applies_to_the_request_and_the_answer() {
    let selection = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": ["look"] }));
    let hooks = hook::config(&[("BeforeToolSelection", hook::printing("select", &selection))]);
    let first = vec![Part::call("rm", "/")];
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![first.clone(), vec![Part::text(&["ok"])]])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed.calls, [], "{family:?}: {parsed:?}");
        let asked = upstream.requests().remove(0);
        assert_eq!(family.tools(&asked), ["look"], "{family:?}");
    }
}

#[tokio::test]
async fn a_failed_tool_selection_that_fails_closed_leaves_no_tool() {
    let mut broken = hook::command("select", "exit 1");
    broken["on_failure"] = json!("closed");
    let hooks = hook::config(&[("BeforeToolSelection", broken)]);
    let first = vec![Part::call("look", "a")];
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![first.clone(), vec![Part::text(&["ok"])]])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed.calls, [], "{family:?}: {parsed:?}");
        let asked = upstream.requests().remove(0).body;
        let none = match family {
            Family::Gemini => r#""functionCallingConfig":{"mode":"NONE"}"#,
            Family::Anthropic => r#""tool_choice":{"type":"none"}"#,
            Family::Responses | Family::Chat => r#""tool_choice":"none""#,
        };
        assert!(asked.contains(none), "{family:?}: {asked}");
    }
}

#[tokio::test]
async fn a_selection_applies_to_the_answer_to_a_request_without_functions() {
    let mut broken = hook::command("select", "exit 1");
    broken["on_failure"] = json!("closed");
    let hooks = hook::config(&[("BeforeToolSelection", broken)]);
    let first = vec![Part::call("rm", "/")];
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![first.clone(), vec![Part::text(&["ok"])]])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let mut body = family.request(is_stream, &[Turn::User("hi")]);
        body.as_object_mut().unwrap().shift_remove("tools");

        let answer = family.post(&gateway, is_stream, body.to_string()).await;

        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed.calls, [], "{family:?}: {parsed:?}");
    }
}

#[tokio::test]
async fn a_hidden_tool_result_remains_hidden_for_ten_turns() {
    let script = "grep -q secret && { echo hidden by policy >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("AfterTool", hook::command("guard", script))]);
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![
                vec![Part::call("look", "a")],
                vec![Part::text(&["done"])],
            ])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let mut turns = vec![Turn::User("one")];
        family.ask(&gateway, is_stream, &turns).await;
        turns.extend([Turn::Call("look", "a"), Turn::Result("look", "the secret")]);
        for _ in 0..10 {
            let answer = family.ask(&gateway, is_stream, &turns).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let asked = upstream.requests().pop().unwrap().body;
            assert!(
                !asked.contains("the secret") && asked.contains("hidden by policy"),
                "{family:?}: {asked}"
            );
            turns.extend([Turn::Model("done"), Turn::User("go on")]);
        }
    }
}

#[tokio::test]
async fn the_type_of_an_unknown_event_cannot_begin_another_event() {
    let lines = ["\n\nevent: injected\ndata: {}\n\n", "\revent: injected\r\r"];
    for family in [Family::Anthropic, Family::Responses] {
        for line in lines {
            let events = family.events(&[Part::text(&["hello"])]);
            let (first, rest) = events.split_once("\n\n").unwrap();
            let unknown = json!({ "type": format!("x{line}event: x") });
            let events = format!("{first}\n\ndata: {unknown}\n\n{rest}");
            let upstream =
                Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
            let gateway = family.gateway(&upstream, DENY_RM).await;
            let body = family.request(true, &[Turn::User("hi")]).to_string();
            let opened = gateway.agent().try_open(family.path(true), body).await;
            // The connection may break before the head of the response.
            let Ok(mut response) = opened else {
                continue;
            };
            let (text, _) = read_to_end(&mut response).await;
            let mut lines = text.split(['\n', '\r']);
            assert!(
                lines.all(|line| !line.starts_with("event: injected")),
                "{family:?}: {text}"
            );
        }
    }
}
