//! The memory bound of the trace under many streams.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{MODEL, until};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, Upstream, chunked_head, prompt, serve_command,
    wait_until_closed, write_chunk,
};

const MAX_TRACE_BYTES: u64 = 4 << 20;

/// Streams that are enough to fill the share of the trace's memory for calls in flight.
const ENOUGH_STREAMS: usize = 4000;

/// Number of streams: `HOOKGATE_STREAMS`, and no more than the limit of file descriptors allows.
/// The test process has two sockets for each, and other tests need file descriptors as well.
fn stream_count() -> usize {
    let wanted = std::env::var("HOOKGATE_STREAMS").map(|count| count.parse().unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    let highest = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, highest).ok();
    let files = getrlimit(Resource::Nofile).current;
    let files = files.map_or(1 << 20, |files| usize::try_from(files).unwrap());
    (files / 5).min(wanted.unwrap_or(ENOUGH_STREAMS))
}

/// Opens a stream and waits for its first chunk.
async fn open_stream(gateway: std::net::SocketAddr, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(gateway).await.unwrap();
    let request = format!(
        "POST /v1beta/models/{MODEL}:streamGenerateContent?alt=sse HTTP/1.1\r\nhost: x\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(5).any(|window| window == b"data:") {
        let read = timeout(3 * TEST_TIMEOUT, socket.read_buf(&mut answer)).await;
        assert!(read.expect("no chunk arrives").unwrap() > 0, "{answer:?}");
    }
    socket
}

#[tokio::test]
async fn many_streams_in_flight_never_exceed_the_memory_of_the_trace() {
    let chunk = "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\n";
    let upstream = Upstream::raw(move |_, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, chunk.as_bytes()).await.unwrap();
        wait_until_closed(&mut socket).await;
    })
    .await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlog: {{ level: warn }}\n\
         trace: {{ memory: 4MiB }}\npolicies: [{{ policy: prompt_guard, deny: [forbidden] }}]\n",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut gateway = ServerProcess::start(serve_command(folder.path()));
    let agents = gateway.addr();
    let operator = Agent::at(gateway.operators());
    let body = prompt("hello").to_string();
    let (count, mut open, mut highest) = (stream_count(), Vec::new(), 0);

    while open.len() < count {
        for _ in 0..50 {
            open.push(open_stream(agents, &body).await);
        }
        highest = highest.max(operator.metric("hookgate_trace_bytes").await);
        assert!(
            highest <= MAX_TRACE_BYTES,
            "{highest} bytes, {} streams",
            open.len()
        );
    }
    let dropped = operator
        .metric("hookgate_trace_dropped_details_total")
        .await
        + operator
            .metric("hookgate_trace_dropped_records_total")
            .await;
    drop(open);
    until(&operator, "/calls?limit=1", |found| {
        found["calls"]
            .as_array()
            .is_some_and(|calls| !calls.is_empty())
    })
    .await;

    // Calls in flight may use half of the memory; details beyond it are dropped.
    assert!(highest > MAX_TRACE_BYTES / 4, "{highest} bytes");
    assert!(count < ENOUGH_STREAMS || dropped > 0, "nothing was dropped");
    let after = operator.metric("hookgate_trace_bytes").await;
    assert!(after <= MAX_TRACE_BYTES, "{after} bytes");
    gateway.terminate();
}
