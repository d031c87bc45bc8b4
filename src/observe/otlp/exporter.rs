//! The queue of one signal, and the task that sends it to the collector.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    time::sleep,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::encode::{Envelope, Signal};
use crate::{
    backoff::Backoff,
    config::OtlpSettings,
    mutex::Mutex,
    observe::metrics::Metrics,
    service_client::{ClientError, RequestError, client_builder, read_body},
};

/// Bytes that may be queued. What exceeds them is dropped and counted.
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// A request that has this many bytes takes no further item.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// Queued bytes that are sent without waiting for [`LINGER_TIMEOUT`].
const FULL_BATCH_BYTES: usize = 256 * 1024;

/// Maximum wait of the first item of a batch for more items.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Time to send what is queued once the queue is dropped. Shorter than the last
/// grace period of the server's shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Queue of one signal. Dropping it ends its task, which first sends what is queued.
#[derive(Debug)]
pub struct SignalQueue {
    items: mpsc::UnboundedSender<QueuedItem>,
    state: Arc<SignalState>,
    /// Present until it is started.
    task: Mutex<Option<SendTask>>,
    _close: DropGuard,
}

/// An encoded span or log record, and its share of the queue's bytes.
#[derive(Debug)]
struct QueuedItem {
    json: Vec<u8>,
    _queued_bytes: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct SignalState {
    signal: Signal,
    metrics: Arc<Metrics>,
    free_bytes: Arc<Semaphore>,
    /// Items that are neither sent nor dropped yet.
    pending: AtomicUsize,
    /// Notified when [`FULL_BATCH_BYTES`] are queued.
    batch_is_full: Notify,
    closed: CancellationToken,
}

/// Sends the items of a queue until it is closed and empty.
#[derive(Debug)]
struct SendTask {
    items: mpsc::UnboundedReceiver<QueuedItem>,
    state: Arc<SignalState>,
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    envelope: Envelope,
    /// True if the last request failed; logged when it changes.
    failing: bool,
}

impl SignalQueue {
    /// Creates a queue that sends nothing before [`Self::start`].
    ///
    /// # Errors
    ///
    /// Fails if the HTTP client cannot be built.
    pub fn new(
        settings: &OtlpSettings,
        signal: Signal,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ClientError> {
        let client = client_builder().timeout(REQUEST_TIMEOUT).http1_only();
        let client = client.build()?;
        let json = HeaderValue::from_static("application/json");
        let mut headers = settings.header_map();
        headers.insert(header::CONTENT_TYPE, json);
        let base_url = settings.endpoint.as_str().trim_end_matches('/');
        let (sender, receiver) = mpsc::unbounded_channel();
        let closed = CancellationToken::new();
        let state = Arc::new(SignalState {
            signal,
            metrics,
            free_bytes: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
            pending: AtomicUsize::new(0),
            batch_is_full: Notify::new(),
            closed: closed.clone(),
        });
        let task = SendTask {
            items: receiver,
            state: Arc::clone(&state),
            client,
            url: format!("{base_url}/v1/{}", signal.as_str()),
            headers,
            envelope: Envelope::new(signal, &settings.service_name),
            failing: false,
        };
        Ok(Self {
            items: sender,
            state,
            task: Mutex::new(Some(task)),
            _close: closed.drop_guard(),
        })
    }

    /// Starts sending, unless it was started before.
    pub fn start(&self, tasks: &TaskTracker) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            tasks.spawn(task.run());
        }
    }

    /// Queues an item, or drops and counts it if the queue is full. Does not block.
    pub fn push(&self, json: Vec<u8>) {
        let state = &self.state;
        let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let Ok(queued_bytes) = Arc::clone(&state.free_bytes).try_acquire_many_owned(length) else {
            return state.count("dropped", 1);
        };
        state.pending.fetch_add(1, Ordering::Relaxed);
        let item = QueuedItem {
            json,
            _queued_bytes: queued_bytes,
        };
        // The receiver is gone only after shutdown.
        let _after_shutdown = self.items.send(item);
        if state.free_bytes.available_permits() <= MAX_QUEUED_BYTES - FULL_BATCH_BYTES {
            state.batch_is_full.notify_one();
        }
    }
}

impl SignalState {
    /// Counts items that were `sent` or `dropped`.
    fn count(&self, outcome: &'static str, items: usize) {
        let labels = [self.signal.as_str().into(), outcome.into()];
        self.metrics.otlp_items.with(labels).inc_by(items as u64);
    }
}

impl SendTask {
    /// Sends until the queue is closed and empty, or [`SHUTDOWN_TIMEOUT`] has passed
    /// since it was closed.
    async fn run(mut self) {
        let state = Arc::clone(&self.state);
        let deadline = async {
            state.closed.cancelled().await;
            sleep(SHUTDOWN_TIMEOUT).await;
        };
        tokio::select! {
            () = self.send_all() => (),
            () = deadline => (),
        }
        if self.failing {
            state.metrics.export_failures.end(state.signal.as_str());
        }
        state.count("dropped", state.pending.load(Ordering::Relaxed));
    }

    async fn send_all(&mut self) {
        while let Some(batch) = self.next_batch().await {
            let Some(rejected) = self.deliver(&batch).await else {
                return;
            };
            self.state.pending.fetch_sub(batch.len(), Ordering::Relaxed);
            self.state.count("dropped", rejected);
            self.state.count("sent", batch.len() - rejected);
        }
    }

    /// Returns the next batch; `None` if the queue is closed and empty.
    async fn next_batch(&mut self) -> Option<Vec<QueuedItem>> {
        let first = self.items.recv().await?;
        tokio::select! {
            () = sleep(LINGER_TIMEOUT) => (),
            () = self.state.batch_is_full.notified() => (),
            () = self.state.closed.cancelled() => (),
        }
        let mut bytes = first.json.len();
        let mut batch = vec![first];
        while bytes < MAX_REQUEST_BYTES
            && let Ok(item) = self.items.try_recv()
        {
            bytes += item.json.len();
            batch.push(item);
        }
        Some(batch)
    }

    /// Sends a batch until the collector answers it, with exponential backoff. Returns
    /// the number of items that were rejected; `None` if the queue is closed and the
    /// collector does not answer.
    async fn deliver(&mut self, batch: &[QueuedItem]) -> Option<usize> {
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        loop {
            let is_last_attempt = self.state.closed.is_cancelled();
            let result = self.post(batch).await;
            self.log_health(result.as_ref().err());
            match result {
                Ok(rejected) => return Some(rejected.min(batch.len())),
                Err(error) if !is_retryable(&error) => return Some(batch.len()),
                Err(_) if is_last_attempt => return None,
                Err(_) => (),
            }
            backoff.wait(&self.state.closed).await;
        }
    }

    /// Sends a batch once. Returns the number of items that the collector rejected.
    async fn post(&self, batch: &[QueuedItem]) -> Result<usize, RequestError> {
        let items: Vec<&[u8]> = batch.iter().map(|item| item.json.as_slice()).collect();
        let request = self.client.post(&self.url).headers(self.headers.clone());
        let sent = request.body(self.envelope.wrap(&items)).send().await;
        let response = sent?;
        if !response.status().is_success() {
            return Err(RequestError::Status(response.status()));
        }
        let body = read_body(response, MAX_RESPONSE_BYTES).await;
        // The batch is accepted, also if the rest of the response cannot be read.
        Ok(rejected_items(&body.ok().flatten().unwrap_or_default()))
    }

    fn log_health(&mut self, error: Option<&RequestError>) {
        let signal = self.state.signal.as_str();
        let was_failing = std::mem::replace(&mut self.failing, error.is_some());
        let failures = &self.state.metrics.export_failures;
        match error {
            Some(error) => failures.keep(signal, error.to_string()),
            None if was_failing => failures.end(signal),
            None => (),
        }
        match error {
            Some(error) if !was_failing => {
                tracing::warn!(otlp.signal = signal, %error, "OTLP export failed");
            }
            None if was_failing => tracing::info!(otlp.signal = signal, "OTLP export recovered"),
            Some(_) | None => (),
        }
    }
}

/// Returns whether the same request may succeed later (OTLP/HTTP, "Retryable response codes").
fn is_retryable(error: &RequestError) -> bool {
    match error {
        RequestError::Connection | RequestError::Timeout => true,
        RequestError::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
    }
}

/// Returns the number of rejected items in the `partialSuccess` of a response.
fn rejected_items(response: &[u8]) -> usize {
    let Ok(response) = serde_json::from_slice::<Value>(response) else {
        return 0;
    };
    let rejected = ["rejectedSpans", "rejectedLogRecords"]
        .iter()
        .find_map(|name| response.get("partialSuccess")?.get(name));
    match rejected {
        // 64-bit integers are strings in OTLP's JSON; some collectors send numbers.
        Some(Value::String(digits)) => digits.parse().unwrap_or(0),
        Some(number) => number.to_string().parse().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(metrics: &Arc<Metrics>) -> SignalQueue {
        let settings = serde_json::from_str(r#"{"endpoint": "http://127.0.0.1:9"}"#).unwrap();
        SignalQueue::new(&settings, Signal::Traces, Arc::clone(metrics)).unwrap()
    }

    #[test]
    fn the_number_of_rejected_items_is_read_from_a_partial_success() {
        let cases = [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedLogRecords":2}}"#, 2),
            (r#"{"partialSuccess":{"rejectedSpans":-1}}"#, 0),
        ];

        for (response, rejected) in cases {
            assert_eq!(rejected_items(response.as_bytes()), rejected, "{response}");
        }
    }

    #[test]
    fn items_that_exceed_the_queue_are_counted_as_dropped() {
        let metrics = Arc::new(Metrics::default());
        let queue = queue(&metrics);

        for _ in 0..MAX_QUEUED_BYTES / MAX_REQUEST_BYTES + 3 {
            queue.push(vec![b'x'; MAX_REQUEST_BYTES]);
        }

        assert_eq!(queue.state.free_bytes.available_permits(), 0);
        let line = r#"hookgate_otlp_items_total{signal="traces",outcome="dropped"} 3"#;
        assert!(metrics.to_text().contains(line), "{}", metrics.to_text());
    }

    #[tokio::test]
    async fn a_batch_is_bounded_and_all_items_are_sent() {
        let queue = queue(&Arc::default());
        let mut task = queue.task.lock().take().unwrap();
        for _ in 0..3 {
            queue.push(vec![b'x'; MAX_REQUEST_BYTES / 2 + 1]);
        }
        drop(queue);

        let mut lengths = Vec::new();
        while let Some(batch) = task.next_batch().await {
            lengths.push(batch.len());
        }

        assert_eq!(lengths, [2, 1]);
        assert_eq!(task.state.free_bytes.available_permits(), MAX_QUEUED_BYTES);
    }
}
