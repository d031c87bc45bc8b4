//! Logs the standard error of a worker, within a rate limit.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::ChildStderr,
    time::Instant,
};

/// Length at which a line is split.
const MAX_LINE_BYTES: u64 = 1024;

/// Number of lines that are logged in each interval; others are suppressed.
const MAX_LINES_PER_INTERVAL: u32 = 20;
const LINE_LIMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Logs lines until stderr is closed.
pub(super) async fn log_lines(stderr: ChildStderr, hook: &str) {
    let mut stderr = BufReader::new(stderr);
    let mut bytes = Vec::new();
    let (mut started, mut logged, mut suppressed) = (Instant::now(), 0, 0_u64);
    loop {
        bytes.clear();
        let mut part = (&mut stderr).take(MAX_LINE_BYTES);
        if !matches!(part.read_until(b'\n', &mut bytes).await, Ok(1..)) {
            return;
        }
        if started.elapsed() >= LINE_LIMIT_INTERVAL {
            (started, logged) = (Instant::now(), 0);
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end();
        if line.is_empty() {
            continue;
        }
        if logged == MAX_LINES_PER_INTERVAL {
            suppressed += 1;
            continue;
        }
        tracing::warn!(hook.name = hook, line, suppressed, "worker stderr");
        (logged, suppressed) = (logged + 1, 0);
    }
}
