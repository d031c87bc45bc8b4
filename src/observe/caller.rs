//! Who may call: an address that guesses, an issuer that is away or back.

use std::net::IpAddr;

/// Too many wrong keys came from an address. Said once, until it may ask again.
#[derive(Debug)]
pub struct AttemptsLimited {
    /// The address; of IPv6, its network.
    pub address: IpAddr,
}

/// A caller asked for more than it may, and was refused before it was known what
/// for.
#[derive(Debug)]
pub struct CallerRefused<'a> {
    /// The id in `x-hookgate-request-id`.
    pub request_id: &'a str,
    /// Who called, by the config.
    pub caller: &'a str,
    /// The reason of the error.
    pub reason: &'a str,
}

/// The keys of the issuer of tokens cannot be fetched. Said once, until they can.
#[derive(Debug)]
pub struct IssuerAway<'a> {
    /// What went wrong; no URL.
    pub cause: &'a str,
}

/// They can be fetched again.
#[derive(Debug)]
pub struct IssuerBack;

impl AttemptsLimited {
    /// Logs it.
    pub fn emit(&self) {
        tracing::warn!(peer.addr = %self.address, "too many wrong keys");
    }
}

impl CallerRefused<'_> {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!(
            request.id = self.request_id,
            caller.name = self.caller,
            reason = self.reason,
            "a caller was refused"
        );
    }
}

impl IssuerAway<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let cause = self.cause;
        tracing::warn!(cause, "the issuer's keys cannot be fetched");
    }
}

impl IssuerBack {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!("the issuer's keys are fetched again");
    }
}
