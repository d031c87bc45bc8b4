//! Durations in buckets, for percentiles.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Buckets of each power of two, all of the same width.
const BUCKETS_PER_POWER: usize = 16;

/// Number of buckets. The last one begins at about half an hour.
const BUCKETS: usize = 28 * BUCKETS_PER_POWER;

/// Durations in buckets, 16 for each power of two of microseconds. A percentile is at most 1/16
/// above the true value.
#[derive(Debug)]
pub struct DurationHistogram {
    counts: [AtomicU64; BUCKETS],
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl Clone for DurationHistogram {
    fn clone(&self) -> Self {
        Self {
            counts: self.counts().map(AtomicU64::new),
        }
    }
}

impl DurationHistogram {
    /// Adds durations of which only the sum is known, as their mean.
    pub fn add(&self, times: u64, sum: Duration) {
        let micros = u64::try_from(sum.as_micros()).unwrap_or(u64::MAX);
        let mean = micros.checked_div(times).unwrap_or_default();
        if let Some(count) = self.counts.get(bucket(mean)) {
            count.fetch_add(times, Ordering::Relaxed);
        }
    }

    /// Returns the upper bound in microseconds of the bucket that holds this share of all
    /// durations; `None` if there are none.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        let rank = total.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let position = counts.iter().position(|count| {
            seen += count;
            total > 0 && seen >= rank
        });
        position.map(upper_bound)
    }

    /// Returns the number of durations from the bucket of `micros` on. It counts some that are
    /// smaller, by at most 1/16.
    pub fn count_from(&self, micros: u64) -> u64 {
        let counts = self.counts();
        counts.iter().skip(bucket(micros)).sum()
    }

    fn counts(&self) -> [u64; BUCKETS] {
        let counts = self.counts.each_ref();
        counts.map(|count| count.load(Ordering::Relaxed))
    }
}

/// Returns the bucket of a duration. Durations below 16 microseconds have one each.
fn bucket(micros: u64) -> usize {
    let per_power = BUCKETS_PER_POWER as u64;
    let power = (micros / per_power).max(1).ilog2();
    let index = u64::from(power) * per_power + (micros >> power);
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

/// Returns the least duration in microseconds above a bucket.
const fn upper_bound(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    let per_power = BUCKETS_PER_POWER as u64;
    let power = (next / per_power).saturating_sub(1);
    (next - power * per_power) << power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_the_true_values() {
        let histogram = DurationHistogram::default();
        for micros in 1..=10_000 {
            histogram.add(1, Duration::from_micros(micros));
        }

        for (percent, exact) in [(50, 5000), (99, 9900)] {
            let found = histogram.percentile(percent).unwrap();
            assert!((exact..=exact * 17 / 16 + 1).contains(&found), "{found}");
        }
        assert_eq!(DurationHistogram::default().percentile(50), None);
    }

    #[test]
    fn durations_are_counted_from_the_bucket_of_a_bound() {
        let histogram = DurationHistogram::default();
        for millis in 1..=100 {
            histogram.add(1, Duration::from_millis(millis));
        }

        for bound in [1, 7, 40, 90] {
            let found = histogram.count_from(bound * 1000);
            let exact = 101 - bound;
            assert!((exact..=exact + bound / 16).contains(&found), "{found}");
        }
        assert_eq!(histogram.count_from(110_000), 0);
    }

    #[test]
    fn every_duration_is_in_its_bucket() {
        let durations = (0..40_u32)
            .flat_map(|bit| [0, 1, 3, 9, 15].map(|part| (1_u64 << bit) + (part << bit) / 16));
        for micros in (0..100).chain(durations) {
            let bucket = bucket(micros);
            let lower = bucket.checked_sub(1).map_or(0, upper_bound);
            let is_last = bucket == BUCKETS - 1;
            assert!(lower <= micros, "{micros}: from {lower}");
            assert!(is_last || micros < upper_bound(bucket), "{micros}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
