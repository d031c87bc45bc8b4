//! The verdict that a test case expects.

use schemars::JsonSchema;
use serde::Deserialize;

/// Verdict of all hooks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExpectedVerdict {
    /// The event or call continues, changed or not.
    Proceed,
    /// The user is asked.
    Ask,
    /// A hook gives a synthetic response.
    Respond,
    /// The event or call is denied.
    Deny,
    /// It is denied, and the agent's loop ends.
    Stop,
    /// An error outside of hooks.
    Error,
}

impl ExpectedVerdict {
    /// Returns the verdict as reports have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Ask => "ask",
            Self::Respond => "respond",
            Self::Deny => "deny",
            Self::Stop => "stop",
            Self::Error => "error",
        }
    }
}
