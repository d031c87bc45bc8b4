//! Runs of policies and hooks, as plain data.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{Action, HookOutput, HookResult, HookStatus, rule::RuleId};

/// One run of a policy or hook.
#[derive(Debug)]
pub struct HookRun {
    /// Number of the policy or hook in the config.
    pub rule: RuleId,
    /// Name of the policy or hook; the command of a hook without a name.
    pub name: String,
    /// Status, output and diagnostics.
    pub result: HookResult,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Time at which the run ended.
    pub ended: SystemTime,
    /// Action that the output alone would cause.
    pub action: Action,
    /// Action that the output would have caused; `None` unless in `mode: observe`.
    pub would: Option<Action>,
    /// True if a policy edited the document, or would have.
    pub edited: bool,
    /// Calls that a policy removed from a response, or would have.
    pub refused: Vec<RefusedCall>,
    /// Input that a hook received; empty for policies.
    pub input: Bytes,
}

impl HookRun {
    /// Status of the run.
    pub const fn status(&self) -> HookStatus {
        self.result.status
    }

    /// Returns whether its output counts, unlike that of a hook in `mode: observe`.
    pub const fn is_enforced(&self) -> bool {
        self.would.is_none()
    }

    /// Returns whether it denies the event because it has failed.
    pub fn fails_closed(&self) -> bool {
        self.is_enforced() && self.action == Action::Deny && self.status() == HookStatus::Failed
    }

    /// Returns the action that it would have caused on the event or on calls of tools, in
    /// `mode: observe`.
    pub fn would_on_calls(&self) -> Option<Action> {
        let on_calls = if self.refused.is_empty() {
            Action::Proceed
        } else {
            Action::Deny
        };
        self.would.map(|would| would.max(on_calls))
    }

    /// Returns whether its output is not empty.
    pub fn has_output(&self) -> bool {
        self.result.output != HookOutput::default()
    }

    /// Returns whether a policy edited the document or removed calls from it, or would have.
    pub const fn has_effect(&self) -> bool {
        self.edited || !self.refused.is_empty()
    }

    /// Returns whether a policy edited the document or removed calls from it.
    pub const fn has_edited(&self) -> bool {
        self.is_enforced() && self.has_effect()
    }
}

/// A function call that a policy removed from a response.
#[derive(Debug)]
pub struct RefusedCall {
    /// Name of the tool.
    pub tool: String,
    /// Reason that the model receives.
    pub reason: String,
}

named_enum! {
    /// Source of an event.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum EventOrigin {
        /// Reported by the agent.
        Reported = "reported",
        /// Derived from a model call. Policies that inspect model calls have already inspected it
        /// there.
        Derived = "derived",
        /// A model call itself.
        #[default]
        ModelCall = "call",
    }
}
