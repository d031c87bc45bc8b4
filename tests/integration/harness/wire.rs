//! What the tests of streams and faults see of sockets and processes.

use std::{fs, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

/// Longer than anything here takes, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Clean,
    Broken,
}

/// What is left of a body, and how it ends.
pub async fn rest(response: &mut reqwest::Response) -> (String, End) {
    let mut bytes = Vec::new();
    let end = loop {
        let piece = timeout(PATIENCE, response.chunk()).await;
        match piece.expect("the stream hangs") {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => break End::Clean,
            Err(_) => break End::Broken,
        }
    };
    (String::from_utf8(bytes).unwrap(), end)
}

/// The next bytes of a body.
pub async fn piece(response: &mut reqwest::Response) -> String {
    let piece = timeout(PATIENCE, response.chunk()).await;
    let piece = piece.expect("the stream hangs").unwrap();
    String::from_utf8(piece.expect("the stream ended").to_vec()).unwrap()
}

/// The head of an answer in HTTP chunks.
pub fn chunked_head(media_type: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n")
}

/// One HTTP chunk, which no reader joins with the next.
pub async fn write_chunk(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    socket.write_all(&chunk).await
}

/// Ends a chunked answer cleanly.
pub async fn write_last_chunk(socket: &mut TcpStream) {
    socket.write_all(b"0\r\n\r\n").await.unwrap();
}

/// Waits until the other side has closed the connection.
pub async fn closed(socket: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while matches!(socket.read(&mut bytes).await, Ok(1..)) {}
}

/// Sends these bytes as they are, and reads until the connection ends.
pub async fn exchange(addr: SocketAddr, bytes: &[u8]) -> String {
    let answer = exchange_bytes(addr, bytes).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The same, whatever the answer is made of. The gateway may hang up as soon as
/// it has seen enough.
pub async fn exchange_bytes(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(bytes).await.ok();
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
    read.expect("the connection hangs").ok();
    answer
}

/// Waits for a sign that something happened.
pub async fn signalled(signs: &mut mpsc::UnboundedReceiver<()>, what: &str) {
    let sign = timeout(PATIENCE, signs.recv()).await;
    sign.ok()
        .flatten()
        .unwrap_or_else(|| panic!("not seen: {what}"));
}

/// A socket that does not listen. While it exists, no other server gets its port.
pub fn closed_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
}

/// Waits until something holds that nothing tells of.
pub async fn eventually(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The processes that carry this text in their environment.
pub fn processes(marker: &str) -> Vec<u32> {
    let carries = |id: &u32| {
        // Some vanish while they are looked at.
        let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        variables
            .windows(marker.len())
            .any(|it| it == marker.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|it| it.ok()?.file_name().into_string().ok());
    let ids = names.filter_map(|it| it.parse().ok());
    ids.filter(carries).collect()
}
