//! Load generator with little CPU cost: it sends prebuilt requests, reads responses to
//! their end and validates them. An invalid response ends the benchmark.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use memchr::memmem;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval_at, timeout},
};

use crate::{
    Result,
    upstream::{self, STAMP, STAMP_LENGTH, WireFormat},
};

/// Limit for one response.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Requests per second at the constant rate.
pub(crate) const REQUESTS_PER_SECOND: f64 = 1000.0;

/// Connections that send these requests in turn.
const PACED_CONNECTIONS: u32 = 16;

/// Requests of one kind, head and body, and the number of chunks of their responses.
#[derive(Clone)]
pub(crate) struct Workload {
    /// Sent in a cycle.
    pub(crate) requests: Rc<[Bytes]>,
    /// Chunks of a response; none if it is one document.
    pub(crate) chunks: Option<usize>,
}

impl Workload {
    pub(crate) fn unary(body: &[u8]) -> Self {
        Self {
            requests: Rc::new([request("bench:generateContent", body)]),
            chunks: None,
        }
    }

    /// A stream of this number of chunks, of another API than Gemini.
    pub(crate) fn stream_of(format: WireFormat, chunks: usize) -> Self {
        let prompt = "Look at the table, and say why it is slow. ".repeat(40);
        let model = format!("bench-sse-{chunks}-0ms");
        let (path, body) = match format {
            WireFormat::Responses => (
                "/v1/responses",
                json!({ "model": model, "input": prompt, "stream": true, "store": false }),
            ),
            WireFormat::Anthropic | WireFormat::Gemini => (
                "/v1/messages",
                json!({
                    "model": model, "max_tokens": 4096, "stream": true,
                    "messages": [{ "role": "user", "content": prompt }],
                }),
            ),
        };
        Self {
            requests: Rc::new([request_to(path, body.to_string().as_bytes())]),
            chunks: Some(chunks),
        }
    }

    /// A stream of this number of chunks, `pace` milliseconds apart.
    pub(crate) fn stream(body: &[u8], chunks: usize, pace: u64) -> Self {
        let call = format!("bench-sse-{chunks}-{pace}ms:streamGenerateContent?alt=sse");
        Self {
            requests: Rc::new([request(&call, body)]),
            chunks: Some(chunks),
        }
    }
}

/// Head of a GET request.
fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n")
}

/// The key of all requests.
pub(crate) const API_KEY: &str = "not-a-real-one";

pub(crate) fn request(call: &str, body: &[u8]) -> Bytes {
    request_to(&format!("/v1beta/models/{call}"), body)
}

fn request_to(path: &str, body: &[u8]) -> Bytes {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: generativelanguage.googleapis.com\r\n\
         content-type: application/json\r\naccept: */*\r\nuser-agent: bench/1.0\r\n\
         x-goog-api-client: google-genai-sdk/1.30.0 gl-node/v22\r\n\
         x-goog-api-key: {API_KEY}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat().into()
}

/// Responses of a workload, and their times.
#[derive(Default)]
pub(crate) struct Measurements {
    pub(crate) answers: u32,
    pub(crate) wall: Duration,
    /// Times to the first byte and to the end of each response.
    pub(crate) first: Vec<Duration>,
    pub(crate) whole: Vec<Duration>,
    /// Time from the write of each chunk to its arrival.
    pub(crate) lags: Vec<Duration>,
}

/// Sends a workload over concurrent connections for this time. Each connection completes its
/// last response.
pub(crate) async fn send(
    address: &str,
    workload: &Workload,
    connections: usize,
    time: Duration,
) -> Result<Measurements> {
    // Without time, one valid response is enough.
    let connections = if time.is_zero() { 1 } else { connections };
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, mut connection) in open.into_iter().enumerate() {
        let workload = workload.clone();
        tasks.spawn_local(async move {
            let mut measured = Measurements::default();
            let mut requests = workload.requests.iter().cycle().skip(number);
            // At least once, even if the time is zero.
            while measured.answers == 0 || started.elapsed() < time {
                let request = requests.next().ok_or("no requests")?;
                let exchange = connection.exchange(request, workload.chunks, &mut measured);
                let exchange = timeout(RESPONSE_TIMEOUT, exchange).await;
                exchange.map_err(|_| "response timed out")??;
            }
            Ok(measured)
        });
    }
    let mut all = merge(tasks).await?;
    all.wall = started.elapsed();
    Ok(all)
}

/// Sends a workload at a constant rate. Late requests are sent in a burst.
pub(crate) async fn send_at_rate(
    address: &str,
    workload: &Workload,
    time: Duration,
) -> Result<Measurements> {
    let request = workload.requests.first().ok_or("no request")?;
    let interval = Duration::from_secs_f64(1.0 / REQUESTS_PER_SECOND);
    let started = tokio::time::Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..PACED_CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        let request = request.clone();
        tasks.spawn_local(async move {
            let mut measured = Measurements::default();
            let mut ticks = interval_at(started + interval * number, interval * PACED_CONNECTIONS);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while measured.answers == 0 || started.elapsed() < time {
                ticks.tick().await;
                connection.exchange(&request, None, &mut measured).await?;
            }
            Ok(measured)
        });
    }
    let mut all = merge(tasks).await?;
    all.wall = started.elapsed();
    Ok(all)
}

async fn merge(mut tasks: JoinSet<Result<Measurements>>) -> Result<Measurements> {
    let mut all = Measurements::default();
    while let Some(measured) = tasks.join_next().await {
        let measured = measured??;
        all.answers += measured.answers;
        all.first.extend(measured.first);
        all.whole.extend(measured.whole);
        all.lags.extend(measured.lags);
    }
    Ok(all)
}

/// One persistent connection to the measured server.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes received and not yet parsed.
    input: Vec<u8>,
    body: Vec<u8>,
}

enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            input: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Sends a request, and reads the head of its response.
    async fn send(&mut self, request: &[u8]) -> Result<Length> {
        self.body.clear();
        self.stream.write_all(request).await?;
        let end = loop {
            self.read_more().await?;
            if let Some(end) = memmem::find(&self.input, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head: Vec<u8> = self.input.drain(..end).collect();
        let head = String::from_utf8(head)?.to_ascii_lowercase();
        if !head.starts_with("http/1.1 200") {
            while timeout(Duration::from_millis(100), self.read_more())
                .await
                .is_ok_and(|result| result.is_ok())
            {}
            return Err(format!("{head}{}", String::from_utf8_lossy(&self.input)).into());
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        match length {
            Some(length) => Ok(Length::Known(length.trim().parse()?)),
            None if head.contains("transfer-encoding: chunked") => Ok(Length::Chunked),
            None => Err("a response without a length".into()),
        }
    }

    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        chunks: Option<usize>,
        measured: &mut Measurements,
    ) -> Result<()> {
        let started = Instant::now();
        let length = self.send(request).await?;
        let (mut searched, mut is_first) = (0, true);
        loop {
            let is_complete = match length {
                Length::Known(length) => self.take_body(length)?,
                Length::Chunked => self.take_chunks()?,
            };
            if is_first && !self.body.is_empty() {
                measured.first.push(started.elapsed());
                is_first = false;
            }
            if chunks.is_some() {
                searched = self.collect_lags(searched, &mut measured.lags);
            }
            if is_complete {
                break;
            }
            self.read_more().await?;
        }
        measured.whole.push(started.elapsed());
        measured.answers += 1;
        self.check(chunks)
    }

    /// Opens a stream, and returns after its first chunk.
    pub(crate) async fn open_stream(&mut self, request: &[u8]) -> Result<()> {
        self.send(request).await?;
        while !self.take_chunks()? && self.body.is_empty() {
            self.read_more().await?;
        }
        self.body.shrink_to_fit();
        Ok(())
    }

    /// Sends a GET request, and returns the body of its response.
    pub(crate) async fn get(&mut self, path: &str) -> Result<&[u8]> {
        let length = self.send(get_request(path).as_bytes()).await?;
        loop {
            let is_complete = match length {
                Length::Known(length) => self.take_body(length)?,
                Length::Chunked => self.take_chunks()?,
            };
            if is_complete {
                return Ok(&self.body);
            }
            self.read_more().await?;
        }
    }

    /// Opens an endless response.
    pub(crate) async fn subscribe(&mut self, path: &str) -> Result<()> {
        self.send(get_request(path).as_bytes()).await?;
        Ok(())
    }

    /// Reads more of an endless response, and returns it.
    pub(crate) async fn next_piece(&mut self) -> Result<Vec<u8>> {
        self.read_more().await?;
        self.take_chunks()?;
        Ok(std::mem::take(&mut self.body))
    }

    async fn read_more(&mut self) -> Result<()> {
        self.input.reserve(16 << 10);
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Err("the response was truncated".into());
        }
        Ok(())
    }

    fn take_body(&mut self, length: usize) -> Result<bool> {
        self.body.append(&mut self.input);
        if self.body.len() > length {
            return Err("the response exceeds its length".into());
        }
        Ok(self.body.len() == length)
    }

    /// Takes all complete chunks of the transfer coding. Returns true if the last one is among
    /// them.
    fn take_chunks(&mut self) -> Result<bool> {
        let mut done = 0;
        let is_last = loop {
            let rest = self.input.get(done..).unwrap_or_default();
            let Some(line) = memmem::find(rest, b"\r\n") else {
                break false;
            };
            let size = str::from_utf8(rest.get(..line).unwrap_or_default())?;
            let size = usize::from_str_radix(size, 16)?;
            let begin = line + 2;
            let Some(piece) = rest.get(begin..begin + size + 2) else {
                break false;
            };
            self.body
                .extend_from_slice(piece.get(..size).unwrap_or_default());
            done += begin + size + 2;
            if size == 0 {
                break true;
            }
        };
        self.input.drain(..done);
        Ok(is_last)
    }

    /// Collects the timestamps of chunks; returns the offset up to which it searched.
    fn collect_lags(&self, searched: usize, lags: &mut Vec<Duration>) -> usize {
        let now = upstream::now();
        let mut done = searched;
        loop {
            let rest = self.body.get(done..).unwrap_or_default();
            let Some(at) = memmem::find(rest, STAMP.as_bytes()) else {
                return done;
            };
            let begin = at + STAMP.len();
            let Some(stamp) = rest.get(begin..begin + STAMP_LENGTH) else {
                return done;
            };
            let lag = now.saturating_sub(upstream::read_stamp(stamp));
            lags.push(Duration::from_nanos(lag));
            done += begin + STAMP_LENGTH;
        }
    }

    /// The body without the copies of the text at the end of a stream of Responses.
    fn stream_deltas(&self) -> &[u8] {
        let end = memmem::find(&self.body, b"event: response.output_text.done");
        let end = end.unwrap_or(self.body.len());
        self.body.get(..end).unwrap_or_default()
    }

    fn check(&self, chunks: Option<usize>) -> Result<()> {
        let is_valid = match chunks {
            None => memmem::find(&self.body, upstream::ANSWER.as_bytes()).is_some(),
            Some(chunks) => memmem::find_iter(self.stream_deltas(), STAMP).count() == chunks,
        };
        if !is_valid {
            let body = String::from_utf8_lossy(&self.body);
            return Err(format!("an invalid response: {body}").into());
        }
        if self.input.is_empty() {
            Ok(())
        } else {
            Err("data after the response".into())
        }
    }
}
