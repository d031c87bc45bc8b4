//! `hookgate recording`: shows, exports and verifies recordings.

mod har;

use std::{
    ops::ControlFlow::{self, Continue},
    path::PathBuf,
};

use clap::{Args, Subcommand};

use super::{
    failure::Failure,
    output::{count, print, print_error, print_record},
};
use crate::recording::{self, ReadError, RecordedEvent, RecordedExchange};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate recording show /var/lib/hookgate/recordings
  hookgate recording verify /var/lib/hookgate/recordings --identity key.txt
  hookgate recording export /var/lib/hookgate/recordings --har > recording.har";

/// Command-line arguments of `recording`.
#[derive(Debug, Args)]
pub(super) struct RecordingArgs {
    #[command(subcommand)]
    command: RecordingCommand,
}

#[derive(Debug, Subcommand)]
enum RecordingCommand {
    /// Print one line for each exchange, or one exchange with its content
    #[command(after_help = "Examples:
  hookgate recording show recordings --session my-session
  hookgate recording show recordings --id 0d9f6f0e-… | jq .rounds")]
    Show {
        #[command(flatten)]
        source: Source,
        /// Only the exchange with this request id, as JSON with its content
        #[arg(long)]
        id: Option<String>,
        /// Only exchanges of this session
        #[arg(long)]
        session: Option<String>,
    },
    /// Print all exchanges as JSON lines, or as a HAR file
    #[command(after_help = "Example: hookgate recording export recordings --har > recording.har")]
    Export {
        #[command(flatten)]
        source: Source,
        /// Print an HTTP Archive (HAR 1.2) of what agents sent and received
        #[arg(long)]
        har: bool,
    },
    /// Read everything and report damaged parts; fails if there are any
    #[command(after_help = "Example: hookgate recording verify recordings --identity key.txt")]
    Verify {
        #[command(flatten)]
        source: Source,
    },
}

/// A recording and the key to it.
#[derive(Debug, Args)]
struct Source {
    /// Folder of the recording, or one segment
    path: PathBuf,
    /// File with the age identity that decrypts the recording
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl RecordingArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            RecordingCommand::Show {
                source,
                id,
                session,
            } => show(&source, id.as_deref(), session.as_deref()),
            RecordingCommand::Export { source, har: false } => {
                source.for_each(|exchange| Ok(print_record(&json(exchange)?)?))
            }
            RecordingCommand::Export { source, har: true } => har::export(&source),
            RecordingCommand::Verify { source } => verify(&source),
        }
    }
}

impl Source {
    /// Calls `visit` with each exchange, until it breaks.
    ///
    /// # Errors
    ///
    /// If `visit` fails, or a part of the recording is damaged. Damaged parts are printed, and
    /// the rest is read.
    fn for_each(
        &self,
        mut visit: impl FnMut(&RecordedExchange) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let mut damaged = 0;
        for read in recording::read(&self.path, self.identity.as_deref())? {
            match read {
                Ok(exchange) if visit(&exchange)?.is_break() => break,
                Ok(_) => (),
                Err(damage) => {
                    damaged += 1;
                    print_error(&damage.to_string());
                }
            }
        }
        if damaged == 0 {
            return Ok(());
        }
        Err(Failure::Failed(format!("damaged parts: {damaged}")))
    }
}

/// Prints the exchange with an id, or one line for each exchange; only those of `session`, if it is
/// given.
fn show(source: &Source, id: Option<&str>, session: Option<&str>) -> Result<(), Failure> {
    let mut is_found = false;
    let read = source.for_each(|exchange| {
        let exchange_session = exchange.session.as_ref();
        let is_of_session = session.is_none_or(|session| {
            exchange_session.is_some_and(|of_exchange| of_exchange.id == session)
        });
        if !is_of_session || id.is_some_and(|id| exchange.id != id) {
            return Ok(Continue(()));
        }
        is_found = true;
        let text = match id {
            Some(_) => json(exchange)?,
            None => summary(exchange),
        };
        Ok(print_record(&text)?)
    });
    let with_id = id.map(|id| format!(" with the id `{id}`"));
    let of_session = session.map(|session| format!(" in the session `{session}`"));
    if is_found || with_id.is_none() && of_session.is_none() {
        return read;
    }
    let filter = with_id.unwrap_or_default() + &of_session.unwrap_or_default();
    let missing = format!("`{}` has no exchange{filter}", source.path.display());
    read.and(Err(Failure::Failed(missing)))
}

fn verify(source: &Source) -> Result<(), Failure> {
    let segments = recording::segments(&source.path)?.len();
    let mut exchanges = 0;
    let verified = source.for_each(|_| {
        exchanges += 1;
        Ok(Continue(()))
    });
    let segments = count(segments, "segment", "segments");
    let exchanges = count(exchanges, "exchange", "exchanges");
    print(&format!("{segments}, {exchanges}"))?;
    verified
}

fn json(exchange: &RecordedExchange) -> Result<String, Failure> {
    serde_json::to_string(exchange).map_err(Failure::of)
}

/// Returns an exchange as a line of text. Agents choose some of its names.
fn summary(exchange: &RecordedExchange) -> String {
    let session = exchange.session.as_ref();
    let session = session.map_or_else(String::new, |session| {
        format!(" session={}#{}", session.id, session.place)
    });
    let status = exchange.answer.as_ref().map_or(0, |answer| answer.status);
    let events = exchange.events.iter();
    let denied: String = events.map(|event| denials(exchange, event)).collect();
    let line = format!(
        "{} {} {} {} {} {} status={status} rounds={} {}ms caller={}{session}{denied}",
        exchange.time,
        exchange.id,
        exchange.outcome.action,
        exchange.dialect,
        exchange.method,
        exchange.target,
        exchange.rounds.len(),
        exchange.outcome.ms,
        exchange.caller,
    );
    line.escape_debug().to_string()
}

/// Returns what an event denied, as part of a line: the event, and tool calls that policies removed.
fn denials(exchange: &RecordedExchange, event: &RecordedEvent) -> String {
    let is_denied = match event.verdict.as_str() {
        "deny" | "stop" => true,
        // The setting `ask` denied it, unless all calls went to the agent.
        "ask" => exchange.outcome.tool_denied,
        _ => false,
    };
    let denied = match &event.subject {
        _ if !is_denied => String::new(),
        Some(subject) => format!(" denied={}({subject})", event.name),
        None => format!(" denied={}", event.name),
    };
    let enforcing = event.hooks.iter().filter(|run| run.would.is_none());
    let refused = enforcing.flat_map(|run| &run.refused);
    let refused = refused.map(|refusal| format!(" denied=BeforeTool({})", refusal.tool));
    std::iter::once(denied).chain(refused).collect()
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line() {
        let exchange: RecordedExchange = serde_json::from_value(serde_json::json!({
            "v": 1, "id": "i", "time": "T", "revision": "r", "caller": "team-a",
            "session": { "id": "s", "place": 2, "source": "path", "match": "named" },
            "dialect": "gemini", "operation": "generateContent", "method": "POST",
            "target": "/v1\n", "headers": [], "request": { "text": "{}" }, "rounds": [],
            "events": [{ "name": "BeforeTool", "ms": 1, "round": 1, "origin": "call",
                "subject": "rm", "hooks": [], "verdict": "deny" },
                { "name": "BeforeModel", "ms": 1, "round": 1, "origin": "call",
                "hooks": [], "verdict": "stop" },
                { "name": "BeforeTool", "ms": 1, "round": 1, "origin": "call",
                "subject": "glob", "hooks": [], "verdict": "ask" },
                { "name": "AfterModel", "ms": 1, "round": 1, "origin": "call",
                "hooks": [{ "name": "guard", "kind": "builtin", "definition": "d",
                    "status": "ok", "ms": 0, "action": "proceed",
                    "refused": [{ "tool": "cat", "reason": "no" }] }], "verdict": "proceed" }],
            "answer": { "ms": 1, "status": 200, "body": "same" },
            "outcome": { "action": "deny", "end": "complete", "tool_denied": true, "ms": 7 },
        }))
        .unwrap();

        assert_eq!(
            summary(&exchange),
            "T i deny gemini POST /v1\\n status=200 rounds=0 7ms caller=team-a session=s#2 \
             denied=BeforeTool(rm) denied=BeforeModel denied=BeforeTool(glob) denied=BeforeTool(cat)"
        );
    }
}
