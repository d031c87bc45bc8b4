//! Per-address throttling of failed authentication attempts.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    time::{Duration, Instant},
};

use lru::LruCache;

use super::{
    error::AuthError,
    gcra::{Gcra, RequestRate, nanoseconds_since},
};
use crate::mutex::Mutex;

/// Failed attempts that an address may make at once, and then per minute.
const MAX_FAILURES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// Addresses that are tracked; beyond it the least recently seen is dropped.
const MAX_ADDRESSES: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Maximum number of callers that are kept per address.
const MAX_CALLERS_PER_ADDRESS: usize = 256;

#[derive(Debug)]
pub(super) struct LoginThrottle {
    addresses: Mutex<LruCache<IpAddr, AddressState>>,
    /// Start of the clock of failed attempts.
    started: Instant,
}

#[derive(Debug, Default)]
struct AddressState {
    failures: Gcra,
    /// Callers that were authenticated from there, which are never throttled.
    known_callers: BTreeSet<Arc<str>>,
    is_throttled: bool,
}

impl Default for LoginThrottle {
    fn default() -> Self {
        Self {
            addresses: Mutex::new(LruCache::new(MAX_ADDRESSES)),
            started: Instant::now(),
        }
    }
}

impl AddressState {
    /// Counts a failed attempt at this time; returns the time to wait if there were too many.
    fn count_failure(&mut self, address: IpAddr, now_ns: u64) -> Option<Duration> {
        let rate = RequestRate::per_minute(MAX_FAILURES_PER_MINUTE);
        let Err(wait) = self.failures.check(rate, now_ns) else {
            self.failures.count(rate, now_ns);
            self.is_throttled = false;
            return None;
        };
        if !std::mem::replace(&mut self.is_throttled, true) {
            tracing::warn!(
                peer.addr = %address,
                "authentication throttled: too many failed attempts"
            );
        }
        Some(wait)
    }
}

impl LoginThrottle {
    /// Records a successful attempt of `caller`. It is refused while the address is
    /// throttled and the caller is new there, so that a guessed key is not confirmed.
    pub(super) fn succeeded(&self, address: IpAddr, caller: &Arc<str>) -> Result<(), AuthError> {
        let address = network(address);
        let mut addresses = self.addresses.lock();
        let state = addresses.get_or_insert_mut(address, AddressState::default);
        if state.known_callers.contains(caller) {
            return Ok(());
        }
        if state.is_throttled
            && let Some(retry_after) = state.count_failure(address, nanoseconds_since(self.started))
        {
            return Err(AuthError::Throttled { retry_after });
        }
        if state.known_callers.len() < MAX_CALLERS_PER_ADDRESS {
            state.known_callers.insert(Arc::clone(caller));
        }
        Ok(())
    }

    /// Records a failed attempt and returns the error for it. Only unknown keys count:
    /// missing keys and invalid tokens are no guesses.
    pub(super) fn failed(&self, address: IpAddr, error: AuthError) -> AuthError {
        if error != AuthError::Unknown {
            return error;
        }
        let address = network(address);
        let mut addresses = self.addresses.lock();
        let state = addresses.get_or_insert_mut(address, AddressState::default);
        let retry_after = state.count_failure(address, nanoseconds_since(self.started));
        retry_after.map_or(error, |retry_after| AuthError::Throttled { retry_after })
    }
}

/// Maps an IPv6 address to its /64 network, within which one client may choose freely.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_64_bit_network_of_ipv6_counts_as_one_address() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }
}
