//! The report of a replay. Pure.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{
    comparison::{Change, DifferenceKind, UnknownReason},
    tool_coverage::ToolCoverage,
};

/// Most damaged parts that are named. All are counted.
const MAX_NAMED_DAMAGES: usize = 100;

/// The report of a replay.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReplayReport {
    /// Revision of the config that was compared with; without one `recorded`, or `live` for a
    /// shadow.
    pub before: String,
    /// Revision of the config that was tried.
    pub after: String,
    /// Numbers of calls by their result.
    pub counts: CallCounts,
    /// Differences by the rule that decides.
    pub rules: BTreeMap<String, ChangeCounts>,
    /// Differences by the tool that is called.
    pub tools: BTreeMap<String, ChangeCounts>,
    /// Differences by the name of the caller.
    pub callers: BTreeMap<String, ChangeCounts>,
    /// Differences by the name of the agent's product.
    #[serde(default)]
    pub agents: BTreeMap<String, ChangeCounts>,
    /// Numbers of calls that cannot be compared, by reason.
    pub unknown: BTreeMap<UnknownReason, u64>,
    /// Samples of each kind of difference.
    pub samples: BTreeMap<DifferenceKind, Vec<ChangeSample>>,
    /// Rules of the tried config that ran on no call.
    pub never_asked: Vec<String>,
    /// Rules of the tried config, and whether names were enough to evaluate them; only after a
    /// replay of a decision log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged_rules: Vec<EvaluatedRule>,
    /// Tool calls that some rule names.
    pub coverage: ToolCoverage,
    /// Durations of the calls.
    pub times: CallTimes,
    /// Parts of the recording that cannot be read.
    pub damaged: DamageReport,
    /// Duration of the replay, and its memory.
    pub effort: ReplayCost,
}

/// Numbers of calls, each counted once by its strictest difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// Calls that were compared.
    pub calls: u64,
    /// Calls that are denied now, and were not before.
    pub newly_denied: u64,
    /// Calls that were denied before, and are not any more.
    pub newly_allowed: u64,
    /// Calls with other content or another verdict.
    pub edited: u64,
    /// Calls without a difference that were compared as a whole.
    pub unchanged: u64,
    /// Calls that cannot be compared.
    pub unknown: u64,
    /// Calls whose content is not known, because an earlier call of the session went otherwise.
    /// Their verdicts are the same.
    pub stale: u64,
    /// Calls with texts that the recording masks. They are counted above, too.
    #[serde(default)]
    pub masked: u64,
}

/// Numbers of differences of one rule, tool, caller or agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounts {
    /// Decisions that deny now.
    pub newly_denied: u64,
    /// Decisions that do not deny any more.
    pub newly_allowed: u64,
    /// Differences of any other kind.
    pub edited: u64,
}

/// A call with a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSample {
    /// Request id of the recorded call.
    pub request: String,
    /// Time of the recorded call.
    pub time: String,
    /// Name of the caller.
    pub caller: String,
    /// Session of the call; empty if unknown.
    pub session: String,
    /// The difference that it shows.
    #[serde(flatten)]
    pub change: Change,
}

/// Durations of calls, in microseconds. Those before and after are comparable only if both are of
/// a replay: beside a recording, `before` is the time of the recorded hooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Median in the gateway with the config before, or of the recorded hooks of the calls that
    /// had any; 0 if no hook ran.
    pub before_p50_us: u64,
    /// 99th percentile of the same.
    pub before_p99_us: u64,
    /// Median in the gateway with the config after the change.
    pub after_p50_us: u64,
    /// 99th percentile of the same.
    pub after_p99_us: u64,
}

/// A rule, and whether a decision log is enough to evaluate it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatedRule {
    /// Name of the rule.
    pub rule: String,
    /// Reason why it, or a part of it, is not evaluated; `None` if it is.
    pub not_judged: Option<Cow<'static, str>>,
}

/// Parts of a recording that cannot be read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DamageReport {
    /// Number of the parts.
    pub count: u64,
    /// The first parts, with file, position and cause.
    pub parts: Vec<String>,
    /// Calls that were read, but are before `--since`.
    #[serde(skip)]
    pub skipped: u64,
}

impl DamageReport {
    /// Counts a part, and names the first ones.
    pub fn add(&mut self, part: &impl ToString) {
        self.count += 1;
        if self.parts.len() < MAX_NAMED_DAMAGES {
            self.parts.push(part.to_string());
        }
    }
}

/// Time and memory that a replay took.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ReplayCost {
    /// Duration of the replay in milliseconds.
    pub elapsed_ms: u64,
    /// Calls per second, on average.
    pub calls_per_second: u64,
    /// Most memory of the process so far, in KiB; absent where the system does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_kib: Option<u64>,
}

impl ReplayReport {
    /// Value of `before` without a config to compare with.
    pub(super) const RECORDED: &str = "recorded";

    /// Value of `before` in the report of a shadow.
    pub const LIVE: &str = "live";

    /// Returns whether it is that of a shadow.
    pub(super) fn is_of_shadow(&self) -> bool {
        self.before == Self::LIVE
    }

    /// Returns why the replay fails without any condition: no call could be read of a damaged
    /// recording.
    pub fn failure(&self) -> Option<String> {
        let damaged = self.damaged.count;
        let is_unread = damaged > 0 && self.counts.calls + self.damaged.skipped == 0;
        is_unread
            .then(|| format!("no call could be read; damaged parts of the recording: {damaged}"))
    }

    /// Returns the samples, those of the strictest kind first.
    pub fn samples(&self) -> impl Iterator<Item = &ChangeSample> {
        self.samples.values().rev().flatten()
    }
}

impl ChangeCounts {
    pub(super) const fn add(&mut self, kind: DifferenceKind) {
        match kind {
            DifferenceKind::NewlyDenied => self.newly_denied += 1,
            DifferenceKind::NewlyAllowed => self.newly_allowed += 1,
            DifferenceKind::Edited => self.edited += 1,
        }
    }
}

impl DifferenceKind {
    /// Returns the heading of the kind in reports.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::NewlyDenied => "newly denied",
            Self::NewlyAllowed => "newly allowed",
            Self::Edited => "edited otherwise",
        }
    }
}

impl UnknownReason {
    /// Returns the reason as the end of a sentence about a number of calls.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::RequestNotRecorded => "the body of the request is not recorded",
            Self::SessionIncomplete => "earlier calls of the session are not recorded",
            Self::Masked => {
                "recorded texts are masked; compare two configs with `--against`, or their `redact` \
                 on a recording with `redact: none`"
            }
            Self::HookNotRecorded => "a hook has no recorded output for this input",
            Self::AnswerNotRecorded => "the model would be called once more than recorded",
            Self::NotReplayed => "the call cannot be replayed",
            Self::HashKeyUnknown => "the key of the recorded hashes is not known",
            Self::RuleNotJudged => "a rule that names are not enough for may have denied it",
        }
    }
}
