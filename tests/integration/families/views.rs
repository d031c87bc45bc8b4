//! Recorded content, `explain` and guard proofs for calls of every API.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    SECRET,
    family::{ALL, Family, Part, Turn, each},
};
use crate::{
    harness::run,
    trace::{calls, until},
};

/// Prefix of fields that only hookgate uses.
const PRIVATE_FIELD_PREFIX: &str = "hookgate";

#[tokio::test]
async fn edits_and_contents_are_shown_without_private_fields() {
    let config = "trace: { content: { denied_or_edited: true } }
policies: [{ policy: redact, detect: [aws_key] }, { policy: tool_guard, deny: [rm] }]
";
    let parts = vec![Part::text(&["the key ", SECRET]), Part::call("look", "a")];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, config).await;
        let turns = [Turn::User(SECRET), Turn::Model("yes"), Turn::User("hi")];
        let answer = family.ask(&gateway, is_stream, &turns).await;
        assert_eq!(answer.status, 200, "{}", answer.text());

        let id = calls(&gateway, "", 1).await["calls"][0]["id"].clone();
        let operator = gateway.operator();
        let call_path = format!("/calls/{}", id.as_str().unwrap());
        let call = until(&operator, &call_path, |found| found["has_content"] == true).await;
        let content_path = format!("{call_path}/content?reason=ticket+7");
        let content = operator.get(&content_path).await.json();
        let changes = &call["call"]["detail"]["request_diff"]["changes"];
        assert_eq!(
            changes[0]["pointer"], "/contents/0/parts/0/text",
            "{call:#}"
        );
        assert!(
            content.to_string().contains("[REDACTED:aws_key]"),
            "{content:#}"
        );
        for page in [&call, &content] {
            for field in ["Source", "Preceding"] {
                let name = format!("{PRIVATE_FIELD_PREFIX}{field}");
                assert!(!page.to_string().contains(&name), "{family:?}: {page:#}");
            }
        }
    }
}

fn hook_config(family: Family) -> String {
    let name = match family {
        Family::Gemini => "gemini",
        Family::Anthropic => "anthropic",
        Family::Responses | Family::Chat => "openai",
    };
    format!("upstreams: {{ {name}: {{ url: \"https://example.org\" }} }}\n")
}

#[test]
fn explain_reports_answer_and_upstream_body_on_every_api() {
    for family in ALL.iter().copied() {
        let folder = TempDir::new().unwrap();
        let config = hook_config(family)
            + "hooks: { BeforeModel: [{ hooks: [{ name: see, command: cat > /dev/null }] }] }
policies: [{ policy: redact, detect: [aws_key] }]
";
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let call = json!({
            "path": family.path(true),
            "headers": { "anthropic-version": "2023-06-01" },
            "body": family.request(true, &[Turn::User(SECRET)]),
            "answer": { "candidates": [{
                "content": { "role": "model", "parts": [{ "text": "it is fine" }] },
                "finishReason": "STOP",
            }] },
        });
        fs::write(folder.path().join("call.json"), call.to_string()).unwrap();
        let arguments = [
            "explain",
            "--config",
            "hookgate.yaml",
            "--json",
            "call.json",
        ];
        let (code, stdout, stderr) = run(&arguments, folder.path());
        assert_eq!((code, stderr.as_str()), (0, ""), "{family:?}: {stdout}");
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(report["text"], "it is fine", "{family:?}: {stdout}");
        let sent = report["upstream"][0]["body"].to_string();
        assert!(sent.contains("[REDACTED:aws_key]"), "{sent}");
    }
}

#[test]
fn guards_are_proven_with_calls_of_every_api() {
    for family in ALL.iter().copied() {
        let folder = TempDir::new().unwrap();
        let request = family.request(false, &[Turn::User("about aurora")]);
        let own_answer = family.whole(&[Part::call("rm", "/")]);
        let shared_answer = json!({ "candidates": [{
            "content": { "role": "model", "parts": [{ "functionCall": { "name": "rm", "args": {} } }] },
        }] });
        let path = family.path(false);
        let policies = json!([
            {
                "policy": "prompt_guard", "deny": ["aurora"],
                "must_deny": [{ "path": path, "request": request }],
            },
            {
                "policy": "tool_guard", "deny": ["rm"],
                "must_deny": [
                    { "path": path, "request": request, "answer": own_answer },
                    { "path": path, "request": request, "answer": shared_answer },
                ],
            },
            {
                "policy": "model_allow", "models": ["qwen/*", "m"],
                "must_allow": [{ "model": "qwen/qwen3-coder" }],
                "must_deny": [{ "model": "ft:gpt-4o:org::id" }],
            },
        ]);
        let config = hook_config(family) + &format!("policies: {policies}\n");
        fs::write(folder.path().join("c.yaml"), config).unwrap();
        let (code, stdout, stderr) = run(&["check", "--prove", "c.yaml"], folder.path());
        assert_eq!(code, 0, "{family:?}: {stdout}\n{stderr}");
    }
}
