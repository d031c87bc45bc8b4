//! The cost of hookgate beside a bare proxy of the same stack: `just bench`.
//!
//! Starts a fast model API and each target in front of it. docs/performance.md
//! explains the arguments and figures. This binary has a role for each process except hookgate,
//! nginx and other gateways: its first argument is the role.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its figures"
)]

mod args;
mod baseline_proxy;
mod console;
mod environment;
mod hook_event;
mod idle_hooks;
mod load;
mod long_lived;
mod lower_bounds;
mod measure;
mod processes;
mod report;
mod request_bodies;
mod scenarios;
mod targets;
mod thresholds;
mod upstream;

use std::{env, process::ExitCode, time::Duration};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    select,
    signal::unix::{SignalKind, signal},
    task::LocalSet,
    time::timeout,
};

use crate::{
    args::Args,
    environment::{Environment, Running},
    lower_bounds::LowerBound,
    measure::Value,
    report::Report,
    scenarios::Scenario,
};

/// Limit for one figure of one target.
const MEASURE_TIMEOUT: Duration = Duration::from_mins(2);

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<bool> {
    let role = words.first().map(String::as_str).unwrap_or_default();
    match (role, words) {
        ("keep", [_, rest @ ..]) => processes::exec_until_parent_death(rest)?,
        ("worker-hook", _) => idle_hooks::worker()?,
        ("upstream", _) => {
            single_threaded()?.block_on(async { upstream::run(listener().await?).await })?;
        }
        ("http-hook", _) => {
            single_threaded()?.block_on(async { idle_hooks::server(listener().await?).await })?;
        }
        ("bare", [_, upstream, ..]) => {
            Runtime::new()?
                .block_on(async { baseline_proxy::run(listener().await?, upstream).await })?;
        }
        (lower_bound, [_, upstream, rest @ ..]) if lower_bound.starts_with("lower-bound-") => {
            let class = lower_bound.trim_start_matches("lower-bound-");
            Runtime::new()?.block_on(async {
                LowerBound::parse(class, rest)?
                    .run(listener().await?, upstream)
                    .await
            })?;
        }
        _ => return LocalSet::new().block_on(&single_threaded()?, bench(words)),
    }
    Ok(true)
}

fn single_threaded() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

async fn listener() -> Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(listener)
}

async fn bench(words: &[String]) -> Result<bool> {
    processes::open_many_files()?;
    let args = Args::parse(words)?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Dropping the future stops all processes that it started.
    select! {
        is_good = rounds(&args) => is_good,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}

async fn rounds(args: &Args) -> Result<bool> {
    let scenarios = args.scenarios()?;
    let targets = args.targets(&scenarios);
    let environment = Environment::start()?;
    let running: Result<Vec<Running>> = targets
        .iter()
        .map(|target| environment.run(target))
        .collect();
    let running = running?;
    let mut report = Report::new(targets.into_iter().map(|target| target.name).collect());
    // Warm-up: the first requests start threads, connections and pools.
    for scenario in scenarios.iter().filter(|scenario| args.is_warmed(scenario)) {
        for running in participants(scenario, &running) {
            values(scenario, &environment, running, args.time / 4).await?;
        }
    }
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for scenario in scenarios
            .iter()
            .filter(|scenario| args.is_due(scenario, round))
        {
            let mut order = participants(scenario, &running);
            if round % 2 == 1 {
                order.reverse();
            }
            for _ in 0..scenario.kind.windows() {
                for running in &order {
                    let values = values(scenario, &environment, running, args.time).await?;
                    report.add(&running.target.name, values);
                }
                order.reverse();
            }
        }
    }
    if args.rounds == 0 {
        println!("every response was valid");
        return Ok(true);
    }
    let (thresholds, is_good) = report.thresholds();
    println!("{}\n\n{thresholds}", report.table());
    Ok(is_good || !args.is_gate)
}

async fn values(
    scenario: &Scenario,
    environment: &Environment,
    running: &Running,
    time: Duration,
) -> Result<Vec<Value>> {
    let Scenario {
        figure, size, kind, ..
    } = scenario;
    let values = timeout(
        MEASURE_TIMEOUT,
        kind.measure(size, environment, running, time),
    )
    .await;
    let values = values.map_err(|_| "measurement timed out".into()).flatten();
    values
        .map_err(|error: Error| format!("{figure} {size}, {}: {error}", running.target.name).into())
}

fn participants<'a>(scenario: &Scenario, running: &'a [Running]) -> Vec<&'a Running> {
    let participates = |candidate: &&Running| candidate.target.participates(scenario);
    running.iter().filter(participates).collect()
}
