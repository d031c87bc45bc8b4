//! Hooks of Claude Code and Codex on every API.

use serde_json::{Value, json};

use super::family::{Family, Said, Turn, each};
use crate::harness::{TestGateway, Upstream};

/// A gateway with one hook of Claude Code, for which both tools of the agent are shells.
async fn gate(family: Family, upstream: &Upstream, event: &str, output: &Value) -> TestGateway {
    let command = format!("cat > seen.json; echo '{output}'");
    let hook = json!({ "type": "command", "command": command });
    let hooks = json!({ event: [{ "matcher": "Bash", "hooks": [hook] }] });
    let settings = json!({ "hooks": hooks }).to_string();
    let config = "tool_names: { rm: Bash, look: Bash }\n\
        hook_files: [{ path: settings.json, protocol: claude }]\n";
    let files = [("settings.json", &*settings)];
    family.gateway_with_files(upstream, config, &files).await
}

#[tokio::test]
async fn a_permission_of_deny_holds() {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "not here",
    }});
    let answers = [vec![Said::call("rm", "a")], vec![Said::text(&["all good"])]];
    for (family, is_stream) in each() {
        let upstream = family.upstream(answers.to_vec()).await;
        let gate = gate(family, &upstream, "PreToolUse", &output).await;

        let answer = family.ask(&gate, is_stream, &[Turn::User("hi")]).await;

        let heard = family.heard(is_stream, &answer);
        assert_eq!(heard.calls, [], "{family:?}");
        assert!(heard.text.ends_with("all good"), "{family:?}: {heard:?}");
        let again = &upstream.seen()[1].body;
        assert!(again.contains("not here"), "{family:?}: {again}");
        let seen = gate.json("seen.json");
        assert_eq!(seen["tool_name"], "Bash", "{family:?}");
        assert_eq!(seen["tool_input"]["x"], "a", "{family:?}");
    }
}

#[tokio::test]
async fn an_updated_input_is_what_the_agent_runs() {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": { "x": "b" },
    }});
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::call("rm", "a")]]).await;
        let gate = gate(family, &upstream, "PreToolUse", &output).await;

        let answer = family.ask(&gate, is_stream, &[Turn::User("hi")]).await;

        let heard = family.heard(is_stream, &answer);
        let expected = ("rm".to_owned(), json!({ "x": "b" }).to_string());
        assert_eq!(heard.calls, [expected], "{family:?}");
        assert!(heard.wants_tools, "{family:?}");
    }
}

#[tokio::test]
async fn an_updated_output_reaches_the_model() {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PostToolUse",
        "updatedToolOutput": "KEY=***",
    }});
    let turns = [
        Turn::User("hi"),
        Turn::Call("look", "a"),
        Turn::Result("look", "KEY=1"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Said::text(&["ok"])]]).await;
        let gate = gate(family, &upstream, "PostToolUse", &output).await;

        let answer = family.ask(&gate, is_stream, &turns).await;

        assert_eq!(family.heard(is_stream, &answer).text, "ok", "{family:?}");
        // As if the tool itself had said it.
        let said = family.request(
            is_stream,
            &[turns[0], turns[1], Turn::Result("look", "KEY=***")],
        );
        assert_eq!(upstream.only().json(), said, "{family:?}");
        assert_eq!(gate.json("seen.json")["tool_name"], "Bash", "{family:?}");
    }
}
