//! What all hooks together mean.

use serde::Serialize;

use super::HookOutput;

/// The outcome of an event in one word, strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Go on.
    Proceed,
    /// Ask the human.
    Ask,
    /// A hook answered instead of the model.
    Respond,
    /// Do not go on.
    Deny,
    /// Do not go on, and end the agent's loop.
    Stop,
}

impl Action {
    /// The word in headers, metrics and explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Ask => "ask",
            Self::Respond => "respond",
            Self::Deny => "deny",
            Self::Stop => "stop",
        }
    }
}

/// A verdict on one kind of event.
pub trait Verdict: Send {
    /// It in one word.
    fn action(&self) -> Action;
}

/// Why hooks said no, or stop. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

/// What stands where a hook gave no reason (hook protocol, section 1).
const NO_REASON: &str = "No reason provided";

impl Reason {
    /// A reason, or the words for none.
    pub fn new(text: Option<&str>) -> Self {
        let given = text.filter(|it| !it.trim().is_empty());
        Self(given.unwrap_or(NO_REASON).to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The verdict on an event that can go on, be refused or end the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Flow<P> {
    /// Go on, with this.
    Proceed(P),
    /// Refuse.
    Deny(Reason),
    /// Refuse and end the agent's loop.
    Stop(Reason),
}

impl<P> Flow<P> {
    /// Stop beats deny beats proceed.
    pub fn judge(folded: &HookOutput, proceed: impl FnOnce() -> P) -> Self {
        if let Some(reason) = folded.stop() {
            return Self::Stop(reason);
        }
        match folded.deny() {
            Some(reason) => Self::Deny(reason),
            None => Self::Proceed(proceed()),
        }
    }
}

impl<P: Send> Verdict for Flow<P> {
    fn action(&self) -> Action {
        match self {
            Self::Proceed(_) => Action::Proceed,
            Self::Deny(_) => Action::Deny,
            Self::Stop(_) => Action::Stop,
        }
    }
}

/// Of an event that nothing can stop: what it brings, if anything.
impl<T: Send> Verdict for Option<T> {
    fn action(&self) -> Action {
        Action::Proceed
    }
}
