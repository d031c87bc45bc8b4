//! End of a shadow: time limit, reload, and a config that cannot be loaded.

use super::{AMPLE_BUDGET, ShadowGateway, config_with_shadow, evaluated_calls, make_calls};
use crate::{
    families::family::ALL,
    harness::{TEST_TIMEOUT, eventually},
    replay::{
        changes::base,
        conversations::{Call, Topic},
    },
};

fn few_calls() -> Vec<Call> {
    Call::every().into_iter().take(4).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_ends_at_its_time_limit_and_keeps_its_report() {
    let shadow = format!("sample: 1, until: 2s, {AMPLE_BUDGET}");
    let gateway = ShadowGateway::start(&base(), &base(), &shadow).await;

    make_calls(&gateway.agent, &few_calls()).await;
    let status = gateway
        .wait_until("an end", |status| status["state"] == "ended")
        .await;
    make_calls(&gateway.agent, &few_calls()).await;

    assert_eq!(status["reason"], "until", "{status:#}");
    assert_eq!(evaluated_calls(&gateway.status().await), 4);
    let ends = "hookgate_shadow_ends_total{reason=\"until\"}";
    assert_eq!(gateway.operator.metric(ends).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_calls_after_a_start_are_evaluated() {
    let shadow = format!("sample: 1, {AMPLE_BUDGET}");
    let gateway = ShadowGateway::launch(&base(), &base(), &shadow).await;

    make_calls(&gateway.agent, &few_calls()).await;
    let status = gateway.wait_until_evaluated(4).await;

    assert_eq!(status["dropped"], 0, "{status:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_evaluation_is_interrupted_counts_as_dropped() {
    let hook = "hooks:\n  BeforeTool: [{ hooks: [{ name: slow, \
                command: \"touch started; sleep 60\", shadow: true }] }]\n";
    let next = format!("{}{hook}", base());
    let gateway = ShadowGateway::start(&base(), &next, &format!("sample: 1, {AMPLE_BUDGET}")).await;
    let started = gateway.folder.path().join("started");

    make_calls(
        &gateway.agent,
        &[Call::single(ALL[0], true, Topic::Look, "ci")],
    )
    .await;
    eventually("the hook is started", 10 * TEST_TIMEOUT, || {
        started.exists()
    })
    .await;
    let ended = gateway.end_shadow().await;

    assert_eq!(
        (evaluated_calls(&ended), &ended["dropped"]),
        (0, &1.into()),
        "{ended:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_keeps_a_shadow_until_one_of_its_configs_changes() {
    let shadow = format!("sample: 1, {AMPLE_BUDGET}");
    let gateway = ShadowGateway::start(&base(), &base(), &shadow).await;
    make_calls(&gateway.agent, &few_calls()).await;
    gateway.wait_until_evaluated(4).await;

    // Nothing has changed.
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    make_calls(&gateway.agent, &few_calls()).await;
    let first = gateway.wait_until_evaluated(8).await;

    // The shadow's config changes.
    gateway.write_config("next.yaml", &base().replace("deny: [rm]", "deny: [look]"));
    let second = gateway.wait_until("the other config", |status| {
        status["state"] == "running" && status["to"] != first["to"]
    });
    let second = second.await;
    assert_eq!(evaluated_calls(&second), 0);

    // The config in use changes.
    let live = base().replace("deny: [rm]", "deny: [rm, mv]");
    gateway.write_config("hookgate.yaml", &config_with_shadow(&live, &shadow));
    let third = gateway.wait_until("another config in use", |status| {
        status["state"] == "running" && status["from"] != second["from"]
    });
    let third = third.await;
    assert_eq!(
        (&third["to"], &second["from"]),
        (&second["to"], &first["from"])
    );

    // The shadow is removed from the config.
    gateway.write_config("hookgate.yaml", &config_with_shadow(&live, ""));
    let status = gateway
        .wait_until("an end", |status| status["state"] == "ended")
        .await;
    assert_eq!(status["reason"], "reload");
    let ends = "hookgate_shadow_ends_total{reason=\"reload\"}";
    assert_eq!(gateway.operator.metric(ends).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_with_an_invalid_config_ends_as_failed() {
    let gateway =
        ShadowGateway::start(&base(), "policies: [{ policy: none }]\n", "sample: 1").await;

    make_calls(&gateway.agent, &few_calls()).await;
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
    let page = gateway.operator.get("/console/changes").await;
    let page = page.text();
    assert!(
        page.contains("The shadow of the config cannot be started"),
        "{page}"
    );
    assert!(page.contains("not `none`"), "{page}");

    // The shadow is removed from the config.
    gateway.write_config("hookgate.yaml", &config_with_shadow(&base(), ""));
    gateway
        .wait_until("end of the failure", |status| status["state"] == "none")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_starts_the_shadow_of_the_config_again_after_that_of_an_operator() {
    let shadow = format!("sample: 1, {AMPLE_BUDGET}");
    let gateway = ShadowGateway::start(&base(), &base(), &shadow).await;
    let config = std::fs::read_to_string(gateway.folder.path().join("next.yaml")).unwrap();
    let posted = gateway.operator.post("/shadow?sample=0.5", config).await;
    assert_eq!(posted.json()["replaces_config"], true);

    // A reload that changes nothing keeps it, and one behind another.
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    assert_eq!(gateway.end_shadow().await["sample"], 0.5);
    let config = std::fs::read_to_string(gateway.folder.path().join("next.yaml")).unwrap();
    let posted = gateway.operator.post("/shadow?sample=0.25", config).await;
    assert_eq!(posted.status, 200, "{}", posted.text());
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    let ended = gateway.end_shadow().await;
    assert_eq!(
        (&ended["sample"], &ended["reason"]),
        (&0.25.into(), &"operator".into())
    );
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);

    gateway
        .wait_until("shadow of the config", |status| {
            status["state"] == "running" && status["sample"] == 1.0
        })
        .await;

    // One that an operator has ended was not replaced.
    gateway.end_shadow().await;
    let config = std::fs::read_to_string(gateway.folder.path().join("next.yaml")).unwrap();
    let posted = gateway.operator.post("/shadow?sample=0.5", config).await;
    assert_eq!(posted.json().get("replaces_config"), None);
    gateway.end_shadow().await;
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    let reloaded = gateway.status().await;
    assert_eq!(
        (&reloaded["state"], &reloaded["sample"]),
        (&"ended".into(), &0.5.into())
    );
}
