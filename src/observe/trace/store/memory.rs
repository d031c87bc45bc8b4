//! The memory bound of the trace: what is kept and what is in flight share one limit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes by which an exchange in flight grows. The counters are shared by all exchanges, so they
/// are not changed for each detail.
const GROWTH_BYTES: usize = 512;

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
    /// The bytes that are counted: at least `bytes`.
    counted: usize,
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
        Self {
            memory,
            bytes: 0,
            counted: 0,
        }
    }

    /// Adds bytes; `false` if they do not fit, even after `make_space` has evicted all it can.
    pub(crate) fn grow(&mut self, bytes: usize, make_space: &dyn Fn() -> bool) -> bool {
        let total = self.bytes + bytes;
        if let Some(more) = total.checked_sub(self.counted).filter(|more| *more > 0) {
            let more = more.next_multiple_of(GROWTH_BYTES);
            if !self.memory.try_add_in_flight(more, make_space) {
                return false;
            }
            self.counted += more;
        }
        self.bytes = total;
        true
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for InFlightBytes {
    fn drop(&mut self) {
        self.memory.release(self.counted);
        self.memory
            .in_flight
            .fetch_sub(self.counted, Ordering::Relaxed);
    }
}

fn add_up_to(counter: &AtomicUsize, bytes: usize, limit: usize) -> bool {
    let add = |count: usize| count.checked_add(bytes).filter(|sum| *sum <= limit);
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
        .is_ok()
}
