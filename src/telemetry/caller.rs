//! Who may call: an address that guesses, an issuer that is away or back.

use std::net::IpAddr;

/// Too many wrong keys came from an address. Said once, until it may ask again.
#[derive(Debug)]
pub struct AttemptsLimited {
    /// The address; of IPv6, its network.
    pub address: IpAddr,
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
