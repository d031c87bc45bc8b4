//! Claude Code hooks on every API.

use serde_json::{Value, json};

use super::family::{Family, Part, Turn, each};
use crate::harness::{TestGateway, Upstream};

/// A gateway with one Claude Code hook, which sees both tools of the agent as `Bash`.
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
async fn a_pre_tool_use_denial_withholds_the_call_and_reaches_the_model() {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "not here",
    }});
    let answers = [vec![Part::call("rm", "a")], vec![Part::text(&["all good"])]];
    for (family, is_stream) in each() {
        let upstream = family.upstream(answers.to_vec()).await;
        let gate = gate(family, &upstream, "PreToolUse", &output).await;

        let answer = family.ask(&gate, is_stream, &[Turn::User("hi")]).await;

        let parsed = family.parse(is_stream, &answer);
        assert_eq!(parsed.calls, [], "{family:?}");
        assert!(parsed.text.ends_with("all good"), "{family:?}: {parsed:?}");
        let second_request = &upstream.requests()[1].body;
        assert!(
            second_request.contains("not here"),
            "{family:?}: {second_request}"
        );
        let seen = gate.json("seen.json");
        assert_eq!(seen["tool_name"], "Bash", "{family:?}");
        assert_eq!(seen["tool_input"]["x"], "a", "{family:?}");
    }
}

#[tokio::test]
async fn the_agent_receives_a_tool_call_with_the_updated_input() {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": { "x": "b" },
    }});
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![vec![Part::call("rm", "a")]]).await;
        let gate = gate(family, &upstream, "PreToolUse", &output).await;

        let answer = family.ask(&gate, is_stream, &[Turn::User("hi")]).await;

        let parsed = family.parse(is_stream, &answer);
        let expected = ("rm".to_owned(), json!({ "x": "b" }).to_string());
        assert_eq!(parsed.calls, [expected], "{family:?}");
        assert!(parsed.wants_tools, "{family:?}");
    }
}

#[tokio::test]
async fn the_model_receives_the_updated_tool_output() {
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
        let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
        let gate = gate(family, &upstream, "PostToolUse", &output).await;

        let answer = family.ask(&gate, is_stream, &turns).await;

        assert_eq!(family.parse(is_stream, &answer).text, "ok", "{family:?}");
        // The same request as if the tool had returned this output.
        let expected = family.request(
            is_stream,
            &[turns[0], turns[1], Turn::Result("look", "KEY=***")],
        );
        assert_eq!(upstream.only_request().json(), expected, "{family:?}");
        assert_eq!(gate.json("seen.json")["tool_name"], "Bash", "{family:?}");
    }
}

#[tokio::test]
async fn a_blocked_answer_of_which_nothing_was_sent_is_replaced() {
    let block = json!({ "decision": "block", "reason": "do better" });
    let command = format!("grep -q '\"stop_hook_active\":true' || echo '{block}'");
    let hook = json!({ "type": "command", "command": command });
    let settings = json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } }).to_string();
    let config = "after_model: buffered\nhook_files: [{ path: settings.json, protocol: claude }]\n";
    let files = [("settings.json", &*settings)];
    let answers = [
        vec![Part::text(&["dra", "ft"])],
        vec![Part::text(&["fi", "nal"])],
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(answers.to_vec()).await;
        let gate = family.gateway_with_files(&upstream, config, &files).await;

        let answer = family.ask(&gate, is_stream, &[Turn::User("hi")]).await;

        assert_eq!(family.parse(is_stream, &answer).text, "final", "{family:?}");
        assert!(!answer.text().contains("draft"), "{family:?}");
        let second_request = &upstream.requests()[1].body;
        assert!(second_request.contains("do better"), "{family:?}");
    }
}
