//! Calls and tokens per session, counted by the policy `request_limits`.

use super::replica;
use crate::harness::{Agent, Redis, TestGateway, Upstream, assert_refused, prompt};

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
    let config = "sessions: { store: { redis: { url: { file: url } } } }\n\
                  denials: error\n\
                  policies: [{ policy: request_limits, max_calls: 4 }]\n";
    let one = replica(&upstream, &redis, config).await;
    let other = replica(&upstream, &redis, config).await;

    for gate in [&one, &other, &one] {
        assert_eq!(status(gate, "mine").await, 200);
    }
    one.stop().await;
    let third = replica(&upstream, &redis, config).await;
    assert_eq!(status(&third, "mine").await, 200);

    for gate in [&other, &third] {
        let answer = in_session(gate, "mine").generate("m", &prompt("hi")).await;
        assert_refused(&answer, 403, "POLICY_DENIED");
        assert_eq!(status(gate, "another").await, 200);
    }
}
