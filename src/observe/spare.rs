//! A spare process of a hook has ended before there was a call for it.

/// A spare has ended too early, or could not be started. Said once, until a
/// spare has waited in vain or for a call.
#[derive(Debug)]
pub struct SpareFailed<'a> {
    /// The hook.
    pub hook: &'a str,
    /// How it ended.
    pub cause: &'a str,
}

impl SpareFailed<'_> {
    /// Logs it.
    pub fn emit(&self) {
        tracing::warn!(hook.name = self.hook, cause = self.cause, "spare failed");
    }
}
