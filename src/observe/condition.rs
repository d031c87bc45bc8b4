//! It cannot be said whether a condition holds.

use crate::event::EventName;

/// A condition could not be asked, so its hook runs.
#[derive(Debug)]
pub struct ConditionUnclear<'a> {
    /// The id of the request that the event belongs to; empty if to none.
    pub request_id: &'a str,
    /// The hook or policy.
    pub name: &'a str,
    /// On which event.
    pub event: EventName,
    /// Why; nothing of the event.
    pub cause: &'a str,
}

impl ConditionUnclear<'_> {
    /// Logs it.
    pub fn emit(&self) {
        tracing::warn!(
            request.id = self.request_id,
            hook.name = self.name,
            event = self.event.as_str(),
            cause = self.cause,
            "a condition could not be asked"
        );
    }
}
