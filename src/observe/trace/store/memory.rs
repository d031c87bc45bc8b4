//! The memory bound of the trace: what is kept and what is in flight share one limit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of records, of rules, and of exchanges in flight. Never above the limit.
#[derive(Debug)]
pub(crate) struct TraceMemory {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// The part of `used` that exchanges in flight hold; at most half of the limit.
    in_flight: AtomicUsize,
}

/// Bytes that an exchange in flight holds. They are released when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightBytes {
    memory: Arc<TraceMemory>,
    bytes: usize,
}

impl TraceMemory {
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit. Bytes beyond it must be released by the caller.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that exchanges in flight hold.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Adds bytes; `false` if they do not fit.
    pub(crate) fn try_add(&self, bytes: usize) -> bool {
        add_up_to(&self.used, bytes, self.limit())
    }

    /// Releases bytes that were added.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn try_add_in_flight(&self, bytes: usize, make_space: &dyn Fn() -> bool) -> bool {
        if !add_up_to(&self.in_flight, bytes, self.limit() / 2) {
            return false;
        }
        while !self.try_add(bytes) {
            if !make_space() {
                self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
                return false;
            }
        }
        true
    }
}

impl InFlightBytes {
    pub(crate) const fn none(memory: Arc<TraceMemory>) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Adds bytes; `false` if they do not fit, even after `make_space` has evicted all it can.
    pub(crate) fn grow(&mut self, bytes: usize, make_space: &dyn Fn() -> bool) -> bool {
        let fits = self.memory.try_add_in_flight(bytes, make_space);
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for InFlightBytes {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
        self.memory
            .in_flight
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn add_up_to(counter: &AtomicUsize, bytes: usize, limit: usize) -> bool {
    let add = |count: usize| count.checked_add(bytes).filter(|sum| *sum <= limit);
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
        .is_ok()
}
