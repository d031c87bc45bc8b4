//! The end of prewarmed processes, at shutdown and at a reload.

use std::{collections::BTreeSet, fs, time::Instant};

use serde_json::json;

use super::{Fixture, SINGLE_PROCESS, TERMINATION_DEADLINE};
use crate::{
    harness::{TEST_TIMEOUT, Upstream, eventually, hook, processes},
    transports::{Process, complete_config},
};

/// A hook with a child, whose prewarmed process ignores SIGTERM.
const IGNORES_SIGTERM: &str = "trap '' TERM; sleep 600 & touch ready-$$; cat > /dev/null; exit 2";

#[tokio::test]
async fn prewarmed_processes_end_at_shutdown() {
    let fixture = Fixture::start(IGNORES_SIGTERM, 3).await;
    fixture.until_ready(3).await;
    let mark = fixture.mark.clone();
    assert!(processes(&mark).len() >= 6);

    let started = Instant::now();
    fixture.gate.stop().await;

    assert!(
        started.elapsed() < TERMINATION_DEADLINE,
        "{:?}",
        started.elapsed()
    );
    assert_eq!(processes(&mark), [0; 0]);
}

#[tokio::test]
async fn a_reload_ends_prewarmed_processes_of_removed_hooks_only() {
    let upstream = Upstream::mock().await;
    let mark = |name: &str| format!("HOOKGATE_MARK={name}-{}", upstream.addr);
    let prewarmed = |name: &str, command: &str| {
        let mut hook = hook::command(name, command);
        let mark = mark(name);
        hook["prewarm"] = json!(2);
        hook["env"] = json!({ "HOOKGATE_MARK": mark.split_once('=').unwrap().1 });
        ("BeforeModel", hook)
    };
    let running = |name: &str| -> BTreeSet<u32> { processes(&mark(name)).into_iter().collect() };
    let old = [
        prewarmed("stays", SINGLE_PROCESS),
        prewarmed("goes", IGNORES_SIGTERM),
    ];
    let gateway = Process::start(&upstream, &hook::config(&old), &[]);
    eventually("prewarmed processes run", TEST_TIMEOUT, || {
        running("stays").len() == 2 && running("goes").len() >= 4
    })
    .await;
    let unchanged = running("stays");

    let new = [
        prewarmed("comes", SINGLE_PROCESS),
        prewarmed("stays", SINGLE_PROCESS),
    ];
    let text = complete_config(&upstream, &hook::config(&new));
    fs::write(gateway.folder.path().join("hookgate.yaml"), text).unwrap();
    let reloaded = gateway.operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    eventually("the old processes have ended", TERMINATION_DEADLINE, || {
        running("goes").is_empty()
    })
    .await;
    eventually("the new processes run", TEST_TIMEOUT, || {
        running("comes").len() == 2
    })
    .await;
    assert_eq!(running("stays"), unchanged);

    let written = fs::write(gateway.folder.path().join("hookgate.yaml"), "hoks: {}");
    written.unwrap();
    assert_eq!(gateway.operator.post("/reload", "").await.status, 400);
    assert_eq!(running("stays"), unchanged);
    gateway.stop().await;
    assert!(running("stays").is_empty() && running("comes").is_empty());
}
