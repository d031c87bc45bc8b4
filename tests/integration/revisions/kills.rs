//! A gateway that is killed during promotions.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use super::Kept;

/// How many times it is killed.
const KILLS: u32 = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_during_a_promotion_starts_with_the_old_or_the_new_config() {
    let mut gate = Kept::start("apple").await;
    let apple = gate.version().await;
    let banana = gate.edit("banana").await;
    gate.restart();
    let started = Instant::now();
    let request = json!({ "revision": apple }).to_string();
    let answer = gate.operator.post("/config/promote", request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut delay = started.elapsed();
    gate.restart();
    let (mut old, mut news) = (apple.clone(), 0);

    for _ in 0..KILLS {
        let new = if old == apple { &banana } else { &apple };
        let request = json!({ "revision": new }).to_string();
        let operator = gate.operator.clone();
        let promotion = tokio::spawn(async move {
            operator
                .try_to_open("/config/promote", request)
                .await
                .is_ok_and(|it| it.status() == 200)
        });
        tokio::time::sleep(delay).await;
        gate.served.signal(Signal::KILL);
        let was_answered = promotion.await.unwrap();
        gate.restart();

        let version = gate.version().await;
        assert!(version == old || version == *new, "{version}");
        assert!(
            !was_answered || version == *new,
            "an answered promotion is lost"
        );
        assert_eq!(gate.active()["revision"], version.as_str());
        let word = if version == apple { "apple" } else { "banana" };
        assert!(gate.denies(word).await);
        let is_new = version != old;
        news += u32::from(is_new);
        // The kills gather around the point at which the new revision is in use.
        delay = delay.mul_f64(if is_new { 0.75 } else { 1.25 });
        old = version;
    }

    gate.served.terminate();
    gate.served.ended(Duration::from_secs(10));
    let log = gate.folder.path().join("audit.jsonl");
    let lines = chained_log::verify(&log).unwrap().lines;
    let mut told = std::io::stderr().lock();
    writeln!(told, "{KILLS} kills, {news} new, {lines} lines").unwrap();
    assert!(
        (1..KILLS).contains(&news),
        "every kill was at the same point"
    );
}
