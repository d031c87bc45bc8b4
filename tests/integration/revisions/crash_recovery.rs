//! Crash recovery: a gateway that is killed during promotions.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use super::RevisionGateway;

/// Number of times that the gateway is killed.
const KILLS: u32 = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_during_a_promotion_restarts_with_the_old_or_new_config() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    gateway.restart();
    let started = Instant::now();
    let request = json!({ "revision": apple }).to_string();
    let answer = gateway.operator.post("/config/promote", request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut delay = started.elapsed();
    gateway.restart();
    let (mut old, mut new_count) = (apple.clone(), 0);

    for _ in 0..KILLS {
        let new = if old == apple { &banana } else { &apple };
        let request = json!({ "revision": new }).to_string();
        let operator = gateway.operator.clone();
        let promotion = tokio::spawn(async move {
            operator
                .try_open("/config/promote", request)
                .await
                .is_ok_and(|answer| answer.status() == 200)
        });
        tokio::time::sleep(delay).await;
        gateway.served.signal(Signal::KILL);
        let was_acknowledged = promotion.await.unwrap();
        gateway.restart();

        let version = gateway.version().await;
        assert!(version == old || version == *new, "{version}");
        assert!(
            !was_acknowledged || version == *new,
            "an acknowledged promotion is lost"
        );
        assert_eq!(gateway.active_revision()["revision"], version.as_str());
        let word = if version == apple { "apple" } else { "banana" };
        assert!(gateway.denies(word).await);
        let is_new = version != old;
        new_count += u32::from(is_new);
        // The delay converges to the point at which the new revision comes into use.
        delay = delay.mul_f64(if is_new { 0.75 } else { 1.25 });
        old = version;
    }

    gateway.served.terminate();
    gateway.served.ended(Duration::from_secs(10));
    let log = gateway.folder.path().join("audit.jsonl");
    let lines = chained_log::verify(&log).unwrap().lines;
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "{KILLS} kills, {new_count} new, {lines} lines").unwrap();
    assert!(
        (1..KILLS).contains(&new_count),
        "every kill was at the same point"
    );
}
