//! Quotas of callers: requests per minute, tokens per day and concurrent requests.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use governor::{
    DefaultDirectRateLimiter, RateLimiter,
    clock::{Clock, DefaultClock},
};
use lru::LruCache;
use thiserror::Error;

use crate::config::Grant;

/// Callers whose usage is kept; beyond it the least recently seen start anew.
const MAX_CALLERS: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Shortest time between two resets of the daily usage, so that a clock that jumps back
/// and forth resets it once.
const MIN_DAY: Duration = Duration::from_hours(1);

/// `Retry-After` for the concurrency limit, whose end cannot be known.
const CONCURRENCY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Usage of every caller by `event::Caller::key`. Survives config reloads.
#[derive(Debug)]
pub(super) struct Quotas(Mutex<LruCache<String, Arc<Quota>>>);

/// Usage of one caller.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// Name of the caller.
    caller: Arc<str>,
    rate: Mutex<Option<RequestRate>>,
    usage: Mutex<DailyUsage>,
    in_flight: AtomicUsize,
}

#[derive(Debug)]
struct RequestRate {
    per_minute: NonZeroU32,
    limiter: DefaultDirectRateLimiter,
}

#[derive(Debug, Default)]
struct DailyUsage {
    tokens: u64,
    /// Days since 1970 in UTC.
    day: u64,
    /// Time of the last reset, unless none was seen.
    reset_at: Option<Instant>,
}

/// Counts a request against its caller's concurrency limit until it is dropped.
#[derive(Debug)]
pub struct CallerInFlightGuard(Arc<Quota>);

/// Quota that a request would exceed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    /// Rate limit in requests per minute.
    #[error("rate limit exceeded for caller `{caller}`: {per_minute} requests per minute")]
    Rate {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        per_minute: NonZeroU32,
        /// Time until the next request is allowed.
        retry_after: Duration,
    },
    /// Quota of tokens per day.
    #[error("daily token quota exceeded for caller `{caller}`: {per_day} tokens per day")]
    Tokens {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        per_day: NonZeroU64,
        /// Time until midnight in UTC.
        retry_after: Duration,
    },
    /// Limit of concurrent requests.
    #[error("concurrency limit exceeded for caller `{caller}`: {limit} requests at the same time")]
    Concurrency {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        limit: usize,
        /// Suggested delay before a retry.
        retry_after: Duration,
    },
}

impl QuotaExceeded {
    /// Returns the value of the metric label `outcome`.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Rate { .. } => "rate_limit",
            Self::Tokens { .. } => "token_quota",
            Self::Concurrency { .. } => "concurrency_limit",
        }
    }

    /// Returns the delay for `Retry-After`.
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::Rate { retry_after, .. }
            | Self::Tokens { retry_after, .. }
            | Self::Concurrency { retry_after, .. } => *retry_after,
        }
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_CALLERS)))
    }
}

impl Quotas {
    /// Returns the usage of the caller with this key and name.
    pub(super) fn get(&self, key: &str, name: &Arc<str>) -> Arc<Quota> {
        let mut quotas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Quota {
                caller: Arc::clone(name),
                ..Quota::default()
            })
        };
        Arc::clone(quotas.get_or_insert_ref(key, new))
    }

    /// Returns the name of the caller with this key, if it was seen.
    pub(super) fn name_of(&self, key: &str) -> Option<Arc<str>> {
        let quotas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quotas.peek(key).map(|quota| Arc::clone(&quota.caller))
    }
}

impl Quota {
    /// Counts a request of `caller`, unless it exceeds a limit of `grant`.
    pub(super) fn enter(
        self: &Arc<Self>,
        caller: &Arc<str>,
        grant: &Grant,
        now: SystemTime,
    ) -> Result<CallerInFlightGuard, QuotaExceeded> {
        let caller = || Arc::clone(caller);
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let guard = CallerInFlightGuard(Arc::clone(self));
        if before >= grant.in_flight {
            return Err(QuotaExceeded::Concurrency {
                caller: caller(),
                limit: grant.in_flight,
                retry_after: CONCURRENCY_RETRY_AFTER,
            });
        }
        let (day, rest_of_day) = day(now);
        if let Some(per_day) = grant.tokens_per_day {
            let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
            if usage.on_day(day, Instant::now()) >= per_day.get() {
                return Err(QuotaExceeded::Tokens {
                    caller: caller(),
                    per_day,
                    retry_after: rest_of_day,
                });
            }
        }
        if let Some(per_minute) = grant.requests_per_minute {
            self.check_rate(per_minute)
                .map_err(|retry_after| QuotaExceeded::Rate {
                    caller: caller(),
                    per_minute,
                    retry_after,
                })?;
        }
        Ok(guard)
    }

    /// Adds tokens to the usage of the day.
    pub(super) fn spend(&self, tokens: u64, now: SystemTime) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.on_day(day(now).0, Instant::now());
        usage.tokens = usage.tokens.saturating_add(tokens);
    }

    /// Counts a request; the error is the time until the next one is allowed.
    fn check_rate(&self, per_minute: NonZeroU32) -> Result<(), Duration> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = rate.take().filter(|rate| rate.per_minute == per_minute);
        let rate = rate.insert(fitting.unwrap_or_else(|| RequestRate {
            per_minute,
            limiter: RateLimiter::direct(governor::Quota::per_minute(per_minute)),
        }));
        let checked = rate.limiter.check();
        checked.map_err(|not_until| not_until.wait_time_from(DefaultClock::default().now()))
    }
}

impl DailyUsage {
    /// Returns the tokens spent on `day`.
    fn on_day(&mut self, day: u64, now: Instant) -> u64 {
        let is_recent = |reset_at: Instant| now.saturating_duration_since(reset_at) < MIN_DAY;
        if self.day != day && !self.reset_at.is_some_and(is_recent) {
            *self = Self {
                tokens: 0,
                day,
                reset_at: Some(now),
            };
        }
        self.tokens
    }
}

impl Drop for CallerInFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the day since 1970 and the time until it ends.
fn day(now: SystemTime) -> (u64, Duration) {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let rest = Duration::from_secs(SECONDS_PER_DAY - seconds % SECONDS_PER_DAY);
    (seconds / SECONDS_PER_DAY, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_clock_that_jumps_neither_resets_the_usage_nor_locks_the_caller_out() {
        let start = Instant::now();
        let mut usage = DailyUsage::default();
        assert_eq!(usage.on_day(100, start), 0);
        usage.tokens = 7;

        // Back and forth around midnight.
        let soon = start + Duration::from_secs(5);
        for day in [101, 100, 101, 99, 10_000] {
            assert_eq!(usage.on_day(day, soon), 7, "{day}");
        }
        // The next day resets the usage.
        assert_eq!(usage.on_day(101, start + 2 * HOUR), 0);
        usage.tokens = 7;
        // A year ahead by mistake, and corrected.
        assert_eq!(usage.on_day(466, start + 4 * HOUR), 0);
        usage.tokens = 7;
        assert_eq!(usage.on_day(101, start + 4 * HOUR + HOUR / 2), 7);
        assert_eq!(usage.on_day(101, start + 6 * HOUR), 0);
    }

    #[test]
    fn a_day_ends_at_midnight_in_utc() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(day(at(0)), (0, Duration::from_secs(SECONDS_PER_DAY)));
        assert_eq!(day(at(SECONDS_PER_DAY - 1)), (0, Duration::from_secs(1)));
        assert_eq!(
            day(at(SECONDS_PER_DAY)),
            (1, Duration::from_secs(SECONDS_PER_DAY))
        );
    }

    #[test]
    fn spent_tokens_count_until_the_day_is_over() {
        let grant = Grant {
            tokens_per_day: 10.try_into().ok(),
            in_flight: 1,
            ..Grant::default()
        };
        let (quota, caller) = (Arc::<Quota>::default(), Arc::from("ci"));
        let noon = UNIX_EPOCH + Duration::from_secs(SECONDS_PER_DAY / 2);
        drop(quota.enter(&caller, &grant, noon).unwrap());

        quota.spend(9, noon);
        drop(quota.enter(&caller, &grant, noon).unwrap());
        quota.spend(u64::MAX, noon);

        let refused = quota.enter(&caller, &grant, noon).unwrap_err();
        let message = "daily token quota exceeded for caller `ci`: 10 tokens per day";
        assert_eq!(refused.to_string(), message);
        let rest = Duration::from_secs(SECONDS_PER_DAY / 2);
        assert_eq!(refused.retry_after(), rest);
    }

    #[test]
    fn a_caller_has_a_limited_number_of_concurrent_requests() {
        let grant = Grant {
            in_flight: 2,
            ..Grant::default()
        };
        let (quota, caller) = (Arc::<Quota>::default(), Arc::from("ci"));
        let now = SystemTime::now();
        let guards = [
            quota.enter(&caller, &grant, now).unwrap(),
            quota.enter(&caller, &grant, now).unwrap(),
        ];

        let refused = quota.enter(&caller, &grant, now).unwrap_err();
        let message = "concurrency limit exceeded for caller `ci`: 2 requests at the same time";
        assert_eq!(refused.to_string(), message);
        drop(guards);
        assert!(quota.enter(&caller, &grant, now).is_ok());
    }
}
