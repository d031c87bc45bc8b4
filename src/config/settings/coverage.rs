//! Methods of the model APIs that pass without being inspected.

use schemars::JsonSchema;
use serde::Deserialize;

/// Methods of the model APIs that pass although hookgate does not inspect their
/// content.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Coverage")]
pub struct CoverageSettings {
    /// Names of methods such as `files.create`, and families such as `files.*`.
    pub allow: Vec<String>,
}

impl CoverageSettings {
    /// Checks whether a method is allowed by name or by family.
    pub fn allows(&self, method: &str) -> bool {
        self.allow.iter().any(|entry| covers(entry, method))
    }
}

/// Checks whether an entry names a method or its family.
pub(crate) fn covers(entry: &str, method: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(family) if family.ends_with('.') => method.starts_with(family),
        _ => entry == method,
    }
}
