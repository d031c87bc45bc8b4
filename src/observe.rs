//! What operators see: one struct per thing worth seeing; nobody else formats.
//!
//! Nothing here ever holds a prompt, an answer, a query or a key, but for what an
//! operator shows to a collector (`otlp`).

mod audit;
mod caller;
mod circuit;
mod collector;
mod condition;
mod exchange;
mod hook;
mod log;
mod log_format;
mod metrics;
pub mod otlp;
mod spare;
mod store;
mod transcript;
mod upstream;
mod worker;

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

pub use self::{
    audit::{AuditAway, AuditBack, AuditEnded, AuditRepaired},
    caller::{AttemptsLimited, CallerRefused, IssuerAway, IssuerBack},
    circuit::{CircuitClosed, CircuitOpened},
    condition::ConditionUnclear,
    exchange::{Ended, ExchangeFinished},
    hook::{AnsweredHookFailed, HookFinished, PolicySilent},
    log::Logging,
    metrics::Metrics,
    spare::SpareFailed,
    store::{StoreAway, StoreBack},
    transcript::TranscriptFailed,
    upstream::UpstreamFailed,
    worker::{WorkerFailed, WorkerLog},
};

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging to `target`, by a thread that gathers lines for some ten
/// milliseconds. `level` is a `tracing` filter such as `info` or `hookgate=debug`;
/// the variable `HOOKGATE_LOG` outranks it. A second call changes nothing.
///
/// # Errors
///
/// If the system has no thread for it.
pub fn init(
    format: LogFormat,
    level: &str,
    target: impl Write + Send + 'static,
) -> io::Result<Logging> {
    let filter = EnvFilter::try_from_env("HOOKGATE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let log = log::Log::default();
    let logging = log.start(target)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_timer(log_format::Clock)
        .with_writer(log);
    let _already_set = match format {
        LogFormat::Text => {
            let lines = builder.fmt_fields(log_format::Fields).with_ansi(false);
            lines.with_target(false).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(logging)
}
