//! The same config decides as it did: streams, denied tools, masks at cuts, resumed and forked
//! sessions, in every dialect.

use serde_json::Value;

use super::{
    changes::base,
    conversations::{Call, sessions},
    recorded::Recorded,
};

/// Hooks on all events of a session; their outputs are recorded.
const HOOKS: &str = "hooks:
  SessionStart: [{ hooks: [{ name: start, command: \"cat > /dev/null; echo '{\\\"hookSpecificOutput\\\":{\\\"additionalContext\\\":\\\"remember\\\"}}'\" }] }]
  BeforeAgent: [{ hooks: [{ name: agent, command: cat > /dev/null }] }]
  BeforeTool: [{ hooks: [{ name: tool, command: cat > /dev/null }] }]
  AfterTool: [{ hooks: [{ name: result, command: \"cat > /dev/null; echo '{\\\"decision\\\":\\\"deny\\\",\\\"reason\\\":\\\"hidden\\\"}'\" }] }]
";

#[track_caller]
fn assert_unchanged(report: &Value, calls: usize) {
    let counts = &report["counts"];
    assert_eq!(counts["calls"], calls, "{report:#}");
    assert_eq!(counts["unchanged"], calls, "{report:#}");
    assert_eq!(report["samples"], serde_json::json!({}), "{report:#}");
    assert_eq!(report["damaged"]["count"], 0, "{report:#}");
}

/// How often everything is recorded; `HOOKGATE_REPLAYS=60` makes more than 10,000 calls.
fn repetitions() -> usize {
    let number = std::env::var("HOOKGATE_REPLAYS").ok();
    number.map_or(1, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorded_config_changes_nothing() {
    let mut calls = Vec::new();
    for number in 0..repetitions() {
        for mut call in Call::every().into_iter().chain(sessions()) {
            for (_, text) in &mut call.turns {
                text.insert_str(0, &format!("{number} "));
            }
            if !call.session.is_empty() {
                call.session = format!("{number}{}", call.session);
            }
            calls.push(call);
        }
    }
    let count = calls.len();

    let recorded = Recorded::of(&base(), calls).await;

    assert_unchanged(&recorded.report("base.yaml", &[]), count);
    assert_unchanged(
        &recorded.report("base.yaml", &["--against", "base.yaml"]),
        count,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_hooks_answer_as_they_did() {
    let config = format!("{}{HOOKS}", base());
    let calls = sessions();
    let count = calls.len();

    let recorded = Recorded::of(&config, calls).await;

    assert_unchanged(
        &recorded.report("base.yaml", &["--hooks", "recorded"]),
        count,
    );
    assert_unchanged(&recorded.report("base.yaml", &[]), count);
}
