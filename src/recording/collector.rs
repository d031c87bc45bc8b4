//! Selection of exchanges, and their way into a bounded queue.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use prometheus_client::metrics::counter::Counter;

use super::{
    memory_budget::{MemoryBudget, ReservedBytes},
    raw_exchange::CollectedExchange,
};
use crate::{
    config::{RecordSelection, RecordedKind, SampleUnit},
    event::Caller,
    mutex::Mutex,
    sha256::sha256,
};

/// Sessions whose calls are counted.
const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Puts an exchange into a queue without waiting. Returns false if the queue is full or closed.
pub type QueueExchange = dyn Fn(Box<CollectedExchange>) -> bool + Send + Sync;

/// Selects exchanges, and queues them once they have ended.
pub struct ExchangeCollector {
    what: RecordSelection,
    memory: Arc<MemoryBudget>,
    /// Number of calls so far by caller and id of the session.
    places: Mutex<LruCache<(String, String), u64>>,
    queue: Box<QueueExchange>,
    dropped: Counter,
}

impl ExchangeCollector {
    /// A collector of these exchanges, which hold at most `max_bytes`, in flight and until they
    /// are dropped by the reader of the queue. Lost ones are counted in `dropped`.
    pub fn new(
        what: RecordSelection,
        max_bytes: usize,
        queue: Box<QueueExchange>,
        dropped: Counter,
    ) -> Self {
        Self {
            what,
            memory: Arc::new(MemoryBudget::new(max_bytes)),
            places: Mutex::new(LruCache::sparse(MAX_SESSIONS)),
            queue,
            dropped,
        }
    }

    /// Returns whether exchanges of this caller are collected.
    pub fn collects_caller(&self, name: &str) -> bool {
        let callers = self.what.callers.as_ref();
        let has_name = |callers: &Vec<String>| callers.iter().any(|caller| caller == name);
        self.what.sample > 0.0 && callers.is_none_or(has_name)
    }

    /// Returns the bytes that exchanges hold.
    pub fn held_bytes(&self) -> usize {
        self.memory.used()
    }

    /// Returns whether a call is in the sample. Sessions are in it as a whole, and those of
    /// equal id on all replicas.
    pub(super) fn is_sampled(&self, session: &str, request: &str) -> bool {
        let key = match self.what.sessions {
            SampleUnit::Whole if !session.is_empty() => session,
            SampleUnit::Whole | SampleUnit::Calls => request,
        };
        is_in_sample(key, self.what.sample)
    }

    /// Returns whether calls of a session can be in the sample.
    pub(super) fn samples_session(&self, session: &str) -> bool {
        match self.what.sessions {
            SampleUnit::Whole => is_in_sample(session, self.what.sample),
            SampleUnit::Calls => true,
        }
    }

    /// Returns whether an exchange of these kinds is collected.
    pub(super) fn collects(&self, is_kind: impl FnMut(&RecordedKind) -> bool) -> bool {
        self.what.only.iter().any(is_kind)
    }

    /// Returns the number of calls of a session before this one, collected or not.
    pub(super) fn next_place(&self, caller: &Caller, session: &str) -> u64 {
        let mut places = self.places.lock();
        let next = places.get_or_insert_mut((caller.key.clone(), session.to_owned()), || 0);
        *next += 1;
        *next - 1
    }

    pub(super) fn reserve(&self) -> ReservedBytes {
        ReservedBytes::none(Arc::clone(&self.memory))
    }

    /// Queues an exchange, whose memory is reserved; never waits.
    pub(super) fn push(&self, exchange: Box<CollectedExchange>) {
        if !(self.queue)(exchange) {
            self.count_dropped();
        }
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.inc();
    }
}

impl fmt::Debug for ExchangeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeCollector")
            .field("what", &self.what)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

/// Returns whether a key is in a sample of this share. The hash of the key decides.
fn is_in_sample(key: &str, share: f64) -> bool {
    let [a, b, c, d, ..] = sha256(key);
    f64::from(u32::from_be_bytes([a, b, c, d])) < share * f64::from(u32::MAX) || share >= 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_about_its_share_of_all_sessions() {
        let sampled = |share| {
            let keys = (0..10_000).map(|number| format!("session-{number}"));
            keys.filter(|key| is_in_sample(key, share)).count()
        };

        assert!((800..1200).contains(&sampled(0.1)), "{}", sampled(0.1));
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 10_000));
    }
}
