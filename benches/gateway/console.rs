//! Cost of the live trace and the console: one viewer of the live tail, and pages.

use std::time::{Duration, Instant};

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value as Json;
use tokio::{
    sync::oneshot,
    task::{JoinHandle, spawn_local},
    time::{sleep, timeout},
};

use crate::{
    Result,
    environment::Running,
    load::{self, Connection, Measurements, REQUESTS_PER_SECOND, Workload},
    measure::{self, Value, median},
};

/// Pairs of windows, without and with a viewer, in each round.
const VIEWER_PAIRS: usize = 3;

/// Limit for rows of the live tail, and for content to be masked.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Rows of a page of calls.
const PAGE_ROWS: usize = 100;

/// Views of each page in a window.
const PAGE_VIEWS: usize = 15;

/// Prompt that a policy edits, so that the page of the call has a difference.
pub(crate) const SECRET: &str = "The key is AKIAIOSFODNN7EXAMPLE, is that right?";

pub(crate) const VIEWER: &str = "CPU of a viewer at 1,000 calls/s, % of a core";
pub(crate) const PACED_RATE: &str = "calls/s while a viewer is measured";
pub(crate) const CALLS_PAGE: &str = "page of 100 calls, p50 ms";
pub(crate) const CALL_PAGE: &str = "page of a call with content of 1 MiB, p50 ms";

/// CPU time of a viewer of the live tail: at a constant rate of calls, the time with a viewer
/// minus that without.
pub(crate) async fn viewer(
    running: &Running,
    workload: &Workload,
    time: Duration,
) -> Result<Vec<Value>> {
    let (mut without_viewer, mut with_viewer) = (Vec::new(), Vec::new());
    let mut calls_per_second = Vec::new();
    for _ in 0..VIEWER_PAIRS {
        let (used, measured) = measure::cpu_during(
            running,
            load::send_at_rate(&running.address, workload, time),
        )
        .await?;
        without_viewer.push(used / f64::from(measured.answers));
        let viewer = Viewer::open(&running.admin).await?;
        let work = async {
            let measured = load::send_at_rate(&running.address, workload, time).await?;
            viewer.close(measured.answers).await?;
            Ok(measured)
        };
        let (used, measured) = measure::cpu_during(running, work).await?;
        with_viewer.push(used / f64::from(measured.answers));
        calls_per_second.push(f64::from(measured.answers) / measured.wall.as_secs_f64());
    }
    let micros_per_call = mean(&with_viewer) - mean(&without_viewer);
    let share = micros_per_call * REQUESTS_PER_SECOND / 1e6;
    Ok(vec![
        (VIEWER.to_owned(), share * 100.0),
        (PACED_RATE.to_owned(), mean(&calls_per_second)),
    ])
}

/// A client of the live tail of the console.
struct Viewer {
    /// Receives the number of rows to wait for.
    expected: oneshot::Sender<u32>,
    task: JoinHandle<Result<()>>,
}

impl Viewer {
    async fn open(admin: &str) -> Result<Self> {
        let mut connection = Connection::open(admin).await?;
        connection.subscribe("/console/calls/stream").await?;
        let (expected, expected_rows) = oneshot::channel();
        let task = spawn_local(read_rows(connection, expected_rows));
        Ok(Self { expected, task })
    }

    /// Waits until all rows have arrived, and disconnects.
    async fn close(self, rows: u32) -> Result<()> {
        self.expected.send(rows).ok();
        timeout(ARRIVAL_TIMEOUT, self.task)
            .await
            .map_err(|_| "rows are missing")??
    }
}

async fn read_rows(mut connection: Connection, mut expected: oneshot::Receiver<u32>) -> Result<()> {
    let (mut rows, mut text, mut wanted) = (0_u32, Vec::new(), None);
    loop {
        if wanted.is_some_and(|wanted| rows >= wanted) {
            return Ok(());
        }
        tokio::select! {
            piece = connection.next_piece() => text.extend(piece?),
            count = &mut expected, if wanted.is_none() => wanted = Some(count?),
        }
        // An empty line ends an event.
        if let Some(end) = memmem::rfind(&text, b"\n\n") {
            let events: Vec<u8> = text.drain(..end + 2).collect();
            if memmem::find(&events, b"event: lost").is_some() {
                return Err("the live tail has lost rows".into());
            }
            rows += u32::try_from(memmem::find_iter(&events, b"\"href\":").count())?;
        }
    }
}

/// Latency of the page of calls, and of the page of a call with large bodies, over one
/// connection: the time of the server and of the loopback interface.
pub(crate) async fn pages(
    running: &Running,
    workload: &Workload,
    large: &Bytes,
    time: Duration,
) -> Result<Vec<Value>> {
    let mut agent = Connection::open(&running.address).await?;
    let request = workload.requests.first().ok_or("no request")?;
    for _ in 0..PAGE_ROWS {
        agent
            .exchange(request, None, &mut Measurements::default())
            .await?;
    }
    agent
        .exchange(large, None, &mut Measurements::default())
        .await?;
    let mut operator = Connection::open(&running.admin).await?;
    let id = large_call_id(&mut operator).await?;
    let views = if time.is_zero() { 1 } else { PAGE_VIEWS };
    let list = "/console/calls";
    let calls = page_times(&mut operator, list, views, &["<tr", "bench"]).await?;
    let page = format!("{list}/{id}?content=1");
    let call = page_times(
        &mut operator,
        &page,
        views,
        &["REDACTED", "Answers of the model"],
    )
    .await?;
    Ok(vec![
        (CALLS_PAGE.to_owned(), median(calls) / 1e3),
        (CALL_PAGE.to_owned(), median(call) / 1e3),
    ])
}

/// Returns the id of the call with the large body, once its content is stored.
async fn large_call_id(operator: &mut Connection) -> Result<String> {
    let started = Instant::now();
    while started.elapsed() < ARRIVAL_TIMEOUT {
        let calls: Json = serde_json::from_slice(operator.get("/calls?limit=1").await?)?;
        let call = calls.pointer("/calls/0");
        let text = |field| call.and_then(|call| call.get(field)?.as_str());
        let is_large = text("model") == Some(crate::upstream::LARGE);
        if let Some(id) = text("id").filter(|_| is_large) {
            let view: Json = serde_json::from_slice(operator.get(&format!("/calls/{id}")).await?)?;
            if view.get("has_content") == Some(&Json::Bool(true)) {
                return Ok(id.to_owned());
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err("the content of the large call is not stored".into())
}

async fn page_times(
    operator: &mut Connection,
    path: &str,
    views: usize,
    texts: &[&str],
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..views {
        let started = Instant::now();
        let page = operator.get(path).await?;
        times.push(started.elapsed());
        if let Some(text) = texts
            .iter()
            .find(|text| memmem::find(page, text.as_bytes()).is_none())
        {
            return Err(format!("`{text}` is not in {path}").into());
        }
    }
    Ok(times)
}

fn mean(values: &[f64]) -> f64 {
    let count = u32::try_from(values.len()).map_or(f64::NAN, f64::from);
    values.iter().sum::<f64>() / count
}
