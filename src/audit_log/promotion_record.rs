//! Records of revisions of the config that operators take into use, and of rollouts.

use serde::{Deserialize, Serialize};

/// A stored revision of the config that an operator promoted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotionRecord {
    /// Kind of change that puts the revision into use.
    pub action: PromotionKind,
    /// Version of the config in use before; after a start, that of the config file.
    pub from: String,
    /// Version of the revision.
    pub to: String,
    /// Operator who promoted it; `local` if no credential is configured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// SHA-256 of the report on which the promotion is based.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// Kind of change that puts a stored revision into use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionKind {
    /// An operator chose it.
    Promote,
    /// An operator went back to the revision before.
    Rollback,
    /// It was promoted before the process started.
    Resume,
}

/// The state of a rollout after a change.
#[derive(Debug, Clone, Serialize)]
pub struct RolloutRecord {
    /// Kind of the change.
    pub action: RolloutKind,
    /// Version of the config in use.
    pub from: String,
    /// Version of the config that is rolled out.
    pub to: String,
    /// Share of the sessions under it, in percent.
    pub percent: u8,
    /// Condition that has ended the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<&'static str>,
    /// Calls of the config in use that count, such as `3 of 1800`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Calls of the other config that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
}

/// Kind of a change of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutKind {
    /// The share is that of a step: at the begin, after each `hold`, and after a reload.
    Step,
    /// A difference of the two configs has ended the rollout.
    Abort,
}
