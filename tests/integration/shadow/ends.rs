//! Ends of a shadow: its time, a reload, a config that cannot be loaded.

use super::{AMPLE, Shadowed, judged, make, with};
use crate::replay::{changes::base, conversations::Call};

fn few() -> Vec<Call> {
    Call::every().into_iter().take(4).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_ends_after_its_time_and_keeps_its_report() {
    let shadow = format!("sample: 1, until: 2s, {AMPLE}");
    let gateway = Shadowed::start(&base(), &base(), &shadow).await;

    make(&gateway.agent, &few()).await;
    let status = gateway
        .until("an end", |status| status["state"] == "ended")
        .await;
    make(&gateway.agent, &few()).await;

    assert_eq!(status["reason"], "until", "{status:#}");
    assert_eq!(judged(&gateway.status().await), 4);
    let ends = "hookgate_shadow_ends_total{reason=\"until\"}";
    assert_eq!(gateway.operator.metric(ends).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_keeps_a_shadow_until_one_of_its_configs_changes() {
    let shadow = format!("sample: 1, {AMPLE}");
    let gateway = Shadowed::start(&base(), &base(), &shadow).await;
    make(&gateway.agent, &few()).await;
    gateway.until_judged(4).await;

    // Nothing has changed.
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    make(&gateway.agent, &few()).await;
    let first = gateway.until_judged(8).await;

    // The shadow's config changes.
    gateway.write("next.yaml", &base().replace("deny: [rm]", "deny: [look]"));
    let second = gateway.until("the other config", |status| {
        status["state"] == "running" && status["to"] != first["to"]
    });
    let second = second.await;
    assert_eq!(judged(&second), 0);

    // The config in use changes.
    let live = base().replace("deny: [rm]", "deny: [rm, mv]");
    gateway.write("hookgate.yaml", &with(&live, &shadow));
    let third = gateway.until("another config in use", |status| {
        status["state"] == "running" && status["from"] != second["from"]
    });
    let third = third.await;
    assert_eq!(
        (&third["to"], &second["from"]),
        (&second["to"], &first["from"])
    );

    // The config has no shadow any more.
    gateway.write("hookgate.yaml", &with(&live, ""));
    let status = gateway
        .until("an end", |status| status["state"] == "ended")
        .await;
    assert_eq!(status["reason"], "reload");
    let ends = "hookgate_shadow_ends_total{reason=\"reload\"}";
    assert_eq!(gateway.operator.metric(ends).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_that_cannot_be_loaded_hurts_no_call() {
    let gateway = Shadowed::start(&base(), "policies: [{ policy: none }]\n", "sample: 1").await;

    make(&gateway.agent, &few()).await;
    let status = gateway.status().await;

    assert_eq!(
        (&status["state"], &status["reason"]),
        (&"ended".into(), &"failed".into())
    );
    let error = status["error"].as_str().unwrap();
    assert!(
        error.contains("next.yaml") && error.contains("none"),
        "{error}"
    );
}
