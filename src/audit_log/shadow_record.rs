//! Records of shadows: configs that judge live calls without an effect on them.

use serde::Serialize;

/// The start or the end of a shadow.
#[derive(Debug, Clone, Serialize)]
pub struct ShadowRecord {
    /// Change that the line records: the start or the end of the shadow.
    pub action: ShadowChange,
    /// Version of the config in use.
    pub from: String,
    /// Version of the shadow's config.
    pub to: String,
    /// Share of the sessions.
    pub sample: f64,
    /// Operator who started it; empty for a shadow of the config file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Reason of the end, and the counts until then.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub end: Option<ShadowEnd>,
}

/// Kind of a record of a shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShadowChange {
    /// It judges calls from now on.
    Start,
    /// It judges no more calls.
    End,
}

/// The end of a shadow, with the counts of its report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ShadowEnd {
    /// Reason of the end.
    pub reason: &'static str,
    /// Calls that were judged.
    pub calls: u64,
    /// Calls that it denies, and the config in use did not.
    pub newly_denied: u64,
    /// Calls that the config in use denied, and it does not.
    pub newly_allowed: u64,
    /// Calls with other content or another verdict.
    pub edited: u64,
    /// Calls without a difference.
    pub unchanged: u64,
    /// Calls that cannot be compared.
    pub unknown: u64,
    /// Calls with the same verdicts, whose content is not known.
    pub stale: u64,
    /// Calls that were not judged, because its queue or memory was full.
    pub dropped: u64,
}
