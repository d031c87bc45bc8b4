//! HTTP/2 connections from agents.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::SendRequest;
use http::{Request, Version};
use mock_model_api::MockConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::sleep,
};

use crate::{
    harness::{
        Agent, End, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, next_chunk, prompt,
        read_to_end,
    },
    tls::{self, Authority},
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// Opens an HTTP/2 connection on which a test sends its own requests.
pub async fn connect(addr: SocketAddr) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(addr).await.unwrap();
    let (sender, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// Opens an HTTP/2 connection whose client accepts 4 MiB at once, and receives 1 MiB a second.
async fn connect_slowly(addr: SocketAddr) -> SendRequest<Bytes> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let socket = socket.connect(addr).await.unwrap();
    let (mut from_gateway, mut to_gateway) = socket.into_split();
    let (near, far) = io::duplex(16 << 10);
    let (mut requests, mut responses) = io::split(far);
    tokio::spawn(async move { io::copy(&mut requests, &mut to_gateway).await });
    tokio::spawn(async move {
        let mut piece = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from_gateway.read(&mut piece).await {
            responses.write_all(&piece[..read]).await.unwrap();
            sleep(Duration::from_millis(15)).await;
        }
        responses.shutdown().await.unwrap();
    });
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(4 << 20);
    builder.initial_connection_window_size(4 << 20);
    let (sender, connection) = builder.handshake(near).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// Sends a request, and returns the status and the body of the response.
async fn call(sender: &mut SendRequest<Bytes>, request: Request<()>, body: &str) -> (u16, String) {
    let (response, mut stream) = sender.send_request(request, false).unwrap();
    stream.send_data(body.to_owned().into(), true).unwrap();
    let response = tokio::time::timeout(TEST_TIMEOUT, response).await.unwrap();
    let (head, mut body) = response.unwrap().into_parts();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        text.extend_from_slice(&data);
    }
    (head.status.as_u16(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn http1_and_http2_are_served_on_one_port() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let first = gateway.agent().generate("m", &prompt("hi")).await;

    let agent = gateway.agent().over_http2();
    let second = agent.generate("m", &prompt("hi")).await;
    let mut stream = agent.open(SSE, prompt("hi").to_string()).await;

    assert_eq!((first.status, second.status), (200, 200));
    let next = second.text().replace("mock-2", "mock-1");
    assert_eq!(first.text(), next);
    assert_eq!(stream.version(), Version::HTTP_2);
    assert_eq!(read_to_end(&mut stream).await.1, End::Clean);
}

#[tokio::test]
async fn tls_clients_negotiate_the_http_version() {
    let upstream = Upstream::mock().await;
    let authority = Authority::new("hookgate test");
    for (limits, expected) in [
        ("", Version::HTTP_2),
        ("limits: { http2_streams: 0 }\n", Version::HTTP_11),
    ] {
        let config = format!("{}{limits}", tls::TLS);
        let gateway = tls::gate(&upstream, &authority, &config).await;

        let agent = gateway.agent().over_tls(&authority.pem(), None);
        let answer = agent.open(SSE, prompt("hi").to_string()).await;

        assert_eq!(answer.version(), expected, "{limits}");
        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test]
async fn the_http2_preface_is_an_error_if_http2_is_disabled() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "limits: { http2_streams: 0 }\n").await;

    let agent = gateway.agent().over_http2();
    let refused = agent.try_open(SSE, prompt("hi").to_string()).await;

    assert!(refused.is_err());
}

#[tokio::test]
async fn a_tool_call_is_denied_on_every_stream_of_a_connection() {
    let call = json!({ "functionCall": { "name": "delete", "args": {} } });
    let answer = json!({ "candidates": [{
        "content": { "role": "model", "parts": [call] }, "finishReason": "STOP"
    }] });
    let upstream = Upstream::answering(&answer).await;
    let config = "denials: error\nhooks: { BeforeTool: [{ matcher: delete, hooks: [{ \
                  type: command, command: 'echo no >&2; exit 2' }] }] }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway.agent().over_http2();

    let request = request_with_tool();
    let answers = (0..8).map(|_| agent.stream("m", &request));
    let answers = join_all(answers).await;

    for answer in answers {
        assert!(!answer.text().contains("functionCall"), "{}", answer.text());
    }
}

/// Returns a request that declares the tool `delete`.
fn request_with_tool() -> Value {
    let mut request = prompt("delete all");
    request["tools"] = json!([{ "functionDeclarations": [{ "name": "delete" }] }]);
    request
}

#[tokio::test]
async fn a_host_header_that_differs_from_the_authority_is_refused() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let mut sender = connect(gateway.agents).await;
    let url = format!("http://{}/v1beta/models/m:generateContent", gateway.agents);
    let body = prompt("hi").to_string();

    let same = Request::post(&url).header("host", gateway.agents.to_string());
    let same = call(&mut sender, same.body(()).unwrap(), &body).await;
    let other = Request::post(&url).header("host", "other");
    let other = call(&mut sender, other.body(()).unwrap(), &body).await;

    assert_eq!(same.0, 200, "{}", same.1);
    assert_eq!(other.0, 400, "{}", other.1);
    assert!(other.1.contains("header `:authority` differs from `host`"));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn graceful_shutdown_closes_a_connection_after_its_streams() {
    let upstream = Upstream::mock_with(MockConfig {
        chunks: 10,
        interval: Duration::from_millis(100),
        ..MockConfig::default()
    })
    .await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\ntimeouts: {{ lame_duck: 300ms }}\n",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let addr = served.addr();
    let mut sender = connect(addr).await;
    let agent = Agent::at(addr).over_http2();
    let mut stream = agent.open(SSE, prompt("a long answer").to_string()).await;
    next_chunk(&mut stream).await;

    served.terminate();
    let url = format!("http://{addr}{SSE}");
    let during = Request::post(&url).body(()).unwrap();
    let during = call(&mut sender, during, &prompt("hi").to_string()).await;
    let (_, end) = read_to_end(&mut stream).await;

    assert_eq!(during.0, 200, "{}", during.1);
    assert_eq!(end, End::Clean);
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    assert_eq!(ended.await.unwrap().0.code(), Some(0));
    // The connection had no open stream, and the gateway closed it with GOAWAY.
    let closed = sender.ready().await.unwrap_err();
    assert!(closed.is_go_away() || closed.is_io(), "{closed}");
}

#[tokio::test]
async fn graceful_shutdown_waits_for_a_client_that_receives_slowly() {
    let part = json!({ "text": "x".repeat(6 << 20) });
    let content = json!({ "role": "model", "parts": [part] });
    let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
    let upstream = Upstream::answering(&answer).await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\ntimeouts: {{ drain: 20s }}\n\
         policies: [{{ policy: redact, detect: [email] }}]\n",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let addr = served.addr();
    let mut sender = connect_slowly(addr).await;
    let url = format!("http://{addr}/v1beta/models/m:generateContent");
    let request = Request::post(&url).header("content-type", "application/json");
    let request = request.body(()).unwrap();

    let body = prompt("hi").to_string();
    let (received, ()) = tokio::join!(call(&mut sender, request, &body), async {
        sleep(Duration::from_millis(500)).await;
        served.terminate();
    });

    assert_eq!(received.0, 200);
    let received: Value = serde_json::from_str(&received.1).unwrap();
    assert_eq!(received, answer);
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    assert_eq!(ended.await.unwrap().0.code(), Some(0));
}
