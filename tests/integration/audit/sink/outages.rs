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

use super::{Sink, caught_up, counted, metric};
use crate::harness::{Agent, PATIENCE, Served, TestGateway, Upstream, eventually, prompt};

/// Lines that are written while the endpoint is away, unless the environment says otherwise.
const LINES: u64 = 600;

/// Lines of a call: its event, itself and its outcome.
const LINES_PER_CALL: u64 = 3;

const AGENTS: u64 = 8;

/// Kills of a gateway that sends.
const KILLS: usize = 5;

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

/// Calls from some agents at once; gives the times that calls took, in order.
async fn call(base: &str, calls: u64) -> Vec<Duration> {
    let left = Arc::new(AtomicU64::new(calls));
    let agents = (0..AGENTS).map(|_| {
        let (agent, left) = (Agent::at_base(base), Arc::clone(&left));
        tokio::spawn(async move {
            let mut times = Vec::new();
            while left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1))
                .is_ok()
            {
                let started = Instant::now();
                let answer = agent.generate("m", &prompt("hi")).await;
                assert_eq!(answer.status, 200);
                times.push(started.elapsed());
            }
            times
        })
    });
    let mut times = Vec::new();
    for agent in agents.collect::<Vec<_>>() {
        times.extend(agent.await.unwrap());
    }
    times.sort();
    times
}

/// The lines of all files of a log.
fn lines(log: &Path) -> Vec<String> {
    let lines = chained_log::lines(log).unwrap();
    lines
        .map(|it| String::from_utf8(it.unwrap().bytes).unwrap())
        .collect()
}

/// In the suite with 600 lines; `just sink-outage` writes 720,000, an hour of 200 a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_was_away_receives_every_line_and_no_call_waits_for_it() {
    let wanted: u64 = env::var("HOOKGATE_SINK_LINES").map_or(LINES, |it| it.parse().unwrap());
    let calls = wanted.div_ceil(LINES_PER_CALL);
    let (upstream, sink) = (Upstream::mock().await, Sink::start().await);
    let folder = TempDir::new().unwrap();
    let rotate = "rotate: { size: 1MiB, keep: 100000 }";
    let write = |sink: &str| {
        let audit = format!("{rotate}{sink}");
        fs::write(
            folder.path().join("hookgate.yaml"),
            config(&upstream, &audit),
        )
        .unwrap();
    };

    write("");
    let (served, agent, _) = serve(folder.path());
    let without = call(&agent.base, calls.min(5000)).await;
    end(served).await;
    write(&format!(", {}", sink.setting("")));
    sink.answer(503);
    let (served, agent, operator) = serve(folder.path());
    let started = Instant::now();
    let away = call(&agent.base, calls).await;
    let outage = started.elapsed();
    let lag = metric(&operator, "hookgate_audit_sink_lag_lines")
        .await
        .unwrap();
    assert!(sink.lines().is_empty());
    sink.answer(200);
    let started = Instant::now();
    let back = call(&agent.base, calls.min(5000)).await;
    while metric(&operator, "hookgate_audit_sink_lag_lines").await != Some(0) {
        let patience = PATIENCE + Duration::from_millis(wanted);
        assert!(started.elapsed() < patience, "still behind");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let caught_up = started.elapsed();
    end(served).await;

    let verified = sink.verified();
    let (copy, file) = (sink.lines(), lines(&folder.path().join("audit.jsonl")));
    let copied: HashSet<&String> = copy.iter().collect();
    assert!(file.len() as u64 > wanted);
    assert_eq!(file.iter().filter(|it| !copied.contains(it)).count(), 0);
    let at = |times: &[Duration], share: usize| times[times.len() * share / 100];
    let mut log = std::io::stderr().lock();
    for (name, times) in [("without", &without), ("away", &away), ("back", &back)] {
        let (half, most) = (at(times, 50), at(times, 99));
        writeln!(
            log,
            "{name}: {} calls, p50 {half:?}, p99 {most:?}",
            times.len()
        )
        .unwrap();
    }
    writeln!(
        log,
        "{outage:?} away, {lag} lines behind, sent in {caught_up:?}; {verified}"
    )
    .unwrap();
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

    for _ in 0..KILLS {
        sink.answer(503);
        let (served, agent, _) = serve(folder.path());
        let before = sink.lines().len();
        call(&agent.base, 40).await;
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
    let (copy, file) = (sink.lines(), lines(&folder.path().join("audit.jsonl")));
    let copied: HashSet<&String> = copy.iter().collect();
    assert!(file.len() > KILLS * 40 * 3);
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
