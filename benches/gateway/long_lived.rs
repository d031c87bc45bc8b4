//! Long-lived exchanges: slow streams, and unfinished request bodies.

use std::time::{Duration, Instant};

use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

use crate::{
    Result,
    environment::{Environment, Running},
    load::{self, Connection},
    measure::Value,
    processes,
};

/// Streams opened at the same time.
const CONCURRENT_OPENS: usize = 50;

/// A stream whose chunks are ten seconds apart, longer than the measurement.
const SLOW_STREAM_CALL: &str = "bench-sse-1000-10000ms:streamGenerateContent?alt=sse";

/// Unfinished bodies, and the bytes of each: 1.2 GiB.
const UPLOADS: usize = 12;
const UPLOAD_BYTES: usize = 100 << 20;

/// Memory of a fresh process: idle, with open streams, and after they end.
pub(crate) async fn streams(
    environment: &Environment,
    running: &Running,
    body: &[u8],
    counts: &[usize],
    settle_time: Duration,
) -> Result<Vec<Value>> {
    let running = environment.run(&running.target)?;
    let root = running.root()?;
    let request = load::request(SLOW_STREAM_CALL, body);
    let idle = processes::memory(root);
    let mut values = vec![(IDLE.to_owned(), kib(idle))];
    let (mut open, mut peak) = (Vec::new(), idle);
    for count in counts {
        while open.len() < *count {
            let many = CONCURRENT_OPENS.min(count - open.len());
            open.extend(open_streams(&running.address, &request, many).await?);
        }
        peak = processes::memory(root);
        let kib_each = kib(peak.saturating_sub(idle)) / kib(u64::try_from(*count)?);
        values.push((kib_per_stream(*count), kib_each));
    }
    drop(open);
    tokio::time::sleep(settle_time).await;
    let remaining = processes::memory(root);
    values.push((AFTER_STREAMS.to_owned(), kib(remaining)));
    values.push((
        REMAINING_SHARE.to_owned(),
        kib(remaining.saturating_sub(idle)) / kib(peak.saturating_sub(idle).max(1)),
    ));
    Ok(values)
}

pub(crate) const IDLE: &str = "RSS idle, KiB";
pub(crate) const AFTER_STREAMS: &str = "RSS after streams, KiB";
pub(crate) const REMAINING_SHARE: &str = "RSS after streams, share that stays";

pub(crate) fn kib_per_stream(count: usize) -> String {
    format!("RSS KiB per open stream, {count}")
}

async fn open_streams(
    address: &str,
    request: &bytes::Bytes,
    count: usize,
) -> Result<Vec<Connection>> {
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let (address, request) = (address.to_owned(), request.clone());
        opening.spawn_local(async move {
            let mut connection = Connection::open(&address).await?;
            connection.open_stream(&request).await?;
            Ok::<_, crate::Error>(connection)
        });
    }
    let mut open = Vec::new();
    while let Some(connection) = opening.join_next().await {
        open.push(connection??);
    }
    Ok(open)
}

/// Unfinished request bodies, of which the gateway buffers more than a GiB.
pub(crate) async fn uploads(running: &Running) -> Result<Vec<TcpStream>> {
    let piece = vec![b' '; UPLOAD_BYTES];
    let request = load::request("bench:generateContent", &piece);
    let unfinished = request.get(..request.len() - 1).unwrap_or_default();
    let mut open = Vec::new();
    for _ in 0..UPLOADS {
        let mut stream = TcpStream::connect(&running.address).await?;
        stream.write_all(unfinished).await?;
        open.push(stream);
    }
    let (root, started) = (running.root()?, Instant::now());
    while processes::memory(root) < 1 << 20 {
        if started.elapsed() > Duration::from_secs(10) {
            return Err("the gateway does not buffer the bodies".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(open)
}

fn kib(number: u64) -> f64 {
    // No value exceeds `u32::MAX` KiB.
    u32::try_from(number).map_or(f64::NAN, f64::from)
}
