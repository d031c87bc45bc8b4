//! What became of an exchange, in one word.

/// What became of an exchange; of several, the last in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Did {
    /// Nobody changed anything.
    Pass,
    /// Hooks changed the request or the answer.
    Edit,
    /// A hook answered.
    Respond,
    /// Hooks refused.
    Deny,
    /// Hooks refused and end the agent's loop.
    Stop,
    /// It came to an error of ours.
    Error,
}

impl Did {
    /// The word in logs and headers.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Edit => "edit",
            Self::Respond => "respond",
            Self::Deny => "deny",
            Self::Stop => "stop",
            Self::Error => "error",
        }
    }
}
