//! Identity of policies and hooks in one config, and why one of them did not run.

use serde::Serialize;
use utoipa::ToSchema;

/// Number of a policy or hook in the rules of one config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

impl RuleId {
    /// Number of a run that belongs to no rule of the config.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// Reason for skipping a policy or hook on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its matcher does not match the subject of the event.
    Matcher,
    /// Its condition `when` is false.
    Condition,
    /// A switch of the config disables it.
    Disabled,
    /// An equal hook runs on the event already.
    Duplicate,
    /// The policy has inspected the model call that the event is derived from.
    InspectsCalls,
    /// The policy does not inspect responses.
    NoResponses,
    /// A dry run: policies and hooks are only listed.
    DryRun,
}

impl SkipReason {
    /// Returns the reason as the end of a sentence that begins with "not run, because".
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Matcher => "its matcher does not match",
            Self::Condition => "its condition `when` is false",
            Self::Disabled => "the config disables it",
            Self::Duplicate => "an equal hook runs already",
            Self::InspectsCalls => "it has inspected the model call itself",
            Self::NoResponses => "it does not inspect responses",
            Self::DryRun => "rules are only listed",
        }
    }
}
