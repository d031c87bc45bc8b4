//! What holds on every API family whatever hooks print, and where nothing of a call may
//! turn up.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::family::{Family, Said, Turn, each};
use crate::harness::{Agent, Served, hook, serving};

/// Everything that a hook could print to change something, and failures.
fn meddling() -> Vec<Value> {
    let edits = json!({ "decision": "deny", "reason": "no", "continue": false,
    "systemMessage": "look", "hookSpecificOutput": {
        "llm_request": { "model": "other", "config": { "temperature": 0 },
            "messages": [{ "role": "user", "content": "new" }] },
        "llm_response": { "text": "new" },
        "toolConfig": { "mode": "NONE" },
        "tool_input": { "x": "new" },
    } });
    let hooks = [
        hook::saying("all", &edits),
        hook::refusing("guard", "no"),
        hook::running("broken", "exit 1"),
        hook::running("late", "exec sleep 60"),
    ];
    hooks
        .into_iter()
        .map(|mut hook| {
            hook["mode"] = json!("observe");
            hook["on_failure"] = json!("closed");
            hook["timeout"] = json!(if hook["name"] == "late" { 50 } else { 20_000 });
            hook
        })
        .collect()
}

#[tokio::test]
async fn hooks_that_observe_change_no_byte() {
    let said = vec![Said::text(&["hel", "lo"]), Said::call("look", "a")];
    let group = json!([{ "hooks": meddling() }]);
    let events = [
        "BeforeModel",
        "BeforeToolSelection",
        "AfterModel",
        "BeforeTool",
        "AfterTool",
    ];
    let hooks: Value = events
        .map(|it| (it.to_owned(), group.clone()))
        .into_iter()
        .collect();
    let turns = [
        Turn::User("hi"),
        Turn::Call("look", "a"),
        Turn::Result("look", "b"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let plain = family.gateway(&upstream, "").await;
        let expected = family.ask(&plain, is_stream, &turns).await;
        let gateway = family.gateway(&upstream, &format!("hooks: {hooks}")).await;
        let observed = family.ask(&gateway, is_stream, &turns).await;
        let seen = upstream.seen();
        assert_eq!(seen[0].body, seen[1].body, "{family:?}");
        let data = |text: &str| {
            let lines = text.lines().filter(|line| !line.is_empty());
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(data(observed.text()), data(expected.text()), "{family:?}");
        assert!(!gateway.file("all.json").is_empty());
    }
}

/// The header in which an agent sends its key.
const fn key_header(family: Family) -> &'static str {
    match family {
        Family::Gemini => "x-goog-api-key",
        Family::Anthropic => "x-api-key",
        Family::Responses | Family::Chat => "authorization",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_call_is_in_the_log_or_on_a_page() {
    let said = vec![
        Said::text(&["CANARY-answer ", "CANARY-more"]),
        Said::call("look", "CANARY-argument"),
    ];
    let turns = [
        Turn::User("CANARY-prompt"),
        Turn::Call("look", "CANARY-earlier"),
        Turn::Result("look", "CANARY-result"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![said.clone()]).await;
        let folder = TempDir::new().unwrap();
        let name = match family {
            Family::Gemini => "gemini",
            Family::Anthropic => "anthropic",
            Family::Responses | Family::Chat => "openai",
        };
        let config = format!(
            "upstreams: {{ {name}: {{ url: \"http://{}\" }} }}
log: {{ level: trace }}
audit: {{ path: audit.jsonl }}
policies: [{{ policy: redact }}, {{ policy: tool_guard, deny: [rm] }}]
hooks: {{ AfterModel: [{{ hooks: [{{ name: quiet, command: cat > /dev/null }}] }}] }}
",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut gateway = Served::start(serving(folder.path()));
        let key = "Bearer CANARY-key";
        let agent = Agent::at(gateway.addr()).sending(key_header(family), key);
        let body = family.request(is_stream, &turns).to_string();
        let answer = agent.post(family.path(is_stream), body).await;
        assert!(answer.text().contains("CANARY-answer"), "{}", answer.text());
        assert_eq!(upstream.seen()[0].header(key_header(family)), key);

        let operator = Agent::at(gateway.operators());
        let calls = operator.get("/calls").await;
        let id = calls.json()["calls"][0]["id"].as_str().map(str::to_owned);
        let mut pages = vec![calls.text().to_owned()];
        for path in ["/metrics", "/sessions", "/coverage", "/hooks"] {
            pages.push(operator.get(path).await.text().to_owned());
        }
        if let Some(id) = id {
            pages.push(
                operator
                    .get(&format!("/calls/{id}"))
                    .await
                    .text()
                    .to_owned(),
            );
        }
        gateway.terminate();
        let (_, log) = gateway.ended(Duration::from_secs(20));
        pages.push(log);
        pages.push(fs::read_to_string(folder.path().join("audit.jsonl")).unwrap());
        for page in pages {
            assert!(!page.contains("CANARY"), "{family:?}: {page}");
        }
    }
}
