//! Tokens per day: reserved when a call begins, settled when it ends.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use axum::body::Body;
use futures_util::{future::join_all, stream};
use hookgate::auth::MAX_RESERVED_OUTPUT;
use serde_json::json;

use super::{agent, config, replica, replicas, until_metric};
use crate::{
    callers::assert_late_sizes_count,
    harness::{Redis, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, prompt, respond},
};

const BUDGET: u64 = 500_000;
const TOKENS_PER_CALL: u64 = 20_000;

/// An upstream whose responses cost this many tokens.
async fn costly(tokens: u64) -> Upstream {
    let part = json!({ "parts": [{ "text": "a" }], "role": "model" });
    let answer = json!({
        "candidates": [{ "content": part, "finishReason": "STOP" }],
        "usageMetadata": { "totalTokenCount": tokens },
    });
    let answer = answer.to_string();
    Upstream::with(move |_| respond(200, "application/json", answer.clone())).await
}

/// An upstream whose responses cost 30 tokens and end after a delay.
async fn slow(delay: Duration) -> Upstream {
    let upstream = Upstream::with(move |_| {
        let answer = json!({ "usageMetadata": { "totalTokenCount": 30 } }).to_string();
        let body = stream::once(async move {
            tokio::time::sleep(delay).await;
            Ok::<_, Infallible>(answer)
        });
        respond(200, "application/json", Body::from_stream(body))
    });
    upstream.await
}

/// Suspends Redis as soon as an upstream has received this number of requests.
async fn hang_after(upstream: &Upstream, requests: usize, redis: &Redis) {
    while upstream.requests().len() < requests {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    redis.hang();
}

/// The tokens that Redis has counted for all callers.
fn spent(redis: &Redis) -> u64 {
    let keys = redis.ask("KEYS hookgate:limits:*:tokens");
    let keys = keys.lines().filter(|line| line.starts_with("hookgate"));
    let tokens = keys.filter_map(|key| {
        let answer = redis.ask(&format!("HGET {key} spent"));
        answer.lines().nth(1)?.parse::<u64>().ok()
    });
    tokens.sum()
}

async fn until_spent(redis: &Redis, tokens: u64) {
    // On a busy machine a gateway may lose its connection to Redis more than once.
    let deadline = Instant::now() + 6 * TEST_TIMEOUT;
    while spent(redis) != tokens {
        assert!(Instant::now() < deadline, "{} of {tokens}", spent(redis));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_hundred_concurrent_calls_exceed_the_budget_by_its_bound_at_most() {
    let (upstream, redis) = (costly(TOKENS_PER_CALL).await, Redis::start());
    let budget = format!(", tokens_per_day: {BUDGET}, in_flight: 100");
    let gates = replicas(&upstream, &redis, &config(&[("team-a", &budget)], "")).await;
    let body = prompt(&"x".repeat(40_000));

    let calls = gates.iter().cycle().take(100);
    let calls = calls.map(|gate| async { agent(gate, "team-a").generate("m", &body).await });
    let answers = join_all(calls).await;

    let admitted = answers.iter().filter(|answer| answer.status == 200).count() as u64;
    let reserved = body.to_string().len() as u64 / 4 + MAX_RESERVED_OUTPUT;
    let bound = BUDGET + (BUDGET / reserved + 1) * (TOKENS_PER_CALL - reserved);
    assert!(admitted * TOKENS_PER_CALL <= bound, "{admitted}");
    assert!((admitted + 2) * TOKENS_PER_CALL > BUDGET, "{admitted}");
    until_spent(&redis, admitted * TOKENS_PER_CALL).await;
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_refused(answer, 429, "TOKEN_QUOTA_EXCEEDED");
    }
}

#[tokio::test]
async fn requests_of_unknown_size_are_refused_if_their_tokens_do_not_fit_at_all_gateways() {
    let (upstream, redis) = (Upstream::counting().await, Redis::start());
    // More than the calls below, because Redis may count the end of a call later.
    let limits = ", tokens_per_day: 60000, in_flight: 30";
    let gates = replicas(&upstream, &redis, &config(&[("team-a", limits)], "")).await;
    for gate in &gates {
        // Later calls reserve what this one has cost.
        let answer = agent(gate, "team-a").generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    let agents = gates.iter().cycle().take(20);
    let agents: Vec<_> = agents.map(|gate| agent(gate, "team-a")).collect();
    let body = prompt(&"word ".repeat(32_000)).to_string();
    let path = "/v1beta/models/m:generateContent";
    assert_late_sizes_count(&agents, path, body.as_bytes()).await;
}

#[tokio::test]
async fn tokens_spent_at_one_gateway_count_at_all_gateways() {
    let (upstream, redis) = (costly(60).await, Redis::start());
    let gates = replicas(
        &upstream,
        &redis,
        &config(&[("team-a", ", tokens_per_day: 100")], ""),
    )
    .await;

    for (gate, spent) in [(&gates[0], 60), (&gates[1], 120)] {
        let answer = agent(gate, "team-a").generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        until_spent(&redis, spent).await;
    }

    let refused = agent(&gates[2], "team-a")
        .generate("m", &prompt("hi"))
        .await;
    assert_refused(&refused, 429, "TOKEN_QUOTA_EXCEEDED");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    // A request that calls no model costs none.
    let models = agent(&gates[2], "team-a").get("/v1beta/models").await;
    assert_eq!(models.status, 200, "{}", models.text());
}

#[tokio::test]
async fn tokens_of_an_outage_count_after_redis_has_lost_its_data() {
    let (upstream, limits) = (
        costly(30).await,
        config(&[("team-a", ", tokens_per_day: 1000")], ""),
    );
    let call_status = async |gate: &TestGateway| {
        agent(gate, "team-a")
            .generate("m", &prompt("hi"))
            .await
            .status
    };
    // The gateway that loses Redis first also reconnects first.
    for first in [0, 1] {
        let mut redis = Redis::start();
        let gates = replicas(&upstream, &redis, &limits).await;
        assert_eq!(call_status(&gates[0]).await, 200);
        until_spent(&redis, 30).await;

        redis.kill();
        assert_eq!(call_status(&gates[first]).await, 200);
        assert_eq!(call_status(&gates[1 - first]).await, 200);
        redis.restart();

        until_spent(&redis, 90).await;
    }
}

#[tokio::test]
async fn tokens_of_all_callers_that_are_written_when_redis_fails_are_kept() {
    const CALLERS: usize = 8;
    let names: Vec<String> = (0..CALLERS)
        .map(|number| format!("team-{number}"))
        .collect();
    let budgets: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), ", tokens_per_day: 1000"))
        .collect();
    let mut redis = Redis::with(&["--appendonly", "yes"]);
    let upstream = slow(Duration::from_millis(300)).await;
    let gate = replica(&upstream, &redis, &config(&budgets, "")).await;
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;

    let body = prompt("hi");
    let calls = names
        .iter()
        .map(|name| async { agent(&gate, name).generate("m", &body).await });
    let hung = hang_after(&upstream, CALLERS, &redis);
    let (answers, ()) = tokio::join!(join_all(calls), hung);
    assert!(answers.iter().all(|answer| answer.status == 200));
    until_metric(&gate.operator(), "hookgate_limits_shared", 0).await;
    redis.kill(); // what it received while it hung is never counted
    redis.restart();

    until_spent(&redis, 30 * CALLERS as u64).await;
}

#[tokio::test]
async fn tokens_that_redis_counts_after_the_timeout_of_the_gateway_count_once() {
    // The tokens are sent before a heartbeat fails.
    let (upstream, redis) = (slow(Duration::from_millis(100)).await, Redis::start());
    let limits = config(&[("team-a", ", tokens_per_day: 1000")], "");
    let gate = replica(&upstream, &redis, &limits).await;
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;

    let (agent, body) = (agent(&gate, "team-a"), prompt("hi"));
    let call = agent.generate("m", &body);
    let (answer, ()) = tokio::join!(call, hang_after(&upstream, 1, &redis));
    assert_eq!(answer.status, 200, "{}", answer.text());
    until_metric(&gate.operator(), "hookgate_limits_shared", 0).await;
    redis.resume(); // Redis counts the tokens now
    until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;

    until_spent(&redis, 30).await;
}
