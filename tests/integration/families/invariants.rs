//! Invariants on every API family: hooks in observe mode change nothing, and logs and admin pages
//! contain no content.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::family::{Family, Part, Turn, each};
use crate::harness::{Agent, ServerProcess, hook, serve_command};

/// Hooks in observe mode that edit everything, deny, fail or exceed their timeout.
fn editing_and_failing_hooks() -> Vec<Value> {
    let edits = json!({ "decision": "deny", "reason": "no", "continue": false,
    "systemMessage": "look", "hookSpecificOutput": {
        "llm_request": { "model": "other", "config": { "temperature": 0 },
            "messages": [{ "role": "user", "content": "new" }] },
        "llm_response": { "text": "new" },
        "toolConfig": { "mode": "NONE" },
        "tool_input": { "x": "new" },
    } });
    let hooks = [
        hook::printing("all", &edits),
        hook::denying("guard", "no"),
        hook::command("broken", "exit 1"),
        hook::command("late", "exec sleep 60"),
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
async fn hooks_in_observe_mode_change_no_byte() {
    let parts = vec![Part::text(&["hel", "lo"]), Part::call("look", "a")];
    let group = json!([{ "hooks": editing_and_failing_hooks() }]);
    let events = [
        "BeforeModel",
        "BeforeToolSelection",
        "AfterModel",
        "BeforeTool",
        "AfterTool",
    ];
    let hooks: Value = events
        .map(|event| (event.to_owned(), group.clone()))
        .into_iter()
        .collect();
    let turns = [
        Turn::User("hi"),
        Turn::Call("look", "a"),
        Turn::Result("look", "b"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let plain = family.gateway(&upstream, "").await;
        let expected = family.ask(&plain, is_stream, &turns).await;
        let gateway = family.gateway(&upstream, &format!("hooks: {hooks}")).await;
        let observed = family.ask(&gateway, is_stream, &turns).await;
        let seen = upstream.requests();
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
async fn logs_and_admin_pages_contain_no_content_of_a_call() {
    let parts = vec![
        Part::text(&["CANARY-answer ", "CANARY-more"]),
        Part::call("look", "CANARY-argument"),
    ];
    let turns = [
        Turn::User("CANARY-prompt"),
        Turn::Call("look", "CANARY-earlier"),
        Turn::Result("look", "CANARY-result"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
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
        let mut gateway = ServerProcess::start(serve_command(folder.path()));
        let key = "Bearer CANARY-key";
        let agent = Agent::at(gateway.addr()).sending(key_header(family), key);
        let body = family.request(is_stream, &turns).to_string();
        let answer = agent.post(family.path(is_stream), body).await;
        assert!(answer.text().contains("CANARY-answer"), "{}", answer.text());
        assert_eq!(upstream.requests()[0].header(key_header(family)), key);

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
