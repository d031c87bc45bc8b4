//! The last records, oldest first.

use std::{
    collections::VecDeque,
    iter,
    sync::{Arc, MutexGuard},
};

use crate::{
    mutex::Mutex,
    observe::trace::{record::CallRecord, store::memory::TraceMemory},
    timestamp::now_us,
};

/// Records that are read at once.
const BATCH_RECORDS: usize = 256;

/// The last records, oldest first, within a number and the memory bound.
#[derive(Debug)]
pub(crate) struct RecordRing {
    memory: Arc<TraceMemory>,
    state: Mutex<RingState>,
}

#[derive(Debug)]
pub(crate) struct RingState {
    records: VecDeque<Arc<CallRecord>>,
    max_records: usize,
    /// Position in front of the first record: the time of the start in microseconds, which is
    /// behind all positions of earlier processes.
    start: u64,
    /// Sequence number of the next record.
    next_seq: u64,
}

impl RecordRing {
    pub(crate) fn new(memory: Arc<TraceMemory>) -> Self {
        let start = now_us();
        Self {
            memory,
            state: Mutex::new(RingState {
                records: VecDeque::new(),
                max_records: 0,
                start,
                next_seq: start + 1,
            }),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RingState> {
        self.state.lock()
    }

    /// Returns the last record.
    pub(crate) fn last(&self) -> Option<Arc<CallRecord>> {
        self.state().records.back().cloned()
    }

    /// Sets the maximum number of records, and evicts those beyond it.
    pub(crate) fn resize(&self, max_records: usize) {
        self.state().max_records = max_records;
        while self.state().records.len() > max_records {
            self.evict_oldest();
        }
    }

    /// Records after this sequence number, oldest first, as [`Self::before`].
    pub(crate) fn after(&self, seq: u64) -> impl Iterator<Item = Arc<CallRecord>> {
        self.batches(seq, |state, seq| {
            state.after(seq).take(BATCH_RECORDS).cloned().collect()
        })
    }

    /// Records before this sequence number, newest first. The ring is locked for each batch of
    /// them only, since calls that end wait for it.
    pub(crate) fn before(&self, seq: u64) -> impl Iterator<Item = Arc<CallRecord>> {
        self.batches(seq, |state, seq| {
            state.before(seq).take(BATCH_RECORDS).cloned().collect()
        })
    }

    /// Records of all batches until an empty one. Each begins behind the last record before it.
    fn batches(
        &self,
        mut seq: u64,
        next: impl Fn(&RingState, u64) -> Vec<Arc<CallRecord>>,
    ) -> impl Iterator<Item = Arc<CallRecord>> {
        let batches = iter::from_fn(move || {
            let batch = next(&self.state(), seq);
            seq = batch.last()?.seq;
            Some(batch)
        });
        batches.flatten()
    }

    /// Adds a record, whose bytes are counted already. Returns its sequence number, or `None` if
    /// no record is kept.
    pub(crate) fn push(&self, mut record: CallRecord) -> Option<u64> {
        let bytes = record.bytes();
        let mut state = self.state();
        if state.max_records == 0 {
            self.memory.release(bytes);
            return None;
        }
        let evicted = if state.records.len() >= state.max_records {
            state.records.pop_front()
        } else {
            None
        };
        record.head.seq = state.next_seq;
        state.next_seq += 1;
        let seq = record.seq;
        state.records.push_back(Arc::new(record));
        drop(state);
        self.release(evicted);
        Some(seq)
    }

    /// Evicts the oldest record. Returns `false` if there is none.
    pub(crate) fn evict_oldest(&self) -> bool {
        let evicted = self.state().records.pop_front();
        let is_evicted = evicted.is_some();
        self.release(evicted);
        is_evicted
    }

    fn release(&self, evicted: Option<Arc<CallRecord>>) {
        if let Some(record) = evicted {
            self.memory.release(record.bytes());
        }
    }
}

impl RingState {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Position in front of the first record of this process.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Sequence number of the last record; the start before the first.
    pub(crate) const fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// Sequence number of the oldest record; of the next one if there are none.
    pub(crate) fn first_seq(&self) -> u64 {
        self.records
            .front()
            .map_or(self.next_seq, |record| record.seq)
    }

    /// Records after this sequence number, oldest first.
    pub(crate) fn after(&self, seq: u64) -> impl Iterator<Item = &Arc<CallRecord>> {
        self.records.range(self.index_after(seq)..)
    }

    /// Records before this sequence number, newest first.
    pub(crate) fn before(&self, seq: u64) -> impl Iterator<Item = &Arc<CallRecord>> {
        let end = self.index_after(seq.saturating_sub(1));
        self.records.range(..end).rev()
    }

    /// Position of the first record after this sequence number. They are consecutive.
    fn index_after(&self, seq: u64) -> usize {
        let offset = (seq + 1).saturating_sub(self.first_seq());
        usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.records.len())
    }
}
