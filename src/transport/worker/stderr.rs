//! What a worker writes to stderr: into the log, as long as it is not too much.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::ChildStderr,
    time::Instant,
};

/// The longest piece of a line, in bytes.
const LONGEST: u64 = 1024;

/// How many lines are logged in one span; others are left out.
const MOST: u32 = 20;
const SPAN: Duration = Duration::from_secs(1);

/// Logs lines until stderr is closed.
pub(super) async fn lines(stderr: ChildStderr, hook: &str) {
    let mut stderr = BufReader::new(stderr);
    let mut bytes = Vec::new();
    let (mut started, mut logged, mut left_out) = (Instant::now(), 0, 0);
    loop {
        bytes.clear();
        let mut piece = (&mut stderr).take(LONGEST);
        if !matches!(piece.read_until(b'\n', &mut bytes).await, Ok(1..)) {
            return;
        }
        if started.elapsed() >= SPAN {
            (started, logged) = (Instant::now(), 0);
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end();
        if line.is_empty() {
            continue;
        }
        if logged == MOST {
            left_out += 1;
            continue;
        }
        tracing::warn!(
            hook.name = hook,
            line,
            suppressed = left_out,
            "worker stderr"
        );
        (logged, left_out) = (logged + 1, 0);
    }
}
