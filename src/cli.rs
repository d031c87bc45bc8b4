//! The commands of the `hookgate` binary, one file each.
//!
//! Exit codes: 0, 1 (failed), 2 (usage; `forward` decides by `--on-failure`), 78 (invalid config),
//! 130 and 143 (ended by SIGINT and SIGTERM).

mod admin;
mod audit;
mod bundle;
mod check;
mod coverage;
mod demo;
mod doctor;
mod explain;
mod failure;
mod forward;
mod key;
mod mock;
mod output;
mod recording;
mod reference;
mod replay;
mod runtime;
mod serve;
mod service_arguments;
mod test;

use std::{env, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

use self::{
    admin::{config, fleet, shadow},
    failure::Failure,
    output::print,
    reference::{COMPLETIONS_EXAMPLES, CompletionsArgs, MAN_EXAMPLES, print_man_pages},
};
use crate::{api::openapi, config::Config, hook, recording::RecordedExchange};

/// Gateway that runs hooks between AI agents and their model APIs.
#[derive(Debug, Parser)]
#[command(name = "hookgate", version, after_help = "Example: hookgate demo")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the HTTP gateway
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::ServeArgs),
    /// Run the gateway with a mock model API and example hooks, without a key or network
    #[command(after_help = "Example: hookgate demo")]
    Demo,
    /// Run the mock model API
    #[command(after_help = mock::EXAMPLES)]
    Mock(mock::MockArgs),
    /// Forward a hook event from stdin to a gateway and print its output
    #[command(after_help = forward::EXAMPLES)]
    Forward(forward::ForwardArgs),
    /// Validate a config and report every problem with its position
    #[command(after_help = "Example: hookgate check hookgate.yaml")]
    Check(check::CheckArgs),
    /// Print the coverage of every method of the model APIs
    #[command(after_help = coverage::EXAMPLES)]
    Coverage(coverage::CoverageArgs),
    /// Show which hooks run on an event or a request, and their results
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArgs),
    /// Run test cases against a config
    #[command(after_help = test::EXAMPLES)]
    Test(test::TestArgs),
    /// Replay recorded calls under another config, and report what it would do otherwise
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
    /// Let another config evaluate live calls of a running gateway, and report what it would do
    /// otherwise
    #[command(after_help = shadow::EXAMPLES)]
    Shadow(shadow::ShadowArgs),
    /// Generate a random key for a caller, and its entry for the config
    #[command(after_help = "Example: hookgate key team-a")]
    Key(key::KeyArgs),
    /// Verify an audit log, or print its records
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::AuditArgs),
    /// Build, sign, verify and publish bundles of policies
    #[command(after_help = bundle::EXAMPLES)]
    Bundle(bundle::BundleArgs),
    /// List, compare, promote and roll back revisions of the config of a running gateway
    #[command(after_help = config::EXAMPLES)]
    Config(config::ConfigArgs),
    /// Show where the agents of this machine send their model calls, and every way past the gateway
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Show the gateways that share a Redis, or wait until all have a revision of the config
    #[command(after_help = fleet::EXAMPLES)]
    Fleet(fleet::FleetArgs),
    /// Show, export and verify recordings of exchanges
    #[command(after_help = recording::EXAMPLES)]
    Recording(recording::RecordingArgs),
    /// Print the JSON Schema of the config, or of a line of a recording
    #[command(after_help = "Example: hookgate schema > config/schema.json")]
    Schema {
        /// Print the schema of an exchange in a recording
        #[arg(long)]
        recording: bool,
    },
    /// Print the OpenAPI document
    #[expect(clippy::doc_markdown, reason = "the help of the command")]
    #[command(after_help = "Example: hookgate openapi > openapi/hookgate.yaml")]
    Openapi,
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print the man pages
    #[command(after_help = MAN_EXAMPLES)]
    Man,
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let result = match arguments.command {
        Command::Serve(serve) => serve.run(),
        Command::Demo => demo::run(),
        Command::Mock(mock) => mock.run(),
        Command::Check(check) => check.run(),
        Command::Forward(forward) => return forward.run(),
        Command::Coverage(coverage) => coverage.run(),
        Command::Explain(explain) => explain.run(),
        Command::Test(test) => test.run(),
        Command::Replay(replay) => replay.run(),
        Command::Shadow(shadow) => shadow.run(),
        Command::Key(key) => key.run(),
        Command::Audit(audit) => audit.run(),
        Command::Bundle(bundle) => bundle.run(),
        Command::Config(config) => config.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Fleet(fleet) => fleet.run(),
        Command::Recording(recording) => recording.run(),
        Command::Schema { recording: false } => print_schema(),
        Command::Schema { recording: true } => {
            let schema = schemars::schema_for!(RecordedExchange);
            print(&format!("{:#}", schema.as_value())).map_err(Into::into)
        }
        Command::Openapi => print_openapi(),
        Command::Completions(completions) => completions.run(Arguments::command()),
        Command::Man => print_man_pages(Arguments::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints why the arguments are refused, or the help that they ask for.
fn refuse(error: &clap::Error) -> ExitCode {
    // There is no other output.
    let _ignored = error.print();
    let mut arguments = env::args_os().skip(1);
    if error.use_stderr() && arguments.next().is_some_and(|command| command == "forward") {
        return forward::refused_exit_code(arguments);
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn print_schema() -> Result<(), Failure> {
    Ok(print(&format!("{:#}", Config::schema(&hook::registry())))?)
}

fn print_openapi() -> Result<(), Failure> {
    let document = openapi::yaml().map_err(Failure::Failed)?;
    Ok(print(document.trim_end())?)
}
