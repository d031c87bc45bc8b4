//! A worker has failed, or complains.

/// A worker's process had to be ended, or could not be started.
#[derive(Debug)]
pub struct WorkerFailed<'a> {
    /// The hook.
    pub hook: &'a str,
    /// Why.
    pub cause: &'a str,
}

impl WorkerFailed<'_> {
    /// Logs it.
    pub fn emit(&self) {
        tracing::warn!(hook.name = self.hook, cause = self.cause, "worker failed");
    }
}

/// A worker has written a line to stderr.
#[derive(Debug)]
pub struct WorkerLog<'a> {
    /// The hook.
    pub hook: &'a str,
    /// What it wrote.
    pub line: &'a str,
    /// How many lines before it were left out, because they were too many.
    pub left_out: u64,
}

impl WorkerLog<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let Self {
            hook,
            line,
            left_out,
        } = self;
        tracing::warn!(hook.name = hook, line, left_out, "worker says");
    }
}
