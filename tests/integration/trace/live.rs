//! The live tail of calls.

use std::time::Duration;

use tokio::time::timeout;

use super::MODEL;
use crate::harness::{TestGateway, Upstream, prompt};

const GUARD: &str = "policies: [{ policy: prompt_guard, deny: [forbidden] }]\n";

/// The text of a stream up to and with `end`.
async fn read_until(response: &mut reqwest::Response, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let piece = timeout(Duration::from_secs(10), response.chunk()).await;
        let piece = piece.unwrap_or_else(|_| panic!("no `{end}` in {text}"));
        text.push_str(str::from_utf8(&piece.unwrap().unwrap()).unwrap());
    }
    text
}

async fn subscribe(gate: &TestGateway, query: &str) -> reqwest::Response {
    let url = format!("http://{}/calls/stream?{query}", gate.operators);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    client.build().unwrap().get(url).send().await.unwrap()
}

#[tokio::test]
async fn the_live_tail_honours_the_filter() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, GUARD).await;
    let mut tail = subscribe(&gate, "verdict=deny").await;
    assert_eq!(tail.headers()["content-type"], "text/event-stream");

    gate.agent().generate(MODEL, &prompt("hello")).await;
    gate.agent()
        .generate(MODEL, &prompt("something forbidden"))
        .await;
    let text = read_until(&mut tail, "\"deny\"").await;

    assert!(text.starts_with("id: "), "{text}");
    assert_eq!(text.matches("event: call").count(), 1, "{text}");
    assert!(!text.contains("\"action\":\"pass\""), "{text}");
}

#[tokio::test]
async fn a_slow_subscriber_is_given_the_number_of_lost_calls() {
    let upstream = Upstream::mock().await;
    let config = format!("trace: {{ exchanges: 5 }}\n{GUARD}");
    let gate = TestGateway::start(&upstream, &config).await;
    let mut tail = subscribe(&gate, "verdict=deny").await;

    // Nothing of these matches, so the first event is the lost ones, or the denial.
    for _ in 0..40 {
        gate.agent().generate(MODEL, &prompt("hello")).await;
    }
    gate.agent().generate(MODEL, &prompt("forbidden")).await;
    read_until(&mut tail, "\"deny\"").await;

    let metrics = gate.operator().get("/metrics").await;
    let lost = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("hookgate_trace_lost_rows_total "));
    assert!(lost.unwrap().parse::<u64>().is_ok(), "{}", metrics.text());
}

#[tokio::test]
async fn the_number_of_subscribers_is_bounded_and_shutdown_ends_them() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, GUARD).await;
    let mut tails = Vec::new();
    for _ in 0..64 {
        let tail = subscribe(&gate, "").await;
        assert_eq!(tail.status(), 200);
        tails.push(tail);
    }

    let refused = subscribe(&gate, "").await;
    assert_eq!(refused.status(), 503);
    gate.stop().await;

    for mut tail in tails {
        let end = timeout(Duration::from_secs(10), tail.chunk())
            .await
            .unwrap();
        assert!(matches!(end, Ok(None) | Err(_)));
    }
}
