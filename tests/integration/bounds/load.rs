//! More than can be done at once: all of it ends, and operators get through.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    sync::{mpsc, watch},
};

use super::{GENERATE, HOOKED, counted};
use crate::harness::{
    Agent, Answer, PATIENCE, TestGateway, Upstream, assert_refused, prompt, signalled,
};

#[tokio::test]
async fn a_storm_of_hooks_passes_and_operators_get_through() {
    let upstream = Upstream::mock().await;
    let config = "limits: { hook_processes: 4 }\n\
         hooks: { BeforeModel: [{ hooks: [{ command: \"cat > /dev/null; sleep 0.02\", \
         on_failure: closed }] }] }";
    let gate = TestGateway::start(&upstream, config).await;
    let agent = gate.agent();

    let body = prompt("hello");
    let calls = join_all((0..200).map(|_| agent.generate("m", &body)));
    let watched = async {
        let mut most = 0;
        loop {
            let begun = Instant::now();
            let metrics = gate.operator().get("/metrics").await;
            assert!(begun.elapsed() < Duration::from_secs(2), "operators wait");
            let line = metrics.text().lines();
            let mut line = line.filter_map(|it| it.strip_prefix("hookgate_hook_processes "));
            let now: usize = line.next_back().unwrap().parse().unwrap();
            most = most.max(now);
            assert!(most <= 4, "{most}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answers = tokio::select! {
        answers = calls => answers,
        () = watched => panic!("it ends never"),
    };

    assert!(answers.iter().all(|it| it.status == 200));
    counted(&gate, "hookgate_in_flight 0").await;
    counted(&gate, "hookgate_hook_processes 0").await;
}

#[tokio::test]
async fn advisory_events_are_bounded_too() {
    let upstream = Upstream::mock().await;
    let config = "limits: { in_flight: 8 }\n\
         hooks: { Notification: [{ hooks: [{ command: \"cat > /dev/null; sleep 1\" }] }] }";
    let gate = TestGateway::start(&upstream, config).await;
    let agent = gate.agent();
    let event = json!({ "hook_event_name": "Notification", "notification_type": "ToolPermission",
        "message": "x", "details": {} });

    let mut taken = 0;
    for _ in 0..50 {
        let answer = agent.report(&event, "").await;
        assert!([202, 503].contains(&answer.status), "{}", answer.text());
        taken += usize::from(answer.status == 202);
    }

    // Each takes a second, and the fifty took less.
    assert!((8..=24).contains(&taken), "{taken}");
    counted(&gate, "hookgate_in_flight 0").await;
    let ran = format!(
        r#"hookgate_hook_runs_total{{event="Notification",hook="cat > /dev/null; sleep 1",status="ok"}} {taken}"#
    );
    counted(&gate, &ran).await;
}

#[tokio::test]
async fn giant_events_are_refused_while_they_come() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "limits: { event: 64KiB, body: 64KiB }").await;
    let agent = gate.agent();
    let giant = "x".repeat(1 << 20);
    let event = json!({ "hook_event_name": "Notification", "message": giant });

    let events = join_all((0..50).map(|_| agent.report(&event, "")));
    let events = tokio::time::timeout(4 * PATIENCE, events).await.unwrap();

    // What follows such an event on its connection is the rest of it.
    let refused = |it: &Answer| it.status == 413 && it.is_last();
    assert!(events.iter().all(refused));
    let call = agent.post(GENERATE, prompt(&giant).to_string()).await;
    assert_eq!(call.status, 413);
}

#[tokio::test]
async fn large_bodies_together_keep_to_the_memory_there_is() {
    let (sign, mut held) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(());
    let upstream = Upstream::raw(move |_, mut socket| {
        let (sign, mut released) = (sign.clone(), released.clone());
        async move {
            sign.send(()).unwrap();
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
        .map(|_| tokio::spawn(ask(gate.agent(), body.clone())))
        .collect();
    signalled(&mut held, "the first call").await;
    signalled(&mut held, "the second call").await;

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
    counted(&gate, "hookgate_buffered_bytes 0").await;
}

async fn ask(agent: Agent, body: Value) -> Answer {
    agent.generate("m", &body).await
}
