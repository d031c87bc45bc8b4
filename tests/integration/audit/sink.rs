//! An HTTP endpoint that receives the decision log: at least once, and no call waits.

mod endpoints;
mod mistakes;
mod outages;

use std::{
    io::Read,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use serde_json::value::RawValue;

use crate::harness::{Agent, Asked, PATIENCE, Upstream, respond, run_with_input};

/// An endpoint that takes JSON arrays of lines, and answers with a status.
struct Sink {
    upstream: Upstream,
    status: Arc<AtomicU16>,
    /// The bodies that it has accepted.
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Sink {
    async fn start() -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
        let (answer, taken) = (Arc::clone(&status), Arc::clone(&accepted));
        let upstream = Upstream::with(move |asked| {
            let status = answer.load(Ordering::SeqCst);
            if status == 200 {
                taken.lock().unwrap().push(gunzip(&asked));
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

    /// Answers with this status from now on.
    fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// The setting that names it, with more settings.
    fn setting(&self, more: &str) -> String {
        format!(
            "sink: {{ url: \"http://{}/logs\"{more} }}",
            self.upstream.addr
        )
    }

    /// The lines that it has accepted, in order and with their bytes.
    fn lines(&self) -> Vec<String> {
        let bodies = self.accepted.lock().unwrap();
        bodies.iter().flat_map(|body| array(body)).collect()
    }

    /// What `audit verify --stdin` prints of its copy, which is intact.
    #[track_caller]
    fn verified(&self) -> String {
        let copy: Vec<String> = self.lines();
        let (code, out, error) =
            run_with_input(&["audit", "verify", "--stdin"], &(copy.join("\n") + "\n"));
        assert_eq!(code, 0, "{error}");
        out
    }
}

fn gunzip(asked: &Asked) -> String {
    assert_eq!(asked.header("content-encoding"), "gzip");
    let mut text = String::new();
    let mut body = GzDecoder::new(asked.bytes.as_ref());
    body.read_to_string(&mut text).unwrap();
    text
}

/// The items of a JSON array, with their bytes.
fn array(body: &str) -> Vec<String> {
    let items: Vec<Box<RawValue>> = serde_json::from_str(body).unwrap();
    items.iter().map(|it| it.get().to_owned()).collect()
}

/// The value of a metric without labels, or with these.
async fn metric(operator: &Agent, name: &str) -> Option<u64> {
    let metrics = operator.get("/metrics").await;
    let text = metrics.text();
    let line = text.lines().find_map(|it| it.strip_prefix(name));
    line.and_then(|it| it.trim().parse().ok())
}

/// Waits until a metric has a value; a sink that failed for long pauses for 30 seconds.
async fn counted(operator: &Agent, name: &str, value: u64) {
    let deadline = Instant::now() + 4 * PATIENCE;
    while metric(operator, name).await != Some(value) {
        assert!(
            Instant::now() < deadline,
            "{}",
            operator.get("/metrics").await.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the endpoint has every line.
async fn caught_up(operator: &Agent) {
    counted(operator, "hookgate_audit_sink_lag_lines", 0).await;
}
