//! `hookgate shadow`: lets another config evaluate the live calls of a running gateway.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use reqwest::Method;
use serde_json::Value;
use tokio::time::sleep;
use url::form_urlencoded;

use super::client::{AdminArgs, text};
use crate::{
    cli::{
        failure::Failure,
        output::{print, print_error},
        replay::{check_condition, show_progress},
        runtime::{block_on, shutdown_signals},
    },
    config::parse_duration,
    replay::{FailCondition, ReplayReport, ReportFormat, render},
};

pub(in crate::cli) const EXAMPLES: &str = "Examples:
  hookgate shadow --config next.yaml --duration 30m
  hookgate shadow --config next.yaml --duration 2h --sample 1 --format markdown --fail-on 'newly_denied > 0.1%'";

/// Time between two looks at the state.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time after the end of a shadow within which its gateway must respond.
const OUTAGE_TIMEOUT: Duration = Duration::from_mins(1);

/// Command-line arguments of `shadow`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ShadowArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Path of the config to try, which names no hook files
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Time after which the shadow ends, such as `30m`. SIGINT ends it, too
    #[arg(long, value_name = "DURATION", value_parser = parse_positive)]
    duration: Duration,
    /// Share of the sessions, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = parse_share)]
    sample: f64,
    /// `policies`, or `recorded`: events of hooks without a live output are unknown
    #[arg(long, value_name = "HOOKS", default_value = "policies", value_parser = ["policies", "recorded"])]
    hooks: String,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Exit with 1 if this holds, such as `newly_denied > 0.1% || newly_allowed > 0`
    #[arg(long, value_name = "EXPRESSION")]
    fail_on: Option<FailCondition>,
}

impl ShadowArgs {
    pub(in crate::cli) fn run(self) -> Result<(), Failure> {
        let config =
            fs::read_to_string(&self.config).map_err(|error| Failure::at(&self.config, error))?;
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("sample", &self.sample.to_string())
            .append_pair("until", &format!("{}ms", self.duration.as_millis()))
            .append_pair("hooks", &self.hooks)
            .finish();
        let path = format!("/shadow?{query}");
        let body = Some(("application/yaml", config));
        let started = block_on(self.admin.send(Method::POST, &path, body))?;
        let status = self.watch(&started)?;
        let report = status.get("report").cloned().unwrap_or_default();
        let report: ReplayReport = serde_json::from_value(report).map_err(|error| {
            Failure::Failed(format!("the gateway sent an unreadable report: {error}"))
        })?;
        print(&render(&report, self.format, self.fail_on.as_ref()))?;
        print_notes(&status);
        match text(&status, "reason") {
            "until" | "operator" => check_condition(self.fail_on, &report),
            reason => Err(Failure::Failed(format!("the shadow ended early: {reason}"))),
        }
    }

    /// Waits for the end of the shadow that `started` describes, which a signal brings about, and
    /// returns its last state. A second signal ends the wait.
    fn watch(&self, started: &Value) -> Result<Value, Failure> {
        block_on(async {
            let (interrupted, aborted) = (shutdown_signals(1)?, shutdown_signals(2)?);
            let ended = async {
                tokio::select! {
                    status = self.wait_for_end(started) => status,
                    () = interrupted => {
                        show_progress("");
                        self.admin.send(Method::DELETE, "/shadow", None).await
                    }
                }
            };
            tokio::select! {
                status = ended => status,
                () = aborted => Err(Failure::Failed("interrupted".to_owned())),
            }
        })
    }

    async fn wait_for_end(&self, started: &Value) -> Result<Value, Failure> {
        let begin = Instant::now();
        let wait_timeout = self.duration.saturating_add(OUTAGE_TIMEOUT);
        let mut is_reported = false;
        loop {
            match self.admin.send(Method::GET, "/shadow", None).await {
                Ok(status) if is_ended(&status, started)? => {
                    show_progress("");
                    return Ok(status);
                }
                Ok(status) => show_progress(&progress(&status)),
                Err(Failure::Unavailable(message)) if begin.elapsed() < wait_timeout => {
                    if !std::mem::replace(&mut is_reported, true) {
                        print_error(&format!("{message}; trying again"));
                    }
                }
                Err(failure) => return Err(failure),
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns whether the shadow that `started` describes has ended.
///
/// # Errors
///
/// If there is another one, or none any more.
fn is_ended(status: &Value, started: &Value) -> Result<bool, Failure> {
    let is_same = |name| text(status, name) == text(started, name);
    let message = match text(status, "state") {
        "none" => "the shadow has no result: the gateway was restarted",
        _ if !(is_same("to") && is_same("started")) => {
            "another shadow was started in the place of this one"
        }
        state => return Ok(state != "running"),
    };
    Err(Failure::Failed(message.to_owned()))
}

/// Prints what the report does not have.
fn print_notes(status: &Value) {
    let dropped = number(status, "dropped");
    if dropped > 0 {
        print_error(&format!(
            "not evaluated for lack of resources: {dropped} calls"
        ));
    }
    if status.get("replaces_config") == Some(&Value::Bool(true)) {
        print_error("the next reload starts the shadow of the config file again");
    }
}

fn parse_positive(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    let error = || "must be longer than 0".to_owned();
    (!duration.is_zero()).then_some(duration).ok_or_else(error)
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a share from 0 to 1".to_owned())
}

fn progress(status: &Value) -> String {
    let counts = status.pointer("/report/counts").unwrap_or(&Value::Null);
    format!(
        "{} calls, {} newly denied, {} newly allowed, {} dropped, until {}",
        number(counts, "calls"),
        number(counts, "newly_denied"),
        number(counts, "newly_allowed"),
        number(status, "dropped"),
        text(status, "until"),
    )
}

fn number(object: &Value, field: &str) -> u64 {
    let value = object.get(field).and_then(Value::as_u64);
    value.unwrap_or_default()
}
