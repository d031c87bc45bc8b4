//! What is measured: under which load, of whom, and which figures come of it.

use std::time::Duration;

use crate::{
    Result,
    bodies::{self, Letters},
    contestants::Running,
    load::{self, Ask, Heard},
    processes::{self, Cores},
};

/// Connections while CPU time is counted: enough to keep everybody busy.
const FEW: usize = 8;

/// Connections while requests per second are counted.
const MANY: usize = 64;

/// Chunks of a stream that is fast, and of one that has a pace.
const FAST_CHUNKS: usize = 200;
const PACED_CHUNKS: usize = 100;

/// Milliseconds from a chunk to the next.
const PACE: u64 = 2;

/// Streams that are open at the same time while paced chunks are counted.
const PACED_STREAMS: usize = 16;

pub(crate) struct Scene {
    /// By which it is chosen on the command line.
    pub(crate) figure: &'static str,
    pub(crate) size: &'static str,
    kind: Kind,
    pub(crate) contestants: &'static [&'static str],
}

enum Kind {
    /// CPU time for each request.
    Cpu(Ask),
    /// How long a request takes where all share one core.
    OneCore(Ask),
    /// Requests per second.
    Rate(Ask),
    /// CPU time for each further chunk of a stream: those of the second over
    /// those of the first.
    Chunks {
        one: Ask,
        many: Ask,
        streams: usize,
        pace: &'static str,
    },
    /// How long the first chunk takes, and each, where all share one core.
    First(Ask),
}

/// Those that do nothing or what costs microseconds.
const QUICK: &[&str] = &[
    "bare",
    "nginx",
    "none",
    "policies",
    "floor-policies",
    "redact",
    "floor-redact",
    "http",
    "floor-http",
    "worker",
    "floor-worker",
];
const TIMED: &[&str] = &[
    "direct",
    "bare",
    "nginx",
    "none",
    "policies",
    "floor-policies",
    "redact",
    "floor-redact",
    "http",
    "floor-http",
    "worker",
    "floor-worker",
];
const STREAMED: &[&str] = &[
    "bare",
    "nginx",
    "none",
    "policies",
    "floor-policies",
    "redact",
    "floor-redact",
];
const TIMED_STREAMS: &[&str] = &[
    "direct",
    "bare",
    "nginx",
    "none",
    "policies",
    "floor-policies",
    "redact",
    "floor-redact",
];

pub(crate) fn all() -> Result<Vec<Scene>> {
    let small = bodies::body(2 << 10, Letters::Any)?;
    let mut scenes = Vec::new();
    let mut scene = |figure, size, kind, contestants| {
        scenes.push(Scene {
            figure,
            size,
            kind,
            contestants,
        });
    };
    for (size, bytes) in [("2k", 2 << 10), ("100k", 100 << 10), ("1m", 1 << 20)] {
        let ask = Ask::unary(&bodies::body(bytes, Letters::Any)?);
        scene("cpu", size, Kind::Cpu(ask.clone()), QUICK);
        scene("p50", size, Kind::OneCore(ask.clone()), TIMED);
        scene("rps", size, Kind::Rate(ask), TIMED);
    }
    let ascii = Ask::unary(&bodies::body(100 << 10, Letters::Ascii)?);
    scene(
        "cpu",
        "ascii",
        Kind::Cpu(ascii),
        &["redact", "floor-redact"],
    );
    let one = Ask::stream(&small, 1, 0);
    let many = Ask::stream(&small, FAST_CHUNKS, 0);
    let fast = Kind::Chunks {
        one: one.clone(),
        many,
        streams: FEW,
        pace: "saturated",
    };
    scene("chunks", "fast", fast, STREAMED);
    let many = Ask::stream(&small, PACED_CHUNKS, PACE);
    let paced = Kind::Chunks {
        one,
        many: many.clone(),
        streams: PACED_STREAMS,
        pace: "paced",
    };
    scene("chunks", "paced", paced, STREAMED);
    scene(
        "first",
        "paced",
        Kind::First(Ask::stream(&small, 10, 1)),
        TIMED_STREAMS,
    );
    Ok(scenes)
}

/// A figure's name and its value in one round.
pub(crate) type Value = (String, f64);

impl Scene {
    /// Measures one contestant. `upstream` is a process beside it.
    pub(crate) async fn measure(
        &self,
        running: &Running,
        upstream: u32,
        time: Duration,
    ) -> Result<Vec<Value>> {
        let size = self.size;
        Ok(match &self.kind {
            Kind::Cpu(ask) => {
                let cost = cost(running, ask, FEW, time).await?;
                vec![(cpu_label(size), cost)]
            }
            Kind::OneCore(ask) => {
                let heard = on_one_core(running, upstream, ask, time).await?;
                vec![(one_core_label(size), micros(heard.whole))]
            }
            Kind::Rate(ask) => {
                let heard = load::ask(&running.address, ask, MANY, time).await?;
                let rate = f64::from(heard.answers) / heard.wall.as_secs_f64();
                vec![(format!("requests/s at {MANY} connections, {size}"), rate)]
            }
            Kind::Chunks {
                one,
                many,
                streams,
                pace,
            } => {
                let first = cost(running, one, *streams, time).await?;
                let all = cost(running, many, *streams, time).await?;
                let further = u32::try_from(many.chunks.unwrap_or_default().saturating_sub(1))?;
                vec![(chunk_label(pace), (all - first) / f64::from(further))]
            }
            Kind::First(ask) => {
                let heard = on_one_core(running, upstream, ask, time).await?;
                let lags = heard.lags.into_iter().map(Duration::from_nanos).collect();
                vec![
                    (FIRST_LABEL.to_owned(), micros(heard.first)),
                    (LAG_LABEL.to_owned(), micros(lags)),
                ]
            }
        })
    }
}

pub(crate) const FIRST_LABEL: &str = "first chunk on one core, p50 µs";
pub(crate) const LAG_LABEL: &str = "chunk latency on one core, p50 µs";

pub(crate) fn cpu_label(size: &str) -> String {
    format!("CPU µs per request, {size}")
}

pub(crate) fn one_core_label(size: &str) -> String {
    format!("p50 µs on one core, {size}")
}

pub(crate) fn chunk_label(pace: &str) -> String {
    format!("CPU µs per chunk, {pace}")
}

/// CPU time of the contestant's tree for each answer, in microseconds.
async fn cost(running: &Running, ask: &Ask, connections: usize, time: Duration) -> Result<f64> {
    let root = running.process.as_ref().ok_or("it has no process")?.id();
    let before = processes::settled_cpu(root);
    let heard = load::ask(&running.address, ask, connections, time).await?;
    let used = processes::settled_cpu(root).saturating_sub(before);
    Ok(Duration::from_nanos(used).as_secs_f64() * 1e6 / f64::from(heard.answers))
}

async fn on_one_core(running: &Running, upstream: u32, ask: &Ask, time: Duration) -> Result<Heard> {
    let roots: Vec<u32> = running
        .process
        .iter()
        .map(processes::Process::id)
        .chain([upstream])
        .collect();
    processes::pin(&roots, Cores::One)?;
    let heard = load::ask(&running.address, ask, 1, time).await;
    processes::pin(&roots, Cores::All)?;
    heard
}

fn micros(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, |it| it.as_secs_f64() * 1e6)
}
