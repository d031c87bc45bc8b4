//! Settings for applying the verdicts of hooks and returning them to the agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Form in which a denial is returned to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Denials {
    /// As a response of the model: displayed once, and the turn ends.
    #[default]
    Message,
    /// As a 403 error.
    Error,
}

/// The decision for a hook's `ask` where the user cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskMode {
    /// Deny the event or call.
    #[default]
    Deny,
    /// Allow the event or call.
    Allow,
}

/// The input of `AfterModel` hooks for a streamed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterModelMode {
    /// Each chunk as it arrives.
    #[default]
    Chunk,
    /// The whole response once. The agent waits for it.
    Buffered,
}
