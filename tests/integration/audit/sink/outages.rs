//! Outages of the endpoint of the HTTP sink, and kills of the gateway.

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

use super::{Sink, metric, wait_for_metric, wait_until_caught_up};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, eventually, prompt,
};

/// Calls per second during an outage; each writes [`LINES_PER_CALL`] lines.
const CALLS_PER_SECOND: u32 = 50;

/// Lines of a call: two events, its request and its response.
const LINES_PER_CALL: u64 = 4;

/// Largest ratio of the median call times during an outage, with a sink and without one. Two equal
/// gateways differ by less.
const MAX_SLOWDOWN: f64 = 1.05;

const AGENTS: u64 = 8;

/// Number of kills while the gateway sends.
const KILLS: u64 = 5;

fn config(upstream: &Upstream, audit: &str) -> String {
    format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         policies: [{{ policy: model_allow, models: [\"*\"] }}]\n\
         audit: {{ path: audit.jsonl, {audit} }}\n",
        upstream.addr
    )
}

/// Starts a gateway in a process of its own.
fn serve(folder: &Path) -> (ServerProcess, Agent, Agent) {
    let mut served = ServerProcess::folder(folder);
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    (served, agent, operator)
}

/// Sends calls from several agents concurrently.
async fn call_concurrently(base: &str, calls: u64) {
    let remaining = Arc::new(AtomicU64::new(calls));
    let agents = (0..AGENTS).map(|_| {
        let (agent, remaining) = (Agent::at_base(base), Arc::clone(&remaining));
        tokio::spawn(async move {
            let one_less = |count: u64| count.checked_sub(1);
            while remaining
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
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

/// Sorted call times of two gateways.
#[derive(Default)]
struct Times([Vec<Duration>; 2]);

impl Times {
    /// Calls both gateways in turn at [`CALLS_PER_SECOND`], independent of the call times.
    async fn measure(agents: &[Agent; 2], time: Duration) -> Self {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / CALLS_PER_SECOND);
        let mut calls = JoinSet::new();
        for number in 0..calls_during(time) {
            ticks.tick().await;
            let agents = agents.clone();
            calls.spawn(async move {
                // Each gateway is called first in half of the pairs.
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

    /// Returns this percentile of the call times of both gateways.
    fn percentile(&self, percent: usize) -> [Duration; 2] {
        self.0
            .each_ref()
            .map(|times| times[times.len() * percent / 100])
    }
}

/// Returns the number of calls during this time, in whole seconds.
fn calls_during(time: Duration) -> u64 {
    time.as_secs() * u64::from(CALLS_PER_SECOND)
}

fn lines_during(time: Duration) -> u64 {
    calls_during(time) * LINES_PER_CALL
}

/// Returns the lines of all files of a log.
fn lines(log: &Path) -> Vec<String> {
    let lines = chained_log::lines(log).unwrap();
    lines
        .map(|line| String::from_utf8(line.unwrap().bytes).unwrap())
        .collect()
}

/// The outage takes three seconds in the suite and an hour by `just sink-outage`. A second gateway
/// without a sink receives the same calls, for comparison.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_arrives_after_an_outage_and_no_call_is_delayed() {
    let minutes = env::var("HOOKGATE_SINK_MINUTES").ok();
    let outage = minutes.as_ref().map_or(Duration::from_secs(3), |value| {
        Duration::from_mins(value.parse().unwrap())
    });
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.respond_with(503);
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let rotate = "rotate: { size: 1MiB, keep: 100000 }".to_owned();
    let with_sink = format!("{rotate}, {}", sink.setting(""));
    for (folder, audit) in folders.iter().zip([with_sink, rotate]) {
        let config = config(&upstream, &audit);
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    }
    let [(served, agent, operator), (other, other_agent, _)] =
        folders.each_ref().map(|folder| serve(folder.path()));
    let agents = [agent, other_agent];

    let during_outage = Times::measure(&agents, outage).await;
    // One more is the line `start`.
    let lag = 1 + lines_during(outage);
    wait_for_metric(&operator, "hookgate_audit_sink_lag_lines", lag).await;
    assert!(sink.lines().is_empty());
    sink.respond_with(200);
    let recovery = Duration::from_secs(1) + outage / 20;
    let after_outage = Times::measure(&agents, recovery).await;
    wait_until_caught_up(&operator).await;
    stop(served).await;
    stop(other).await;

    let verified = sink.verified();
    let log = folders[0].path().join("audit.jsonl");
    let (copy, file) = (sink.lines(), lines(&log));
    let copied: HashSet<&String> = copy.iter().collect();
    assert!(file.len() as u64 > lag + lines_during(recovery));
    assert_eq!(file.iter().filter(|line| !copied.contains(line)).count(), 0);
    let mut report = std::io::stderr().lock();
    for (name, times) in [("away", &during_outage), ("back", &after_outage)] {
        for percent in [50, 99] {
            let [with_sink, without] = times.percentile(percent);
            writeln!(
                report,
                "{name}: p{percent} {with_sink:?}, without a sink {without:?}"
            )
            .unwrap();
        }
    }
    writeln!(report, "{outage:?} away, {lag} lines behind; {verified}").unwrap();
    if minutes.is_some() {
        let [with_sink, without] = during_outage.percentile(50);
        assert!(
            with_sink <= without.mul_f64(MAX_SLOWDOWN),
            "calls are slower with a sink"
        );
    }
}

/// Shuts a gateway down; returns its process log.
async fn stop(served: ServerProcess) -> String {
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (status, log) = ended.await.unwrap();
    assert!(status.success(), "{log}");
    log
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_neither_calls_nor_shutdown() {
    let upstream = Upstream::mock().await;
    let hanging = Upstream::raw(|_, socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    })
    .await;
    let sink = format!("sink: {{ url: \"http://{}/\" }}", hanging.addr);
    let gate =
        TestGateway::start(&upstream, &format!("audit: {{ path: a.jsonl, {sink} }}\n")).await;
    eventually("the gateway connects to the endpoint", TEST_TIMEOUT, || {
        hanging.connections() > 0
    })
    .await;
    let started = Instant::now();

    call_concurrently(&gate.agent().base, 40).await;

    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    let started = Instant::now();
    let folder = gate.stop_and_keep_files().await;
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
        sink.respond_with(503);
        let (served, agent, _) = serve(folder.path());
        let before = sink.lines().len();
        call_concurrently(&agent.base, 40).await;
        eventually("all lines are written", TEST_TIMEOUT, || {
            lines(&log).len() as u64 > kill * 40 * LINES_PER_CALL
        })
        .await;
        sink.respond_with(200);
        // The kill comes after some lines are sent and before the others are.
        eventually("some lines are sent", 6 * TEST_TIMEOUT, || {
            sink.lines().len() > before
        })
        .await;
        served.signal(Signal::KILL);
        drop(served);
    }
    let (served, _, operator) = serve(folder.path());
    wait_until_caught_up(&operator).await;
    stop(served).await;

    sink.verified();
    let (copy, file) = (sink.lines(), lines(&log));
    let copied: HashSet<&String> = copy.iter().collect();
    assert!(file.len() as u64 > KILLS * 40 * LINES_PER_CALL);
    assert_eq!(file.iter().filter(|line| !copied.contains(line)).count(), 0);
}

#[tokio::test]
async fn lines_of_a_killed_gateway_count_as_unsent_after_a_restart() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.respond_with(503);
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("hookgate.yaml"),
        config(&upstream, &sink.setting("")),
    )
    .unwrap();
    let (served, agent, operator) = serve(folder.path());
    call_concurrently(&agent.base, 5).await;
    wait_for_counter(
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
    stop(served).await;
}

/// Waits until a counter exists.
async fn wait_for_counter(operator: &Agent, name: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while metric(operator, name).await.is_none() {
        assert!(Instant::now() < deadline, "no {name}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn lines_removed_by_rotation_before_they_were_sent_are_counted_as_lost() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.respond_with(200);
    let folder = TempDir::new().unwrap();
    let audit = format!("rotate: {{ size: 4KiB, keep: 1 }}, {}", sink.setting(""));
    fs::write(
        folder.path().join("hookgate.yaml"),
        config(&upstream, &audit),
    )
    .unwrap();
    let (served, agent, operator) = serve(folder.path());
    call_concurrently(&agent.base, 2).await;
    wait_until_caught_up(&operator).await;
    sink.respond_with(503);

    call_concurrently(&agent.base, 2).await;
    wait_for_counter(
        &operator,
        "hookgate_audit_sink_failures_total{reason=\"status\"}",
    )
    .await;
    // The failed request still has the first lines; rotation removes those after them.
    call_concurrently(&agent.base, 40).await;
    sink.respond_with(200);

    wait_for_counter(
        &operator,
        "hookgate_audit_sink_lines_total{outcome=\"lost\"}",
    )
    .await;
    wait_until_caught_up(&operator).await;
    let log = stop(served).await;
    assert!(
        log.contains("lines were removed or damaged before they were sent"),
        "{log}"
    );
    let copy = sink.lines().join("\n");
    let (code, _, error) = crate::harness::run_with_input(&["audit", "verify", "--stdin"], &copy);
    assert!(code == 1 && error.contains("missing: lines "), "{error}");
}

#[tokio::test]
async fn a_log_whose_active_file_is_moved_away_is_sent_once() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    let folder = TempDir::new().unwrap();
    let audit = format!("rotate: {{ size: 4KiB, keep: 100 }}, {}", sink.setting(""));
    fs::write(
        folder.path().join("hookgate.yaml"),
        config(&upstream, &audit),
    )
    .unwrap();
    let (served, agent, operator) = serve(folder.path());
    call_concurrently(&agent.base, 10).await;
    wait_until_caught_up(&operator).await;
    let log = folder.path().join("audit.jsonl");
    let before = lines(&log);
    assert!(chained_log::rotated_files(&log).unwrap().len() > 1);

    fs::rename(&log, folder.path().join("moved.jsonl")).unwrap();
    call_concurrently(&agent.base, 1).await;
    wait_until_caught_up(&operator).await;
    call_concurrently(&agent.base, 1).await;
    wait_until_caught_up(&operator).await;

    let lost = "hookgate_audit_sink_lines_total{outcome=\"lost\"}";
    assert_eq!(metric(&operator, lost).await, Some(0));
    stop(served).await;
    let all = [before, lines(&log)].concat();
    let unique: HashSet<&String> = all.iter().collect();
    assert_eq!(sink.lines().len(), unique.len());
    sink.verified();
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
    call_concurrently(&agent.base, 3).await;
    wait_until_caught_up(&operator).await;
    first.respond_with(503);
    call_concurrently(&agent.base, 3).await;

    write(&second.setting(""));
    let reloaded = operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    wait_for_metric(&operator, "hookgate_audit_sink_lag_lines", 0).await;
    stop(served).await;

    let copy = [first.lines(), second.lines()].concat();
    assert_eq!(copy, lines(&folder.path().join("audit.jsonl")));
}

#[tokio::test]
async fn a_sink_that_a_reload_removes_has_no_lag() {
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    sink.respond_with(503);
    let folder = TempDir::new().unwrap();
    let write = |sink: &str| {
        let text = config(&upstream, sink);
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
    };
    write(&sink.setting(""));
    let (served, agent, operator) = serve(folder.path());
    call_concurrently(&agent.base, 1).await;
    let failures = "hookgate_audit_sink_failures_total{reason=\"status\"}";
    wait_for_counter(&operator, failures).await;
    let lag = "hookgate_audit_sink_lag_lines";
    assert_ne!(metric(&operator, lag).await, Some(0));

    write("");
    let reloaded = operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    wait_for_metric(&operator, lag, 0).await;
    stop(served).await;
}
