//! Replicas that share caller limits in Redis.

mod limits;
mod load;
mod redis_outage;
mod script;
mod session_limits;
mod status;
mod tokens;

use std::fmt::Write;

use crate::{
    callers::auth,
    harness::{Agent, Redis, TestGateway, Upstream},
};

/// A config whose callers share the limits in this Redis, with more settings of
/// `auth.limits`.
fn config(callers: &[(&str, &str)], more: &str) -> String {
    let mut text = auth(callers);
    let store = "store: { redis: { url: { file: url } } }";
    writeln!(text, "  limits: {{ {store}{more} }}").unwrap();
    text
}

async fn replica(upstream: &Upstream, redis: &Redis, config: &str) -> TestGateway {
    TestGateway::with_files(upstream, config, &[("url", &redis.url())]).await
}

async fn replicas(upstream: &Upstream, redis: &Redis, config: &str) -> Vec<TestGateway> {
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(replica(upstream, redis, config).await);
    }
    for gate in &replicas {
        until_metric(&gate.operator(), "hookgate_limits_shared", 1).await;
    }
    replicas
}

/// The agent of a caller, whose key is its name and `-key`.
fn agent(gate: &TestGateway, name: &str) -> Agent {
    let key = format!("{name}-key");
    gate.agent().sending("x-hookgate-key", key)
}

async fn until_metric(operator: &Agent, name: &str, value: u64) {
    let deadline = std::time::Instant::now() + crate::harness::TEST_TIMEOUT;
    while operator.metric(name).await != value {
        assert!(
            std::time::Instant::now() < deadline,
            "{name} is not {value}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Waits until the response of `/readyz` contains this text.
async fn until_ready_contains(gate: &TestGateway, part: &str) {
    let deadline = std::time::Instant::now() + crate::harness::TEST_TIMEOUT;
    loop {
        let ready = gate.operator().get("/readyz").await;
        if ready.text().contains(part) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{}", ready.text());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
