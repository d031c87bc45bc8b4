//! `hookgate coverage`: every method of the model APIs, and what runs on it.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, dry_run, print};
use crate::{dialect::HookCoverage, state::MethodPolicy};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate coverage --config config/hookgate.yaml
  hookgate coverage --json | jq '.[] | select(.runs == \"passed\")'";

/// What `coverage` is told.
#[derive(Debug, Args)]
pub(super) struct Coverage {
    /// The config; without one, what runs if every model API is configured and
    /// nothing is allowed.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Coverage {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = dry_run::load_any(self.config.as_deref())?;
        let all = MethodPolicy::all(&config);
        if self.json {
            return print(&format!("{:#}", serde_json::json!(all)));
        }
        let width = all.iter().map(|it| it.name.len()).max().unwrap_or_default();
        let refused = "refused      anything else";
        let lines = all.iter().map(|it| line(it, width));
        print(
            &lines
                .chain([refused.to_owned()])
                .collect::<Vec<_>>()
                .join("\n"),
        )
    }
}

fn line(it: &MethodPolicy, width: usize) -> String {
    let (runs, api, name) = (it.runs.as_str(), it.api, it.name);
    let (method, path) = (it.method, it.path);
    let why = match (it.runs, &it.why) {
        (_, None) => String::new(),
        (HookCoverage::Refused, Some(why)) if why.contains("coverage.allow") => String::new(),
        (_, Some(why)) => format!("  ({why})"),
    };
    format!("{runs:<12} {api:<11} {name:<width$} {method:<6} {path}{why}")
}
