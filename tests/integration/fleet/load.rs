//! The request rate of three gateways under load, with and without an outage of Redis. Each
//! run takes seconds; `HOOKGATE_FLEET_MINUTES` makes it as long as an outage in production.

use std::{
    env, fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tempfile::TempDir;

use super::{config, until_metric};
use crate::harness::{Agent, Redis, ServerProcess, Upstream, prompt};

/// Pause of a connection after a refused request.
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// A gateway in a process of its own.
struct Replica {
    _folder: TempDir,
    _served: ServerProcess,
    agent: Agent,
    operator: Agent,
}

impl Replica {
    fn start(upstream: &Upstream, redis: &Redis, config: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("url"), redis.url()).unwrap();
        let upstreams = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}",
            upstream.addr
        );
        let config = format!("{upstreams}\n{config}");
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()).sending("x-hookgate-key", "team-a-key"),
            operator: Agent::at(served.operators()),
            _served: served,
            _folder: folder,
        }
    }
}

/// Starts three gateways that share the limits of a caller.
async fn replicas(upstream: &Upstream, redis: &Redis, limits: &str) -> Vec<Replica> {
    let config = config(&[("team-a", limits)], "");
    let start = || Replica::start(upstream, redis, &config);
    let replicas = vec![start(), start(), start()];
    for replica in &replicas {
        until_metric(&replica.operator, "hookgate_limits_shared", 1).await;
    }
    replicas
}

/// A load, and the fractions of its duration at which an outage of Redis begins and ends.
struct Load {
    per_minute: u32,
    connections: usize,
    duration: Duration,
    outage: Option<(f64, f64)>,
}

impl Load {
    fn new(outage: Option<(f64, f64)>) -> Self {
        let minutes = env::var("HOOKGATE_FLEET_MINUTES").ok();
        match minutes.and_then(|minutes| minutes.parse().ok()) {
            Some(minutes) => Self {
                per_minute: 6000,
                connections: 300,
                duration: Duration::from_mins(minutes),
                outage,
            },
            // A low rate, whose first burst is soon spent even on a slow machine.
            None => Self {
                per_minute: 120,
                connections: 30,
                duration: Duration::from_secs(6),
                outage,
            },
        }
    }

    fn per_second(&self) -> f64 {
        f64::from(self.per_minute) / 60.0
    }

    /// Runs the load. Returns the seconds at which requests were admitted.
    async fn run(&self, replicas: &[Replica], redis: &mut Redis) -> Vec<f64> {
        let started = Instant::now();
        let admitted = Arc::<Mutex<Vec<f64>>>::default();
        let workers = (0..self.connections).map(|at| {
            let agent = replicas[at % replicas.len()].agent.clone();
            let (admitted, duration) = (Arc::clone(&admitted), self.duration);
            tokio::spawn(async move {
                let body = prompt("hi");
                while started.elapsed() < duration {
                    let sent = started.elapsed().as_secs_f64();
                    match agent.generate("m", &body).await.status {
                        200 => admitted.lock().unwrap().push(sent),
                        429 => tokio::time::sleep(REFUSAL_PAUSE).await,
                        other => panic!("{other}"),
                    }
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        if let Some((begin, end)) = self.outage {
            let at =
                |part: f64| tokio::time::Instant::from_std(started + self.duration.mul_f64(part));
            tokio::time::sleep_until(at(begin)).await;
            redis.kill();
            tokio::time::sleep_until(at(end)).await;
            redis.restart();
        }
        for worker in join_all(workers).await {
            worker.unwrap();
        }
        let mut admitted = admitted.lock().unwrap().clone();
        admitted.sort_by(f64::total_cmp);
        admitted
    }
}

/// The largest number of requests in any window of this many seconds that begins after `from`.
fn largest_window(times: &[f64], from: f64, seconds: f64) -> usize {
    let after = times.iter().position(|time| *time >= from);
    let after = &times[after.unwrap_or(times.len())..];
    let count = |start: f64| {
        let window = start..start + seconds;
        after.iter().filter(|time| window.contains(time)).count()
    };
    after.iter().map(|start| count(*start)).max().unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
const fn as_f64(count: usize) -> f64 {
    count as f64
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "figures of the run")]
async fn three_gateways_under_load_admit_the_rate_of_one() {
    let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
    let load = Load::new(None);
    let limit = format!(", requests_per_minute: {}", load.per_minute);
    let replicas = replicas(&upstream, &redis, &limit).await;

    let started = Instant::now();
    let admitted = load.run(&replicas, &mut redis).await;

    let at_most = f64::from(load.per_minute) + load.per_second() * started.elapsed().as_secs_f64();
    let at_least = f64::from(load.per_minute) + load.per_second() * load.duration.as_secs_f64();
    println!(
        "admitted {} of {at_least:.0} to {at_most:.0}",
        admitted.len()
    );
    assert!(
        as_f64(admitted.len()) <= at_most * 1.01 + 1.0,
        "{} of {at_most}",
        admitted.len()
    );
    assert!(
        as_f64(admitted.len()) >= f64::from(load.per_minute),
        "{}",
        admitted.len()
    );
    if env::var_os("HOOKGATE_FLEET_MINUTES").is_some() {
        assert!(
            as_f64(admitted.len()) >= at_least * 0.99,
            "{} of {at_least}",
            admitted.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "figures of the run")]
async fn an_outage_of_redis_admits_no_second_burst() {
    let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
    let load = Load::new(Some((0.3, 0.6)));
    let limit = format!(", requests_per_minute: {}", load.per_minute);
    let replicas = replicas(&upstream, &redis, &limit).await;
    // Each gateway has seen the others.
    tokio::time::sleep(Duration::from_millis(1500)).await;

    let admitted = load.run(&replicas, &mut redis).await;

    // The first burst is that of the limit itself.
    let window = load.duration.as_secs_f64().min(60.0);
    let from = load.duration.as_secs_f64() * 0.25;
    let largest = largest_window(&admitted, from, window);
    let allowed = load.per_second() * window;
    println!(
        "{} admitted, at most {largest} in {window} s, of {allowed:.0}",
        admitted.len()
    );
    assert!(
        as_f64(largest) <= allowed * 1.2 + 3.0,
        "{largest} of {allowed}"
    );
}

/// Prints the time that shared limits add to a call; bounds would depend on the machine.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "figures of the run")]
async fn a_call_checks_all_of_its_limits_in_one_redis_script() {
    const CALLS: u64 = 200;
    const RATE: &str = ", requests_per_minute: 1000000";
    const ALL: &str = ", requests_per_minute: 1000000, tokens_per_day: 1000000000, in_flight: 100";
    for limits in [RATE, ALL] {
        let (upstream, redis) = (Upstream::mock().await, Redis::start());
        let own = crate::callers::auth(&[("team-a", limits)]);
        let own = format!("{own}  limits: {{ store: memory }}\n");
        let own = Replica::start(&upstream, &redis, &own);
        let shared = config(&[("team-a", limits)], "");
        let shared = Replica::start(&upstream, &redis, &shared);
        until_metric(&shared.operator, "hookgate_limits_shared", 1).await;

        let before = admissions(&redis);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..CALLS {
            for (replica, times) in [&own, &shared].into_iter().zip(&mut times) {
                let started = Instant::now();
                assert_eq!(replica.agent.generate("m", &prompt("hi")).await.status, 200);
                times.push(started.elapsed());
            }
        }

        let medians = times.map(|mut times| {
            times.sort_unstable();
            (times[times.len() / 2], times[times.len() * 99 / 100])
        });
        println!("p50 and p99 with own and shared limits: {medians:?}{limits}");
        assert_eq!(admissions(&redis) - before, CALLS, "{limits}");
    }
}

/// The number of scripts that admitted a request: no other reads the rate.
fn admissions(redis: &Redis) -> u64 {
    let info = redis.ask("INFO commandstats");
    let line = info.lines().find(|line| line.starts_with("cmdstat_get:"));
    let calls = line.and_then(|line| line.split(['=', ',']).nth(1)?.parse().ok());
    calls.unwrap_or(0)
}
