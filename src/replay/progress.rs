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
    bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// Returns the progress as one line: calls, rate, share and time left.
    pub fn line(&self) -> String {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (calls, bytes) = (load(&self.calls), load(&self.bytes));
        let total = load(&self.total_bytes);
        let rate = format!("{calls} calls, {}/s", self.rate());
        let elapsed = self.elapsed().as_secs();
        let left = elapsed.saturating_mul(total.saturating_sub(bytes));
        match (left.checked_div(bytes), (bytes * 100).checked_div(total)) {
            (Some(left), Some(percent)) => format!("{rate}, {percent} %, {left} s left"),
            _ => rate,
        }
    }

    pub(super) fn set_total(&self, bytes: u64) {
        self.total_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
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
