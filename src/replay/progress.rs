//! Progress of a replay.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Progress of a replay, which another thread may read.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    calls: AtomicU64,
    segments_left: AtomicU64,
    segments: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            calls: AtomicU64::new(0),
            segments_left: AtomicU64::new(0),
            segments: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// Returns the progress as one line: calls, rate, share and time left.
    pub fn line(&self) -> String {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (calls, total) = (load(&self.calls), load(&self.segments));
        let unread = load(&self.segments_left);
        let read = total.saturating_sub(unread);
        let rate = format!("{calls} calls, {}/s", self.rate());
        let elapsed = self.elapsed().as_secs();
        let left = elapsed.saturating_mul(unread);
        match (left.checked_div(read), (read * 100).checked_div(total)) {
            (Some(left), Some(percent)) => format!("{rate}, {percent} %, {left} s left"),
            _ => rate,
        }
    }

    /// Sets the number of segments that are not read. The largest one is the number of all.
    pub(super) fn set_segments_left(&self, segments: usize) {
        let segments = segments as u64;
        self.segments.fetch_max(segments, Ordering::Relaxed);
        self.segments_left.store(segments, Ordering::Relaxed);
    }

    pub(super) fn add_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the calls per second so far.
    pub(super) fn rate(&self) -> u64 {
        let calls = u128::from(self.calls.load(Ordering::Relaxed));
        let rate = (calls * 1000).checked_div(self.elapsed().as_millis());
        u64::try_from(rate.unwrap_or(calls)).unwrap_or(u64::MAX)
    }
}

/// Returns the most memory that this process had, in KiB.
pub(super) fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
