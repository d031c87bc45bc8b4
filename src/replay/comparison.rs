//! The result of a comparison of two exchanges. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::recording::RecordedExchange;

named_enum! {
    /// Kind of a difference; of several, the last in this order counts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DifferenceKind {
        /// Content or a verdict differs, but both or none are denied.
        Edited = "edited",
        /// Denied before, and not any more.
        NewlyAllowed = "newly_allowed",
        /// Denied now, and not before.
        NewlyDenied = "newly_denied",
    }
}

/// One difference between two exchanges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// Event that is decided otherwise, `request` or `answer`.
    pub event: String,
    /// Rule that decides, or decided; empty if it is not known.
    pub rule: String,
    /// Tool of the event; empty for other subjects.
    pub tool: String,
    /// Verdict before the change.
    pub before: String,
    /// Verdict after the change.
    pub after: String,
}

/// Reason why an exchange cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownReason {
    /// The body of the request is not recorded.
    RequestNotRecorded,
    /// Earlier calls of the session are not recorded.
    SessionIncomplete,
    /// Recorded texts are masked, so the rules see other texts than they saw live.
    Masked,
    /// A hook that took part has no recorded output for this input.
    HookNotRecorded,
    /// The config calls the model once more than recorded.
    AnswerNotRecorded,
    /// The exchange cannot be replayed.
    NotReplayed,
    /// A rule that a decision log is not enough for may have denied it.
    RuleNotJudged,
    /// Hashes differ by their keys, and the key of the recorded hashes is not known.
    HashKeyUnknown,
}

/// An exchange, and the hooks of it that could not run.
#[derive(Debug, Clone, Copy)]
pub struct ComparedExchange<'a> {
    /// The exchange, as recorded or as replayed.
    pub exchange: &'a RecordedExchange,
    /// Names of hooks that had no recorded output.
    pub unanswered: &'a BTreeSet<String>,
}

/// Restrictions on the comparison of two exchanges.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonLimits<'a> {
    /// Reason why a difference does not count, unless a rule of `name_rules` denies now.
    pub caveat: Option<UnknownReason>,
    /// Rules after the change that need no texts and no earlier calls.
    pub name_rules: &'a BTreeSet<String>,
    /// True if an earlier call of the session went otherwise, so that content is stale.
    pub has_diverged: bool,
    /// True if a hook without an output makes its event unknown.
    pub needs_all_hooks: bool,
    /// Names of the rules that hash with another key than the one before the change.
    pub other_hash_keys: &'a BTreeSet<String>,
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Differences in the order of the pipeline.
    pub changes: Vec<Change>,
    /// Reason why the rest is not known; `None` if all was compared.
    pub unknown: Option<UnknownReason>,
    /// True if the rest was not compared, because recorded answers do not fit any more.
    pub is_stale: bool,
}

impl Comparison {
    /// Returns the strictest difference.
    pub fn kind(&self) -> Option<DifferenceKind> {
        self.changes.iter().map(|change| change.kind).max()
    }

    /// Returns the result of the call in one word, as in the counts of a report.
    pub fn result(&self) -> &'static str {
        match self.kind() {
            Some(kind) => kind.as_str(),
            None if self.unknown.is_some() => "unknown",
            None if self.is_stale => "stale",
            None => "unchanged",
        }
    }

    /// A comparison that was not possible.
    pub fn unknown(reason: UnknownReason) -> Self {
        Self {
            unknown: Some(reason),
            ..Self::default()
        }
    }
}
