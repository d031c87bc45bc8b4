//! Requests whose body is still being received.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{GENERATE, HOOKED, until_metric};
use crate::harness::{
    Agent, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, eventually, prompt,
    wait_until_closed,
};

/// Sends a request of which the last byte is missing.
async fn slow_upload(gateway: &TestGateway, path: &str, header: &str) -> TcpStream {
    let body = prompt("hello").to_string();
    let (start, _last) = body.split_at(body.len() - 1);
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         {header}content-length: {}\r\n\r\n{start}",
        body.len()
    );
    let mut socket = TcpStream::connect(gateway.agents).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// Sends the last byte and returns the first part of the response.
async fn complete(mut socket: TcpStream) -> String {
    socket.write_all(b"}").await.unwrap();
    let mut response = vec![0; 4096];
    let length = socket.read(&mut response).await.unwrap();
    String::from_utf8_lossy(&response[..length]).into_owned()
}

#[tokio::test]
async fn forty_slow_uploads_leave_every_request_slot_free() {
    for hooks in [HOOKED, ""] {
        let upstream = Upstream::mock().await;
        let config = format!("limits: {{ in_flight: 4 }}\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        let mut uploads = Vec::new();
        for number in 0..40 {
            let path = ["/hookgate/v1/events", GENERATE][usize::from(number % 2 == 0)];
            uploads.push(slow_upload(&gateway, path, "").await);
        }
        until_metric(&gateway, "hookgate_connections 41").await;

        let answer = gateway.agent().generate("m", &prompt("hi")).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        until_metric(&gateway, "hookgate_receiving 40").await;
        let upload = uploads.remove(0);
        let response = complete(upload).await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        drop(uploads);
        until_metric(&gateway, "hookgate_receiving 0").await;
        until_metric(&gateway, "hookgate_in_flight 0").await;
    }
}

#[tokio::test]
async fn an_upload_that_completes_beyond_the_limit_is_refused() {
    for hooks in [HOOKED, ""] {
        let upstream =
            Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await })
                .await;
        let config = format!("limits: {{ in_flight: 1 }}\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        let call = slow_upload(&gateway, GENERATE, "").await;
        let event = slow_upload(&gateway, "/hookgate/v1/events", "").await;
        until_metric(&gateway, "hookgate_receiving 2").await;
        let agent: Agent = gateway.agent();
        let hanging = tokio::spawn(async move { agent.generate("m", &prompt("hi")).await.status });
        eventually("one request is complete", TEST_TIMEOUT, || {
            upstream.requests().len() == 1
        })
        .await;

        for upload in [call, event] {
            let response = complete(upload).await;
            assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
            assert!(
                response.contains("too many requests in flight"),
                "{response}"
            );
        }

        assert_eq!(
            upstream.requests().len(),
            1,
            "only the first request is complete"
        );
        hanging.abort();
    }
}

#[tokio::test]
async fn a_get_counts_before_its_body_is_received() {
    let upstream =
        Upstream::raw(|_, mut socket| async move { wait_until_closed(&mut socket).await }).await;
    let gateway = TestGateway::start(&upstream, "limits: { in_flight: 1 }").await;
    let mut socket = TcpStream::connect(gateway.agents).await.unwrap();
    let head =
        "GET /v1beta/models HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";

    socket.write_all(head.as_bytes()).await.unwrap();

    until_metric(&gateway, "hookgate_in_flight 1").await;
    let refused = gateway.agent().generate("m", &prompt("hi")).await;
    assert_refused(&refused, 503, "OVERLOADED");
}

#[tokio::test]
async fn slow_uploads_count_against_the_limit_of_their_caller() {
    let upstream = Upstream::mock().await;
    let (key, digest) = hookgate::auth::new_key().unwrap();
    let config = format!("auth: {{ keys: [{{ name: ci, sha256: \"{digest}\", in_flight: 1 }}] }}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let header = format!("x-hookgate-key: {key}\r\n");
    let upload = slow_upload(&gateway, GENERATE, &header).await;
    until_metric(&gateway, "hookgate_receiving 1").await;
    let agent = gateway.agent().sending("x-hookgate-key", &key);

    let refused = agent.generate("m", &prompt("hi")).await;

    assert_refused(&refused, 429, "CONCURRENCY_LIMIT_EXCEEDED");
    let message = &refused.json()["error"]["message"];
    let expected = "concurrency limit exceeded for caller `ci`: 1 requests at the same time";
    assert_eq!(message, &json!(expected));
    drop(upload);
}
