//! Limits while Redis is unavailable.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{agent, config, replica, replicas, until_metric, until_ready_contains};
use crate::harness::{Redis, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, prompt};

async fn statuses(gate: &TestGateway, requests: usize) -> Vec<u16> {
    let body = prompt("hi");
    let agent = agent(gate, "team-a");
    let calls = (0..requests).map(|_| agent.generate("m", &body));
    let answers = join_all(calls).await;
    answers.iter().map(|answer| answer.status).collect()
}

fn admitted(statuses: &[u16]) -> usize {
    statuses.iter().filter(|status| **status == 200).count()
}

#[tokio::test]
async fn without_redis_each_gateway_applies_its_share_until_redis_is_back() {
    let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
    let callers = config(&[("team-a", ", requests_per_minute: 30")], "");
    let gates = replicas(&upstream, &redis, &callers).await;
    until_ready_contains(&gates[0], "caller limits shared").await;
    // Each gateway has read the heartbeats of the other two.
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !redis
        .ask("ZCARD hookgate:fleet:1:{replicas}:seen")
        .starts_with(":3")
    {
        assert!(Instant::now() < deadline, "a gateway has no heartbeat");
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;

    redis.kill();
    for gate in &gates {
        until_metric(&gate.operator(), "hookgate_limits_shared", 0).await;
        until_ready_contains(gate, "each replica applies 1/3 of each").await;
    }
    for gate in &gates {
        let admitted = admitted(&statuses(gate, 30).await);
        assert!((10..=13).contains(&admitted), "{admitted}");
    }
    redis.restart();
    for gate in &gates {
        until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    }

    // Requests that were admitted during the outage count afterwards.
    let mut after = 0;
    for gate in &gates {
        after += admitted(&statuses(gate, 20).await);
    }
    assert!(after <= 10, "{after}");
}

#[tokio::test]
async fn a_gateway_that_starts_without_redis_shares_limits_later() {
    let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
    redis.kill();
    let callers = config(
        &[("team-a", ", requests_per_minute: 30")],
        ", min_replicas: 3",
    );
    let gate = replica(&upstream, &redis, &callers).await;
    until_ready_contains(&gate, "each replica applies 1/3 of each").await;
    let admitted = admitted(&statuses(&gate, 30).await);
    assert!((10..=13).contains(&admitted), "{admitted}");

    redis.restart();

    until_ready_contains(&gate, "caller limits shared").await;
}

#[tokio::test]
async fn on_store_loss_selects_the_limits_without_redis() {
    let cases = [
        ("local", "each replica applies all of each", 6),
        ("open", "none is applied", 20),
        ("closed", "limited callers are refused", 0),
    ];
    for (on_loss, ready, least) in cases {
        let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
        let more = format!(", on_store_loss: {on_loss}");
        let callers = config(
            &[("team-a", ", requests_per_minute: 6"), ("free", "")],
            &more,
        );
        let gate = replica(&upstream, &redis, &callers).await;
        until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
        redis.kill();
        until_ready_contains(&gate, ready).await;

        let statuses = statuses(&gate, 20).await;

        let admitted = admitted(&statuses);
        assert!(
            (least..=least + 1).contains(&admitted),
            "{on_loss}: {statuses:?}"
        );
        let free = agent(&gate, "free").generate("m", &prompt("hi")).await;
        assert_eq!(free.status, 200, "a caller without limits is admitted");
    }
}

#[tokio::test]
async fn a_refusal_without_redis_has_the_error_format_of_the_api() {
    let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
    let limits = ", on_store_loss: closed, requests_per_minute: 100";
    let callers = config(&[("team-a", "")], limits)
        + "upstreams: { gemini: { url: \"{upstream}\" }, anthropic: { url: \"{upstream}\" } }\n";
    let gate = replica(&upstream, &redis, &callers).await;
    redis.kill();
    until_ready_contains(&gate, "limited callers are refused").await;

    let refused = agent(&gate, "team-a").generate("m", &prompt("hi")).await;
    assert_refused(&refused, 503, "LIMITS_UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), "1");
    let refused = agent(&gate, "team-a").post("/v1/messages", "{}").await;
    assert_eq!(
        (refused.status, refused.json()["type"].as_str()),
        (503, Some("error"))
    );
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn calls_wait_less_than_1500_ms_for_a_redis_that_hangs() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let callers = config(&[("team-a", ", requests_per_minute: 1000")], "");
    let gate = replica(&upstream, &redis, &callers).await;
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    assert_eq!(statuses(&gate, 1).await, [200]);

    redis.hang();
    let started = Instant::now();
    let first = statuses(&gate, 5).await;
    let (first, elapsed) = (admitted(&first), started.elapsed());
    until_metric(&gate.operator(), "hookgate_limits_shared", 0).await;
    redis.resume();

    assert_eq!(first, 5);
    assert!(elapsed < Duration::from_millis(1500), "{elapsed:?}");
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
}

#[tokio::test]
async fn a_request_that_is_refused_while_redis_hangs_does_not_count_afterwards() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let limits = ", in_flight: 1, tokens_per_day: 1000000";
    let callers = config(&[("team-a", limits)], ", on_store_loss: closed");
    let gate = replica(&upstream, &redis, &callers).await;
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    assert_eq!(statuses(&gate, 1).await, [200]);

    redis.hang();
    let refused = statuses(&gate, 1).await;
    redis.resume(); // Redis admits the request now
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;

    assert_eq!(refused, [503]);
    // Sooner than its lease ends.
    let deadline = Instant::now() + TEST_TIMEOUT;
    while statuses(&gate, 1).await != [200] {
        assert!(Instant::now() < deadline, "the refused request counts");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_refusal_by_redis_is_named_and_no_outage() {
    let upstream = Upstream::mock().await;
    let node = Redis::with(&["--save", "", "--cluster-enabled", "yes"]);
    let limits = ", on_store_loss: closed";
    let callers = config(&[("team-a", ", requests_per_minute: 30")], limits);
    let gate = replica(&upstream, &node, &callers).await;

    let reason = "Redis answered CLUSTERDOWN, and a cluster needs a proxy";
    until_ready_contains(&gate, &format!("caller limits not shared, {reason}")).await;
    let fleet = gate.operator().get("/fleet").await;
    assert!(fleet.text().contains(reason), "{}", fleet.text());
    let refused = agent(&gate, "team-a").generate("m", &prompt("hi")).await;
    assert_refused(&refused, 503, "LIMITS_UNAVAILABLE");
    assert!(
        refused.text().contains("see `/readyz`"),
        "{}",
        refused.text()
    );
}
