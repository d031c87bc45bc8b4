//! How much each caller may use.

use std::time::Duration;

use axum::response::Response;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{auth, sha256};
use crate::harness::{
    Agent, Served, TestGateway, Upstream, assert_refused, chunked_head, hook, hookgate, prompt,
    respond, write_chunk, write_last_chunk,
};

fn agent(gate: &TestGateway, name: &str) -> Agent {
    let key = format!("{name}-key");
    gate.agent().sending("x-hookgate-key", key)
}

#[tokio::test]
async fn a_rate_limited_caller_gets_a_retry_after_and_no_hook_runs() {
    let upstream = Upstream::mock().await;
    let limits = "  limits: { requests_per_minute: 2 }\n";
    let callers = auth(&[("team-a", ""), ("team-b", ", requests_per_minute: 3")]);
    let hooks = hook::config(&[("BeforeModel", hook::running("count", "echo x >> ran"))]);
    let gate = TestGateway::start(&upstream, &(callers + limits + &hooks)).await;

    for (name, often) in [("team-a", 2), ("team-b", 3)] {
        for _ in 0..often {
            let answer = agent(&gate, name).generate("m", &prompt("hi")).await;
            assert_eq!(answer.status, 200);
        }
        let ran = gate.file("ran");
        let answer = agent(&gate, name).generate("m", &prompt("hi")).await;
        assert_refused(&answer, 429, "RATE_LIMIT_EXCEEDED");
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=30).contains(&wait), "{wait}");
        assert_eq!(gate.file("ran"), ran);
    }
    assert_eq!(upstream.seen().len(), 5);
}

/// An answer that cost 40 tokens, however it is asked for.
fn dear(query: &str) -> Response {
    let chunk = |text: &str, total: u64, more: Value| {
        let mut candidate = json!({ "content": { "role": "model", "parts": [{ "text": text }] } });
        if let (Some(all), Some(more)) = (candidate.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        json!({ "candidates": [candidate], "usageMetadata": { "totalTokenCount": total } })
    };
    let stop = || json!({ "finishReason": "STOP" });
    let chunks = [
        chunk("{\"totalTokenCount\": 9000}", 7, json!({})),
        chunk("b", 40, stop()),
    ];
    if query.contains("alt=sse") {
        let events = chunks.map(|it| format!("data: {it}\r\n\r\n")).concat();
        return respond(200, "text/event-stream", events);
    }
    respond(200, "application/json", chunk("ab", 40, stop()).to_string())
}

#[tokio::test]
async fn tokens_are_counted_on_every_way_and_end() {
    let hooks = hook::config(&[
        ("BeforeModel", hook::running("request", "true")),
        ("AfterModel", hook::running("answer", "true")),
    ]);
    for hooks in ["", &hooks] {
        let upstream = Upstream::with(|asked| dear(&asked.query)).await;
        let config = auth(&[("team-a", ", tokens_per_day: 150"), ("team-b", "")]) + hooks;
        let gate = TestGateway::start(&upstream, &config).await;
        let caller = agent(&gate, "team-a");

        assert_eq!(caller.generate("m", &prompt("1")).await.status, 200);
        assert_eq!(caller.stream("m", &prompt("2")).await.status, 200);
        assert_eq!(caller.stream("m", &prompt("3")).await.status, 200);
        assert_eq!(caller.generate("m", &prompt("4")).await.status, 200);
        let refused = caller.generate("m", &prompt("5")).await;

        assert_refused(&refused, 429, "TOKEN_QUOTA_EXCEEDED");
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=86_400).contains(&wait), "{wait}");
        assert_eq!(upstream.seen().len(), 4);
        assert_eq!(
            agent(&gate, "team-b")
                .generate("m", &prompt("6"))
                .await
                .status,
            200
        );
        let metrics = gate.operator().get("/metrics").await;
        for line in [
            "hookgate_caller_tokens_total{caller=\"team-a\"} 160",
            "hookgate_caller_requests_total{caller=\"team-a\",outcome=\"token_quota\"} 1",
        ] {
            assert!(metrics.text().contains(line), "{}", metrics.text());
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_asked_for_again_is_paid_for_again() {
    let upstream = Upstream::with(|asked| dear(&asked.query)).await;
    let once = "test -e said || { touch said; echo again >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("AfterAgent", hook::running("retry", once))]);
    let config = auth(&[("team-a", ", tokens_per_day: 1000")]) + &hooks;
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = agent(&gate, "team-a").stream("m", &prompt("1")).await;

    assert_eq!((answer.status, upstream.seen().len()), (200, 2));
    let metrics = gate.operator().get("/metrics").await;
    let line = "hookgate_caller_tokens_total{caller=\"team-a\"} 80";
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[tokio::test]
async fn who_leaves_before_the_cost_is_said_pays_all_the_same() {
    // A piece of an answer, or nothing yet; then nothing as long as the agent stays.
    let upstream = Upstream::raw(async |asked, mut socket| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        if asked.body.contains("piece") {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            let chunk =
                br#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]}}]}"#;
            let event = [&chunk[..], b"\r\n\r\n"].concat();
            write_chunk(&mut socket, &event).await.unwrap();
        }
        socket.read_u8().await.ok();
    })
    .await;
    let hooks = hook::config(&[("AfterModel", hook::running("answer", "true"))]);
    let vertex = "/v1/publishers/google/models/m:streamGenerateContent?alt=sse";
    for (hooks, text) in [
        ("", "piece"),
        (&hooks, "piece"),
        ("", "none"),
        (&hooks, "none"),
    ] {
        let config = auth(&[("team-a", ", tokens_per_day: 90")]) + hooks;
        let gate = TestGateway::start(&upstream, &config).await;
        let body = prompt(&text.repeat(100)).to_string();
        let least = body.len() / 4;
        let before = upstream.seen().len();

        let caller = agent(&gate, "team-a");
        let left = tokio::spawn(async move {
            let mut answer = caller.open(vertex, body).await;
            answer.chunk().await.unwrap()
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while upstream.seen().len() == before || (text == "piece" && !left.is_finished()) {
            assert!(std::time::Instant::now() < deadline, "nothing was asked");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        left.abort();

        let mut refused = agent(&gate, "team-a").get("/v1beta/models/x/y").await;
        while refused.status != 429 {
            assert!(std::time::Instant::now() < deadline, "it cost nothing");
            tokio::time::sleep(Duration::from_millis(10)).await;
            refused = agent(&gate, "team-a").get("/v1beta/models/x/y").await;
        }
        assert_refused(&refused, 429, "TOKEN_QUOTA_EXCEEDED");
        let name = "hookgate_caller_tokens_total{caller=\"team-a\"} ";
        let spent = loop {
            assert!(std::time::Instant::now() < deadline, "no tokens counted");
            let metrics = gate.operator().get("/metrics").await;
            let line = metrics.text().lines().find_map(|it| it.strip_prefix(name));
            if let Some(count) = line {
                break count.parse::<usize>().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!((least..least + 100).contains(&spent), "{spent} {least}");
    }
}

#[tokio::test]
async fn an_answer_whose_cost_cannot_be_read_is_not_passed_on() {
    let upstream = Upstream::with(|_| {
        let mut response = respond(200, "application/json", "\u{1f}\u{8b}");
        let gzip = "gzip".parse().unwrap();
        response.headers_mut().insert("content-encoding", gzip);
        response
    })
    .await;
    let config = auth(&[("team-a", ", tokens_per_day: 10"), ("team-b", "")]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = |name| agent(&gate, name).sending("accept-encoding", "gzip");

    let answer = agent("team-a").generate("m", &prompt("1")).await;
    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
    assert_eq!(upstream.only().header("accept-encoding"), "identity");
    let answer = agent("team-b").generate("m", &prompt("1")).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn one_caller_leaves_room_for_others() {
    let upstream = Upstream::raw(async |_, mut socket| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"data: {}\r\n\r\n").await.unwrap();
        // Until the agent leaves.
        if socket.read(&mut [0]).await.is_err() {
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    // Without a number of its own, a caller has half of all.
    for (of_all, own) in [(4, ""), (100, ", in_flight: 2")] {
        let limits = format!("limits: {{ in_flight: {of_all} }}\n");
        let config = auth(&[("team-a", own), ("team-b", own)]) + &limits;
        let gate = TestGateway::start(&upstream, &config).await;
        let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
        let ask = async |name| {
            agent(&gate, name)
                .open(path, prompt("hi").to_string())
                .await
        };

        let (first, second) = (ask("team-a").await, ask("team-a").await);
        let third = agent(&gate, "team-a").generate("m", &prompt("hi")).await;
        let other = ask("team-b").await;

        assert_eq!(
            (first.status(), second.status()),
            (other.status(), other.status())
        );
        assert_refused(&third, 429, "CONCURRENCY_LIMIT_EXCEEDED");
        assert_eq!(third.header("retry-after"), "1");
        drop(first);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while ask("team-a").await.status() != 200 {
            assert!(
                std::time::Instant::now() < deadline,
                "its place is not free again"
            );
        }
    }
}

#[tokio::test]
async fn what_is_used_up_stays_so_when_keys_change() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let write = |key: &str| {
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\nupstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
             auth: {{ keys: [{{ name: team-a, sha256: {}, requests_per_minute: 2 }}] }}\n",
            upstream.addr,
            sha256(key),
        );
        std::fs::write(&file, text).unwrap();
    };
    write("old");
    let mut gateway = Served::start(hookgate(&["serve", "--config", file.to_str().unwrap()]));
    let (agents, operators) = (gateway.addr(), gateway.operators());
    let ask = async |key: &str| {
        let agent = Agent::at(agents).sending("x-hookgate-key", key);
        let session = agent.sending("x-hookgate-session", "mine");
        session.generate("m", &prompt("hi")).await
    };
    assert_eq!(ask("old").await.status, 200);

    write("new");
    gateway.signal(Signal::HUP);
    let mut second = ask("new").await;
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while second.status == 401 && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(500)).await;
        second = ask("new").await;
    }

    assert_eq!(second.status, 200);
    assert_refused(&ask("new").await, 429, "RATE_LIMIT_EXCEEDED");
    assert_refused(&ask("old").await, 401, "UNAUTHENTICATED");
    let reloads = Agent::at(operators).get("/metrics").await;
    let line = "hookgate_caller_requests_total{caller=\"team-a\",outcome=\"accepted\"} 2";
    assert!(reloads.text().contains(line), "{}", reloads.text());
}
