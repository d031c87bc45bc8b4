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
mod contestants;
mod floors;
mod hooks;
mod load;
mod processes;
mod report;
mod scenes;
mod upstream;

use std::{env, process::ExitCode, time::Duration};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    task::LocalSet,
};

use crate::{
    contestants::{Contestant, Running, World},
    floors::Floor,
    report::Report,
    scenes::Scene,
};

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
        _ => return LocalSet::new().block_on(&one_thread()?, bench(&Choice::parse(words)?)),
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

/// What is measured, and how long.
struct Choice {
    rounds: usize,
    time: Duration,
    /// Figures, sizes and contestants; all of those of which none is named.
    figures: Vec<String>,
    sizes: Vec<String>,
    names: Vec<&'static str>,
    is_gate: bool,
}

impl Choice {
    fn parse(words: &[String]) -> Result<Self> {
        let (scenes, contestants) = (scenes::all()?, contestants::all());
        let mut choice = Self {
            rounds: 5,
            time: Duration::from_millis(400),
            figures: Vec::new(),
            sizes: Vec::new(),
            names: Vec::new(),
            is_gate: false,
        };
        for word in words {
            if let Some(rounds) = word.strip_prefix("rounds=") {
                choice.rounds = rounds.parse()?;
            } else if let Some(time) = word.strip_prefix("ms=") {
                choice.time = Duration::from_millis(time.parse()?);
            } else if word == "short" {
                (choice.rounds, choice.time) = (3, Duration::from_millis(120));
            } else if word == "smoke" {
                (choice.rounds, choice.time) = (1, Duration::ZERO);
            } else if word == "gate" {
                choice.is_gate = true;
            } else if scenes.iter().any(|it| it.figure == word) {
                choice.figures.push(word.clone());
            } else if scenes.iter().any(|it| it.size == word) {
                choice.sizes.push(word.clone());
            } else if let Some(contestant) = contestants.iter().find(|it| it.name == word) {
                choice.names.push(contestant.name);
                choice.names.extend(contestant.against);
            } else {
                return Err(format!("`{word}` is no figure, no size and no set-up").into());
            }
        }
        Ok(choice)
    }

    fn has(&self, scene: &Scene) -> bool {
        let one_of = |words: &[String], word| words.is_empty() || words.iter().any(|it| it == word);
        one_of(&self.figures, scene.figure) && one_of(&self.sizes, scene.size)
    }

    fn contestants(&self, scenes: &[Scene]) -> Vec<Contestant> {
        let mut all = contestants::all();
        all.retain(|it| self.names.is_empty() || self.names.contains(&it.name));
        all.retain(|it| scenes.iter().any(|scene| takes_part(scene, it)));
        for missing in all.extract_if(.., |it| !it.is_installed()) {
            println!("{} is not installed", missing.name);
        }
        all
    }
}

/// An old hookgate takes part where the new one does.
fn takes_part(scene: &Scene, contestant: &Contestant) -> bool {
    let name = contestant.name.trim_start_matches("old-");
    scene.contestants.contains(&name)
}

async fn bench(choice: &Choice) -> Result<bool> {
    let mut scenes = scenes::all()?;
    scenes.retain(|it| choice.has(it));
    let world = World::start()?;
    let contestants = choice.contestants(&scenes);
    let running: Result<Vec<Running>> = contestants.iter().map(|it| world.run(it)).collect();
    let running = running?;
    let mut report = Report::new(contestants.iter().map(|it| it.name).collect());
    let upstream = world.upstream.id();
    for scene in &scenes {
        for running in running
            .iter()
            .filter(|it| takes_part(scene, &it.contestant))
        {
            let measured = scene.measure(running, upstream, choice.time / 4).await;
            measured.map_err(|error| {
                format!(
                    "{} {}, {}: {error}",
                    scene.figure, scene.size, running.contestant.name
                )
            })?;
        }
    }
    for round in 0..choice.rounds {
        eprintln!("round {} of {}", round + 1, choice.rounds);
        for scene in &scenes {
            let mut turn: Vec<&Running> = running
                .iter()
                .filter(|it| takes_part(scene, &it.contestant))
                .collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for running in turn {
                let values = scene.measure(running, upstream, choice.time).await?;
                report.add(running.contestant.name, values);
            }
        }
    }
    if choice.time.is_zero() {
        println!("all answers were right");
        return Ok(true);
    }
    let (gates, is_good) = report.gates();
    println!("{}\n{gates}", report.table());
    Ok(is_good || !choice.is_gate)
}
