//! Rate limits, token quotas and concurrency limits of callers.

use std::{convert::Infallible, io::Write, time::Duration};

use axum::{body::Body, response::Response};
use flate2::{Compression, write::GzEncoder};
use futures_util::{FutureExt, future::join_all, stream};
use http_body_util::BodyExt;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{assert_late_sizes_count, auth, sha256};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, chunked_head,
    eventually, hook, hookgate, next_chunk, prompt, respond, write_chunk, write_last_chunk,
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
    let hooks = hook::config(&[("BeforeModel", hook::command("count", "echo x >> ran"))]);
    let gate = TestGateway::start(&upstream, &(callers + limits + &hooks)).await;

    for (name, allowed) in [("team-a", 2), ("team-b", 3)] {
        for _ in 0..allowed {
            let answer = agent(&gate, name).generate("m", &prompt("hi")).await;
            assert_eq!(answer.status, 200);
        }
        let runs = gate.file("ran");
        let answer = agent(&gate, name).generate("m", &prompt("hi")).await;
        assert_refused(&answer, 429, "RATE_LIMIT_EXCEEDED");
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=30).contains(&wait), "{wait}");
        assert_eq!(gate.file("ran"), runs);
    }
    assert_eq!(upstream.requests().len(), 5);
}

/// Returns an answer that costs 40 tokens, streamed or not.
fn expensive_answer(query: &str) -> Response {
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
        let events = chunks
            .map(|chunk| format!("data: {chunk}\r\n\r\n"))
            .concat();
        return respond(200, "text/event-stream", events);
    }
    respond(200, "application/json", chunk("ab", 40, stop()).to_string())
}

#[tokio::test]
async fn token_quotas_count_buffered_and_streamed_answers() {
    let hooks = hook::config(&[
        ("BeforeModel", hook::command("request", "true")),
        ("AfterModel", hook::command("answer", "true")),
    ]);
    for hooks in ["", &hooks] {
        let upstream = Upstream::with(|asked| expensive_answer(&asked.query)).await;
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
        assert_eq!(upstream.requests().len(), 4);
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
async fn each_retry_of_an_answer_counts_against_the_token_quota() {
    let upstream = Upstream::with(|asked| expensive_answer(&asked.query)).await;
    let once = "test -e said || { touch said; echo again >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("AfterAgent", hook::command("retry", once))]);
    let config = auth(&[("team-a", ", tokens_per_day: 1000")]) + &hooks;
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = agent(&gate, "team-a").stream("m", &prompt("1")).await;

    assert_eq!((answer.status, upstream.requests().len()), (200, 2));
    let metrics = gate.operator().get("/metrics").await;
    let line = "hookgate_caller_tokens_total{caller=\"team-a\"} 80";
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[tokio::test]
async fn an_embedding_without_a_count_costs_an_estimate_of_its_request() {
    let values = json!({ "embedding": { "values": vec![0.5; 500] } }).to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", values.clone())).await;
    let content = json!({ "parts": [{ "text": "word ".repeat(80) }] });
    let body = json!({ "content": content }).to_string();
    let hooks = "policies: [{ policy: redact }]\n";

    for more in ["", hooks] {
        let config = auth(&[("team-a", ", tokens_per_day: 150")]) + more;
        let gate = TestGateway::start(&upstream, &config).await;
        let caller = agent(&gate, "team-a");
        let embed = || caller.post("/v1beta/models/m:embedContent", body.clone());
        // The size of a body may be known only at its end.
        let chunked = format!(
            "POST /v1beta/models/m:embedContent HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             x-hookgate-key: team-a-key\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let first = crate::harness::send_and_read(gate.agents, chunked.as_bytes()).await;
        assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
        assert_eq!(embed().await.status, 200);
        assert_refused(&embed().await, 429, "TOKEN_QUOTA_EXCEEDED");
        let spent = 2 * body.len().div_ceil(4);
        let line = format!("hookgate_caller_tokens_total{{caller=\"team-a\"}} {spent}\n");
        let metrics = gate.operator().get("/metrics").await;
        assert!(metrics.text().contains(&line), "{}", metrics.text());
    }
}

#[tokio::test]
async fn an_embedding_that_is_not_read_costs_an_estimate_of_its_decoded_request() {
    let upstream = Upstream::answering(&json!({})).await;
    let caller = auth(&[("team-a", ", tokens_per_day: 9000")]);
    let config = format!(
        "upstreams: {{ openai: {{ url: \"http://{}\" }} }}\n{caller}",
        upstream.addr
    );
    let gate = TestGateway::start(&upstream, &config).await;
    let body = json!({ "model": "m", "input": vec![15339; 800] }).to_string();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body.as_bytes()).unwrap();
    let gzip = encoder.finish().unwrap();
    assert!(gzip.len() < 200);
    let sized = |length: usize| format!("content-length: {length}\r\n\r\n");
    let chunked = |length: usize| format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n");
    let compressed = "content-encoding: gzip\r\n";
    for (index, (encoding, body_head, sent, end)) in [
        ("", sized(body.len()), body.as_bytes(), ""),
        ("", chunked(body.len()), body.as_bytes(), "\r\n0\r\n\r\n"),
        (compressed, sized(gzip.len()), &gzip[..], ""),
        (compressed, chunked(gzip.len()), &gzip[..], "\r\n0\r\n\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let head = format!(
            "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             x-hookgate-key: team-a-key\r\n{encoding}{body_head}"
        );
        let request = [head.as_bytes(), sent, end.as_bytes()].concat();

        let answer = crate::harness::send_and_read(gate.agents, &request).await;

        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let spent = (index + 1) * body.len().div_ceil(4);
        let line = format!("hookgate_caller_tokens_total{{caller=\"team-a\"}} {spent}\n");
        let metrics = gate.operator().get("/metrics").await;
        assert!(metrics.text().contains(&line), "{}", metrics.text());
    }
}

#[tokio::test]
async fn a_disconnected_caller_is_charged_an_estimate_of_its_tokens() {
    // Sends part of an answer or nothing, then stalls until the agent disconnects.
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
    let hooks = hook::config(&[("AfterModel", hook::command("answer", "true"))]);
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
        let min = body.len() / 4;
        let before = upstream.requests().len();

        let caller = agent(&gate, "team-a");
        let call = tokio::spawn(async move {
            let mut answer = caller.open(vertex, body).await;
            answer.chunk().await.unwrap()
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while upstream.requests().len() == before || (text == "piece" && !call.is_finished()) {
            assert!(std::time::Instant::now() < deadline, "no request received");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        call.abort();

        let name = "hookgate_caller_tokens_total{caller=\"team-a\"} ";
        let spent = loop {
            assert!(std::time::Instant::now() < deadline, "no tokens counted");
            let metrics = gate.operator().get("/metrics").await;
            let mut lines = metrics.text().lines();
            let line = lines.find_map(|line| line.strip_prefix(name));
            if let Some(count) = line {
                break count.parse::<usize>().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!((min..min + 100).contains(&spent), "{spent} {min}");
        let refused = agent(&gate, "team-a").generate("m", &prompt("hi")).await;
        assert_refused(&refused, 429, "TOKEN_QUOTA_EXCEEDED");
    }
}

/// Returns the first event of a streamed answer on an API, and one event of its text.
fn first_events(path: &str) -> (&'static str, &'static str) {
    match path {
        "/v1/messages" => (
            concat!(
                r#"data: {"type":"message_start","message":{"id":"a","type":"message","#,
                r#""role":"assistant","model":"m","content":[],"stop_reason":null,"#,
                r#""usage":{"input_tokens":9,"output_tokens":1}}}"#,
                "\n\n"
            ),
            concat!(
                r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","#,
                r#""text":"word"}}"#,
                "\n\n"
            ),
        ),
        "/v1/responses" => (
            concat!(
                r#"data: {"type":"response.created","response":{"id":"a","output":[],"#,
                r#""usage":null}}"#,
                "\n\n"
            ),
            "data: {\"type\":\"response.output_text.delta\",\"delta\":\"word\"}\n\n",
        ),
        _ => (
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"}}]}\n\n",
        ),
    }
}

#[tokio::test]
async fn an_abandoned_answer_is_charged_for_its_text_whatever_it_has_counted() {
    let upstream = Upstream::raw(async |asked, mut socket| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        let (start, piece) = first_events(&asked.path);
        let events = format!("{start}{}: last\n\n", piece.repeat(100));
        write_chunk(&mut socket, events.as_bytes()).await.unwrap();
        socket.read_u8().await.ok();
    })
    .await;
    let upstreams = format!(
        "upstreams: {{ anthropic: {{ url: \"http://{0}\" }}, openai: {{ url: \"http://{0}\" }} }}\n",
        upstream.addr
    );
    for path in ["/v1/messages", "/v1/responses", "/v1/chat/completions"] {
        let config = auth(&[("team-a", ", tokens_per_day: 100000")]) + &upstreams;
        let gate = TestGateway::start(&upstream, &config).await;
        let caller = agent(&gate, "team-a").sending("content-type", "application/json");
        let body = match path {
            "/v1/responses" => json!({ "model": "m", "stream": true, "input": "hi" }),
            _ => json!({ "model": "m", "stream": true, "max_tokens": 999,
                "messages": [{ "role": "user", "content": "hi" }] }),
        };

        let mut answer = caller.open(path, body.to_string()).await;
        assert_eq!(answer.status(), 200, "{path}");
        let mut text = String::new();
        while !text.contains(": last") {
            text += &next_chunk(&mut answer).await;
        }
        drop(answer);

        let name = "hookgate_caller_tokens_total{caller=\"team-a\"}";
        let deadline = std::time::Instant::now() + TEST_TIMEOUT;
        let mut spent = 0;
        while spent < 100 && std::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let metrics = gate.operator().get("/metrics").await;
            let mut lines = metrics.text().lines();
            let count = lines.find_map(|line| line.strip_prefix(name));
            spent = count.map_or(0, |count| count.trim().parse().unwrap());
        }
        assert!((100..160).contains(&spent), "{path}: {spent}");
    }
}

#[tokio::test]
async fn a_call_reserves_its_own_maximum_of_output_while_hooks_run() {
    let upstream = Upstream::mock().await;
    let slow = hook::command("slow", "echo >> started; sleep 1");
    let slow = hook::config(&[("BeforeModel", slow)]);
    let config = auth(&[("team-a", ", tokens_per_day: 20000")]) + &slow;
    let gate = TestGateway::start(&upstream, &config).await;
    let mut request = prompt("hi");
    request["generationConfig"] = json!({ "maxOutputTokens": 50 });

    let mut calls = Vec::new();
    for count in 1..=4 {
        let (agent, request) = (agent(&gate, "team-a"), request.clone());
        calls.push(tokio::spawn(
            async move { agent.generate("m", &request).await },
        ));
        // Before it is read, a call reserves more.
        let is_read = || gate.file("started").lines().count() == count;
        eventually("the hook starts", TEST_TIMEOUT, is_read).await;
    }

    for answer in join_all(calls).await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn later_calls_reserve_what_streams_without_a_count_have_cost() {
    let upstream = Upstream::with(|_| {
        let late = stream::once(async {
            // Until all calls are in flight.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let (start, piece) = first_events("/v1/chat/completions");
            Ok::<_, Infallible>(format!("{start}{piece}data: [DONE]\n\n"))
        });
        respond(200, "text/event-stream", Body::from_stream(late))
    })
    .await;
    let config = format!(
        "upstreams: {{ openai: {{ url: \"http://{}\" }} }}\n{}",
        upstream.addr,
        auth(&[("team-a", ", tokens_per_day: 60000, in_flight: 20")]),
    );
    let gate = TestGateway::start(&upstream, &config).await;
    let caller = agent(&gate, "team-a");
    let body = json!({ "model": "m", "stream": true,
        "messages": [{ "role": "user", "content": "hi" }] });
    let ask = || caller.post("/v1/chat/completions", body.to_string());
    for _ in 0..2 {
        assert_eq!(ask().await.status, 200);
    }

    // Without a known cost, each would reserve 8192 tokens.
    let answers = join_all((0..20).map(|_| ask())).await;

    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn requests_of_unknown_size_are_refused_if_their_tokens_do_not_fit() {
    let upstream = Upstream::counting().await;
    let config = auth(&[("team-a", ", tokens_per_day: 60000, in_flight: 20")]);
    let text = "word ".repeat(32_000);
    let embedding = json!({ "content": { "parts": [{ "text": text }] } });
    for (method, body) in [
        ("generateContent", prompt(&text)),
        ("embedContent", embedding),
    ] {
        let path = format!("/v1beta/models/m:{method}");
        let body = body.to_string().into_bytes();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&body).unwrap();
        let gzip = encoder.finish().unwrap();
        for (encoding, body) in [("identity", &body), ("gzip", &gzip)] {
            let gate = TestGateway::start(&upstream, &config).await;
            let caller = agent(&gate, "team-a");
            // Later calls reserve what this one has cost.
            let answer = caller.generate("m", &prompt("hi")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());

            let caller = caller.sending("content-encoding", encoding);
            assert_late_sizes_count(&vec![caller; 20], &path, body).await;
            let metrics = gate.operator().get("/metrics").await;
            let metrics = metrics.text();
            let refused =
                "hookgate_caller_requests_total{caller=\"team-a\",outcome=\"token_quota\"}";
            let refused = metrics.lines().find_map(|line| line.strip_prefix(refused));
            let refused: u64 = refused.unwrap().trim().parse().unwrap();
            assert!((18..=19).contains(&refused), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_compressed_answer_is_decoded_and_its_tokens_are_counted() {
    let upstream = Upstream::with(|asked| {
        let (mut head, body) = expensive_answer(&asked.query).into_parts();
        let body = body.collect().now_or_never().unwrap().unwrap().to_bytes();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&body).unwrap();
        head.headers.remove("content-length");
        let gzip = "gzip".parse().unwrap();
        head.headers.insert("content-encoding", gzip);
        Response::from_parts(head, encoder.finish().unwrap().into())
    })
    .await;
    for hooks in ["", "policies: [{ policy: prompt_guard, deny: [secret] }]\n"] {
        let config = auth(&[("team-a", ", tokens_per_day: 1000")]) + hooks;
        let gate = TestGateway::start(&upstream, &config).await;

        let answer = agent(&gate, "team-a").generate("m", &prompt("1")).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["usageMetadata"]["totalTokenCount"], 40);
        let metrics = gate.operator().get("/metrics").await;
        let line = "hookgate_caller_tokens_total{caller=\"team-a\"} 40";
        assert!(metrics.text().contains(line), "{}", metrics.text());
    }
}

#[tokio::test]
async fn an_answer_with_unreadable_token_counts_is_refused() {
    let upstream = Upstream::with(|_| {
        let mut response = respond(200, "application/json", "\u{1f}\u{8b}");
        let brotli = "br".parse().unwrap();
        response.headers_mut().insert("content-encoding", brotli);
        response
    })
    .await;
    let config = auth(&[("team-a", ", tokens_per_day: 10"), ("team-b", "")]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = |name| agent(&gate, name).sending("accept-encoding", "gzip");

    let answer = agent("team-a").generate("m", &prompt("1")).await;
    assert_refused(&answer, 502, "UPSTREAM_UNREADABLE");
    assert_eq!(
        upstream.only_request().header("accept-encoding"),
        "identity"
    );
    let answer = agent("team-b").generate("m", &prompt("1")).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn the_concurrency_limit_of_a_caller_leaves_slots_for_others() {
    let upstream = Upstream::raw(async |_, mut socket| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"data: {}\r\n\r\n").await.unwrap();
        // The stream stays open until the agent disconnects.
        if socket.read(&mut [0]).await.is_err() {
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    // Without a limit of its own, a caller may use half of all slots.
    for (total, own_limit) in [(4, ""), (100, ", in_flight: 2")] {
        let limits = format!("limits: {{ in_flight: {total} }}\n");
        let config = auth(&[("team-a", own_limit), ("team-b", own_limit)]) + &limits;
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
                "its slot is not freed"
            );
        }
    }
}

#[tokio::test]
async fn a_reload_that_changes_keys_resets_no_rate_limit() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let write = |key: &str| {
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
             upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
             auth: {{ keys: [{{ name: team-a, sha256: {}, requests_per_minute: 2 }}] }}\n",
            upstream.addr,
            sha256(key),
        );
        std::fs::write(&file, text).unwrap();
    };
    write("old");
    let mut gateway =
        ServerProcess::start(hookgate(&["serve", "--config", file.to_str().unwrap()]));
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
    let metrics = Agent::at(operators).get("/metrics").await;
    let line = "hookgate_caller_requests_total{caller=\"team-a\",outcome=\"accepted\"} 2";
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[tokio::test]
async fn counting_tokens_costs_none() {
    let upstream =
        Upstream::with(|_| respond(200, "application/json", "{\"input_tokens\":1000}")).await;
    for hooks in ["", "policies: [{ policy: prompt_guard, deny: [secret] }]\n"] {
        let more = format!(
            "upstreams: {{ anthropic: {{ url: \"http://{0}\" }}, openai: {{ url: \"http://{0}\" }} }}\n",
            upstream.addr
        );
        let config = auth(&[("team-a", ", tokens_per_day: 1500")]) + &more + hooks;
        let gate = TestGateway::start(&upstream, &config).await;
        let caller = agent(&gate, "team-a").sending("content-type", "application/json");
        let count = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
        let input = json!({ "model": "m", "input": "hi" });

        for (path, body) in [
            ("/v1/messages/count_tokens", &count),
            ("/v1/responses/input_tokens", &input),
            ("/v1/messages/count_tokens", &count),
        ] {
            let answer = caller.post(path, body.to_string()).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }

        let metrics = gate.operator().get("/metrics").await;
        let counted = "hookgate_caller_tokens_total{caller=\"team-a\"}";
        assert!(!metrics.text().contains(counted), "{}", metrics.text());
    }
}

#[tokio::test]
async fn requests_that_cost_no_tokens_are_served_once_the_day_is_spent() {
    let upstream = Upstream::with(|asked| expensive_answer(&asked.query)).await;
    let guard = hook::config(&[("BeforeTool", hook::denying("guard", "no tools"))]);
    let config = auth(&[("team-a", ", tokens_per_day: 30")]) + &guard;
    let gate = TestGateway::start(&upstream, &config).await;
    let caller = agent(&gate, "team-a");

    let call = caller.generate("m", &prompt("1")).await;
    let refused = caller.generate("m", &prompt("2")).await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t", "tool_input": {} });
    let reported = caller.report(&event, "").await;
    let models = caller.get("/v1beta/models").await;
    let path = "/v1beta/models/m:countTokens";
    let counted = caller.post(path, prompt("3").to_string()).await;

    assert_eq!(call.status, 200, "{}", call.text());
    assert_refused(&refused, 429, "TOKEN_QUOTA_EXCEEDED");
    assert_eq!(reported.json()["decision"], "deny", "{}", reported.text());
    assert_eq!(models.status, 200, "{}", models.text());
    assert_eq!(counted.status, 200, "{}", counted.text());
}
