//! HTTP/2 connections to model APIs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use h2::{Reason, server};
use http::Response;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Agent, End, TestGateway, Upstream, assert_refused, prompt, read_to_end};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const HOOKED: &str = "hooks: { AfterModel: [{ hooks: [{ \
                      type: builtin, policy: redact, detect: [email] }] }] }\n";
const HTTP2: &str = "upstreams: { gemini: { url: \"{upstream}\", http2: true } }\n";

#[tokio::test]
async fn calls_share_a_connection() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, &format!("{HTTP2}{HOOKED}")).await;
    let agent = gateway.agent();
    let body = prompt("hi");
    let first = agent.generate("m", &body).await;

    let answers = join_all((0..20).map(|_| agent.generate("m", &body))).await;

    assert_eq!(first.status, 200, "{}", first.text());
    for answer in answers {
        assert!(answer.text().contains("You said: hi"), "{}", answer.text());
    }
    // At most one connection for each event loop.
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(upstream.connections() <= cores);
}

/// Starts a model API that sends an event, and then resets the stream or closes the connection.
/// Returns its address and the number of its calls.
async fn start_aborting_upstream(abort: Abort) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(send_event_and_abort(socket, abort, Arc::clone(&counted)));
        }
    });
    (addr, calls)
}

#[derive(Debug, Clone, Copy)]
enum Abort {
    Stream(Reason),
    Connection,
}

async fn send_event_and_abort(socket: TcpStream, abort: Abort, calls: Arc<AtomicUsize>) {
    let mut connection = server::handshake(socket).await.unwrap();
    while let Some(Ok((_request, mut respond))) = connection.accept().await {
        calls.fetch_add(1, Ordering::SeqCst);
        let head = Response::builder().header("content-type", "text/event-stream");
        let mut body = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        body.send_data("data: {\"n\":1}\n\n".into(), false).unwrap();
        match abort {
            // The reset must not overtake the data.
            Abort::Stream(reason) => drop(tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                body.send_reset(reason);
            })),
            Abort::Connection => {
                let data_sent = std::time::Duration::from_millis(100);
                tokio::time::timeout(data_sent, connection.accept())
                    .await
                    .ok();
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_truncated_by_the_upstream_is_truncated_for_the_agent() {
    // A reset without an error is the end of a body only behind the end of the stream.
    let resets = [Reason::INTERNAL_ERROR, Reason::NO_ERROR].map(Abort::Stream);
    for abort in resets.into_iter().chain([Abort::Connection]) {
        for hooks in ["", HOOKED] {
            let (addr, calls) = start_aborting_upstream(abort).await;
            let unused = Upstream::mock().await;
            let config = HTTP2.replace("{upstream}", &format!("http://{addr}"));
            let gateway = TestGateway::start(&unused, &format!("{config}{hooks}")).await;

            for number in 1..=3 {
                let body = prompt("hi").to_string();
                let mut answer = gateway.agent().open(SSE, body).await;
                let (text, end) = read_to_end(&mut answer).await;

                assert_eq!(end, End::Broken, "{abort:?} {hooks} {text}");
                assert!(text.contains("\"n\":1"), "{abort:?} {hooks} {text}");
                assert_eq!(calls.load(Ordering::SeqCst), number, "no call is repeated");
            }
        }
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_support_http2_is_unreachable() {
    let upstream = Upstream::raw(|_, socket| async move { drop(socket) }).await;
    let gateway = TestGateway::start(&upstream, HTTP2).await;

    let answer = gateway.agent().generate("m", &prompt("hi")).await;

    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("UPSTREAM_UNREACHABLE"));
}

#[tokio::test]
async fn a_head_that_is_too_large_for_a_shared_connection_is_refused() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, HTTP2).await;
    let over_http1 = TestGateway::start(&upstream, "").await;
    for (bytes, names) in [
        (10_000, vec!["user-agent"]),
        (7_000, vec!["user-agent", "x-gemini-a", "x-gemini-b"]),
    ] {
        let value = "x".repeat(bytes);
        let with_headers =
            |agent| (names.iter()).fold(agent, |agent: Agent, &name| agent.sending(name, &value));
        let before = upstream.requests().len();

        let refused = with_headers(gateway.agent());
        let refused = refused.generate("m", &prompt("hi")).await;
        let sent = with_headers(over_http1.agent());
        let sent = sent.generate("m", &prompt("hi")).await;

        assert_refused(&refused, 431, "HEADERS_TOO_LARGE");
        assert_eq!(sent.status, 200, "{bytes}: {}", sent.text());
        assert_eq!(upstream.requests().len(), before + 1);
    }
}

#[tokio::test]
async fn usual_headers_are_sent_over_http2() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, HTTP2).await;
    let agent = gateway.agent().sending("user-agent", "x".repeat(7_000));

    let answer = agent.generate("m", &prompt("hi")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
}
