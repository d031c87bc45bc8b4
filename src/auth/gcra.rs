//! The generic cell rate algorithm (GCRA). Pure.
//!
//! Its state is one time, which other limits and the script in Redis can take over.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

const NANOSECONDS_PER_MINUTE: u64 = 60_000_000_000;

/// A rate limit: a burst, refilled evenly over a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestRate {
    /// Nanoseconds after which one more request is allowed.
    pub(super) interval_ns: u64,
    /// Nanoseconds by which a request may be ahead of an even distribution.
    pub(super) tolerance_ns: u64,
}

/// State of one limiter.
#[derive(Debug, Default)]
pub(super) struct Gcra {
    /// Theoretical arrival time of the next request, in nanoseconds of any clock.
    arrival_ns: u64,
}

impl RequestRate {
    /// Returns the rate of this many requests per minute.
    pub(super) fn per_minute(requests: NonZeroU32) -> Self {
        let requests = u64::from(requests.get());
        let interval_ns = NANOSECONDS_PER_MINUTE / requests;
        Self {
            interval_ns,
            tolerance_ns: interval_ns * (requests - 1),
        }
    }
}

impl Gcra {
    /// Checks a request at this time.
    ///
    /// # Errors
    ///
    /// Returns the time until the next request is allowed.
    pub(super) fn check(&self, rate: RequestRate, now_ns: u64) -> Result<(), Duration> {
        let earliest_ns = self.arrival_ns.saturating_sub(rate.tolerance_ns);
        match earliest_ns.checked_sub(now_ns) {
            None | Some(0) => Ok(()),
            Some(wait_ns) => Err(Duration::from_nanos(wait_ns)),
        }
    }

    /// Counts a request, also one that is not allowed. The debt is bounded by the rate.
    pub(super) fn count(&mut self, rate: RequestRate, now_ns: u64) {
        let next = self.arrival_ns.max(now_ns) + rate.interval_ns;
        self.arrival_ns = next.min(now_ns + rate.tolerance_ns + rate.interval_ns);
    }

    /// Returns the time until the whole burst is allowed again.
    pub(super) const fn debt_ns(&self, now_ns: u64) -> u64 {
        self.arrival_ns.saturating_sub(now_ns)
    }
}

/// Returns the nanoseconds since the start of a clock.
pub(super) fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use governor::{
        Quota, RateLimiter,
        clock::{Clock, FakeRelativeClock, Reference},
    };
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The same requests are allowed as by `governor`, with the same waits.
        #[test]
        fn admits_like_governor(
            requests in prop_oneof![1_u32..20, 20_u32..1_000_000],
            gaps_us in prop::collection::vec(
                prop_oneof![3 => 0_u64..10, 2 => 0_u64..20_000_000, 1 => 0_u64..200_000_000], 1..120,
            ),
        ) {
            let requests = NonZeroU32::new(requests).unwrap();
            let clock = FakeRelativeClock::default();
            let limiter = RateLimiter::direct_with_clock(Quota::per_minute(requests), clock.clone());
            let (rate, mut gcra, mut now_ns) = (RequestRate::per_minute(requests), Gcra::default(), 0);
            for gap_us in gaps_us {
                clock.advance(Duration::from_micros(gap_us));
                now_ns += gap_us * 1000;
                let expected = limiter.check();
                let expected = expected.map_err(|until| until.wait_time_from(clock.now()));
                let checked = gcra.check(rate, now_ns);
                if checked.is_ok() {
                    gcra.count(rate, now_ns);
                }
                prop_assert_eq!(checked, expected);
                let _same_clock = clock.now().duration_since(clock.now());
            }
        }
    }

    #[test]
    fn requests_beyond_the_rate_add_no_debt() {
        let rate = RequestRate::per_minute(60.try_into().unwrap());
        let mut gcra = Gcra::default();
        for _ in 0..1000 {
            gcra.count(rate, 0);
        }
        assert_eq!(gcra.debt_ns(0), NANOSECONDS_PER_MINUTE);
        assert_eq!(gcra.check(rate, 0), Err(Duration::from_secs(1)));
        assert_eq!(gcra.check(rate, 1_000_000_000), Ok(()));
    }
}
