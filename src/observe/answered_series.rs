//! Metric series of answered requests, found without hashing their labels.

use std::{
    fmt,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

/// Series that are kept. Others are found by their labels.
const MAX_SERIES: usize = 64;

/// Operation, status and action of a request.
pub(super) type SeriesKey = (&'static str, u16, &'static str);

/// Series that were counted before.
#[derive(Default)]
pub(super) struct AnsweredSeries(RwLock<Vec<Series>>);

struct Series {
    key: SeriesKey,
    requests: Counter,
    duration: Histogram,
}

impl AnsweredSeries {
    /// Counts a request. `find` returns the series of its labels.
    pub(super) fn record(
        &self,
        key: SeriesKey,
        duration: Duration,
        find: impl FnOnce() -> (Counter, Histogram),
    ) {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = kept.iter().find(|series| series.key == key) {
            return series.record(duration);
        }
        drop(kept);
        let (requests, durations) = find();
        let series = Series {
            key,
            requests,
            duration: durations,
        };
        series.record(duration);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_SERIES {
            kept.push(series);
        }
    }
}

impl Series {
    fn record(&self, duration: Duration) {
        self.requests.inc();
        self.duration.observe(duration.as_secs_f64());
    }
}

impl fmt::Debug for AnsweredSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AnsweredSeries").finish()
    }
}
