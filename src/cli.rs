//! The commands: what operators type, and what they are told.
//!
//! Exit codes: 0, 1 (failed), 2 (usage), 78 (bad config).

mod audit;
mod check;
mod coverage;
mod demo;
mod dry_run;
mod explain;
mod forward;
mod json_diff;
mod key;
mod mock;
mod serve;
mod test;
mod test_case;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    api::openapi,
    config::{Config, ConfigError, Overrides},
    hook,
    server::ServerError,
};

/// Hooks between AI agents and a Gemini-style model API.
#[derive(Debug, Parser)]
#[command(name = "hookgate", version, after_help = "Example: hookgate demo")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Run the gateway, a mock model API and example hooks: no key, no network.
    #[command(after_help = "Example: hookgate demo")]
    Demo,
    /// Run the mock model API alone.
    #[command(after_help = mock::EXAMPLES)]
    Mock(mock::Mock),
    /// Be a hook: hand an event from stdin to a gateway, and its answer to stdout.
    #[command(after_help = forward::EXAMPLES)]
    Forward(forward::Forward),
    /// Validate a config: every problem with its place.
    #[command(after_help = "Example: hookgate check config/hookgate.yaml")]
    Check(check::Check),
    /// Print every method of the model APIs, and what runs on it.
    #[command(after_help = coverage::EXAMPLES)]
    Coverage(coverage::Coverage),
    /// Say which hooks would run on an event or a request, and what they come to.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Explain),
    /// Try a config on cases: what agents do, and what must come of it.
    #[command(after_help = test::EXAMPLES)]
    Test(test::Test),
    /// Make a random key for a caller, and its line for the config.
    #[command(after_help = "Example: hookgate key team-a")]
    Key(key::Key),
    /// Check a decision log, or print what is in it.
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::Audit),
    /// Print the JSON Schema of the config.
    #[command(after_help = "Example: hookgate schema > config/schema.json")]
    Schema,
    /// Print the `OpenAPI` document.
    #[command(after_help = "Example: hookgate openapi > openapi/hookgate.yaml")]
    Openapi,
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// Exit code 1.
    Failed(String),
    /// Exit code 78.
    BadConfig(ConfigError),
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Demo => demo::run(),
        Command::Mock(mock) => mock.run(),
        Command::Check(check) => check.run(),
        Command::Forward(forward) => return forward.run(),
        Command::Coverage(coverage) => coverage.run(),
        Command::Explain(explain) => explain.run(),
        Command::Test(test) => test.run(),
        Command::Key(key) => key.run(),
        Command::Audit(audit) => audit.run(),
        Command::Schema => print(&schema()),
        Command::Openapi => openapi::to_yaml()
            .map_err(Failure::Failed)
            .and_then(|it| print(it.trim_end())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            complain(&format!("hookgate: {message}"));
            ExitCode::FAILURE
        }
        Err(Failure::BadConfig(error)) => {
            complain(&error.to_string());
            ExitCode::from(78)
        }
    }
}

/// The JSON Schema of the config, for editors.
fn schema() -> String {
    let schema = Config::schema(&hook::registry());
    // JSON made of JSON cannot fail.
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

/// Prints one line, or several.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::Failed(error.to_string())),
    }
}

/// Tells a person; nobody is left to tell if that fails.
fn complain(text: &str) {
    let _nobody_left = writeln!(io::stderr().lock(), "{text}");
}

/// Runs until the future ends. Agents are served by threads of their own.
fn block_on(future: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(error.to_string()))?;
    runtime.block_on(future)
}

/// A future that completes once SIGINT or SIGTERM came so often. They are listened for from this call on: whoever reads that we are
/// ready may end us at once.
fn asked_to_stop(count: usize) -> Result<impl Future<Output = ()> + Send, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        for _ in 0..count {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        }
    })
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Build(crate::state::BuildError::Config(error)) => Self::BadConfig(error),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A config as commands are given it: a file, or nothing but options.
fn read(file: Option<&PathBuf>, overrides: &Overrides) -> Result<Config, ConfigError> {
    let registry = hook::registry();
    match file {
        Some(file) => Config::load(file, overrides, &registry),
        None => Config::without_file(overrides, &registry),
    }
}

/// The same, for those who only need to know whether it is good.
fn load(file: Option<&PathBuf>, overrides: &Overrides) -> Result<Config, Failure> {
    read(file, overrides).map_err(Failure::BadConfig)
}
