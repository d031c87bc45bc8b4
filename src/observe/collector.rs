//! The collector of traces and logs is away or back.

/// It does not take what it is sent. Said once, until it does.
#[derive(Debug)]
pub struct CollectorAway {
    /// `traces` or `logs`.
    pub signal: &'static str,
    /// What went wrong.
    pub cause: String,
}

/// It takes what it is sent again.
#[derive(Debug)]
pub struct CollectorBack {
    /// `traces` or `logs`.
    pub signal: &'static str,
}

impl CollectorAway {
    /// Logs it.
    pub fn emit(&self) {
        let Self { signal, cause } = self;
        tracing::warn!(signal, cause, "the collector does not take what it is sent");
    }
}

impl CollectorBack {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!(signal = self.signal, "the collector is back");
    }
}
