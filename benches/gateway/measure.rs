//! How each figure is measured, of one contestant in one round.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    Result,
    bodies::Conversation,
    held,
    load::{self, Ask, Connection, Heard},
    processes::{self, Cores},
    upstream,
    world::{Running, World},
};

/// Connections while CPU time is counted: enough to keep everybody busy.
const FEW: usize = 8;

/// Connections while requests per second are counted.
const MANY: usize = 64;

/// How much longer than others those are watched that need milliseconds.
const SLOW: u32 = 5;

/// Between requests that do not keep anybody busy.
const TENTH: Duration = Duration::from_millis(100);

/// Requests of a conversation that goes on.
const PROMPTS: usize = 24;

/// A figure's name, and its value.
pub(crate) type Value = (String, f64);

pub(crate) enum Kind {
    /// CPU time for each request.
    Cpu(Ask),
    /// How long a request takes where all share one core.
    OneCore(Ask),
    /// Requests per second.
    Rate(Ask),
    /// CPU time for each further chunk of a stream: those of the second over
    /// those of the first.
    Chunks { one: Ask, many: Ask, streams: usize },
    /// How long the first chunk takes, and each, where all share one core.
    First(Ask),
    /// How long a request takes, one after the other; where it is so said, while
    /// bodies of a GiB are held.
    Spawn { ask: Ask, is_heavy: bool },
    /// How long a request takes, ten in a second.
    Calm(Ask),
    /// CPU time for each request of a conversation that goes on.
    History(Conversation, Cell<u32>),
    /// Memory of so many streams at the same time.
    Streams {
        body: Vec<u8>,
        counts: &'static [usize],
    },
}

pub(crate) const FIRST: &str = "first chunk on one core, p50 µs";
pub(crate) const LAG: &str = "chunk latency on one core, p50 µs";
pub(crate) const CALM: &str = "answer at 10 a second, p50 µs";
pub(crate) const HISTORY: &str = "CPU µs per request, 1 MiB of history seen before";

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

impl Kind {
    /// Measures one contestant. `size` stands in the figures' names.
    pub(crate) async fn measure(
        &self,
        size: &str,
        world: &World,
        running: &Running,
        time: Duration,
    ) -> Result<Vec<Value>> {
        let address = &running.address;
        Ok(match self {
            Self::Cpu(ask) => vec![(cpu(size), each(running, ask, FEW, time).await?)],
            Self::OneCore(ask) => {
                let heard = on_one_core(world, running, ask, time).await?;
                vec![(one_core(size), median(heard.whole))]
            }
            Self::Rate(ask) => {
                let heard = load::ask(address, ask, MANY, time).await?;
                let rate = f64::from(heard.answers) / heard.wall.as_secs_f64();
                vec![(format!("requests/s at {MANY} connections, {size}"), rate)]
            }
            Self::Chunks { one, many, streams } => {
                let first = each(running, one, *streams, time).await?;
                let all = each(running, many, *streams, time).await?;
                let further = u32::try_from(many.chunks.unwrap_or_default().saturating_sub(1))?;
                vec![(chunk(size), (all - first) / f64::from(further))]
            }
            Self::First(ask) => {
                let heard = on_one_core(world, running, ask, time).await?;
                let lags = heard.lags.into_iter().map(Duration::from_nanos).collect();
                vec![
                    (FIRST.to_owned(), median(heard.first)),
                    (LAG.to_owned(), median(lags)),
                ]
            }
            Self::Spawn { ask, is_heavy } => {
                let is_held = *is_heavy
                    && !time.is_zero()
                    && running.contestant.set_up().starts_with("heavy");
                let held = if is_held {
                    held::uploads(running).await?
                } else {
                    Vec::new()
                };
                let work = load::ask(address, ask, 1, time * SLOW);
                let (used, heard) = used(running, work).await?;
                drop(held);
                let used = used / f64::from(heard.answers);
                vec![(spawn(size), median(heard.whole)), (spawn_cpu(size), used)]
            }
            Self::Calm(ask) => vec![(
                CALM.to_owned(),
                median(calmly(address, ask, time * SLOW).await?.whole),
            )],
            Self::History(history, number) => {
                vec![(
                    HISTORY.to_owned(),
                    go_on(running, history, number, time).await?,
                )]
            }
            Self::Streams { body, counts } => {
                held::streams(world, running, body, counts, time * 25).await?
            }
        })
    }
}

/// CPU time of the contestant's tree for each answer, in microseconds.
async fn each(running: &Running, ask: &Ask, connections: usize, time: Duration) -> Result<f64> {
    let work = load::ask(&running.address, ask, connections, time);
    let (used, heard) = used(running, work).await?;
    Ok(used / f64::from(heard.answers))
}

/// CPU time of the contestant's tree while something is done, in microseconds.
async fn used(
    running: &Running,
    work: impl Future<Output = Result<Heard>>,
) -> Result<(f64, Heard)> {
    let root = running.root()?;
    let before = processes::settled_cpu(root);
    let heard = work.await?;
    let used = processes::settled_cpu(root).saturating_sub(before);
    Ok((Duration::from_nanos(used).as_secs_f64() * 1e6, heard))
}

async fn on_one_core(world: &World, running: &Running, ask: &Ask, time: Duration) -> Result<Heard> {
    let roots: Vec<u32> = running.root().into_iter().chain(world.beside()).collect();
    processes::pin(&roots, Cores::One)?;
    let heard = load::ask(&running.address, ask, 1, time).await;
    processes::pin(&roots, Cores::All)?;
    heard
}

async fn calmly(address: &str, ask: &Ask, time: Duration) -> Result<Heard> {
    let (started, mut heard) = (Instant::now(), Heard::default());
    let mut connection = Connection::open(address).await?;
    let request = ask.requests.first().ok_or("no request")?;
    let mut beat = tokio::time::interval(TENTH);
    while heard.answers == 0 || started.elapsed() < time {
        beat.tick().await;
        connection.exchange(request, ask.chunks, &mut heard).await?;
    }
    Ok(heard)
}

/// A new conversation each time, of which nobody knows the first request.
async fn go_on(
    running: &Running,
    history: &Conversation,
    number: &Cell<u32>,
    time: Duration,
) -> Result<f64> {
    let prompts = if time.is_zero() { 2 } else { PROMPTS };
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
        history.go_on(upstream::ANSWER, &format!("And what of part {prompt}?"));
    }
    let mut connection = Connection::open(&running.address).await?;
    let (first, others) = requests.split_first().ok_or("no requests")?;
    connection
        .exchange(first, None, &mut Heard::default())
        .await?;
    let (used, heard) = used(running, one_by_one(&mut connection, others)).await?;
    Ok(used / f64::from(heard.answers))
}

async fn one_by_one(connection: &mut Connection, requests: &[Bytes]) -> Result<Heard> {
    let mut heard = Heard::default();
    for request in requests {
        connection.exchange(request, None, &mut heard).await?;
    }
    Ok(heard)
}

/// In microseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, |it| it.as_secs_f64() * 1e6)
}
