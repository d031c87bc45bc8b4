//! What hookgate costs beside the least that this stack can do: `just bench`.
//!
//! Starts a fast model API and, in turn, everybody who may stand in front of it;
//! docs/performance.md says how to choose among them and what the figures mean.
//! This binary is all of them but hookgate and nginx: its first word is the role.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench tells its numbers"
)]

mod bare;
mod bodies;
mod choice;
mod contestants;
mod event;
mod floors;
mod gates;
mod held;
mod hooks;
mod load;
mod measure;
mod processes;
mod report;
mod scenes;
mod upstream;
mod world;

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
    choice::Choice,
    floors::Floor,
    measure::Value,
    report::Report,
    scenes::Scene,
    world::{Running, World},
};

/// How long one contestant may take for one figure.
const PATIENCE: Duration = Duration::from_mins(2);

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).filter(|it| it != "--bench").collect();
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
        ("keep", [_, rest @ ..]) => processes::keep(rest)?,
        ("worker-hook", _) => hooks::worker()?,
        ("upstream", _) => {
            one_thread()?.block_on(async { upstream::run(listener().await?).await })?;
        }
        ("http-hook", _) => {
            one_thread()?.block_on(async { hooks::server(listener().await?).await })?;
        }
        ("bare", [_, upstream, ..]) => {
            Runtime::new()?.block_on(async { bare::run(listener().await?, upstream).await })?;
        }
        (floor, [_, upstream, rest @ ..]) if floor.starts_with("floor-") => {
            let class = floor.trim_start_matches("floor-");
            Runtime::new()?.block_on(async {
                Floor::parse(class, rest)?
                    .run(listener().await?, upstream)
                    .await
            })?;
        }
        _ => return LocalSet::new().block_on(&one_thread()?, bench(words)),
    }
    Ok(true)
}

fn one_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

async fn listener() -> Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(listener)
}

async fn bench(words: &[String]) -> Result<bool> {
    processes::open_many_files()?;
    let choice = Choice::parse(words)?;
    let mut terminate = signal(SignalKind::terminate())?;
    // What is under way is dropped, and with it all that was started.
    select! {
        is_good = rounds(&choice) => is_good,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}

async fn rounds(choice: &Choice) -> Result<bool> {
    let scenes = choice.scenes()?;
    let contestants = choice.contestants(&scenes);
    let world = World::start()?;
    let running: Result<Vec<Running>> = contestants.iter().map(|it| world.run(it)).collect();
    let running = running?;
    let mut report = Report::new(contestants.into_iter().map(|it| it.name).collect());
    // What comes first pays for threads, connections and pools; it is not counted.
    for scene in scenes.iter().filter(|it| choice.is_warmed(it)) {
        for running in takers(scene, &running) {
            values(scene, &world, running, choice.time / 4).await?;
        }
    }
    for round in 0..choice.rounds {
        eprintln!("round {} of {}", round + 1, choice.rounds);
        for scene in scenes.iter().filter(|it| choice.is_due(it, round)) {
            let mut turn = takers(scene, &running);
            if round % 2 == 1 {
                turn.reverse();
            }
            for running in turn {
                let values = values(scene, &world, running, choice.time).await?;
                report.add(&running.contestant.name, values);
            }
        }
    }
    if choice.rounds == 0 {
        println!("every answer was right");
        return Ok(true);
    }
    let (gates, is_good) = report.gates();
    println!("{}\n\n{gates}", report.table());
    Ok(is_good || !choice.is_gate)
}

async fn values(
    scene: &Scene,
    world: &World,
    running: &Running,
    time: Duration,
) -> Result<Vec<Value>> {
    let Scene {
        figure, size, kind, ..
    } = scene;
    let values = timeout(PATIENCE, kind.measure(size, world, running, time)).await;
    let values = values.map_err(|_| "it takes too long".into()).flatten();
    values.map_err(|error: Error| {
        format!("{figure} {size}, {}: {error}", running.contestant.name).into()
    })
}

fn takers<'a>(scene: &Scene, running: &'a [Running]) -> Vec<&'a Running> {
    let takes_part = |it: &&Running| it.contestant.takes_part(scene);
    running.iter().filter(takes_part).collect()
}
