//! Sockets, response bodies, deadlines and processes.

use std::{fs, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

/// Deadline of waits in tests; longer than anything takes unless it hangs.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// End of a response body: complete, or broken off by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Clean,
    Broken,
}

/// Reads the rest of a body. Returns it and how it ended.
pub async fn read_to_end(response: &mut reqwest::Response) -> (String, End) {
    let mut bytes = Vec::new();
    let end = loop {
        let piece = timeout(TEST_TIMEOUT, response.chunk()).await;
        match piece.expect("the stream hangs") {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => break End::Clean,
            Err(_) => break End::Broken,
        }
    };
    (String::from_utf8(bytes).unwrap(), end)
}

/// Returns the next bytes of a body.
pub async fn next_chunk(response: &mut reqwest::Response) -> String {
    let piece = timeout(TEST_TIMEOUT, response.chunk()).await;
    let piece = piece.expect("the stream hangs").unwrap();
    String::from_utf8(piece.expect("the stream ended").to_vec()).unwrap()
}

/// Returns the headers of a response with chunked transfer encoding.
pub fn chunked_head(media_type: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n")
}

/// Writes one HTTP chunk in one packet.
pub async fn write_chunk(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    socket.write_all(&chunk).await
}

/// Writes the last chunk of a response.
pub async fn write_last_chunk(socket: &mut TcpStream) {
    socket.write_all(b"0\r\n\r\n").await.unwrap();
}

/// Waits until the peer has closed the connection.
pub async fn wait_until_closed(socket: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while matches!(socket.read(&mut bytes).await, Ok(1..)) {}
}

/// Sends these bytes and reads until the connection is closed.
pub async fn send_and_read(addr: SocketAddr, bytes: &[u8]) -> String {
    let answer = send_and_read_bytes(addr, bytes).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends these bytes and reads until the connection is closed, which may happen before all of
/// them are sent.
pub async fn send_and_read_bytes(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(bytes).await.ok();
    let mut answer = Vec::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_end(&mut answer)).await;
    read.expect("the connection hangs").ok();
    answer
}

/// Waits for a signal of a fake upstream or hook.
pub async fn wait_for_signal(signals: &mut mpsc::UnboundedReceiver<()>, what: &str) {
    let signal = timeout(TEST_TIMEOUT, signals.recv()).await;
    signal
        .ok()
        .flatten()
        .unwrap_or_else(|| panic!("no signal: {what}"));
}

/// Returns a bound socket that does not listen, which reserves its port.
pub fn closed_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
}

/// Polls until a condition is true.
pub async fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the IDs of processes with this text in their environment.
pub fn processes(marker: &str) -> Vec<u32> {
    let has_marker = |id: &u32| {
        // A process may end while this reads its environment.
        let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        variables
            .windows(marker.len())
            .any(|window| window == marker.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter_map(|name| name.parse().ok());
    ids.filter(has_marker).collect()
}
