//! HTTP sink of the decision log: at-least-once delivery that delays no call.

mod config_errors;
mod endpoints;
mod outages;
mod reloads;

use std::{
    io::Read,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json, value::RawValue};

use crate::harness::{
    Agent, Browser, ReceivedRequest, TEST_TIMEOUT, TestGateway, Upstream, respond, run_with_input,
};

/// Endpoint that receives JSON arrays of lines and responds with a status.
struct Sink {
    upstream: Upstream,
    status: Arc<AtomicU16>,
    /// Bodies of the requests that were accepted.
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Sink {
    async fn start() -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
        let (current_status, bodies) = (Arc::clone(&status), Arc::clone(&accepted));
        let upstream = Upstream::with(move |asked| {
            let status = current_status.load(Ordering::SeqCst);
            if status == 200 {
                bodies.lock().unwrap().push(gunzip(&asked));
            }
            respond(status, "application/json", "{}")
        })
        .await;
        Self {
            upstream,
            status,
            accepted,
        }
    }

    /// Sets the status of all later responses.
    fn respond_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Returns the setting `sink` for this endpoint, with `more` settings.
    fn setting(&self, more: &str) -> String {
        format!(
            "sink: {{ url: \"http://{}/logs\"{more} }}",
            self.upstream.addr
        )
    }

    /// Returns the accepted lines, in order and byte by byte.
    fn lines(&self) -> Vec<String> {
        let bodies = self.accepted.lock().unwrap();
        bodies.iter().flat_map(|body| array_items(body)).collect()
    }

    /// Asserts that `audit verify --stdin` accepts the received lines; returns its output.
    #[track_caller]
    fn verified(&self) -> String {
        let copy: Vec<String> = self.lines();
        let (code, out, error) =
            run_with_input(&["audit", "verify", "--stdin"], &(copy.join("\n") + "\n"));
        assert_eq!(code, 0, "{error}");
        out
    }
}

fn gunzip(asked: &ReceivedRequest) -> String {
    assert_eq!(asked.header("content-encoding"), "gzip");
    let mut text = String::new();
    let mut body = GzDecoder::new(asked.bytes.as_ref());
    body.read_to_string(&mut text).unwrap();
    text
}

/// Returns the text of each item of a JSON array.
fn array_items(body: &str) -> Vec<String> {
    let items: Vec<Box<RawValue>> = serde_json::from_str(body).unwrap();
    items.iter().map(|item| item.get().to_owned()).collect()
}

/// Returns the value of a metric; `name` includes the labels, if it has any.
async fn metric(operator: &Agent, name: &str) -> Option<u64> {
    let metrics = operator.get("/metrics").await;
    let text = metrics.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok())
}

/// Waits until a metric has a value; a sink that failed for long pauses for 30 seconds.
async fn wait_for_metric(operator: &Agent, name: &str, value: u64) {
    let deadline = Instant::now() + 4 * TEST_TIMEOUT;
    while metric(operator, name).await != Some(value) {
        assert!(
            Instant::now() < deadline,
            "{}",
            operator.get("/metrics").await.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the endpoint has received every line.
async fn wait_until_caught_up(operator: &Agent) {
    wait_for_metric(operator, "hookgate_audit_sink_lag_lines", 0).await;
}

#[tokio::test]
async fn the_overview_has_the_state_and_the_last_failure_of_the_sink() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.respond_with(503);
    let config = format!("audit: {{ path: audit.jsonl, {} }}\n", sink.setting(""));
    let gateway = TestGateway::start(&upstream, &config).await;
    let operator = gateway.operator();
    let status = async || operator.get("/overview").await.json()["decision_log"]["sink"].clone();
    let until = async |is_met: &dyn Fn(&Value) -> bool| {
        let deadline = Instant::now() + 4 * TEST_TIMEOUT;
        loop {
            let found = status().await;
            if is_met(&found) {
                return found;
            }
            assert!(Instant::now() < deadline, "{found:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };

    let failing = until(&|sink| sink["last_failure"]["is_current"] == true).await;
    let page = Browser::at(&gateway).get("/console/").await.html;
    sink.respond_with(200);
    let recovered = until(&|sink| sink["last_failure"]["is_current"] == false).await;

    assert_eq!(
        (&failing["sent_lines"], &failing["lag_lines"]),
        (&json!(0), &json!(1))
    );
    let error = failing["last_failure"]["error"].as_str().unwrap();
    assert!(error.contains("503"), "{error}");
    assert!(
        page.contains(error) && page.contains("sending fails"),
        "{page}"
    );
    assert_eq!(recovered["sent_lines"], json!(1));
}
