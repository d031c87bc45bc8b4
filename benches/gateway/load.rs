//! An agent that costs little: it writes requests that were made before, reads
//! answers to their end and holds them to what they must be. A wrong answer ends
//! the bench.

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
    upstream::{self, STAMP, STAMP_LENGTH, Wire},
};

/// How long one answer may take.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);

/// Requests each second of a constant rate.
pub(crate) const REQUESTS_PER_SECOND: f64 = 1000.0;

/// Connections that send these in turn.
const PACED_CONNECTIONS: u32 = 16;

/// Requests of one kind, head and body, and what their answers hold.
#[derive(Clone)]
pub(crate) struct Workload {
    /// Sent one after the other, and then again from the first.
    pub(crate) requests: Rc<[Bytes]>,
    /// How many chunks an answer has; none: it is one document.
    pub(crate) chunks: Option<usize>,
}

impl Workload {
    pub(crate) fn unary(body: &[u8]) -> Self {
        Self {
            requests: Rc::new([request("bench:generateContent", body)]),
            chunks: None,
        }
    }

    /// A stream of so many chunks of another API.
    pub(crate) fn stream_of(wire: Wire, chunks: usize) -> Self {
        let prompt = "Look at the table, and say why it is slow. ".repeat(40);
        let model = format!("bench-sse-{chunks}-0ms");
        let (path, body) = match wire {
            Wire::Responses => (
                "/v1/responses",
                json!({ "model": model, "input": prompt, "stream": true, "store": false }),
            ),
            Wire::Anthropic | Wire::Gemini => (
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

    /// A stream of so many chunks, that come so many milliseconds apart.
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

/// What came of asking for a while.
#[derive(Default)]
pub(crate) struct Measurements {
    pub(crate) answers: u32,
    pub(crate) wall: Duration,
    /// How long each answer took, to its first byte and to its end.
    pub(crate) first: Vec<Duration>,
    pub(crate) whole: Vec<Duration>,
    /// How much later each chunk came than it was written.
    pub(crate) lags: Vec<Duration>,
}

/// Asks by so many connections for so long; each ends with a whole answer.
pub(crate) async fn ask(
    address: &str,
    ask: &Workload,
    connections: usize,
    time: Duration,
) -> Result<Measurements> {
    // Without time, one right answer is all that is wanted.
    let connections = if time.is_zero() { 1 } else { connections };
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, mut connection) in open.into_iter().enumerate() {
        let ask = ask.clone();
        tasks.spawn_local(async move {
            let mut measured = Measurements::default();
            let mut requests = ask.requests.iter().cycle().skip(number);
            // At least once, however short the time.
            while measured.answers == 0 || started.elapsed() < time {
                let request = requests.next().ok_or("no requests")?;
                let exchange = connection.exchange(request, ask.chunks, &mut measured);
                let exchange = timeout(STOP_TIMEOUT, exchange).await;
                exchange.map_err(|_| "no answer in time")??;
            }
            Ok(measured)
        });
    }
    let mut all = merged(tasks).await?;
    all.wall = started.elapsed();
    Ok(all)
}

/// Asks at a constant rate. A late request is made up for.
pub(crate) async fn ask_at_rate(
    address: &str,
    ask: &Workload,
    time: Duration,
) -> Result<Measurements> {
    let request = ask.requests.first().ok_or("no request")?;
    let beat = Duration::from_secs_f64(1.0 / REQUESTS_PER_SECOND);
    let started = tokio::time::Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..PACED_CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        let request = request.clone();
        tasks.spawn_local(async move {
            let mut measured = Measurements::default();
            let mut ticks = interval_at(started + beat * number, beat * PACED_CONNECTIONS);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while measured.answers == 0 || started.elapsed() < time {
                ticks.tick().await;
                connection.exchange(&request, None, &mut measured).await?;
            }
            Ok(measured)
        });
    }
    let mut all = merged(tasks).await?;
    all.wall = started.elapsed();
    Ok(all)
}

async fn merged(mut tasks: JoinSet<Result<Measurements>>) -> Result<Measurements> {
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

/// One connection, kept open.
pub(crate) struct Connection {
    stream: TcpStream,
    /// What came and was not looked at.
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

    /// Asks, and reads the head of the answer and what came with it.
    async fn begin(&mut self, request: &[u8]) -> Result<Length> {
        self.body.clear();
        self.stream.write_all(request).await?;
        let end = loop {
            self.more().await?;
            if let Some(end) = memmem::find(&self.input, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head: Vec<u8> = self.input.drain(..end).collect();
        let head = String::from_utf8(head)?.to_ascii_lowercase();
        if !head.starts_with("http/1.1 200") {
            while timeout(Duration::from_millis(100), self.more())
                .await
                .is_ok_and(|it| it.is_ok())
            {}
            return Err(format!("{head}{}", String::from_utf8_lossy(&self.input)).into());
        }
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length:"));
        match length {
            Some(length) => Ok(Length::Known(length.trim().parse()?)),
            None if head.contains("transfer-encoding: chunked") => Ok(Length::Chunked),
            None => Err("an answer without a length".into()),
        }
    }

    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        chunks: Option<usize>,
        measured: &mut Measurements,
    ) -> Result<()> {
        let started = Instant::now();
        let length = self.begin(request).await?;
        let (mut seen, mut is_first) = (0, true);
        loop {
            let is_whole = match length {
                Length::Known(length) => self.take(length)?,
                Length::Chunked => self.take_chunks()?,
            };
            if is_first && !self.body.is_empty() {
                measured.first.push(started.elapsed());
                is_first = false;
            }
            if chunks.is_some() {
                seen = self.lags(seen, &mut measured.lags);
            }
            if is_whole {
                break;
            }
            self.more().await?;
        }
        measured.whole.push(started.elapsed());
        measured.answers += 1;
        self.check(chunks)
    }

    /// Opens a stream that stays open: its first chunk has come.
    pub(crate) async fn hold(&mut self, request: &[u8]) -> Result<()> {
        self.begin(request).await?;
        while !self.take_chunks()? && self.body.is_empty() {
            self.more().await?;
        }
        self.body.shrink_to_fit();
        Ok(())
    }

    /// Sends a GET request, and returns the body of its response.
    pub(crate) async fn get(&mut self, path: &str) -> Result<&[u8]> {
        let length = self.begin(get_request(path).as_bytes()).await?;
        loop {
            let is_whole = match length {
                Length::Known(length) => self.take(length)?,
                Length::Chunked => self.take_chunks()?,
            };
            if is_whole {
                return Ok(&self.body);
            }
            self.more().await?;
        }
    }

    /// Opens an endless response.
    pub(crate) async fn subscribe(&mut self, path: &str) -> Result<()> {
        self.begin(get_request(path).as_bytes()).await?;
        Ok(())
    }

    /// Reads more of an endless response, and returns it.
    pub(crate) async fn next_piece(&mut self) -> Result<Vec<u8>> {
        self.more().await?;
        self.take_chunks()?;
        Ok(std::mem::take(&mut self.body))
    }

    async fn more(&mut self) -> Result<()> {
        self.input.reserve(16 << 10);
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Err("the answer broke off".into());
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<bool> {
        self.body.append(&mut self.input);
        if self.body.len() > length {
            return Err("more than the answer's length".into());
        }
        Ok(self.body.len() == length)
    }

    /// Takes the pieces that are there as a whole; true if the last is among
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
    fn lags(&self, seen: usize, lags: &mut Vec<Duration>) -> usize {
        let now = upstream::now();
        let mut done = seen;
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

    /// The answer without the copies of the text at the end of a response.
    fn pieces(&self) -> &[u8] {
        let end = memmem::find(&self.body, b"event: response.output_text.done");
        let end = end.unwrap_or(self.body.len());
        self.body.get(..end).unwrap_or_default()
    }

    fn check(&self, chunks: Option<usize>) -> Result<()> {
        let is_right = match chunks {
            None => memmem::find(&self.body, upstream::ANSWER.as_bytes()).is_some(),
            Some(chunks) => memmem::find_iter(self.pieces(), STAMP).count() == chunks,
        };
        if !is_right {
            let body = String::from_utf8_lossy(&self.body);
            return Err(format!("a wrong answer: {body}").into());
        }
        if self.input.is_empty() {
            Ok(())
        } else {
            Err("more than the answer".into())
        }
    }
}
