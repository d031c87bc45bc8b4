//! An endpoint that is away for a while, and a gateway that is.

use std::{
    collections::HashSet,
    env, fs,
    io::Write,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{Sink, caught_up, counted, metric};
use crate::harness::{Agent, PATIENCE, Served, TestGateway, Upstream, eventually, prompt};

/// Calls a second while the endpoint is away; each writes [`LINES_PER_CALL`].
const CALLS_PER_SECOND: u32 = 50;

/// The lines of a call: two events, its request and its response.
const LINES_PER_CALL: u64 = 4;

/// The median of calls while the endpoint is away, as a multiple of that without one; more
/// than two equal gateways differ by.
const MOST_SLOWER: f64 = 1.05;

const AGENTS: u64 = 8;

/// Kills of a gateway that sends.
const KILLS: u64 = 5;

fn config(upstream: &Upstream, audit: &str) -> String {
    format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         policies: [{{ policy: model_allow, models: [\"*\"] }}]\n\
         audit: {{ path: audit.jsonl, {audit} }}\n",
        upstream.addr
    )
}

/// A gateway in a process of its own.
fn serve(folder: &Path) -> (Served, Agent, Agent) {
    let mut served = Served::folder(folder);
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    (served, agent, operator)
}

/// Calls from some agents at once.
async fn call(base: &str, calls: u64) {
    let left = Arc::new(AtomicU64::new(calls));
    let agents = (0..AGENTS).map(|_| {
        let (agent, left) = (Agent::at_base(base), Arc::clone(&left));
        tokio::spawn(async move {
            while left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1))
                .is_ok()
            {
                timed_call(&agent).await;
            }
        })
    });
    for agent in agents.collect::<Vec<_>>() {
        agent.await.unwrap();
    }
}

async fn timed_call(agent: &Agent) -> Duration {
    let started = Instant::now();
    let answer = agent.generate("m", &prompt("hi")).await;
    assert_eq!(answer.status, 200);
    started.elapsed()
}

/// The times of the calls of two gateways, in order.
#[derive(Default)]
struct Times([Vec<Duration>; 2]);

impl Times {
    /// Calls both in turn at [`CALLS_PER_SECOND`], however long the calls take.
    async fn of_calls(agents: &[Agent; 2], time: Duration) -> Self {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / CALLS_PER_SECOND);
        let mut calls = JoinSet::new();
        for number in 0..calls_of(time) {
            ticks.tick().await;
            let agents = agents.clone();
            calls.spawn(async move {
                // Each is first as often as second.
                let is_swapped = number % 2 == 1;
                let first = timed_call(&agents[usize::from(is_swapped)]).await;
                let second = timed_call(&agents[usize::from(!is_swapped)]).await;
                if is_swapped {
                    [second, first]
                } else {
                    [first, second]
                }
            });
        }
        let mut times = Self::default();
        for [one, other] in calls.join_all().await {
            times.0[0].push(one);
            times.0[1].push(other);
        }
        for times in &mut times.0 {
            times.sort();
        }
        times
    }

    /// The time that this share of the calls took at most, in percent.
    fn percentile(&self, percent: usize) -> [Duration; 2] {
        self.0.each_ref().map(|it| it[it.len() * percent / 100])
    }
}

/// The calls of this time, in whole seconds.
fn calls_of(time: Duration) -> u64 {
    time.as_secs() * u64::from(CALLS_PER_SECOND)
}

fn lines_of(time: Duration) -> u64 {
    calls_of(time) * LINES_PER_CALL
}

/// The lines of all files of a log.
fn lines(log: &Path) -> Vec<String> {
    let lines = chained_log::lines(log).unwrap();
    lines
        .map(|it| String::from_utf8(it.unwrap().bytes).unwrap())
        .collect()
}

/// Three seconds in the suite, an hour by `just sink-outage`. A second gateway without a
/// sink is called as often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_was_away_receives_every_line_and_no_call_waits_for_it() {
    let minutes = env::var("HOOKGATE_SINK_MINUTES").ok();
    let outage = minutes.as_ref().map_or(Duration::from_secs(3), |it| {
        Duration::from_mins(it.parse().unwrap())
    });
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.answer(503);
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let rotate = "rotate: { size: 1MiB, keep: 100000 }".to_owned();
    let with_sink = format!("{rotate}, {}", sink.setting(""));
    for (folder, audit) in folders.iter().zip([with_sink, rotate]) {
        let config = config(&upstream, &audit);
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    }
    let [(served, agent, operator), (other, other_agent, _)] =
        folders.each_ref().map(|it| serve(it.path()));
    let agents = [agent, other_agent];

    let away = Times::of_calls(&agents, outage).await;
    // And one of the start.
    let behind = 1 + lines_of(outage);
    counted(&operator, "hookgate_audit_sink_lag_lines", behind).await;
    assert!(sink.lines().is_empty());
    sink.answer(200);
    let while_back = Duration::from_secs(1) + outage / 20;
    let back = Times::of_calls(&agents, while_back).await;
    caught_up(&operator).await;
    end(served).await;
    end(other).await;

    let verified = sink.verified();
    let log = folders[0].path().join("audit.jsonl");
    let (copy, file) = (sink.lines(), lines(&log));
    let copied: HashSet<&String> = copy.iter().collect();
    assert!(file.len() as u64 > behind + lines_of(while_back));
    assert_eq!(file.iter().filter(|it| !copied.contains(it)).count(), 0);
    let mut report = std::io::stderr().lock();
    for (name, times) in [("away", &away), ("back", &back)] {
        for percent in [50, 99] {
            let [with_sink, without] = times.percentile(percent);
            writeln!(
                report,
                "{name}: p{percent} {with_sink:?}, without a sink {without:?}"
            )
            .unwrap();
        }
    }
    writeln!(report, "{outage:?} away, {behind} lines behind; {verified}").unwrap();
    if minutes.is_some() {
        let [with_sink, without] = away.percentile(50);
        assert!(with_sink <= without.mul_f64(MOST_SLOWER), "slower");
    }
}

/// Ends a gateway, and waits for it.
async fn end(served: Served) -> String {
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(PATIENCE));
    let (status, log) = ended.await.unwrap();
    assert!(status.success(), "{log}");
    log
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_neither_calls_nor_the_end() {
    let upstream = Upstream::mock().await;
    let hanging = Upstream::raw(|_, socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    })
    .await;
    let sink = format!("sink: {{ url: \"http://{}/\" }}", hanging.addr);
    let gate =
        TestGateway::start(&upstream, &format!("audit: {{ path: a.jsonl, {sink} }}\n")).await;
    eventually("it is asked", PATIENCE, || hanging.connections() > 0).await;
    let started = Instant::now();

    call(&gate.agent().base, 40).await;

    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    let started = Instant::now();
    let folder = gate.stop_keeping().await;
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
    assert!(!folder.path().join("a.jsonl.sent").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_is_lost_when_the_gateway_is_killed_while_it_sends() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    let folder = TempDir::new().unwrap();
    let audit = format!(
        "rotate: {{ size: 64KiB, keep: 100000 }}, {}",
        sink.setting(", batch: { lines: 7 }")
    );
    fs::write(
        folder.path().join("hookgate.yaml"),
        config(&upstream, &audit),
    )
    .unwrap();

    let log = folder.path().join("audit.jsonl");
    for kill in 1..=KILLS {
        sink.answer(503);
        let (served, agent, _) = serve(folder.path());
        let before = sink.lines().len();
        call(&agent.base, 40).await;
        eventually("they are written", PATIENCE, || {
            lines(&log).len() as u64 > kill * 40 * LINES_PER_CALL
        })
        .await;
        sink.answer(200);
        // It has sent some lines, and is about to send the others.
        eventually("it sends", 6 * PATIENCE, || sink.lines().len() > before).await;
        served.signal(Signal::KILL);
        drop(served);
    }
    let (served, _, operator) = serve(folder.path());
    caught_up(&operator).await;
    end(served).await;

    sink.verified();
    let (copy, file) = (sink.lines(), lines(&log));
    let copied: HashSet<&String> = copy.iter().collect();
    assert!(file.len() as u64 > KILLS * 40 * LINES_PER_CALL);
    assert_eq!(file.iter().filter(|it| !copied.contains(it)).count(), 0);
}

#[tokio::test]
async fn lines_of_a_killed_gateway_are_behind_from_the_start_of_the_next() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.answer(503);
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("hookgate.yaml"),
        config(&upstream, &sink.setting("")),
    )
    .unwrap();
    let (served, agent, operator) = serve(folder.path());
    call(&agent.base, 5).await;
    appears(
        &operator,
        "hookgate_audit_sink_failures_total{reason=\"status\"}",
    )
    .await;
    served.signal(Signal::KILL);
    drop(served);
    let written = lines(&folder.path().join("audit.jsonl")).len() as u64;
    assert!(written > 0);

    let (served, _, operator) = serve(folder.path());

    let lag = metric(&operator, "hookgate_audit_sink_lag_lines").await;
    assert!(lag >= Some(written), "{lag:?} of {written}");
    end(served).await;
}

/// Waits until a counter has counted.
async fn appears(operator: &Agent, name: &str) {
    let deadline = Instant::now() + PATIENCE;
    while metric(operator, name).await.is_none() {
        assert!(Instant::now() < deadline, "no {name}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn lines_that_rotation_removed_are_counted_and_named() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.answer(200);
    let folder = TempDir::new().unwrap();
    let audit = format!("rotate: {{ size: 4KiB, keep: 1 }}, {}", sink.setting(""));
    fs::write(
        folder.path().join("hookgate.yaml"),
        config(&upstream, &audit),
    )
    .unwrap();
    let (served, agent, operator) = serve(folder.path());
    call(&agent.base, 2).await;
    caught_up(&operator).await;
    sink.answer(503);

    call(&agent.base, 2).await;
    appears(
        &operator,
        "hookgate_audit_sink_failures_total{reason=\"status\"}",
    )
    .await;
    // The failed request holds the first lines; those behind it are removed.
    call(&agent.base, 40).await;
    sink.answer(200);

    appears(
        &operator,
        "hookgate_audit_sink_lines_total{outcome=\"lost\"}",
    )
    .await;
    caught_up(&operator).await;
    let log = end(served).await;
    assert!(
        log.contains("rotation removed lines before they were sent"),
        "{log}"
    );
    let copy = sink.lines().join("\n");
    let (code, _, error) = crate::harness::run_with_input(&["audit", "verify", "--stdin"], &copy);
    assert!(code == 1 && error.contains("missing: lines "), "{error}");
}

#[tokio::test]
async fn another_endpoint_continues_where_the_first_stopped() {
    let upstream = Upstream::mock().await;
    let (first, second) = (Sink::start().await, Sink::start().await);
    let folder = TempDir::new().unwrap();
    let write = |sink: &str| {
        let text = config(&upstream, sink);
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
    };
    write(&first.setting(""));
    let (served, agent, operator) = serve(folder.path());
    call(&agent.base, 3).await;
    caught_up(&operator).await;
    first.answer(503);
    call(&agent.base, 3).await;

    write(&second.setting(""));
    let reloaded = operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    counted(&operator, "hookgate_audit_sink_lag_lines", 0).await;
    end(served).await;

    let copy = [first.lines(), second.lines()].concat();
    assert_eq!(copy, lines(&folder.path().join("audit.jsonl")));
}
