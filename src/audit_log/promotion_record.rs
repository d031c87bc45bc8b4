//! Records of revisions of the config that operators take into use.

use serde::Serialize;

/// A stored revision of the config that an operator promoted.
#[derive(Debug, Clone, Serialize)]
pub struct PromotionRecord {
    /// How it is taken into use.
    pub action: PromotionKind,
    /// Version of the config in use before; after a start, that of the config file.
    pub from: String,
    /// Version of the revision.
    pub to: String,
    /// Operator who promoted it; empty without users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// SHA-256 of the report on which the promotion is based.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// How a stored revision is taken into use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionKind {
    /// An operator chose it.
    Promote,
    /// An operator went back to the revision before.
    Rollback,
    /// It was promoted before the process started.
    Resume,
}
