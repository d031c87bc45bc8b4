//! Workers of the docs and of `config/examples`.

use serde_json::json;

use crate::{
    harness::{TestGateway, Upstream, prompt},
    transports::config,
};

fn is_installed(interpreter: &str) -> bool {
    let mut version = std::process::Command::new(interpreter);
    let version = version.arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// A gateway with an example worker, if its interpreter is installed.
async fn example(event: &str, interpreter: &str, file: &str) -> Option<(Upstream, TestGateway)> {
    if !is_installed(interpreter) {
        return None;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples");
    let hook = json!({ "type": "worker", "command": format!("{folder}/hooks/{file}") });
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &config(event, &hook)).await;
    Some((upstream, gate))
}

#[tokio::test]
async fn the_documented_example_denies_shell_commands() {
    if !is_installed("python3") {
        return;
    }
    let manual = include_str!("../../../../docs/hooks.md");
    let (_, example) = manual.split_once("```python\nimport").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let hook = json!({ "type": "worker", "command": "python3 worker.py" });
    let files = [("worker.py", &*format!("import{example}"))];
    let upstream = Upstream::mock().await;
    let gate = TestGateway::with_files(&upstream, &config("BeforeTool", &hook), &files).await;
    let report = async |tool: &str| {
        let event = json!({ "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": {} });
        gate.agent().report(&event, "").await.json()
    };

    assert_eq!(report("run_shell_command").await["reason"], "no shell here");
    assert_eq!(report("glob").await, json!({}));
}

#[tokio::test]
async fn the_python_example_masks_email_addresses() {
    let Some((upstream, gate)) = example("BeforeModel", "python3", "mask_worker.py").await else {
        return;
    };
    let call = async |text: &str| gate.agent().generate("m", &prompt(text)).await;

    for text in ["to a.b@example.org \u{2028}ü", "no address"] {
        assert_eq!(call(text).await.status, 200);
    }

    let seen = upstream.requests();
    let masked = prompt("to [REDACTED:email] \u{2028}ü");
    assert_eq!(seen[0].json(), masked);
    assert_eq!(seen[1].json(), prompt("no address"));
}

#[tokio::test]
async fn the_javascript_example_denies_a_forced_push() {
    let Some((_upstream, gate)) = example("BeforeTool", "node", "push_worker.mjs").await else {
        return;
    };
    let report = async |command: &str| {
        let event = json!({
            "hook_event_name": "BeforeTool",
            "tool_name": "run_shell_command",
            "tool_input": { "command": command },
        });
        gate.agent().report(&event, "").await.json()
    };

    // U+2028 ends a line for some readers.
    let refused = report("echo \u{2028}; git push origin --force").await;
    let allowed = report("git push origin main").await;

    assert_eq!(refused["decision"], "deny");
    assert_eq!(refused["reason"], "no forced push");
    assert_eq!(allowed, json!({}));
}
