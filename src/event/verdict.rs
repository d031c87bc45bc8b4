//! Verdicts: the meaning of the merged outputs of all hooks.

use serde::Serialize;
use utoipa::ToSchema;

use super::output::{HookOutput, Reason};

named_enum! {
    /// Outcome of an event in one word, strictest last.
    #[derive(
        Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema,
    )]
    #[serde(rename_all = "lowercase")]
    pub enum Action {
        /// Proceed with the event.
        #[default]
        Proceed = "proceed",
        /// Ask the human for permission.
        Ask = "ask",
        /// A hook responds instead of the model.
        Respond = "respond",
        /// Refuse the event with a reason.
        Deny = "deny",
        /// Refuse and end the agent's loop.
        Stop = "stop",
    }
}

impl Action {
    /// Returns the reason that an output has for this action, if it denies, stops or asks.
    pub fn reason_in(self, output: &HookOutput) -> Option<String> {
        let reason = match self {
            Self::Proceed | Self::Respond => return None,
            Self::Ask => return output.reason.clone(),
            Self::Stop => output.stop(),
            Self::Deny => output.deny(),
        };
        reason.map(|reason| reason.as_str().to_owned())
    }
}

/// Verdict on an event that can proceed, be refused or end the agent's loop.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowVerdict<P> {
    /// Proceed, with the edits of the hooks.
    Proceed(P),
    /// Refuse, with this reason.
    Deny(Reason),
    /// Refuse and end the agent's loop. What the verdict without the stop denies or hides does not
    /// go upstream when the user continues.
    Stop(Reason, Box<Self>),
}

impl<P> FlowVerdict<P> {
    /// Evaluates merged outputs: stop over deny over proceed.
    pub fn evaluate(merged: &HookOutput, proceed: impl FnOnce() -> P) -> Self {
        let verdict = match merged.deny() {
            Some(reason) => Self::Deny(reason),
            None => Self::Proceed(proceed()),
        };
        match merged.stop() {
            Some(reason) => Self::Stop(reason, Box::new(verdict)),
            None => verdict,
        }
    }
}
