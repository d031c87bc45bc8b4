//! Counts of the recent past, such as the last minute or day.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Bits of a bucket that hold its count; the others hold the time that it counts.
const COUNT_BITS: u32 = 32;

/// Counts of the last day by the hour.
pub type HourlyCounts = TimeBuckets<24, 3600>;

/// Counts events in `N` buckets of `SECONDS` each. Old buckets are reused.
#[derive(Debug)]
pub struct TimeBuckets<const N: usize, const SECONDS: u64> {
    start: Instant,
    buckets: [AtomicU64; N],
}

impl<const N: usize, const SECONDS: u64> Default for TimeBuckets<N, SECONDS> {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            buckets: [const { AtomicU64::new(0) }; N],
        }
    }
}

impl<const N: usize, const SECONDS: u64> TimeBuckets<N, SECONDS> {
    /// Counts one event at `now`.
    pub fn add(&self, now: Instant) {
        self.add_many(now, 1);
    }

    /// Counts events at `now`.
    pub fn add_many(&self, now: Instant, events: u64) {
        let tick = self.tick(now);
        let Some(bucket) = self.bucket(tick) else {
            return;
        };
        let full = u64::from(u32::MAX);
        let updated = |value: u64| {
            let so_far = if value >> COUNT_BITS == tick {
                value & full
            } else {
                0
            };
            Some((tick << COUNT_BITS) | so_far.saturating_add(events).min(full))
        };
        bucket
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, updated)
            .ok();
    }

    /// Returns the number of events in the current bucket and those before it, `N` in all.
    pub fn sum(&self, now: Instant) -> u64 {
        let last = self.tick(now);
        let first = (last + 1).saturating_sub(N as u64);
        let values = self.buckets.iter();
        let values = values.map(|bucket| bucket.load(Ordering::Relaxed));
        let recent = values.filter(|value| (first..=last).contains(&(value >> COUNT_BITS)));
        recent.map(|value| value & u64::from(u32::MAX)).sum()
    }

    /// Returns the time that [`Self::sum`] covers.
    pub fn covered(&self, now: Instant) -> Duration {
        let covered = Duration::from_secs(SECONDS.saturating_mul(N as u64));
        now.saturating_duration_since(self.start).min(covered)
    }

    /// Returns the number of the bucket width in which `now` is, from 0.
    fn tick(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.start).as_secs();
        elapsed.checked_div(SECONDS).unwrap_or_default() & u64::from(u32::MAX)
    }

    fn bucket(&self, tick: u64) -> Option<&AtomicU64> {
        let index = tick.checked_rem(N as u64)?;
        self.buckets.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_until_their_bucket_is_reused_or_too_old() {
        let buckets = TimeBuckets::<3, 10>::default();
        let at = |seconds| buckets.start + Duration::from_secs(seconds);

        for seconds in [0, 9, 10, 29] {
            buckets.add(at(seconds));
        }
        assert_eq!(buckets.sum(at(29)), 4);
        assert_eq!(buckets.sum(at(30)), 2, "the first bucket is too old");
        buckets.add_many(at(30), 1);
        assert_eq!(buckets.sum(at(30)), 3, "and is reused");
        assert_eq!(buckets.sum(at(1000)), 0);
        assert_eq!(buckets.covered(at(5)), Duration::from_secs(5));
        assert_eq!(buckets.covered(at(500)), Duration::from_secs(30));
        buckets.add_many(at(1000), u64::MAX);
        assert_eq!(buckets.sum(at(1000)), u64::from(u32::MAX), "a full bucket");
    }
}
