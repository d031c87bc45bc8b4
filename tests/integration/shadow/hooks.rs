//! Hooks of the shadow's config: only those that say so run.

use super::{AMPLE, Shadowed, make};
use crate::{
    families::family::ALL,
    replay::{
        changes::base,
        conversations::{Call, Topic},
    },
};

/// A hook that denies tools, and leaves a file behind.
fn hook(name: &str, more: &str) -> String {
    format!(
        "hooks:\n  BeforeTool: [{{ hooks: [{{ name: {name}, command: \"touch {name}; echo no >&2; exit 2\"{more} }}] }}]\n"
    )
}

fn calls() -> Vec<Call> {
    let calls = ALL
        .iter()
        .map(|family| Call::single(*family, true, Topic::Look, "ci"));
    calls.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_starts_for_a_hook_that_does_not_ask_for_it() {
    let next = format!("{}{}", base(), hook("other", ""));
    let gateway = Shadowed::start(&base(), &next, &format!("sample: 1, {AMPLE}")).await;

    make(&gateway.agent, &calls()).await;
    let status = gateway.until_judged(calls().len()).await;

    assert_eq!(status["report"]["counts"]["newly_denied"], 0, "{status:#}");
    let (folder, ..) = gateway.stop();
    assert!(!folder.path().join("other").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_with_shadow_true_runs_and_a_live_one_answers_as_it_did() {
    let live = format!("{}{}", base(), hook("same", ""));
    let gateway = Shadowed::start(&live, &live, &format!("sample: 1, {AMPLE}")).await;
    make(&gateway.agent, &calls()).await;
    let status = gateway.until_judged(calls().len()).await;
    assert_eq!(
        status["report"]["counts"]["unchanged"],
        calls().len(),
        "{status:#}"
    );
    drop(gateway);

    let next = format!("{}{}", base(), hook("other", ", shadow: true"));
    let gateway = Shadowed::start(&base(), &next, &format!("sample: 1, {AMPLE}")).await;
    make(&gateway.agent, &calls()).await;
    let status = gateway.until_judged(calls().len()).await;
    assert_eq!(
        status["report"]["counts"]["newly_denied"],
        calls().len(),
        "{status:#}"
    );
    assert!(gateway.folder.path().join("other").exists());
    let (folder, ..) = gateway.stop();

    // In a replay, it does not run.
    std::fs::remove_file(folder.path().join("other")).unwrap();
    let arguments = ["replay", "--config", "next.yaml", "recordings"];
    let (code, _, err) = crate::harness::run(&arguments, folder.path());
    assert_eq!(code, 0, "{err}");
    assert!(!folder.path().join("other").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_that_is_posted_runs_no_hook() {
    let gateway = Shadowed::start(&base(), &base(), "").await;
    let next = format!("{}{}", base(), hook("posted", ", shadow: true"));
    gateway.write("posted.yaml", &next);
    let text = std::fs::read_to_string(gateway.folder.path().join("posted.yaml")).unwrap();

    let started = gateway.operator.post("/shadow?sample=1", text).await;
    assert_eq!(started.status, 200, "{}", started.text());
    make(&gateway.agent, &calls()).await;
    gateway.until_judged(calls().len()).await;

    assert!(!gateway.folder.path().join("posted").exists());
}
