//! Requests per minute and concurrent requests.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use super::{agent, config, replica, replicas, until_metric};
use crate::harness::{
    PATIENCE, Redis, TestGateway, Upstream, assert_refused, chunked_head, closed, prompt,
    write_chunk,
};

/// Requests that are in flight at the same time.
const CONCURRENCY: usize = 12;

/// Requests of a caller at each of these gateways in turn; the number of admitted ones.
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

/// The failed requests to Redis of all gateways.
async fn failures(gates: &[TestGateway]) -> u64 {
    let mut failures = 0;
    for gate in gates {
        let name = "hookgate_fleet_store_failures_total";
        failures += gate.operator().metric(name).await;
    }
    failures
}

#[tokio::test]
async fn three_gateways_admit_what_one_would() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let names = ["a", "b", "c", "d", "e"];
    let callers = names.map(|name| (name, ""));
    let limit = ", requests_per_minute: 60";
    let gates = replicas(&upstream, &redis, &config(&callers, limit)).await;

    // A machine that is too busy for 250 ms has limits of each gateway for a while.
    for name in names {
        let (started, failed) = (Instant::now(), failures(&gates).await);
        let admitted = admitted(&gates, name, 150).await;
        let refilled = started.elapsed().as_secs();
        if failures(&gates).await == failed {
            let most = 61 + usize::try_from(refilled).unwrap();
            assert!((60..=most).contains(&admitted), "{admitted} of {most}");
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
async fn limits_are_in_the_redis_of_sessions_unless_they_have_a_store() {
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
async fn a_redis_that_loads_no_scripts_and_forgets_them_serves_limits() {
    let upstream = Upstream::mock().await;
    let options = ["--save", "", "--rename-command", "SCRIPT", ""];
    let (fixed, redis) = (Redis::with(&options), Redis::start());
    let callers = config(&[("team-a", ", requests_per_minute: 2")], "");
    for redis in [&fixed, &redis] {
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
    let deadline = Instant::now() + PATIENCE;
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

/// A model API that begins an answer and ends it when the agent leaves.
async fn endless() -> Upstream {
    Upstream::raw(async |_, mut socket| {
        use tokio::io::AsyncWriteExt;
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"data: {}\r\n\r\n").await.unwrap();
        closed(&mut socket).await;
    })
    .await
}

const STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

async fn until_admitted(gate: &TestGateway) -> reqwest::Response {
    let deadline = Instant::now() + PATIENCE;
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

/// Redis learns of an end with the next request of the caller, not some time after it.
#[tokio::test]
async fn calls_one_after_another_are_not_calls_at_the_same_time() {
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
async fn calls_in_flight_count_again_in_a_redis_that_has_lost_them() {
    let (upstream, mut redis) = (endless().await, Redis::start());
    let limits = config(&[("team-a", ", in_flight: 1")], "");
    let gates = replicas(&upstream, &redis, &limits).await;
    let _open = until_admitted(&gates[0]).await;

    redis.kill();
    for gate in &gates {
        until_metric(&gate.operator(), "hookgate_limits_shared", 0).await;
    }
    redis.start_again();
    for gate in &gates {
        until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    }

    let refused = agent(&gates[1], "team-a")
        .generate("m", &prompt("hi"))
        .await;
    assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
}

/// A call of a gateway that has died, which nothing renews.
#[tokio::test]
async fn calls_of_a_gateway_that_has_died_end_by_themselves() {
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
    let ended = Instant::now() + PATIENCE;
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
