//! `hookgate coverage`: the coverage of every method of the model APIs.

use std::path::PathBuf;

use clap::Args;

use super::{failure::Failure, output::print, replay};
use crate::{dialect::HookCoverage, state::MethodPolicy, trial::load_config};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate coverage --config config/hookgate.yaml
  hookgate coverage --json | jq '.[] | select(.runs == \"passed\")'";

/// Command-line arguments of `coverage`.
#[derive(Debug, Args)]
pub(super) struct CoverageArgs {
    /// Path of the config file [default: a config with every model API, and no method
    /// allowed by name]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

impl CoverageArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = match &self.config {
            Some(file) => replay::load(file)?,
            None => load_config(None)?,
        };
        let all = MethodPolicy::all(&config);
        if self.json {
            return Ok(print(&format!("{:#}", serde_json::json!(all)))?);
        }
        let width = all.iter().map(|method| method.name.len()).max();
        let width = width.unwrap_or_default();
        let lines = all.iter().map(|method| line(method, width));
        let rest = "refused      anything else".to_owned();
        let lines: Vec<String> = lines.chain([rest]).collect();
        Ok(print(&lines.join("\n"))?)
    }
}

fn line(policy: &MethodPolicy, width: usize) -> String {
    let (runs, api, name) = (policy.runs.as_str(), policy.api, policy.name);
    let (method, path) = (policy.method, policy.path);
    let field = policy.field.map(|field| format!(" {field}"));
    let field = field.unwrap_or_default();
    let reason = match (policy.runs, &policy.why) {
        (_, None) => String::new(),
        (HookCoverage::Refused, Some(reason)) if reason.contains("coverage.allow") => String::new(),
        (_, Some(reason)) => format!("  ({reason})"),
    };
    format!("{runs:<12} {api:<11} {name:<width$} {method:<6} {path}{field}{reason}")
}
