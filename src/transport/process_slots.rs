//! Limit on concurrent hook processes, shared by all configs. Calls have priority;
//! idle prewarmed processes use free slots and yield them to waiting calls. Proofs do not wait
//! for calls: they use a few slots beyond the limit.

use std::sync::Arc;

use tokio::{
    sync::{Semaphore, watch},
    task::yield_now,
};

use super::error::TransportError;

/// Number of slots in use beyond the limit at which a further proof waits.
const MAX_EXCESS_SLOTS: usize = 8;

/// Slots for hook processes. There are none until [`Self::resize`].
#[derive(Debug)]
pub struct ProcessSlots {
    free: Semaphore,
    demand: watch::Sender<SlotDemand>,
}

/// Demand for slots that are in use.
#[derive(Debug, Default)]
struct SlotDemand {
    /// Configured number of slots.
    total: usize,
    /// Slots in use beyond `total`, after a decrease or for proofs, to be removed when slots are
    /// released.
    excess: usize,
    /// Number of waiting calls.
    waiting: usize,
    /// Slots whose idle process is being ended to release them.
    yielding: usize,
}

/// A slot in use; released when dropped.
#[derive(Debug)]
pub(super) struct SlotPermit {
    slots: Arc<ProcessSlots>,
    is_yielding: bool,
}

impl Default for ProcessSlots {
    fn default() -> Self {
        Self {
            free: Semaphore::new(0),
            demand: watch::Sender::default(),
        }
    }
}

impl ProcessSlots {
    /// Creates slots if there are none yet, for calls before a config is in use.
    pub fn ensure(&self, total: usize) {
        if self.demand.borrow().total == 0 {
            self.resize(total);
        }
    }

    /// Changes the number of slots to `total`. If more are in use, the next released
    /// ones are removed.
    pub fn resize(&self, total: usize) {
        self.demand.send_modify(|demand| {
            let more = total.saturating_sub(demand.total);
            let fewer = demand.total.saturating_sub(total);
            let kept = more.min(demand.excess);
            self.free.add_permits(more - kept);
            let removed = self.free.forget_permits(fewer);
            demand.excess = demand.excess - kept + fewer - removed;
            demand.total = total;
        });
    }

    /// Waits for a slot for a call, first in, first out.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<SlotPermit, TransportError> {
        if let Ok(permit) = self.free.try_acquire() {
            permit.forget();
            return Ok(self.occupy());
        }
        self.demand.send_modify(|demand| demand.waiting += 1);
        let _waiting = WaitingCall(self);
        self.next().await
    }

    /// Returns a slot for a proof: if none is free, one beyond the limit, once fewer than
    /// [`MAX_EXCESS_SLOTS`] are in use.
    pub(super) async fn acquire_for_proof(self: &Arc<Self>) -> SlotPermit {
        let is_available = |demand: &SlotDemand| demand.excess < MAX_EXCESS_SLOTS;
        let mut demands = self.demand.subscribe();
        loop {
            if let Ok(permit) = self.free.try_acquire() {
                permit.forget();
                return self.occupy();
            }
            let has_taken_excess = self.demand.send_if_modified(|demand| {
                let is_available = is_available(demand);
                demand.excess += usize::from(is_available);
                is_available
            });
            if has_taken_excess {
                return self.occupy();
            }
            // The sender lives as long as the slots.
            demands.wait_for(is_available).await.ok();
        }
    }

    /// Waits for a slot for an idle process that no call waits for.
    pub(super) async fn acquire_idle(self: &Arc<Self>) -> Result<SlotPermit, TransportError> {
        loop {
            let permit = self.next().await?;
            if self.demand.borrow().waiting == 0 {
                return Ok(permit);
            }
            // Calls are queued behind it.
            drop(permit);
            yield_now().await;
        }
    }

    async fn next(self: &Arc<Self>) -> Result<SlotPermit, TransportError> {
        let permit = self.free.acquire().await;
        permit.map_err(|_| TransportError::ShuttingDown)?.forget();
        Ok(self.occupy())
    }

    fn occupy(self: &Arc<Self>) -> SlotPermit {
        SlotPermit {
            slots: Arc::clone(self),
            is_yielding: false,
        }
    }
}

impl SlotPermit {
    /// Waits until a call needs this slot. The slot then counts as yielding.
    pub(super) async fn reclaimed(&mut self) {
        let mut demands = self.slots.demand.subscribe();
        let is_needed = |demand: &SlotDemand| demand.waiting + demand.excess > demand.yielding;
        while !self.is_yielding {
            // The sender lives as long as the slot.
            demands.wait_for(is_needed).await.ok();
            self.slots.demand.send_if_modified(|demand| {
                // Another process may have yielded first.
                self.is_yielding = is_needed(demand);
                demand.yielding += usize::from(self.is_yielding);
                false
            });
        }
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        self.slots.demand.send_if_modified(|demand| {
            demand.yielding -= usize::from(self.is_yielding);
            if demand.excess == 0 {
                self.slots.free.add_permits(1);
                return false;
            }
            let was_full = demand.excess == MAX_EXCESS_SLOTS;
            demand.excess -= 1;
            // Wakes proofs that wait for a slot beyond the limit.
            was_full
        });
    }
}

/// Counts a waiting call until it is dropped.
struct WaitingCall<'a>(&'a ProcessSlots);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.demand.send_if_modified(|demand| {
            demand.waiting -= 1;
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn slots(total: usize) -> Arc<ProcessSlots> {
        let slots = Arc::new(ProcessSlots::default());
        slots.resize(total);
        slots
    }

    #[tokio::test]
    async fn a_call_has_priority_over_an_earlier_idle_process() {
        let slots = slots(1);
        let held = slots.acquire().await.unwrap();
        let mut idle = Box::pin(slots.acquire_idle());
        assert!(idle.as_mut().now_or_never().is_none());
        let mut call = Box::pin(slots.acquire());
        assert!(call.as_mut().now_or_never().is_none());

        drop(held);
        assert!(idle.as_mut().now_or_never().is_none());
        let served = call.await.unwrap();
        drop(served);

        assert!(idle.await.is_ok());
    }

    #[tokio::test]
    async fn one_idle_process_yields_for_each_waiting_call() {
        let slots = slots(2);
        let mut one = slots.acquire_idle().await.unwrap();
        let mut other = slots.acquire_idle().await.unwrap();
        assert!(one.reclaimed().now_or_never().is_none());

        let mut call = Box::pin(slots.acquire());
        assert!(call.as_mut().now_or_never().is_none());

        assert!(one.reclaimed().now_or_never().is_some());
        assert!(other.reclaimed().now_or_never().is_none());
        drop(one);
        drop(call.await);
        assert!(other.reclaimed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_dropped_call_needs_no_slot() {
        let slots = slots(1);
        let mut idle = slots.acquire_idle().await.unwrap();
        let mut call = Box::pin(slots.acquire());
        assert!(call.as_mut().now_or_never().is_none());

        drop(call);

        assert!(idle.reclaimed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn removed_slots_disappear_when_they_are_released() {
        let slots = slots(3);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(slots.acquire().await.unwrap());
        }

        slots.resize(1);
        let mut call = Box::pin(slots.acquire());
        assert!(call.as_mut().now_or_never().is_none());
        assert!(held[0].reclaimed().now_or_never().is_some());
        drop(held.pop());
        assert!(call.as_mut().now_or_never().is_none(), "one is removed");
        drop(held.pop());

        let _one = call.await.unwrap();
        assert!(slots.acquire().now_or_never().is_none());
        slots.resize(2);
        assert!(slots.acquire().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_proof_takes_a_slot_beyond_the_limit_once() {
        let slots = slots(1);
        let held = slots.acquire().await.unwrap();
        let mut call = Box::pin(slots.acquire());
        assert!(call.as_mut().now_or_never().is_none());

        let proof = slots.acquire_for_proof().await;
        drop(held);
        assert!(call.as_mut().now_or_never().is_none(), "one is in excess");
        drop(proof);

        let _one = call.await.unwrap();
        assert!(slots.acquire().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_proof_waits_for_a_slot_beyond_the_limit() {
        let slots = slots(1);
        let _held = slots.acquire().await.unwrap();
        let mut proofs = Vec::new();
        for _ in 0..MAX_EXCESS_SLOTS {
            proofs.push(slots.acquire_for_proof().await);
        }
        let mut waiting = Box::pin(slots.acquire_for_proof());
        assert!(waiting.as_mut().now_or_never().is_none());

        drop(proofs.pop());

        assert!(waiting.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn slots_that_are_restored_are_not_removed() {
        let slots = slots(2);
        let held = [
            slots.acquire().await.unwrap(),
            slots.acquire().await.unwrap(),
        ];
        slots.resize(1);

        slots.resize(2);
        drop(held);

        let _one = slots.acquire().await.unwrap();
        assert!(slots.acquire().now_or_never().is_some());
    }
}
