//! The verdict that a test case expects.

use schemars::JsonSchema;
use serde::Deserialize;

named_enum! {
    /// Verdict of all hooks together.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum ExpectedVerdict {
        /// The event or call continues, changed or not.
        Proceed = "proceed",
        /// The user is asked.
        Ask = "ask",
        /// A hook gives a synthetic response.
        Respond = "respond",
        /// The event or call is denied.
        Deny = "deny",
        /// It is denied, and the agent's loop ends.
        Stop = "stop",
        /// An error outside of hooks.
        Error = "error",
    }
}
