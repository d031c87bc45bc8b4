//! Hooks of the shadow's config: only those with `shadow: true` run.

use super::{AMPLE_BUDGET, ShadowGateway, make_calls};
use crate::{
    families::family::ALL,
    replay::{
        changes::base,
        conversations::{Call, Topic},
    },
};

/// Returns a config with a hook that denies tools and creates the file `name`.
fn hook_config(name: &str, fields: &str) -> String {
    format!(
        "hooks:\n  BeforeTool: [{{ hooks: [{{ name: {name}, command: \"touch {name}; echo no >&2; exit 2\"{fields} }}] }}]\n"
    )
}

fn calls() -> Vec<Call> {
    let calls = ALL
        .iter()
        .map(|family| Call::single(*family, true, Topic::Look, "ci"));
    calls.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_without_shadow_true_does_not_run() {
    let next = format!("{}{}", base(), hook_config("other", ""));
    let gateway = ShadowGateway::start(&base(), &next, &format!("sample: 1, {AMPLE_BUDGET}")).await;

    make_calls(&gateway.agent, &calls()).await;
    let status = gateway.wait_until_evaluated(calls().len()).await;

    assert_eq!(status["report"]["counts"]["newly_denied"], 0, "{status:#}");
    let (folder, ..) = gateway.stop();
    assert!(!folder.path().join("other").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_with_shadow_true_runs_and_outputs_of_live_hooks_are_reused() {
    let live = format!("{}{}", base(), hook_config("same", ""));
    let gateway = ShadowGateway::start(&live, &live, &format!("sample: 1, {AMPLE_BUDGET}")).await;
    make_calls(&gateway.agent, &calls()).await;
    let status = gateway.wait_until_evaluated(calls().len()).await;
    assert_eq!(
        status["report"]["counts"]["unchanged"],
        calls().len(),
        "{status:#}"
    );
    drop(gateway);

    let next = format!("{}{}", base(), hook_config("other", ", shadow: true"));
    let gateway = ShadowGateway::start(&base(), &next, &format!("sample: 1, {AMPLE_BUDGET}")).await;
    make_calls(&gateway.agent, &calls()).await;
    let status = gateway.wait_until_evaluated(calls().len()).await;
    assert_eq!(
        status["report"]["counts"]["newly_denied"],
        calls().len(),
        "{status:#}"
    );
    assert!(gateway.folder.path().join("other").exists());
    let (folder, ..) = gateway.stop();

    // The hook does not run in a replay.
    std::fs::remove_file(folder.path().join("other")).unwrap();
    let arguments = ["replay", "--config", "next.yaml", "recordings"];
    let (code, _, err) = crate::harness::run(&arguments, folder.path());
    assert_eq!(code, 0, "{err}");
    assert!(!folder.path().join("other").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_posted_shadow_config_runs_no_hook() {
    let gateway = ShadowGateway::start(&base(), &base(), "").await;
    let next = format!("{}{}", base(), hook_config("posted", ", shadow: true"));
    gateway.write_config("posted.yaml", &next);
    let text = std::fs::read_to_string(gateway.folder.path().join("posted.yaml")).unwrap();

    let started = gateway.operator.post("/shadow?sample=1", text).await;
    assert_eq!(started.status, 200, "{}", started.text());
    make_calls(&gateway.agent, &calls()).await;
    gateway.wait_until_evaluated(calls().len()).await;

    assert!(!gateway.folder.path().join("posted").exists());
}
