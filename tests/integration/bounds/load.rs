//! Overload: excess work waits or is refused, and the admin API stays responsive.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    sync::{mpsc, watch},
};

use super::{GENERATE, HOOKED, until_metric};
use crate::{
    callers::auth,
    harness::{
        Agent, Answer, Browser, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, prompt,
        wait_for_signal,
    },
    trace::until,
};

#[tokio::test]
async fn a_burst_of_hooks_completes_and_the_admin_api_stays_responsive() {
    let upstream = Upstream::mock().await;
    let config = "limits: { hook_processes: 4 }\n\
         hooks: { BeforeModel: [{ hooks: [{ command: \"cat > /dev/null; sleep 0.02\", \
         on_failure: closed }] }] }";
    let gate = TestGateway::start(&upstream, config).await;
    let agent = gate.agent();

    let body = prompt("hello");
    let calls = join_all((0..200).map(|_| agent.generate("m", &body)));
    let watch = async {
        let mut max_processes = 0;
        loop {
            let begun = Instant::now();
            let metrics = gate.operator().get("/metrics").await;
            assert!(
                begun.elapsed() < Duration::from_secs(2),
                "the admin API is slow"
            );
            let line = metrics.text().lines();
            let mut line = line.filter_map(|line| line.strip_prefix("hookgate_hook_processes "));
            let now: usize = line.next_back().unwrap().parse().unwrap();
            max_processes = max_processes.max(now);
            assert!(max_processes <= 4, "{max_processes}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answers = tokio::select! {
        answers = calls => answers,
        () = watch => panic!("the metrics are read without end"),
    };

    assert!(answers.iter().all(|answer| answer.status == 200));
    until_metric(&gate, "hookgate_in_flight 0").await;
    until_metric(&gate, "hookgate_hook_processes 0").await;
}

#[tokio::test]
async fn advisory_events_count_against_the_in_flight_limit() {
    let upstream = Upstream::mock().await;
    let config = "limits: { in_flight: 8 }\n\
         hooks: { Notification: [{ hooks: [{ command: \"cat > /dev/null; sleep 1\" }] }] }";
    let gate = TestGateway::start(&upstream, config).await;
    let agent = gate.agent();
    let event = json!({ "hook_event_name": "Notification", "notification_type": "ToolPermission",
        "message": "x", "details": {} });

    let mut accepted = 0;
    for _ in 0..50 {
        let answer = agent.report(&event, "").await;
        assert!([202, 503].contains(&answer.status), "{}", answer.text());
        accepted += usize::from(answer.status == 202);
    }

    // Each event takes a second, and the fifty reports take less than three.
    assert!((8..=24).contains(&accepted), "{accepted}");
    until_metric(&gate, "hookgate_in_flight 0").await;
    let labels = r#"event="Notification",hook="cat > /dev/null; sleep 1",status="ok""#;
    let ran = format!("hookgate_hook_runs_total{{{labels}}} {accepted}");
    until_metric(&gate, &ran).await;
}

#[tokio::test]
async fn advisory_events_count_against_the_limit_of_their_caller() {
    let upstream = Upstream::mock().await;
    let callers = auth(&[("a", ", in_flight: 1"), ("b", ", in_flight: 1")]);
    let hook = "hooks: { Notification: [{ hooks: [{ command: \
         \"cat > /dev/null; until [ -e go ]; do sleep 0.02; done\" }] }] }";
    let gate = TestGateway::start(&upstream, &(callers + hook)).await;
    let agent = |name: &str| {
        gate.agent()
            .sending("x-hookgate-key", format!("{name}-key"))
    };
    let event = json!({ "hook_event_name": "Notification", "notification_type": "ToolPermission",
        "message": "x", "details": {} });

    let accepted = agent("a").report(&event, "").await;
    let refused = agent("a").report(&event, "").await;
    let other = agent("b").report(&event, "").await;

    assert_eq!((accepted.status, other.status), (202, 202));
    assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
    std::fs::write(gate.path("go"), "").unwrap();
    until_metric(&gate, "hookgate_in_flight 0").await;
    assert_eq!(agent("a").report(&event, "").await.status, 202);
}

#[tokio::test]
async fn oversized_events_are_refused_before_they_are_complete() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { event: 64KiB, body: 64KiB }").await;
    let agent = gate.agent();
    let oversized = "x".repeat(1 << 20);
    let event = json!({ "hook_event_name": "Notification", "message": oversized });

    let events = join_all((0..50).map(|_| agent.report(&event, "")));
    let events = tokio::time::timeout(4 * TEST_TIMEOUT, events)
        .await
        .unwrap();

    // The connection closes, because the rest of the event would follow on it.
    let refused = |answer: &Answer| answer.status == 413 && answer.is_last();
    assert!(events.iter().all(refused));
    let call = agent.post(GENERATE, prompt(&oversized).to_string()).await;
    assert_eq!(call.status, 413);
}

#[tokio::test]
async fn concurrent_large_bodies_respect_the_memory_limit() {
    let (held, mut held_calls) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(());
    let upstream = Upstream::raw(move |_, mut socket| {
        let (held, mut released) = (held.clone(), released.clone());
        async move {
            held.send(()).unwrap();
            released.changed().await.unwrap();
            let answer =
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}";
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let config = format!("limits: {{ memory: 5MiB }}\n{HOOKED}");
    let gate = TestGateway::start(&upstream, &config).await;
    let body = prompt(&"x".repeat(2 << 20));
    let waiting: Vec<_> = (0..2)
        .map(|_| tokio::spawn(generate(gate.agent(), body.clone())))
        .collect();
    wait_for_signal(&mut held_calls, "the first call").await;
    wait_for_signal(&mut held_calls, "the second call").await;

    let refused = gate.agent().generate("m", &body).await;
    let event = json!({ "hook_event_name": "Notification", "notification_type": "x",
        "message": "x".repeat(2 << 20) });
    let event = gate.agent().report(&event, "").await;
    let small = json!({ "hook_event_name": "SessionEnd", "reason": "other" });
    let small = gate.agent().report(&small, "").await;

    assert_refused(&refused, 503, "OVERLOADED");
    assert_eq!(refused.header("retry-after"), "1");
    assert_refused(&event, 503, "OVERLOADED");
    assert_eq!(small.status, 202);
    release.send(()).unwrap();
    for call in waiting {
        assert_eq!(call.await.unwrap().status, 200);
    }
    until_metric(&gate, "hookgate_buffered_bytes 0").await;
}

async fn generate(agent: Agent, body: Value) -> Answer {
    agent.generate("m", &body).await
}

/// Waits for a response of the admin listener. New connections are served at once meanwhile.
async fn while_connections_are_served<T>(
    gate: &TestGateway,
    response: impl Future<Output = T>,
) -> T {
    tokio::pin!(response);
    let mut begun = Instant::now();
    loop {
        let probe = async {
            assert_eq!(gate.operator().get("/healthz").await.status, 200);
            let answer = gate.agent().generate("m", &prompt("hello")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        };
        let ended = tokio::select! {
            ended = &mut response => Some(ended),
            () = probe => None,
        };
        let elapsed = begun.elapsed();
        assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
        if let Some(ended) = ended {
            return ended;
        }
        begun = Instant::now();
    }
}

#[tokio::test]
async fn pages_of_deep_content_and_trials_delay_no_connection() {
    let upstream = Upstream::mock().await;
    let config = "trace: { content: { denied_or_edited: true } }\n\
         policies: [{ policy: prompt_guard, deny: [aurora] }]";
    let gate = TestGateway::start(&upstream, config).await;
    let numbers = (0..50).fold(json!(vec![1; 100_000]), |numbers, _| json!([numbers]));
    let call = json!({ "functionCall": { "name": "look", "args": { "at": numbers } } });
    let result = json!({ "functionResponse": { "name": "look", "response": {} } });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "hello" }] },
        { "role": "model", "parts": [call] },
        { "role": "user", "parts": [result] },
        { "role": "model", "parts": [{ "text": "done" }] },
        { "role": "user", "parts": [{ "text": "aurora" }] },
    ] });
    let denied = gate.agent().generate("m", &body).await;
    assert_eq!(denied.status, 200, "{}", denied.text());
    let id = denied.header("x-hookgate-request-id");
    let address = format!("/console/calls/{id}/test");
    let browser = Browser::at(&gate);
    let path = format!("/calls/{id}/content");
    until(&gate.operator(), &path, |found| found["id"].is_string()).await;

    let page = while_connections_are_served(&gate, browser.get(&address)).await;
    let operator = gate.operator();
    let trial = operator.post("/try", json!({ "input": body }).to_string());
    let trial = while_connections_are_served(&gate, trial).await;

    assert_eq!(page.status, 200, "{}", page.html);
    let is_bounded = page.html.contains("too large for a page: more than");
    assert!(is_bounded, "{:.4000}", page.html);
    assert_eq!(trial.status, 200, "{}", trial.text());
}
