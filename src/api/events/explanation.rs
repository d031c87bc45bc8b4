//! Response to an event: the output of its hooks, and with `?explain=1` each hook and its effect.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    event::{Action, Diagnostic, HookOutput, HookRun},
    timestamp::whole_milliseconds,
};

/// Merged output of the hooks of an event.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventOutput {
    #[serde(flatten)]
    pub(super) output: HookOutput,
    /// Runs of the hooks and their outcome, with `explain=1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hookgate: Option<Explanation>,
}

/// Runs of the hooks on an event and their outcome, returned with `?explain=1`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explanation {
    /// `proceed`, `ask`, `respond`, `deny` or `stop`.
    pub(super) verdict: &'static str,
    /// Hooks in plan order.
    pub(super) hooks: Vec<HookReport>,
    /// Problems that suppressed parts of the outputs during the merge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) diagnostics: Vec<DiagnosticReport>,
    /// Session of the event.
    pub(super) session: String,
    /// Additional context as it is added to the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    /// Arguments of the tool call, if hooks changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(super) arguments: Option<Value>,
}

/// Run of one hook.
#[derive(Debug, Serialize, ToSchema)]
pub struct HookReport {
    name: String,
    /// `ok`, `block` or `failed`.
    status: &'static str,
    ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<DiagnosticReport>,
    /// Action that a hook in mode `observe` would have taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    would: Option<&'static str>,
}

/// Problem of a hook's output.
#[derive(Debug, Serialize, ToSchema)]
pub struct DiagnosticReport {
    code: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

impl From<HookRun> for HookReport {
    fn from(run: HookRun) -> Self {
        Self {
            status: run.status().as_str(),
            name: run.name,
            ms: whole_milliseconds(run.elapsed),
            diagnostics: run.result.diagnostics.into_iter().map(Into::into).collect(),
            would: run.would.map(Action::as_str),
        }
    }
}

impl From<Diagnostic> for DiagnosticReport {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            code: diagnostic.code.as_str(),
            detail: diagnostic.detail,
        }
    }
}
