//! Requests per minute and concurrent requests.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use super::{agent, config, replica, replicas, until_metric};
use crate::harness::{
    Redis, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, chunked_head, prompt,
    wait_until_closed, write_chunk,
};

/// Requests that are in flight at the same time.
const CONCURRENCY: usize = 12;

/// Sends requests of a caller to these gateways in turn; returns the number admitted.
async fn admitted(gates: &[TestGateway], name: &str, requests: usize) -> usize {
    let body = &prompt("hi");
    let calls = gates.iter().cycle().take(requests);
    let calls = calls.map(|gate| async move {
        let answer = agent(gate, name).generate("m", body).await;
        answer.status
    });
    let statuses: Vec<u16> = stream::iter(calls)
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    let refused = statuses.iter().filter(|status| **status == 429).count();
    let admitted = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(admitted + refused, requests, "{statuses:?}");
    admitted
}

/// The number of failed requests to Redis, of all gateways.
async fn failures(gates: &[TestGateway]) -> u64 {
    let mut failures = 0;
    for gate in gates {
        let name = "hookgate_fleet_store_failures_total";
        failures += gate.operator().metric(name).await;
    }
    failures
}

#[tokio::test]
async fn three_gateways_together_admit_the_rate_of_one() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let names = ["a", "b", "c", "d", "e"];
    let callers = names.map(|name| (name, ""));
    let limit = ", requests_per_minute: 60";
    let gates = replicas(&upstream, &redis, &config(&callers, limit)).await;

    // When Redis does not answer within 250 ms, on a busy machine, each gateway applies
    // its share for a while. The next caller is tried then.
    for name in names {
        let (started, failed) = (Instant::now(), failures(&gates).await);
        let admitted = admitted(&gates, name, 150).await;
        let refilled = started.elapsed().as_secs();
        if failures(&gates).await == failed {
            let max_admitted = 61 + usize::try_from(refilled).unwrap();
            assert!(
                (60..=max_admitted).contains(&admitted),
                "{admitted} of {max_admitted}"
            );
            let refused = agent(&gates[2], name).generate("m", &prompt("hi")).await;
            if refused.status == 429 {
                assert_refused(&refused, 429, "RATE_LIMIT_EXCEEDED");
                assert_eq!(refused.header("retry-after"), "1");
            }
            return;
        }
        for gate in &gates {
            until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
        }
    }
    panic!("this machine is too busy for Redis");
}

#[tokio::test]
async fn limits_use_the_session_store_unless_they_have_their_own() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let callers = crate::callers::auth(&[("team-a", ", requests_per_minute: 2")]);
    let sessions = "sessions: { store: { redis: { url: { file: url } } } }\n";
    let shared = callers.clone() + sessions;
    let own = callers + "  limits: { store: memory }\n" + sessions;

    for (config, admitted_of_three) in [(shared, 2), (own, 3)] {
        let gates = [
            replica(&upstream, &redis, &config).await,
            replica(&upstream, &redis, &config).await,
        ];
        assert_eq!(admitted(&gates, "team-a", 3).await, admitted_of_three);
    }
}

#[tokio::test]
async fn limits_hold_if_redis_cannot_load_scripts_or_has_lost_them() {
    let upstream = Upstream::mock().await;
    let options = ["--save", "", "--rename-command", "SCRIPT", ""];
    let (without_script_command, redis) = (Redis::with(&options), Redis::start());
    let callers = config(&[("team-a", ", requests_per_minute: 2")], "");
    for redis in [&without_script_command, &redis] {
        let gates = replicas(&upstream, redis, &callers).await;
        assert_eq!(admitted(&gates[..1], "team-a", 1).await, 1);
        redis.ask("SCRIPT FLUSH");
        assert_eq!(admitted(&gates, "team-a", 3).await, 1);
        for gate in &gates {
            let name = "hookgate_fleet_store_failures_total";
            assert_eq!(gate.operator().metric(name).await, 0);
        }
    }
}

#[tokio::test]
async fn the_keys_of_a_caller_are_in_one_slot_of_a_cluster() {
    let upstream = Upstream::mock().await;
    let redis = Redis::with(&["--save", "", "--cluster-enabled", "yes"]);
    redis.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !redis.ask("CLUSTER INFO").contains("cluster_state:ok") {
        assert!(Instant::now() < deadline, "the cluster does not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let limits = ", requests_per_minute: 2, tokens_per_day: 1000000, in_flight: 9";
    let gates = replicas(&upstream, &redis, &config(&[("team-a", limits)], "")).await;

    assert_eq!(admitted(&gates, "team-a", 3).await, 2);

    for gate in &gates {
        let name = "hookgate_fleet_store_failures_total";
        assert_eq!(gate.operator().metric(name).await, 0);
    }
}

/// An upstream that begins a response and ends it when the agent disconnects.
async fn endless() -> Upstream {
    Upstream::raw(async |_, mut socket| {
        use tokio::io::AsyncWriteExt;
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"data: {}\r\n\r\n").await.unwrap();
        wait_until_closed(&mut socket).await;
    })
    .await
}

const STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

async fn until_admitted(gate: &TestGateway) -> reqwest::Response {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let body = prompt("hi").to_string();
        let response = agent(gate, "team-a").open(STREAM, body).await;
        if response.status() == 200 {
            return response;
        }
        assert!(Instant::now() < deadline, "no call is admitted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn calls_in_flight_are_counted_over_all_gateways_until_they_end() {
    let (upstream, redis) = (endless().await, Redis::start());
    let gates = replicas(
        &upstream,
        &redis,
        &config(&[("team-a", ", in_flight: 3")], ""),
    )
    .await;
    let mut open = Vec::new();
    for gate in &gates {
        open.push(until_admitted(gate).await);
    }

    for gate in &gates {
        let refused = agent(gate, "team-a").generate("m", &prompt("hi")).await;
        assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
        assert_eq!(refused.header("retry-after"), "1");
    }
    drop(open.remove(0));
    open.push(until_admitted(&gates[2]).await);
    let refused = agent(&gates[1], "team-a")
        .generate("m", &prompt("hi"))
        .await;
    assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
}

/// The next request of the caller reports the end of a call to Redis, so that the call
/// does not count.
#[tokio::test]
async fn sequential_calls_do_not_reach_the_concurrency_limit() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let limits = config(&[("team-a", ", in_flight: 2")], "");
    let gate = replica(&upstream, &redis, &limits).await;
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    let agent = agent(&gate, "team-a");

    for _ in 0..30 {
        let answer = agent.generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn calls_in_flight_are_restored_after_redis_has_lost_them() {
    let (upstream, mut redis) = (endless().await, Redis::start());
    let limits = config(&[("team-a", ", in_flight: 1")], "");
    let gates = replicas(&upstream, &redis, &limits).await;
    let _open = until_admitted(&gates[0]).await;

    redis.kill();
    for gate in &gates {
        until_metric(&gate.operator(), "hookgate_limits_shared", 0).await;
    }
    redis.restart();
    for gate in &gates {
        until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    }

    let refused = agent(&gates[1], "team-a")
        .generate("m", &prompt("hi"))
        .await;
    assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
}

/// Simulates the crash by a call whose lease nothing renews.
#[tokio::test]
async fn calls_of_a_crashed_gateway_expire() {
    let (upstream, redis) = (endless().await, Redis::start());
    let gates = replicas(
        &upstream,
        &redis,
        &config(&[("team-a", ", in_flight: 1")], ""),
    )
    .await;
    let open = until_admitted(&gates[0]).await;
    let keys = redis.ask("KEYS hookgate:limits:*:calls");
    let key = keys
        .lines()
        .find(|line| line.starts_with("hookgate"))
        .unwrap();
    drop(open);
    let ended = Instant::now() + TEST_TIMEOUT;
    while redis.ask(&format!("ZCARD {key}")).starts_with(":1") {
        assert!(Instant::now() < ended, "the call does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let time = redis.ask("TIME");
    let seconds: u64 = time.lines().nth(2).unwrap().parse().unwrap();
    redis.ask(&format!("ZADD {key} {} dead", (seconds + 2) * 1000));

    let refused = agent(&gates[1], "team-a")
        .generate("m", &prompt("hi"))
        .await;

    assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
    drop(until_admitted(&gates[1]).await);
    until_metric(&gates[1].operator(), "hookgate_limits_shared", 1).await;
}
