//! Model APIs that are called over HTTP/2.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use h2::{Reason, server};
use http::Response;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{End, TestGateway, Upstream, prompt, rest};

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
    // One for each event loop at most.
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(upstream.connections() <= cores);
}

/// A model API that sends an event, and then resets the stream or ends the connection.
async fn breaking(how: Break) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(break_off(socket, how, Arc::clone(&counted)));
        }
    });
    (addr, calls)
}

#[derive(Debug, Clone, Copy)]
enum Break {
    Stream,
    Connection,
}

async fn break_off(socket: TcpStream, how: Break, calls: Arc<AtomicUsize>) {
    let mut connection = server::handshake(socket).await.unwrap();
    while let Some(Ok((_request, mut respond))) = connection.accept().await {
        calls.fetch_add(1, Ordering::SeqCst);
        let head = Response::builder().header("content-type", "text/event-stream");
        let mut body = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        body.send_data("data: {\"n\":1}\n\n".into(), false).unwrap();
        match how {
            // After the data has been sent.
            Break::Stream => drop(tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                body.send_reset(Reason::INTERNAL_ERROR);
            })),
            Break::Connection => {
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
async fn a_stream_that_breaks_off_breaks_for_the_agent() {
    for how in [Break::Stream, Break::Connection] {
        for hooks in ["", HOOKED] {
            let (addr, calls) = breaking(how).await;
            let unused = Upstream::mock().await;
            let config = HTTP2.replace("{upstream}", &format!("http://{addr}"));
            let gateway = TestGateway::start(&unused, &format!("{config}{hooks}")).await;

            for number in 1..=3 {
                let body = prompt("hi").to_string();
                let mut answer = gateway.agent().open(SSE, body).await;
                let (text, end) = rest(&mut answer).await;

                assert_eq!(end, End::Broken, "{how:?} {hooks} {text}");
                assert!(text.contains("\"n\":1"), "{how:?} {hooks} {text}");
                assert_eq!(calls.load(Ordering::SeqCst), number, "no call is repeated");
            }
        }
    }
}

#[tokio::test]
async fn an_upstream_without_http2_is_an_error_with_a_reason() {
    let upstream = Upstream::raw(|_, socket| async move { drop(socket) }).await;
    let gateway = TestGateway::start(&upstream, HTTP2).await;

    let answer = gateway.agent().generate("m", &prompt("hi")).await;

    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("UPSTREAM_UNREACHABLE"));
}
