//! `hookgate fleet`: replicas that share a Redis.

use std::{
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand};

use super::client::AdminArgs;
use crate::{
    cli::{
        failure::Failure,
        output::{print, print_error},
    },
    config::parse_duration,
    fleet::{FleetStatus, ReplicaView},
};

pub(in crate::cli) const EXAMPLES: &str = "Examples:
  hookgate fleet status
  hookgate fleet status --wait-for 5f1d3c0a9b7e2466 --replicas 3 --timeout 60s";

/// Digits of a revision that are enough to name it.
const MIN_REVISION_DIGITS: usize = 8;

/// Time between two looks at the fleet.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Command-line arguments of `fleet`.
#[derive(Debug, Args)]
pub(in crate::cli) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Print all replicas; fail if one lags behind or a decision log became shorter or was replaced
    #[command(after_help = EXAMPLES)]
    Status(StatusArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Wait until every replica has the version of the config that begins with these digits
    #[arg(long, value_name = "REVISION", value_parser = parse_revision)]
    wait_for: Option<String>,
    /// Least number of replicas to wait for
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = NonZeroUsize::MIN,
        requires = "wait_for"
    )]
    replicas: NonZeroUsize,
    /// Time to wait, such as `60s`
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration, requires = "wait_for")]
    timeout: Duration,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Parses the first digits of a revision. They must be enough to name only one.
fn parse_revision(text: &str) -> Result<String, String> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_revision = is_hex && text.len() >= MIN_REVISION_DIGITS;
    let revision = is_revision.then(|| text.to_ascii_lowercase());
    revision.ok_or_else(|| format!("must have at least {MIN_REVISION_DIGITS} hexadecimal digits"))
}

impl FleetArgs {
    pub(in crate::cli) fn run(self) -> Result<(), Failure> {
        let FleetCommand::Status(arguments) = self.command;
        arguments.run()
    }
}

impl StatusArgs {
    fn run(self) -> Result<(), Failure> {
        let deadline = Instant::now() + self.timeout;
        let mut is_reported = false;
        let (status, problem) = loop {
            let looked = self.status();
            let is_over = self.wait_for.is_none() || Instant::now() >= deadline;
            match looked {
                Ok(status) => {
                    let problem = self.problem(&status);
                    if problem.is_none() || is_over {
                        break (status, problem);
                    }
                }
                // The gateway may restart, or Redis be away for a moment.
                Err(Failure::Unavailable(message)) if !is_over => {
                    if !std::mem::replace(&mut is_reported, true) {
                        print_error(&format!("{message}; trying again"));
                    }
                }
                Err(failure) => return Err(failure),
            }
            thread::sleep(POLL_INTERVAL);
        };
        self.print(&status)?;
        problem.map_or(Ok(()), |problem| Err(Failure::Failed(problem)))
    }

    fn print(&self, status: &FleetStatus) -> Result<(), Failure> {
        if !self.json {
            return print_status(status);
        }
        let json = serde_json::to_string_pretty(status).map_err(Failure::of)?;
        Ok(print(&json)?)
    }

    fn status(&self) -> Result<FleetStatus, Failure> {
        let status = self.admin.get("/fleet")?;
        serde_json::from_value(status).map_err(|error| {
            Failure::Failed(format!("the gateway sent an unreadable status: {error}"))
        })
    }

    /// Returns the reason why the fleet is not as it should be.
    fn problem(&self, status: &FleetStatus) -> Option<String> {
        let shortened = status.decision_logs.iter().find(|log| log.lost.is_some());
        // A mark stays for 30 days, whatever the revision is.
        if let Some(log) = shortened.filter(|_| self.wait_for.is_none()) {
            return Some(format!(
                "decision log {} became shorter or was replaced",
                log.head.log
            ));
        }
        let revision = self.wait_for.as_deref().unwrap_or(&status.revision);
        let has_other = |view: &&ReplicaView| !view.status.revision.starts_with(revision);
        let others = status.replicas.iter().filter(has_other).count();
        if others > 0 {
            return Some(format!(
                "{others} of {} replicas do not have revision {revision}",
                status.replicas.len()
            ));
        }
        let missing = self.wait_for.is_some() && status.replicas.len() < self.replicas.get();
        missing.then(|| {
            let seen = status.replicas.len();
            format!("{seen} of {} replicas are there", self.replicas)
        })
    }
}

fn print_status(status: &FleetStatus) -> Result<(), Failure> {
    print(&format!("revision {}", status.revision))?;
    for view in &status.replicas {
        print(&replica_line(view))?;
        if let Some(error) = &view.status.last_reload_error {
            print_error(&format!("{}: last reload refused: {error}", view.status.id));
        }
    }
    for log in &status.decision_logs {
        let head = &log.head;
        print(&format!(
            "decision log {}: line {}, hash {}",
            head.log, head.seq, head.hash
        ))?;
        if let Some(lost) = &log.lost {
            print_error(&format!(
                "decision log {} became shorter or was replaced: line {} with hash {} was its last one before",
                head.log, lost.seq, lost.hash
            ));
        }
    }
    Ok(())
}

fn replica_line(view: &ReplicaView) -> String {
    let status = &view.status;
    let mut line = format!(
        "{}: hookgate {}, revision {} since {}, {} guards proven",
        status.id, status.version, status.revision, status.since, status.guards_proven
    );
    if !status.guards_unproven.is_empty() {
        line = format!("{line}, not proven: {}", status.guards_unproven.join(", "));
    }
    if view.is_lagging {
        line.push_str(", LAGGING");
    }
    line
}
