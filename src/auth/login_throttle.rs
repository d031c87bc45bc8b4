//! Guessing costs: whoever shows wrong keys too often is not asked any more.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use governor::{
    DefaultDirectRateLimiter, Quota, RateLimiter,
    clock::{Clock, DefaultClock},
};
use lru::LruCache;

use super::AuthError;

/// How many wrong keys an address may show at once, and then in a minute.
const BURST: u32 = 20;

/// How many addresses are remembered; of more, those that were heard of the
/// longest ago go.
const ADDRESSES: usize = 10_000;

/// How many callers are remembered of one address.
const CALLERS: usize = 256;

/// Who has tried from where.
pub(super) struct Attempts(Mutex<LruCache<IpAddr, Address>>);

#[derive(Debug)]
struct Address {
    wrong: DefaultDirectRateLimiter,
    /// Callers that were let in from there: they are not shut out by others.
    known: BTreeSet<Arc<str>>,
    /// Until when all others are, by the limiter's clock.
    shut: bool,
}

impl Default for Attempts {
    fn default() -> Self {
        let most = NonZeroUsize::new(ADDRESSES).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }
}

impl Address {
    fn new() -> Option<Self> {
        let quota = Quota::per_minute(BURST.try_into().ok()?);
        Some(Self {
            wrong: RateLimiter::direct(quota),
            known: BTreeSet::new(),
            shut: false,
        })
    }

    /// Counts a wrong key; how long to wait if there were too many.
    fn count(&mut self, address: IpAddr) -> Option<Duration> {
        let Err(not_until) = self.wrong.check() else {
            self.shut = false;
            return None;
        };
        if !self.shut {
            self.shut = true;
            tracing::warn!(
                peer.addr = %address,
                "authentication throttled: too many failed attempts"
            );
        }
        Some(not_until.wait_time_from(DefaultClock::default().now()))
    }
}

impl Attempts {
    /// A right key came from there. It counts, unless too many wrong ones came, and
    /// this caller none before: who guesses must not see that a guess was right.
    pub(super) fn succeeded(&self, address: IpAddr, name: &Arc<str>) -> Result<(), AuthError> {
        let address = whole(address);
        let mut addresses = self.addresses();
        let Some(known) = entry(&mut addresses, address) else {
            return Ok(());
        };
        if known.known.contains(name) {
            return Ok(());
        }
        if known.shut
            && let Some(wait) = known.count(address)
        {
            return Err(AuthError::TooMany { wait });
        }
        if known.known.len() < CALLERS {
            known.known.insert(Arc::clone(name));
        }
        Ok(())
    }

    /// Somebody unknown came from there: what to tell them. Only a key can be
    /// guessed; who shows none, or a token that is no more good, shuts out nobody.
    pub(super) fn failed(&self, address: IpAddr, stranger: AuthError) -> AuthError {
        if stranger != AuthError::Unknown {
            return stranger;
        }
        let address = whole(address);
        let mut addresses = self.addresses();
        let wait = entry(&mut addresses, address).and_then(|it| it.count(address));
        wait.map_or(stranger, |wait| AuthError::TooMany { wait })
    }

    fn addresses(&self) -> MutexGuard<'_, LruCache<IpAddr, Address>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(addresses: &mut LruCache<IpAddr, Address>, address: IpAddr) -> Option<&mut Address> {
    if !addresses.contains(&address) {
        addresses.put(address, Address::new()?);
    }
    addresses.get_mut(&address)
}

/// Who has an IPv6 address has 2⁶⁴ of them: these count as one.
fn whole(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl std::fmt::Debug for Attempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attempts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_is_shut_out_and_who_was_there_before_is_not() {
        let attempts = Attempts::default();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let (old, new): (Arc<str>, Arc<str>) = ("old".into(), "new".into());
        assert_eq!(attempts.succeeded(address, &old), Ok(()));

        for _ in 0..BURST {
            let told = attempts.failed(address, AuthError::Unknown);
            assert_eq!(told, AuthError::Unknown);
        }
        let told = attempts.failed(address, AuthError::Unknown);

        assert!(matches!(told, AuthError::TooMany { .. }), "{told:?}");
        assert_eq!(attempts.succeeded(address, &old), Ok(()));
        let guessed = attempts.succeeded(address, &new);
        assert!(matches!(guessed, Err(AuthError::TooMany { .. })));
        let elsewhere = "192.0.2.2".parse().unwrap();
        assert_eq!(attempts.succeeded(elsewhere, &new), Ok(()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let address = |text: &str| whole(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
