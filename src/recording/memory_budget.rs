//! Memory that exchanges share, from their begin until they are written or evaluated.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of one exchange, as received.
pub(super) const MAX_EXCHANGE_BYTES: usize = 16 * 1024 * 1024;

/// Memory that exchanges share.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    used: AtomicUsize,
    max: usize,
}

/// Bytes of memory of one exchange, which are released when it is dropped.
#[derive(Debug)]
pub struct ReservedBytes {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryBudget {
    pub(super) const fn new(max: usize) -> Self {
        let used = AtomicUsize::new(0);
        Self { used, max }
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl ReservedBytes {
    pub(super) const fn none(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Reserves more bytes. Returns false if they exceed the bounds.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        if self.bytes + more > MAX_EXCHANGE_BYTES {
            return false;
        }
        let used = self.budget.used.fetch_add(more, Ordering::Relaxed) + more;
        self.bytes += more;
        used <= self.budget.max
    }

    /// Releases a part of the bytes.
    pub(super) fn release(&mut self, bytes: usize) {
        let released = bytes.min(self.bytes);
        self.bytes -= released;
        self.budget.used.fetch_sub(released, Ordering::Relaxed);
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_for_one_and_for_all_exchanges() {
        let budget = Arc::new(MemoryBudget::new(4 * MAX_EXCHANGE_BYTES));
        let mut all: Vec<ReservedBytes> = (0..4)
            .map(|_| ReservedBytes::none(Arc::clone(&budget)))
            .collect();

        assert!(all.iter_mut().all(|bytes| bytes.grow(MAX_EXCHANGE_BYTES)));
        assert!(!all[0].grow(1));
        all[0].release(1);
        assert!(all[0].grow(1));
        let mut next = ReservedBytes::none(Arc::clone(&budget));
        assert!(!next.grow(1));
        drop(next);
        all.pop();
        assert!(ReservedBytes::none(Arc::clone(&budget)).grow(1));
        drop(all);
        assert_eq!(budget.used(), 0);
    }
}
