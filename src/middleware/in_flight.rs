//! Limits on concurrent requests and on the memory that they hold.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use http::request::Parts;
use prometheus_client::metrics::gauge::Gauge;

use crate::{
    error::{ApiError, ErrorReason},
    observe::Metrics,
};

/// Counts a request as in flight until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct InFlightGuard(Arc<InFlightRequest>);

#[derive(Debug)]
struct InFlightRequest {
    requests: Gauge,
    memory: Gauge,
    /// Bytes of `memory` that belong to this request.
    reserved: AtomicI64,
}

impl InFlightGuard {
    /// Counts one more request. Returns `None` if there are `limit` already.
    pub fn enter(metrics: &Metrics, limit: usize) -> Option<Self> {
        let request = InFlightRequest {
            requests: metrics.in_flight.clone(),
            memory: metrics.buffered_bytes.clone(),
            reserved: AtomicI64::new(0),
        };
        let before = request.requests.inc();
        (before < to_i64(limit)).then(|| Self(Arc::new(request)))
    }

    /// Adds to the request's memory. Returns whether all requests together stay within
    /// `limit` bytes.
    fn reserve(&self, bytes: usize, limit: usize) -> bool {
        let bytes = to_i64(bytes);
        self.0.reserved.fetch_add(bytes, Ordering::Relaxed);
        let before = self.0.memory.inc_by(bytes);
        before.saturating_add(bytes) <= to_i64(limit)
    }
}

/// Counts bytes that are buffered for a request until it ends.
///
/// # Errors
///
/// Returns an error if all requests together exceed `limit` bytes.
pub fn reserve_memory(head: &Parts, bytes: usize, limit: usize) -> Result<(), ApiError> {
    let guard = head.extensions.get::<InFlightGuard>();
    if guard.is_none_or(|guard| guard.reserve(bytes, limit)) {
        return Ok(());
    }
    let message = "memory limit for buffered requests and responses exceeded";
    Err(ApiError::new(ErrorReason::Overloaded, message))
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.requests.dec();
        self.memory.dec_by(*self.reserved.get_mut());
    }
}

fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
