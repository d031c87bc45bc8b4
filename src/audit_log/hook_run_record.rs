//! The runs of one hook or policy in an event record.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::time_range::TimeRange;
use crate::{
    event::{Action, HookRun, HookStatus, RuleId},
    timestamp::whole_milliseconds,
};

/// The runs of one hook or policy on an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookRunRecord {
    /// Number of the hook in the config, since names need not be unique; not written to the log.
    #[serde(skip)]
    pub rule: RuleId,
    /// Name of the hook.
    pub name: String,
    /// `ok`, `block` or `failed`; the worst of several runs.
    pub status: HookStatus,
    /// Time range in which it ran; not written to the log.
    #[serde(skip)]
    pub time: TimeRange,
    /// Duration, in milliseconds in the log; the sum of several runs.
    #[serde(rename = "ms", serialize_with = "serialize_milliseconds")]
    pub elapsed: Duration,
    /// Decision of a hook that only observes, such as `would_deny`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_would"
    )]
    pub would: Option<Action>,
    /// Strictest decision of its own, if it is not to proceed; none of a hook that only
    /// observes.
    #[serde(skip_serializing_if = "is_default")]
    pub verdict: Action,
    /// Number of runs, if it is not one.
    #[serde(skip_serializing_if = "is_one")]
    pub runs: u64,
    /// True if it is a policy that changed the document, or would have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Number of tool calls it removed from the response, or would have.
    #[serde(skip_serializing_if = "is_default")]
    pub denied_calls: usize,
}

impl From<&HookRun> for HookRunRecord {
    fn from(run: &HookRun) -> Self {
        Self {
            rule: run.rule,
            name: run.name.clone(),
            status: run.status(),
            time: TimeRange::ending_at(run.ended, run.elapsed),
            elapsed: run.elapsed,
            would: run.would,
            verdict: own_verdict(run),
            runs: 1,
            edited: run.edited,
            denied_calls: run.refused.len(),
        }
    }
}

/// Returns the decision of a run; that of an observing hook has no effect.
pub(super) const fn own_verdict(run: &HookRun) -> Action {
    match run.would {
        None => run.action,
        Some(_) => Action::Proceed,
    }
}

fn serialize_milliseconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_milliseconds(*duration))
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn serialize_would<S: Serializer>(
    would: &Option<Action>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&would_name(*would))
}

/// Returns the name of what an observing hook would have decided.
pub(super) fn would_name(would: Option<Action>) -> String {
    would.map_or_else(String::new, |action| format!("would_{}", action.as_str()))
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_one(number: &u64) -> bool {
    *number == 1
}
