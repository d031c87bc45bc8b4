//! Log output: level filter, line formats, and the thread that writes lines.

use std::{
    env,
    io::{self, BufWriter, Write},
    thread,
    time::Duration,
};

use thiserror::Error;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::log_format::{TextFields, UtcTime};
use crate::config::LogLineFormat;

/// Time during which the writer collects lines after each write: under load, many lines share one
/// system call. A killed process loses the lines of at most this time.
const BATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Lines that may wait for the writer thread. With more, logging blocks: a slow reader
/// loses no line.
const MAX_QUEUED_LINES: usize = 4096;

/// Environment variable with a log filter.
const FILTER_VARIABLE: &str = "HOOKGATE_LOG";

/// Target of hookgate's own lines.
const TARGET: &str = "hookgate";

/// Filter of the TLS verifier, whose lines repeat the cause of failed calls.
const VERIFIER_FILTER: &str = "rustls_platform_verifier=off";

/// Keeps the log open. Dropping it writes the lines that are queued; it waits for a
/// blocked `target` for at most about a second.
#[derive(Debug)]
#[must_use = "dropping the guard ends logging"]
pub struct LogGuard(#[expect(dead_code, reason = "held for its `Drop`")] WorkerGuard);

/// The log filter cannot be read.
#[derive(Debug, Error)]
#[error(
    "`{FILTER_VARIABLE}` is not a log filter: `{0}`; use `error`, `warn`, `info`, `debug`, `trace` or `off`, or a target with a level such as `hookgate=debug`"
)]
pub struct InvalidFilter(String);

/// Starts logging to `target`, from a thread of its own. `level` is a `tracing` filter
/// such as `info` or `hookgate=debug`; the environment variable `HOOKGATE_LOG` takes
/// precedence unless it is empty. A second call changes nothing.
///
/// # Errors
///
/// Fails if the filter is invalid.
pub fn init(
    format: LogLineFormat,
    level: &str,
    target: impl Write + Send + 'static,
) -> Result<LogGuard, InvalidFilter> {
    let variable = env::var_os(FILTER_VARIABLE).unwrap_or_default();
    let filter = match variable.to_string_lossy().trim() {
        // An empty filter would log errors only; container tools set unset variables to nothing.
        "" => parse_filter(level)?,
        filter => parse_filter(filter)?,
    };
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(MAX_QUEUED_LINES)
        .thread_name("log")
        .finish(BatchWriter(BufWriter::new(target)));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_timer(UtcTime)
        .with_writer(writer);
    let _already_set = match format {
        LogLineFormat::Text => builder
            .fmt_fields(TextFields)
            .with_ansi(false)
            .with_target(false)
            .try_init(),
        LogLineFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(LogGuard(guard))
}

/// Parses a filter. A word without a level is a level or a target of hookgate: as another target,
/// a misspelled level would log nothing.
fn parse_filter(text: &str) -> Result<EnvFilter, InvalidFilter> {
    let is_target = |word: &str| word == TARGET || word.starts_with(&format!("{TARGET}::"));
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_known =
        |word: &&str| word.contains(['=', '[', ']']) || is_target(word) || is_level(word);
    let is_valid = words.iter().all(is_known);
    // Later words take precedence.
    let filters = format!("{VERIFIER_FILTER},{}", words.join(","));
    let filter = is_valid.then(|| EnvFilter::try_new(filters).ok());
    filter
        .flatten()
        .ok_or_else(|| InvalidFilter(text.to_owned()))
}

/// Writer that waits for [`BATCH_INTERVAL`] after each flush. The appender flushes
/// whenever its queue is empty, so the queue fills meanwhile.
struct BatchWriter<W: Write>(BufWriter<W>);

impl<W: Write> Write for BatchWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        thread::sleep(BATCH_INTERVAL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// Target that counts writes and keeps what was written.
    #[derive(Clone, Default)]
    struct Target {
        writes: Arc<AtomicUsize>,
        bytes: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Target {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.bytes.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_and_in_batches_before_the_guard_is_dropped() {
        let target = Target::default();
        let (writer, guard) = NonBlockingBuilder::default()
            .lossy(false)
            .buffered_lines_limit(16)
            .finish(BatchWriter(BufWriter::new(target.clone())));

        for number in 0..1000 {
            writeln!(&mut writer.clone(), "{number}").unwrap();
        }
        drop(guard);

        let written = String::from_utf8(target.bytes.lock().unwrap().clone()).unwrap();
        let numbers: Vec<usize> = written.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        assert!(target.writes.load(Ordering::Relaxed) < 500);
    }
}
