//! What a caller has used: requests in a minute, tokens in a day, requests under
//! way.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use governor::{
    DefaultDirectRateLimiter, Quota, RateLimiter,
    clock::{Clock, DefaultClock},
};
use lru::LruCache;
use thiserror::Error;

use crate::config::Grant;

/// How many callers are counted; of more, those that were heard of the longest ago
/// begin anew.
const CALLERS: usize = 100_000;

const DAY: u64 = 24 * 60 * 60;

/// A day is not over sooner than this after the one before, whatever the clock
/// says: one that jumps to and fro must not give tokens away.
const SHORTEST_DAY: Duration = Duration::from_hours(1);

/// When to ask again where nobody can know.
const SOON: Duration = Duration::from_secs(1);

/// What every caller has used, by `event::Caller::key`. Outlives configs.
pub struct Meters(Mutex<LruCache<String, Arc<Meter>>>);

/// What one caller has used.
#[derive(Debug, Default)]
pub(super) struct Meter {
    rate: Mutex<Option<Rate>>,
    spent: Mutex<Spent>,
    under_way: AtomicUsize,
}

#[derive(Debug)]
struct Rate {
    per_minute: NonZeroU32,
    limiter: DefaultDirectRateLimiter,
}

/// Tokens spent in one day.
#[derive(Debug, Default)]
struct Spent {
    tokens: u64,
    /// Since 1970.
    day: u64,
    /// When the day began, as far as it was seen.
    since: Option<Instant>,
}

/// A request of a caller under way, until it is dropped.
#[derive(Debug)]
pub struct Stay(Arc<Meter>);

/// What a caller has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    /// Its requests of this minute.
    #[error("you have asked too often")]
    Rate {
        /// When it may ask again.
        wait: Duration,
    },
    /// Its tokens of this day.
    #[error("your tokens of this day are spent")]
    Tokens {
        /// When the day ends.
        wait: Duration,
    },
    /// Its share of the requests under way.
    #[error("too many of your requests are under way")]
    InFlight {
        /// When it may ask again.
        wait: Duration,
    },
}

impl QuotaExceeded {
    /// In one word, for metrics.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Rate { .. } => "rate_limit",
            Self::Tokens { .. } => "token_quota",
            Self::InFlight { .. } => "concurrency_limit",
        }
    }

    /// When to ask again.
    pub const fn wait(self) -> Duration {
        match self {
            Self::Rate { wait } | Self::Tokens { wait } | Self::InFlight { wait } => wait,
        }
    }
}

impl Default for Meters {
    fn default() -> Self {
        let most = NonZeroUsize::new(CALLERS).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }
}

impl Meters {
    pub(super) fn of(&self, key: &str) -> Arc<Meter> {
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = meters.get(key) {
            return Arc::clone(meter);
        }
        let meter = Arc::<Meter>::default();
        meters.put(key.to_owned(), Arc::clone(&meter));
        meter
    }
}

impl Meter {
    /// Counts a request, unless something is used up.
    pub(super) fn enter(
        self: &Arc<Self>,
        grant: &Grant,
        now: SystemTime,
    ) -> Result<Stay, QuotaExceeded> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let stay = Stay(Arc::clone(self));
        if before >= grant.in_flight {
            return Err(QuotaExceeded::InFlight { wait: SOON });
        }
        let (day, left) = day(now);
        if let Some(most) = grant.tokens_per_day {
            let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
            if spent.on(day, Instant::now()) >= most.get() {
                return Err(QuotaExceeded::Tokens { wait: left });
            }
        }
        if let Some(per_minute) = grant.requests_per_minute {
            self.ask(per_minute)
                .map_err(|wait| QuotaExceeded::Rate { wait })?;
        }
        Ok(stay)
    }

    /// Counts tokens.
    pub(super) fn spend(&self, tokens: u64, now: SystemTime) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.on(day(now).0, Instant::now());
        spent.tokens = spent.tokens.saturating_add(tokens);
    }

    /// Counts a request in its minute; the error is how long to wait.
    fn ask(&self, per_minute: NonZeroU32) -> Result<(), Duration> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.as_ref().is_none_or(|it| it.per_minute != per_minute) {
            *rate = Some(Rate {
                per_minute,
                limiter: RateLimiter::direct(Quota::per_minute(per_minute)),
            });
        }
        let Some(rate) = &*rate else {
            return Ok(());
        };
        let checked = rate.limiter.check();
        checked.map_err(|it| it.wait_time_from(DefaultClock::default().now()))
    }
}

impl Spent {
    /// What is spent on `day`.
    fn on(&mut self, day: u64, now: Instant) -> u64 {
        let is_young = |since: Instant| now.saturating_duration_since(since) < SHORTEST_DAY;
        if self.day != day && !self.since.is_some_and(is_young) {
            *self = Self {
                tokens: 0,
                day,
                since: Some(now),
            };
        }
        self.tokens
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which day it is, and how long it still lasts.
fn day(now: SystemTime) -> (u64, Duration) {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    (seconds / DAY, Duration::from_secs(DAY - seconds % DAY))
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_clock_that_jumps_gives_no_tokens_away_and_locks_nobody_out() {
        let start = Instant::now();
        let mut spent = Spent::default();
        assert_eq!(spent.on(100, start), 0);
        spent.tokens = 7;

        // To and fro around midnight.
        let soon = start + Duration::from_secs(5);
        for day in [101, 100, 101, 99, 10_000] {
            assert_eq!(spent.on(day, soon), 7, "{day}");
        }
        // The next day is another one.
        assert_eq!(spent.on(101, start + 2 * HOUR), 0);
        spent.tokens = 7;
        // A year ahead by mistake, and set right.
        assert_eq!(spent.on(466, start + 4 * HOUR), 0);
        spent.tokens = 7;
        assert_eq!(spent.on(101, start + 4 * HOUR + HOUR / 2), 7);
        assert_eq!(spent.on(101, start + 6 * HOUR), 0);
    }

    #[test]
    fn a_day_ends_at_midnight_of_utc() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(day(at(0)), (0, Duration::from_secs(DAY)));
        assert_eq!(day(at(DAY - 1)), (0, Duration::from_secs(1)));
        assert_eq!(day(at(DAY)), (1, Duration::from_secs(DAY)));
    }

    #[test]
    fn what_is_spent_counts_until_the_day_is_over() {
        let grant = Grant {
            tokens_per_day: 10.try_into().ok(),
            in_flight: 1,
            ..Grant::default()
        };
        let meter = Arc::<Meter>::default();
        let noon = UNIX_EPOCH + Duration::from_secs(DAY / 2);
        drop(meter.enter(&grant, noon).unwrap());

        meter.spend(9, noon);
        drop(meter.enter(&grant, noon).unwrap());
        meter.spend(u64::MAX, noon);

        let wait = Duration::from_secs(DAY / 2);
        assert_eq!(
            meter.enter(&grant, noon).err(),
            Some(QuotaExceeded::Tokens { wait })
        );
    }

    #[test]
    fn a_caller_has_its_share_of_requests_under_way() {
        let grant = Grant {
            in_flight: 2,
            ..Grant::default()
        };
        let meter = Arc::<Meter>::default();
        let now = SystemTime::now();
        let stays = [
            meter.enter(&grant, now).unwrap(),
            meter.enter(&grant, now).unwrap(),
        ];

        let refused = meter.enter(&grant, now).err();
        assert_eq!(refused, Some(QuotaExceeded::InFlight { wait: SOON }));
        drop(stays);
        assert!(meter.enter(&grant, now).is_ok());
    }
}
