//! Durations in buckets, for percentiles.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Number of buckets. The last one begins at about nine minutes.
const BUCKETS: usize = 60;

/// Durations in buckets whose bounds grow by the square root of two, from one microsecond. A
/// percentile is at most 42 % above the true value.
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
        let counts = self.counts.each_ref();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        let total: u64 = counts.iter().sum();
        let rank = total.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let position = counts.iter().position(|count| {
            seen += count;
            total > 0 && seen >= rank
        });
        position.map(upper_bound)
    }

    /// Returns the number of durations in buckets above that of `micros`.
    pub fn count_above(&self, micros: u64) -> u64 {
        let above = self.counts.iter().skip(bucket(micros) + 1);
        above.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Two buckets for each power of two: from 2ⁿ, and from about 1.41 × 2ⁿ.
fn bucket(micros: u64) -> usize {
    let micros = micros.max(1);
    let exponent = micros.ilog2();
    let half = (1_u64 << exponent).saturating_mul(1414) / 1000;
    let index = (exponent as usize) * 2 + usize::from(micros > half);
    index.min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> u64 {
    let start = 1_u64 << (bucket / 2);
    if bucket.is_multiple_of(2) {
        start.saturating_mul(1414) / 1000
    } else {
        start.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_the_true_values() {
        let histogram = DurationHistogram::default();
        for millis in 1..=100 {
            histogram.add(1, Duration::from_millis(millis));
        }

        let median = histogram.percentile(50).unwrap();
        let p99 = histogram.percentile(99).unwrap();

        assert!((50_000..=71_000).contains(&median), "{median}");
        assert!((99_000..=141_000).contains(&p99), "{p99}");
        assert_eq!(DurationHistogram::default().percentile(50), None);
        assert_eq!(histogram.count_above(1000), 99);
        assert_eq!(histogram.count_above(200_000), 0);
    }

    #[test]
    fn every_duration_is_below_the_bound_of_its_bucket() {
        for micros in (0..40_u32).flat_map(|bit| [1_u64 << bit, (1 << bit) * 141 / 100]) {
            let bucket = bucket(micros);
            assert!(bucket < BUCKETS);
            assert!(
                bucket == BUCKETS - 1 || micros <= upper_bound(bucket) + 1,
                "{micros}"
            );
        }
    }
}
