//! The store of sessions that gateways share, is away or back.

/// It does not answer. Said once, until it is back.
#[derive(Debug)]
pub struct StoreAway<'a> {
    /// What went wrong.
    pub cause: &'a str,
}

/// It answers again.
#[derive(Debug)]
pub struct StoreBack;

impl StoreAway<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let cause = self.cause;
        tracing::warn!(cause, "sessions are kept in memory: Redis is away");
    }
}

impl StoreBack {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!("Redis is back");
    }
}
