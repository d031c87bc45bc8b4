//! Live subscriptions. A subscriber reads the ring itself, so a slow one holds no memory and
//! delays no call; it loses the records that are evicted before it reads them.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, task::yield_now, time::sleep};

use crate::observe::{
    metrics::Metrics,
    trace::{filter::TraceFilter, record::CallRecord, store::ring::RecordRing},
};

/// Records of one batch.
const MAX_BATCH: usize = 100;

/// Records that are searched for one batch.
const MAX_SCANNED: usize = 1000;

/// Time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A subscription to the records that finish and match a filter.
#[derive(Debug)]
pub struct TraceSubscription {
    ring: Arc<RecordRing>,
    newest: watch::Receiver<u64>,
    filter: TraceFilter,
    /// Sequence number of the last record that was searched.
    position: u64,
    metrics: Arc<Metrics>,
}

/// Records that finished since the last batch.
#[derive(Debug, Default)]
pub struct TraceBatch {
    /// Records that match, oldest first.
    pub calls: Vec<Arc<CallRecord>>,
    /// Number of records, matching or not, that were evicted before they were read.
    pub lost: u64,
}

impl TraceSubscription {
    pub(crate) fn new(
        ring: Arc<RecordRing>,
        newest: watch::Receiver<u64>,
        filter: TraceFilter,
        position: u64,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            ring,
            newest,
            filter,
            position,
            metrics,
        }
    }

    /// Waits for the next batch that is not empty. Returns `None` when the trace is dropped.
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<TraceBatch> {
        loop {
            self.newest.borrow_and_update();
            let batch = self.take();
            if !batch.calls.is_empty() || batch.lost > 0 {
                return Some(batch);
            }
            if self.is_behind() {
                yield_now().await;
                continue;
            }
            if self.newest.changed().await.is_err() {
                return None;
            }
            // Records of busy gateways are read together.
            sleep(BATCH_INTERVAL).await;
        }
    }

    /// Returns the sequence number of the last record that was searched, behind which another
    /// subscription can continue.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Returns whether there are records that were not searched.
    fn is_behind(&self) -> bool {
        self.position < self.ring.state().last_seq()
    }

    /// Returns what has finished since the last batch, without waiting.
    pub fn take(&mut self) -> TraceBatch {
        let mut batch = TraceBatch::default();
        let first_seq = self.ring.state().first_seq();
        batch.lost = first_seq.saturating_sub(self.position + 1);
        let mut position = self.position + batch.lost;
        for record in self.ring.after(position).take(MAX_SCANNED) {
            // Others may be evicted before they are read.
            batch.lost += record.seq - position - 1;
            position = record.seq;
            if self.filter.matches(&record) {
                batch.calls.push(record);
                if batch.calls.len() == MAX_BATCH {
                    break;
                }
            }
        }
        self.position = position;
        self.metrics.trace_lost_rows.inc_by(batch.lost);
        batch
    }
}
