//! One queue towards a collector, and the task that empties it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use thiserror::Error;
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{Collector, Signal, encode::Frame};
use crate::observe::{
    Metrics,
    collector::{CollectorAway, CollectorBack},
};

/// The most that waits, in bytes. What comes on top of it is dropped and counted.
const MOST: usize = 8 * 1024 * 1024;

/// The most that is sent at once, in bytes.
const AT_ONCE: usize = 1024 * 1024;

/// How many waiting bytes are sent without further waiting.
const ENOUGH: usize = 256 * 1024;

/// How long what is told waits for more.
const LINGER: Duration = Duration::from_secs(1);

/// How long a collector may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a collector that is away is left alone, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long the last that is told may take. Less than the gateway's last grace.
const FAREWELL: Duration = Duration::from_secs(2);

/// The most that is read of an answer, in bytes.
const MOST_ANSWER: usize = 64 * 1024;

/// Why there can be no exporter.
#[derive(Debug, Error)]
#[error("the client for the collector cannot be built: {0}")]
pub struct ClientError(String);

/// Where what is told goes in. Dropping it ends the task, which first sends what
/// waits.
#[derive(Debug)]
pub(super) struct Pipe {
    queue: Arc<Queue>,
    /// Until sending begins.
    worker: Mutex<Option<Worker>>,
}

#[derive(Debug)]
struct Queue {
    signal: Signal,
    metrics: Arc<Metrics>,
    waiting: Mutex<Waiting>,
    /// Something waits, or enough of it.
    filled: Notify,
    /// Nothing follows.
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct Waiting {
    items: Vec<Vec<u8>>,
    bytes: usize,
    /// How many are being sent.
    in_hand: usize,
}

/// Sends what waits.
#[derive(Debug)]
pub(super) struct Worker {
    queue: Arc<Queue>,
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    frame: Frame,
}

/// How the collector does, as far as it was said.
#[derive(Debug)]
struct Standing {
    signal: &'static str,
    failing: bool,
}

/// Why a collector did not take something.
enum Refusal {
    /// It may, later.
    Away(String),
    /// It never will.
    Final(String),
}

impl Pipe {
    pub(super) fn new(worker: Worker) -> Self {
        Self {
            queue: Arc::clone(&worker.queue),
            worker: Mutex::new(Some(worker)),
        }
    }

    /// Who sends, once.
    pub(super) fn worker(&self) -> Option<Worker> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        worker.take()
    }

    pub(super) fn push(&self, item: Vec<u8>) {
        let mut waiting = self.queue.waiting();
        let (first, before) = (waiting.items.is_empty(), waiting.bytes);
        if before.saturating_add(item.len()) > MOST {
            drop(waiting);
            return self.queue.count("dropped", 1);
        }
        waiting.bytes += item.len();
        waiting.items.push(item);
        if first || (before < ENOUGH && waiting.bytes >= ENOUGH) {
            self.queue.filled.notify_one();
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.queue.closed.cancel();
    }
}

impl Queue {
    /// What is sent next; `None` if nothing will be.
    async fn take(&self) -> Option<Vec<Vec<u8>>> {
        let mut lingered = false;
        loop {
            let bytes = self.waiting().bytes;
            let closed = self.closed.is_cancelled();
            if bytes > 0 && (closed || lingered || bytes >= ENOUGH) {
                return Some(self.waiting().batch());
            }
            if bytes == 0 && closed {
                return None;
            }
            tokio::select! {
                () = self.filled.notified() => (),
                () = self.closed.cancelled() => (),
                () = sleep(LINGER), if bytes > 0 => lingered = true,
            }
        }
    }

    fn count(&self, outcome: &'static str, items: usize) {
        let signal = self.signal.as_str();
        self.metrics.exported(signal, outcome, items as u64);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn batch(&mut self) -> Vec<Vec<u8>> {
        let mut bytes = 0;
        let fits = |it: &&Vec<u8>| {
            bytes += it.len();
            bytes <= AT_ONCE
        };
        // At least one, however long.
        let count = self.items.iter().take_while(fits).count().max(1);
        let rest = self.items.split_off(count.min(self.items.len()));
        let batch = std::mem::replace(&mut self.items, rest);
        self.bytes = self.items.iter().map(Vec::len).sum();
        self.in_hand = batch.len();
        batch
    }
}

impl Standing {
    fn well(&mut self) {
        let signal = self.signal;
        if std::mem::take(&mut self.failing) {
            CollectorBack { signal }.emit();
        }
    }

    fn ill(&mut self, cause: String) {
        let signal = self.signal;
        if !std::mem::replace(&mut self.failing, true) {
            CollectorAway { signal, cause }.emit();
        }
    }
}

impl Worker {
    pub(super) fn new(
        collector: &Collector<'_>,
        signal: Signal,
        frame: Frame,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ClientError> {
        // What it is shown is for it alone.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .http1_only()
            .build()
            .map_err(|error| ClientError(error.without_url().to_string()))?;
        let mut headers = collector.headers.clone();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let base = collector.endpoint.as_str().trim_end_matches('/');
        Ok(Self {
            queue: Arc::new(Queue {
                signal,
                metrics,
                waiting: Mutex::default(),
                filled: Notify::new(),
                closed: CancellationToken::new(),
            }),
            client,
            url: format!("{base}/v1/{}", signal.as_str()),
            headers,
            frame,
        })
    }

    /// Sends until nothing follows and all is sent, or time is up.
    pub(super) async fn run(self) {
        let late = async {
            self.queue.closed.cancelled().await;
            sleep(FAREWELL).await;
        };
        tokio::select! {
            () = self.send_all() => (),
            () = late => (),
        }
        let waiting = std::mem::take(&mut *self.queue.waiting());
        self.queue
            .count("dropped", waiting.items.len() + waiting.in_hand);
    }

    async fn send_all(&self) {
        let mut standing = Standing {
            signal: self.queue.signal.as_str(),
            failing: false,
        };
        while let Some(batch) = self.queue.take().await {
            let Some(dropped) = self.deliver(&batch, &mut standing).await else {
                return;
            };
            self.queue.waiting().in_hand = 0;
            self.queue.count("dropped", dropped);
            self.queue.count("sent", batch.len() - dropped);
        }
    }

    /// Sends until the collector has taken or refused it. How much of it is
    /// dropped; `None` if it cannot be sent and nothing follows.
    async fn deliver(&self, batch: &[Vec<u8>], standing: &mut Standing) -> Option<usize> {
        let mut pause = PAUSES.0;
        loop {
            let closed = self.queue.closed.is_cancelled();
            match self.send(batch).await {
                Ok(unwanted) => {
                    standing.well();
                    return Some(unwanted.min(batch.len()));
                }
                Err(Refusal::Final(cause)) => {
                    standing.ill(cause);
                    return Some(batch.len());
                }
                Err(Refusal::Away(cause)) => standing.ill(cause),
            }
            if closed {
                return None;
            }
            tokio::select! {
                () = sleep(pause) => (),
                () = self.queue.closed.cancelled() => (),
            }
            pause = PAUSES.1.min(pause * 2);
        }
    }

    /// How many the collector did not want of what it took.
    async fn send(&self, batch: &[Vec<u8>]) -> Result<usize, Refusal> {
        let items = batch.join(&b',');
        let (before, behind) = (self.frame.before.as_bytes(), self.frame.behind.as_bytes());
        let body = [before, items.as_slice(), behind].concat();
        let request = self.client.post(&self.url).headers(self.headers.clone());
        let mut answer = request.body(body).send().await.map_err(|error| {
            let cause = if error.is_timeout() {
                "no answer in time"
            } else {
                "no connection"
            };
            Refusal::Away(cause.to_owned())
        })?;
        let status = answer.status();
        let cause = format!("status {}", status.as_u16());
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => return Err(Refusal::Away(cause)),
            status if !status.is_success() => return Err(Refusal::Final(cause)),
            _ => (),
        }
        let mut told = Vec::new();
        while let Ok(Some(piece)) = answer.chunk().await {
            told.extend_from_slice(&piece);
            if told.len() > MOST_ANSWER {
                return Ok(0);
            }
        }
        Ok(unwanted(&told))
    }
}

/// The number of items that an answer says were not wanted.
fn unwanted(answer: &[u8]) -> usize {
    let Ok(answer) = serde_json::from_slice::<Value>(answer) else {
        return 0;
    };
    let partial = answer.get("partialSuccess");
    let names = ["rejectedSpans", "rejectedLogRecords"];
    let number = names.iter().find_map(|it| partial?.get(it));
    let text = number.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
    text.and_then(|it| it.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_says_what_it_did_not_want() {
        let cases = [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedLogRecords":2}}"#, 2),
            (r#"{"partialSuccess":{"rejectedSpans":-1}}"#, 0),
        ];

        for (answer, number) in cases {
            assert_eq!(unwanted(answer.as_bytes()), number, "{answer}");
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let metrics = Arc::new(Metrics::default());
        let endpoint = "http://127.0.0.1:9".parse().unwrap();
        let collector = Collector {
            endpoint: &endpoint,
            headers: HeaderMap::new(),
            service_name: "gate",
            traces: true,
            logs: false,
        };
        let frame = Frame::new(Signal::Traces, "gate");
        let worker = Worker::new(&collector, Signal::Traces, frame, Arc::clone(&metrics));
        let pipe = Pipe::new(worker.unwrap());

        for _ in 0..MOST / AT_ONCE + 3 {
            pipe.push(vec![b'x'; AT_ONCE]);
        }

        assert_eq!(pipe.queue.waiting().bytes, MOST);
        let line = r#"hookgate_otlp_items_total{signal="traces",outcome="dropped"} 3"#;
        assert!(metrics.to_text().contains(line), "{}", metrics.to_text());
    }

    #[test]
    fn a_batch_is_bounded_and_nothing_is_left_behind() {
        let mut waiting = Waiting {
            items: vec![vec![b'x'; AT_ONCE / 2 + 1]; 3],
            bytes: 3 * (AT_ONCE / 2 + 1),
            in_hand: 0,
        };

        let lengths: Vec<usize> = (0..3).map(|_| waiting.batch().len()).collect();

        assert_eq!(lengths, [1, 1, 1]);
        assert_eq!((waiting.items.len(), waiting.bytes), (0, 0));
    }
}
