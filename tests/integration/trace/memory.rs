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
    Agent, PATIENCE, Served, Upstream, chunked_head, closed, prompt, serving, write_chunk,
};

const MEMORY: u64 = 4 << 20;

/// Number of streams. The process of the tests has two sockets for each, and other tests need
/// files as well.
fn streams() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let highest = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, highest).ok();
    let files = getrlimit(Resource::Nofile).current;
    let files = files.map_or(1 << 20, |files| usize::try_from(files).unwrap());
    (files / 5).min(10_000)
}

/// A stream whose first chunk has arrived.
async fn open_stream(gateway: std::net::SocketAddr, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(gateway).await.unwrap();
    let request = format!(
        "POST /v1beta/models/{MODEL}:streamGenerateContent?alt=sse HTTP/1.1\r\nhost: x\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(5).any(|it| it == b"data:") {
        let read = timeout(3 * PATIENCE, socket.read_buf(&mut answer)).await;
        assert!(read.expect("the stream hangs").unwrap() > 0, "{answer:?}");
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
        closed(&mut socket).await;
    })
    .await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlog: {{ level: warn }}\n\
         trace: {{ memory: 4MiB }}\npolicies: [{{ policy: prompt_guard, deny: [forbidden] }}]\n",
        upstream.addr
    );
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut gateway = Served::start(serving(folder.path()));
    let agents = gateway.addr();
    let operator = Agent::at(gateway.operators());
    let body = prompt("hello").to_string();
    let (count, mut open, mut highest) = (streams(), Vec::new(), 0);

    while open.len() < count {
        for _ in 0..50 {
            open.push(open_stream(agents, &body).await);
        }
        highest = highest.max(operator.metric("hookgate_trace_bytes").await);
        assert!(highest <= MEMORY, "{highest} bytes, {} streams", open.len());
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

    // Those in flight got the half that they may have, and no more was kept of them.
    assert!(highest > MEMORY / 4, "{highest} bytes");
    assert!(count < 4000 || dropped > 0, "nothing was dropped");
    let after = operator.metric("hookgate_trace_bytes").await;
    assert!(after <= MEMORY, "{after} bytes");
    gateway.terminate();
}
