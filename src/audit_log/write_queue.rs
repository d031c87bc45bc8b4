//! Lines that wait to be written.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::config::{AuditMode, Rotation};

/// The most that waits, in bytes. What comes on top of it is dropped and counted.
const MOST: usize = 64 * 1024 * 1024;

/// The most that is written at once, in bytes.
const AT_ONCE: usize = 8 * 1024 * 1024;

/// How long lines wait for others that nobody waits for.
const LINGER: Duration = Duration::from_millis(20);

/// How many waiting bytes are written without further waiting.
const ENOUGH: usize = 256 * 1024;

/// Lines on their way from those who tell to the one who writes.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

/// How lines are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) mode: AuditMode,
    pub(super) rotation: Rotation,
}

#[derive(Debug)]
struct State {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// How many were told so far, dropped ones included.
    told: u64,
    /// How many were dropped behind those that wait.
    dropped: u64,
    /// How many were ever dropped.
    lost: u64,
    /// Somebody waits until so many are written.
    wanted: u64,
    /// How many were handed out to be written, or dropped.
    taken: u64,
    closed: bool,
    manner: Manner,
}

/// Lines to be written together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lines: Vec<Vec<u8>>,
    /// How many lines after these were dropped.
    pub(super) dropped: u64,
    /// How many were told up to here.
    pub(super) until: u64,
    pub(super) manner: Manner,
    /// Whether nothing follows any more.
    pub(super) last: bool,
}

impl Queue {
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            state: Mutex::new(State {
                lines: Vec::new(),
                bytes: 0,
                told: 0,
                dropped: 0,
                lost: 0,
                wanted: 0,
                taken: 0,
                closed: false,
                manner,
            }),
            wake: Condvar::new(),
        }
    }

    /// Adds a line; whether there was room for it.
    pub(super) fn push(&self, line: Vec<u8>) -> bool {
        let mut state = self.state();
        state.told += 1;
        // Behind one that was dropped, the next is dropped too: the gap is one.
        if state.dropped > 0 || state.bytes.saturating_add(line.len()) > MOST {
            state.dropped += 1;
            state.lost += 1;
            return false;
        }
        let (first, before) = (state.lines.is_empty(), state.bytes);
        state.bytes += line.len();
        state.lines.push(line);
        // Whoever writes is woken once to linger, and once when there is enough.
        if first || (before < ENOUGH && state.bytes >= ENOUGH) {
            self.wake.notify_one();
        }
        true
    }

    /// How many lines were ever dropped.
    pub(super) fn lost(&self) -> u64 {
        self.state().lost
    }

    /// Asks for all that was told to be written now. How many that are; `None` if
    /// anything was dropped since `lost` lines were.
    pub(super) fn want(&self, lost: u64) -> Option<u64> {
        let mut state = self.state();
        if state.lost != lost {
            return None;
        }
        state.wanted = state.told;
        self.wake.notify_one();
        Some(state.told)
    }

    /// Lines are written like this from now on.
    pub(super) fn set_manner(&self, manner: Manner) {
        self.state().manner = manner;
    }

    /// Nothing follows.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }

    /// Waits for lines; all that there are go together.
    pub(super) fn take(&self) -> Batch {
        let mut state = self.state();
        let mut since = None;
        loop {
            let urgent = state.wanted > state.taken || state.bytes >= ENOUGH;
            let waiting = !state.lines.is_empty() || state.dropped > 0;
            if state.closed || (waiting && urgent) {
                return state.batch();
            }
            if !waiting {
                state = self.wait(state);
                continue;
            }
            let since = *since.get_or_insert_with(Instant::now);
            let left = LINGER.saturating_sub(since.elapsed());
            if left.is_zero() {
                return state.batch();
            }
            let waited = self.wake.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits, but not if the end has come. Whether it has.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let state = self.state();
        let waited = self.wake.wait_timeout_while(state, time, |it| !it.closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.wake.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn batch(&mut self) -> Batch {
        let mut bytes = 0;
        let fits = |it: &&Vec<u8>| {
            bytes += it.len();
            bytes <= AT_ONCE
        };
        // At least one, however long.
        let count = self.lines.iter().take_while(fits).count().max(1);
        let rest = self.lines.split_off(count.min(self.lines.len()));
        let lines = std::mem::replace(&mut self.lines, rest);
        self.bytes = self.lines.iter().map(Vec::len).sum();
        let dropped = if self.lines.is_empty() {
            std::mem::take(&mut self.dropped)
        } else {
            0
        };
        self.taken += lines.len() as u64 + dropped;
        Batch {
            lines,
            dropped,
            until: self.taken,
            manner: self.manner,
            last: self.closed && self.lines.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(Manner {
            mode: AuditMode::Durable,
            rotation: Rotation { size: 1, keep: 1 },
        })
    }

    #[test]
    fn what_waits_goes_together() {
        let queue = queue();
        assert!(queue.push(b"a".to_vec()) && queue.push(b"b".to_vec()));

        assert_eq!(queue.want(0), Some(2));
        let batch = queue.take();

        assert_eq!(batch.lines, [b"a", b"b"]);
        assert_eq!((batch.until, batch.dropped, batch.last), (2, 0, false));
    }

    #[test]
    fn what_there_is_no_room_for_is_counted_where_it_is_missing() {
        let queue = queue();
        assert!(queue.push(vec![b'x'; MOST]));

        let kept = [queue.push(b"a".to_vec()), queue.push(b"b".to_vec())];

        assert_eq!(kept, [false, false]);
        assert_eq!(queue.want(0), None, "nobody may rely on them");
        let batch = queue.take();
        assert_eq!((batch.lines.len(), batch.dropped, batch.until), (1, 2, 3));
        assert!(queue.push(b"c".to_vec()));
        assert_eq!(queue.want(0), None, "not even when there is room again");
        assert_eq!(queue.want(queue.lost()), Some(4));
    }

    #[test]
    fn a_batch_is_bounded_and_nothing_is_left_behind() {
        let queue = queue();
        for _ in 0..3 {
            queue.push(vec![b'x'; AT_ONCE / 2 + 1]);
        }
        queue.close();

        let batches = [queue.take(), queue.take(), queue.take()];

        let shape = batches.map(|it| (it.lines.len(), it.until, it.last));
        assert_eq!(shape, [(1, 1, false), (1, 2, false), (1, 3, true)]);
    }
}
