//! Bounded queue of lines between requests and the writer thread.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::write_options::WriteOptions;

/// Bytes that may be queued. Lines that exceed them are dropped and counted.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that are written at once, unless a single line is longer.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Time for which queued lines wait for more, unless a commit waits for them.
const LINGER_TIMEOUT: Duration = Duration::from_millis(20);

/// Queued bytes that are written without waiting for [`LINGER_TIMEOUT`].
const FULL_BATCH_BYTES: usize = 256 * 1024;

/// Queue of lines for the writer thread.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    state: Mutex<QueueState>,
    wake: Condvar,
}

#[derive(Debug)]
struct QueueState {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// Lines pushed so far, dropped ones included.
    pushed: u64,
    /// Lines dropped after those that are queued.
    dropped_after: u64,
    /// Lines dropped so far.
    dropped_total: u64,
    /// A commit waits until this number of pushed lines is written.
    commit_target: u64,
    /// Pushed lines that were handed to the writer, or dropped.
    taken: u64,
    is_closed: bool,
    options: WriteOptions,
}

/// Lines that are written together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) lines: Vec<Vec<u8>>,
    /// Lines that were dropped after these.
    pub(crate) dropped: u64,
    /// Number of pushed lines up to the end of this batch.
    pub(crate) position: u64,
    pub(crate) options: WriteOptions,
    /// True if no further batch follows.
    pub(crate) is_last: bool,
}

impl WriteQueue {
    pub(crate) fn new(options: WriteOptions) -> Self {
        Self {
            state: Mutex::new(QueueState {
                lines: Vec::new(),
                bytes: 0,
                pushed: 0,
                dropped_after: 0,
                dropped_total: 0,
                commit_target: 0,
                taken: 0,
                is_closed: false,
                options,
            }),
            wake: Condvar::new(),
        }
    }

    /// Adds a line; returns `false` if it was dropped.
    pub(crate) fn push(&self, line: Vec<u8>) -> bool {
        let mut state = self.state();
        state.pushed += 1;
        // Lines after a dropped one are dropped too, so that there is one gap.
        if state.dropped_after > 0 || state.bytes.saturating_add(line.len()) > MAX_QUEUED_BYTES {
            state.dropped_after += 1;
            state.dropped_total += 1;
            return false;
        }
        let (is_first, bytes_before) = (state.lines.is_empty(), state.bytes);
        state.bytes += line.len();
        state.lines.push(line);
        // The writer is woken to linger, and again when the batch is full.
        if is_first || (bytes_before < FULL_BATCH_BYTES && state.bytes >= FULL_BATCH_BYTES) {
            self.wake.notify_one();
        }
        true
    }

    /// Returns the number of lines dropped so far.
    pub(crate) fn dropped_total(&self) -> u64 {
        self.state().dropped_total
    }

    /// Requests that all pushed lines are written now and returns their number; `None`
    /// if lines were dropped since `dropped_total` was read.
    pub(crate) fn request_commit(&self, dropped_total: u64) -> Option<u64> {
        let mut state = self.state();
        if state.dropped_total != dropped_total {
            return None;
        }
        state.commit_target = state.pushed;
        self.wake.notify_one();
        Some(state.pushed)
    }

    /// Sets how lines are written from now on.
    pub(crate) fn set_options(&self, options: WriteOptions) {
        self.state().options = options;
    }

    /// Ends the queue after the lines that were pushed.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_one();
    }

    /// Waits for lines and returns them as a batch.
    pub(crate) fn take(&self) -> Batch {
        let mut state = self.state();
        let mut first_seen = None;
        loop {
            let is_urgent = state.commit_target > state.taken || state.bytes >= FULL_BATCH_BYTES;
            let is_filled = !state.lines.is_empty() || state.dropped_after > 0;
            if state.is_closed || (is_filled && is_urgent) {
                return state.take_batch();
            }
            if !is_filled {
                let woken = self.wake.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let first_seen = *first_seen.get_or_insert_with(Instant::now);
            let linger = LINGER_TIMEOUT.saturating_sub(first_seen.elapsed());
            if linger.is_zero() {
                return state.take_batch();
            }
            let woken = self.wake.wait_timeout(state, linger);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes all lines that are queued, and returns their number.
    pub(crate) fn take_all(&self) -> usize {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.lines).len()
    }

    /// Waits for `duration`, or until the queue is closed; returns whether it is.
    pub(crate) fn wait_for_close(&self, duration: Duration) -> bool {
        let state = self.state();
        let woken = self
            .wake
            .wait_timeout_while(state, duration, |state| !state.is_closed);
        woken.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn take_batch(&mut self) -> Batch {
        let mut bytes = 0;
        let fits = |line: &&Vec<u8>| {
            bytes += line.len();
            bytes <= MAX_BATCH_BYTES
        };
        let count = self.lines.iter().take_while(fits).count().max(1);
        let rest = self.lines.split_off(count.min(self.lines.len()));
        let lines = std::mem::replace(&mut self.lines, rest);
        self.bytes = self.lines.iter().map(Vec::len).sum();
        let dropped = if self.lines.is_empty() {
            std::mem::take(&mut self.dropped_after)
        } else {
            0
        };
        self.taken += lines.len() as u64 + dropped;
        Batch {
            lines,
            dropped,
            position: self.taken,
            options: self.options,
            is_last: self.is_closed && self.lines.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> WriteQueue {
        WriteQueue::new(WriteOptions::default())
    }

    #[test]
    fn queued_lines_are_taken_together() {
        let queue = queue();
        assert!(queue.push(b"a".to_vec()) && queue.push(b"b".to_vec()));

        assert_eq!(queue.request_commit(0), Some(2));
        let batch = queue.take();

        assert_eq!(batch.lines, [b"a", b"b"]);
        assert_eq!(
            (batch.position, batch.dropped, batch.is_last),
            (2, 0, false)
        );
    }

    #[test]
    fn dropped_lines_are_counted_at_their_position_and_fail_commits() {
        let queue = queue();
        assert!(queue.push(vec![b'x'; MAX_QUEUED_BYTES]));

        let queued = [queue.push(b"a".to_vec()), queue.push(b"b".to_vec())];

        assert_eq!(queued, [false, false]);
        assert_eq!(queue.request_commit(0), None);
        let batch = queue.take();
        assert_eq!(
            (batch.lines.len(), batch.dropped, batch.position),
            (1, 2, 3)
        );
        assert!(queue.push(b"c".to_vec()));
        assert_eq!(queue.request_commit(0), None, "the gap remains");
        assert_eq!(queue.request_commit(queue.dropped_total()), Some(4));
    }

    #[test]
    fn a_batch_is_bounded_and_all_lines_are_taken() {
        let queue = queue();
        for _ in 0..3 {
            queue.push(vec![b'x'; MAX_BATCH_BYTES / 2 + 1]);
        }
        queue.close();

        let batches = [queue.take(), queue.take(), queue.take()];

        let shapes = batches.map(|batch| (batch.lines.len(), batch.position, batch.is_last));
        assert_eq!(shapes, [(1, 1, false), (1, 2, false), (1, 3, true)]);
    }
}
