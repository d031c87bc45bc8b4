//! Methods and fields of the model APIs that pass without being inspected, and what the APIs keep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Methods and fields of the model APIs that pass although hookgate does not inspect what they
/// refer to, and what the APIs keep.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Coverage")]
pub struct CoverageSettings {
    /// Names of methods such as `files.create`, of fields such as `responses.state`, and
    /// families such as `files.*`.
    pub allow: Vec<String>,
    /// Storage of responses by the APIs of OpenAI: as the request asks, or never.
    pub store: StoreMode,
    /// Encrypted summaries of a conversation that may pass.
    pub compaction: CompactionMode,
}

/// Storage of responses by the APIs of OpenAI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreMode {
    /// As the request asks.
    #[default]
    AsSent,
    /// Never: `store` is `false` in every request.
    Never,
}

/// Encrypted summaries of a conversation that may pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionMode {
    /// All summaries pass, from any response.
    #[default]
    Any,
    /// Those that a response to the same caller contained.
    Known,
}

impl CoverageSettings {
    /// Checks whether a method or field is allowed by name or by family.
    pub fn allows(&self, name: &str) -> bool {
        self.allow.iter().any(|entry| covers(entry, name))
    }
}

/// Checks whether an entry names a method or field, or its family.
pub(crate) fn covers(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(family) if family.ends_with('.') => name.starts_with(family),
        _ => entry == name,
    }
}
