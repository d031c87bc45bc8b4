//! Measurement of each figure for one target in one round.

use std::{
    cell::Cell,
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    Result, console,
    environment::{Environment, Running},
    load::{self, Connection, Measurements, REQUESTS_PER_SECOND, Workload},
    long_lived,
    processes::{self, Cores},
    request_bodies::Conversation,
    upstream,
};

/// Connections while CPU time is counted: enough to keep all cores busy.
const CPU_CONNECTIONS: usize = 8;

/// Connections while requests per second are counted.
const RATE_CONNECTIONS: usize = 64;

/// Factor of the measuring time of scenarios whose requests take milliseconds.
const SLOW_FACTOR: u32 = 5;

/// Interval between requests at a low rate.
const LOW_RATE_INTERVAL: Duration = Duration::from_millis(100);

/// Windows per round of a comparison of targets that differ little. A window is so short that
/// other load on the machine slows most pairs of windows equally.
const WINDOWS: usize = 20;

/// Divisor of the measuring time for such a window.
const WINDOW_DIVISOR: u32 = 8;

/// Requests of one growing conversation.
const HISTORY_PROMPTS: usize = 24;

/// Name and value of a figure.
pub(crate) type Value = (String, f64);

pub(crate) enum FigureKind {
    /// CPU time for each request.
    Cpu(Workload),
    /// The same in many short windows that alternate between targets.
    Alternating(Workload),
    /// 99th percentile of the latency at a constant rate, in such windows.
    TailLatency(Workload),
    /// CPU time of a viewer of the live tail, at a constant rate of calls.
    Viewer(Workload),
    /// Latency of pages of the console: a list after these calls, and a call with this body.
    Pages { calls: Workload, large: Bytes },
    /// Size of the binary.
    Binary,
    /// Latency of a request while all processes share one core.
    OneCore(Workload),
    /// Requests per second over all connections.
    Rate(Workload),
    /// CPU time for each further chunk: `many` compared with `one`.
    Chunks {
        one: Workload,
        many: Workload,
        streams: usize,
    },
    /// Latency of the first chunk and of each further one, on one core.
    First(Workload),
    /// Latency of sequential requests; if heavy, while the gateway buffers a GiB of bodies.
    Spawn { workload: Workload, is_heavy: bool },
    /// Latency at ten requests per second.
    LowRate(Workload),
    /// CPU time for each request of a growing conversation.
    History(Conversation, Cell<u32>),
    /// Memory of concurrent streams.
    Streams {
        body: Vec<u8>,
        counts: &'static [usize],
    },
}

pub(crate) const FIRST: &str = "first chunk on one core, p50 µs";
pub(crate) const LAG: &str = "chunk latency on one core, p50 µs";
pub(crate) const LOW_RATE: &str = "answer at 10 a second, p50 µs";
pub(crate) const HISTORY: &str = "CPU µs per request, 1 MiB of history seen before";

pub(crate) const BINARY: &str = "size of the binary, MB";

pub(crate) fn alternating(size: &str) -> String {
    format!("CPU µs per request, {size}, in alternating windows")
}

pub(crate) fn tail_latency(size: &str) -> String {
    format!("p99 µs at {REQUESTS_PER_SECOND} requests/s, {size}, in alternating windows")
}

pub(crate) fn cpu(size: &str) -> String {
    format!("CPU µs per request, {size}")
}

pub(crate) fn one_core(size: &str) -> String {
    format!("p50 µs on one core, {size}")
}

pub(crate) fn chunk(size: &str) -> String {
    format!("CPU µs per chunk, {size}")
}

pub(crate) fn spawn(size: &str) -> String {
    format!("answer with a {size} hook started for it, p50 µs")
}

pub(crate) fn spawn_cpu(size: &str) -> String {
    format!("CPU µs per request, {size} started for it")
}

impl FigureKind {
    /// Number of windows in each round.
    pub(crate) const fn windows(&self) -> usize {
        match self {
            Self::Alternating(_) | Self::TailLatency(_) => WINDOWS,
            _ => 1,
        }
    }

    /// Measures one target. `size` is part of the figures' names.
    pub(crate) async fn measure(
        &self,
        size: &str,
        environment: &Environment,
        running: &Running,
        time: Duration,
    ) -> Result<Vec<Value>> {
        let address = &running.address;
        let slow_time = time * SLOW_FACTOR;
        Ok(match self {
            Self::Cpu(workload) => vec![(
                cpu(size),
                cpu_per_answer(running, workload, CPU_CONNECTIONS, time).await?,
            )],
            Self::Alternating(workload) => {
                let time = time / WINDOW_DIVISOR;
                let used = cpu_per_answer(running, workload, CPU_CONNECTIONS, time).await?;
                vec![(alternating(size), used)]
            }
            Self::TailLatency(workload) => {
                let measured = load::send_at_rate(address, workload, slow_time).await?;
                vec![(tail_latency(size), percentile(measured.whole, 99))]
            }
            Self::Viewer(workload) => console::viewer(running, workload, slow_time).await?,
            Self::Pages { calls, large } => console::pages(running, calls, large, time).await?,
            Self::Binary => vec![(BINARY.to_owned(), megabytes(running.target.program()?)?)],
            Self::OneCore(workload) => {
                let measured = on_one_core(environment, running, workload, time).await?;
                vec![(one_core(size), median(measured.whole))]
            }
            Self::Rate(workload) => {
                let measured = load::send(address, workload, RATE_CONNECTIONS, time).await?;
                let rate = f64::from(measured.answers) / measured.wall.as_secs_f64();
                let name = format!("requests/s at {RATE_CONNECTIONS} connections, {size}");
                vec![(name, rate)]
            }
            Self::Chunks { one, many, streams } => {
                let first = cpu_per_answer(running, one, *streams, time).await?;
                let all = cpu_per_answer(running, many, *streams, time).await?;
                let further = u32::try_from(many.chunks.unwrap_or_default().saturating_sub(1))?;
                vec![(chunk(size), (all - first) / f64::from(further))]
            }
            Self::First(workload) => {
                let measured = on_one_core(environment, running, workload, time).await?;
                vec![
                    (FIRST.to_owned(), median(measured.first)),
                    (LAG.to_owned(), median(measured.lags)),
                ]
            }
            Self::Spawn { workload, is_heavy } => {
                let is_heavy = *is_heavy && running.target.set_up().starts_with("heavy");
                with_spawned_hook(size, running, workload, is_heavy, time).await?
            }
            Self::LowRate(workload) => {
                let measured = send_at_low_rate(address, workload, slow_time).await?;
                vec![(LOW_RATE.to_owned(), median(measured.whole))]
            }
            Self::History(history, number) => {
                let used = continue_conversation(running, history, number, time).await?;
                vec![(HISTORY.to_owned(), used)]
            }
            Self::Streams { body, counts } => {
                long_lived::streams(environment, running, body, counts, time * 25).await?
            }
        })
    }
}

/// Latency and CPU time of answers for which a hook process is started. A heavy
/// gateway buffers a GiB of bodies during the measurement.
async fn with_spawned_hook(
    size: &str,
    running: &Running,
    workload: &Workload,
    is_heavy: bool,
    time: Duration,
) -> Result<Vec<Value>> {
    let uploads = if is_heavy && !time.is_zero() {
        long_lived::uploads(running).await?
    } else {
        Vec::new()
    };
    let work = load::send(&running.address, workload, 1, time * SLOW_FACTOR);
    let (used, measured) = cpu_during(running, work).await?;
    drop(uploads);
    let used = used / f64::from(measured.answers);
    Ok(vec![
        (spawn(size), median(measured.whole)),
        (spawn_cpu(size), used),
    ])
}

/// CPU time of the target's process tree for each answer, in microseconds.
async fn cpu_per_answer(
    running: &Running,
    workload: &Workload,
    connections: usize,
    time: Duration,
) -> Result<f64> {
    let work = load::send(&running.address, workload, connections, time);
    let (used, measured) = cpu_during(running, work).await?;
    Ok(used / f64::from(measured.answers))
}

/// CPU time of the target's process tree during some work, in microseconds.
pub(crate) async fn cpu_during(
    running: &Running,
    work: impl Future<Output = Result<Measurements>>,
) -> Result<(f64, Measurements)> {
    let root = running.root()?;
    let before = processes::settled_cpu(root);
    let measured = work.await?;
    let used = processes::settled_cpu(root).saturating_sub(before);
    Ok((Duration::from_nanos(used).as_secs_f64() * 1e6, measured))
}

async fn on_one_core(
    environment: &Environment,
    running: &Running,
    workload: &Workload,
    time: Duration,
) -> Result<Measurements> {
    let roots: Vec<u32> = running
        .root()
        .into_iter()
        .chain(environment.peers())
        .collect();
    processes::pin(&roots, Cores::One)?;
    let measured = load::send(&running.address, workload, 1, time).await;
    processes::pin(&roots, Cores::All)?;
    measured
}

async fn send_at_low_rate(
    address: &str,
    workload: &Workload,
    time: Duration,
) -> Result<Measurements> {
    let (started, mut measured) = (Instant::now(), Measurements::default());
    let mut connection = Connection::open(address).await?;
    let request = workload.requests.first().ok_or("no request")?;
    let mut ticks = tokio::time::interval(LOW_RATE_INTERVAL);
    while measured.answers == 0 || started.elapsed() < time {
        ticks.tick().await;
        connection
            .exchange(request, workload.chunks, &mut measured)
            .await?;
    }
    Ok(measured)
}

/// CPU time of each further request of a new conversation, in microseconds.
async fn continue_conversation(
    running: &Running,
    history: &Conversation,
    number: &Cell<u32>,
    time: Duration,
) -> Result<f64> {
    let prompts = if time.is_zero() { 2 } else { HISTORY_PROMPTS };
    number.set(number.get() + 1);
    let mut history = history.clone();
    history.begin_with(&format!(
        "Look at table {}, and say why it is slow.",
        number.get()
    ));
    let mut requests = Vec::new();
    for prompt in 0..prompts {
        requests.push(load::request(
            "bench:generateContent",
            history.to_string().as_bytes(),
        ));
        history.continue_conversation(upstream::ANSWER, &format!("And what of part {prompt}?"));
    }
    let mut connection = Connection::open(&running.address).await?;
    let (first, others) = requests.split_first().ok_or("no requests")?;
    connection
        .exchange(first, None, &mut Measurements::default())
        .await?;
    let (used, measured) = cpu_during(running, send_sequentially(&mut connection, others)).await?;
    Ok(used / f64::from(measured.answers))
}

async fn send_sequentially(
    connection: &mut Connection,
    requests: &[Bytes],
) -> Result<Measurements> {
    let mut measured = Measurements::default();
    for request in requests {
        connection.exchange(request, None, &mut measured).await?;
    }
    Ok(measured)
}

fn megabytes(file: &Path) -> Result<f64> {
    let kilobytes = u32::try_from(file.metadata()?.len() / 1000)?;
    Ok(f64::from(kilobytes) / 1000.0)
}

/// Returns the median in microseconds.
pub(crate) fn median(times: Vec<Duration>) -> f64 {
    percentile(times, 50)
}

/// Returns a percentile in microseconds.
fn percentile(mut times: Vec<Duration>, percent: usize) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() * percent / 100)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}
