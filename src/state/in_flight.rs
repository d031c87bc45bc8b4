//! Requests under way, and the memory that they hold.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use http::request::Parts;
use prometheus_client::metrics::gauge::Gauge;

use super::{ApiError, ErrorReason};
use crate::observe::Metrics;

/// Counts a request as long as it, or what it left to be done, lives.
#[derive(Debug, Clone)]
pub struct UnderWay(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    requests: Gauge,
    memory: Gauge,
    /// Of `memory`, what this request holds.
    held: AtomicI64,
}

impl UnderWay {
    /// Counts one more, unless there are `limit` already.
    pub fn begin(metrics: &Metrics, limit: usize) -> Option<Self> {
        let counted = Counted {
            requests: metrics.in_flight.clone(),
            memory: metrics.buffered_bytes.clone(),
            held: AtomicI64::new(0),
        };
        let before = counted.requests.inc();
        (before < whole(limit)).then(|| Self(Arc::new(counted)))
    }

    /// Counts so many more bytes that are held for it until it is over. Whether
    /// all requests together hold no more than `limit`.
    fn hold(&self, bytes: usize, limit: usize) -> bool {
        let bytes = whole(bytes);
        self.0.held.fetch_add(bytes, Ordering::Relaxed);
        let before = self.0.memory.inc_by(bytes);
        before.saturating_add(bytes) <= whole(limit)
    }
}

/// Counts bytes that are held for the request with this head until it is over. It
/// is refused if all requests together hold more than `limit`.
pub fn hold(head: &Parts, bytes: usize, limit: usize) -> Result<(), ApiError> {
    let under_way = head.extensions.get::<UnderWay>();
    if under_way.is_none_or(|it| it.hold(bytes, limit)) {
        return Ok(());
    }
    let message = "too much of requests and answers is held in memory";
    Err(ApiError::new(ErrorReason::Overloaded, message))
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.requests.dec();
        self.memory.dec_by(*self.held.get_mut());
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
