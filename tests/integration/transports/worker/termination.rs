//! Termination of workers when the gateway shuts down.

use serde_json::json;

use super::{Fixture, worker};
use crate::harness::{TEST_TIMEOUT, eventually, processes, prompt};

#[tokio::test]
async fn shutdown_lets_workers_finish() {
    let finish = "sleep 0.1; echo bye > bye";
    let hook = json!({ "command": worker("answer '{}'", finish), "instances": 2 });
    let fixture = Fixture::with(hook, "").await;
    fixture.call().await;
    // The gateway's own folder is deleted when it stops.
    let folder = tempfile::tempdir().unwrap();
    let bye = folder.path().join("bye");
    std::os::unix::fs::symlink(&bye, fixture.gate.path("bye")).unwrap();

    fixture.gate.stop().await;

    assert!(processes(&fixture.mark).is_empty());
    assert_eq!(std::fs::read_to_string(bye).unwrap(), "bye\n");
}

#[tokio::test]
async fn shutdown_kills_a_worker_that_ignores_sigterm() {
    let ignore_sigterm = "trap '' TERM; sleep 600 & wait";
    let hook = json!({ "command": worker("answer '{}'", ignore_sigterm) });
    let fixture = Fixture::with(hook, "").await;
    fixture.call().await;

    fixture.gate.stop().await;

    assert!(processes(&fixture.mark).is_empty());
}

#[tokio::test]
async fn shutdown_ends_a_worker_during_a_call() {
    let hang = worker("touch called; sleep 600", "");
    let fixture = Fixture::with(json!({ "command": hang }), "timeouts: { drain: 100ms }").await;
    let agent = fixture.gate.agent();
    let call = tokio::spawn(async move {
        let path = "/v1beta/models/m:generateContent";
        agent.open(path, prompt("hello").to_string()).await
    });
    let called = || fixture.gate.path("called").exists();
    eventually("the worker is called", TEST_TIMEOUT, called).await;

    fixture.gate.stop().await;

    assert!(processes(&fixture.mark).is_empty());
    call.await.ok();
}
