//! Calls and tokens per session, counted by the policy `request_limits`.

use std::future::pending;

use axum::Router;

use super::replica;
use crate::harness::{
    Agent, Redis, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, eventually, prompt, respond,
};

const STORE: &str = "sessions: { store: { redis: { url: { file: url } } } }\n\
                     denials: error\n";

fn in_session(gate: &TestGateway, name: &'static str) -> Agent {
    gate.agent().sending("x-hookgate-session", name)
}

async fn status(gate: &TestGateway, name: &'static str) -> u16 {
    let answer = in_session(gate, name).generate("m", &prompt("hi")).await;
    answer.status
}

#[tokio::test]
async fn calls_of_a_session_are_counted_over_all_gateways_and_restarts() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let config = format!("{STORE}policies: [{{ policy: request_limits, max_calls: 4 }}]\n");
    let one = replica(&upstream, &redis, &config).await;
    let other = replica(&upstream, &redis, &config).await;

    for gate in [&one, &other, &one] {
        assert_eq!(status(gate, "mine").await, 200);
    }
    one.stop().await;
    let third = replica(&upstream, &redis, &config).await;
    assert_eq!(status(&third, "mine").await, 200);

    for gate in [&other, &third] {
        let answer = in_session(gate, "mine").generate("m", &prompt("hi")).await;
        assert_refused(&answer, 403, "POLICY_DENIED");
        assert_eq!(status(gate, "another").await, 200);
    }
}

#[tokio::test]
async fn calls_whose_answer_is_not_filtered_or_fails_are_counted_over_all_gateways() {
    let policy = "policies: [{ policy: request_limits, max_calls: 2 }]\n";
    let hook = "hooks: { BeforeModel: [{ hooks: [\
                { type: builtin, policy: request_limits, name: limit, max_calls: 2 }] }] }\n";
    for (config, status, body) in [
        (hook, 200, "{}"),
        (policy, 503, "{}"),
        // It cannot be inspected.
        (policy, 200, "{"),
    ] {
        let upstream = Upstream::with(move |_| respond(status, "application/json", body)).await;
        let redis = Redis::start();
        let config = format!("{STORE}{config}");
        let one = replica(&upstream, &redis, &config).await;
        let other = replica(&upstream, &redis, &config).await;
        for _ in 0..2 {
            in_session(&one, "mine").generate("m", &prompt("hi")).await;
        }

        let answer = in_session(&other, "mine")
            .generate("m", &prompt("hi"))
            .await;

        assert_refused(&answer, 403, "POLICY_DENIED");
        assert_eq!(upstream.requests().len(), 2, "{config}");
    }
}

#[tokio::test]
async fn calls_that_the_agent_ends_early_are_counted_over_all_gateways() {
    let router = Router::new().fallback(pending::<()>);
    let (upstream, redis) = (Upstream::with_router(router).await, Redis::start());
    let config = format!("{STORE}policies: [{{ policy: request_limits, max_calls: 2 }}]\n");
    let one = replica(&upstream, &redis, &config).await;
    let other = replica(&upstream, &redis, &config).await;
    let (agent, body) = (in_session(&one, "mine"), prompt("hi"));
    for calls in 1..=2 {
        let is_asked = || upstream.requests().len() == calls;
        tokio::select! {
            answer = agent.generate("m", &body) => panic!("{answer:?}"),
            () = eventually("the model is asked", TEST_TIMEOUT, is_asked) => (),
        }
    }

    let answer = in_session(&other, "mine").generate("m", &body).await;

    assert_refused(&answer, 403, "POLICY_DENIED");
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_call_whose_answer_is_not_filtered_writes_its_session_once() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let config = format!("{STORE}policies: [{{ policy: prompt_guard, deny: [bad idea] }}]\n");
    let gate = replica(&upstream, &redis, &config).await;

    assert_eq!(status(&gate, "mine").await, 200);

    // Each write removes the session from those that have ended.
    let commands = redis.ask("INFO commandstats");
    assert!(commands.contains("cmdstat_zrem:calls=1,"), "{commands}");
}
