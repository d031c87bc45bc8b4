//! Interface through which a log reports what happens to it.

use std::io;

use serde::Serialize;

use crate::hash_chain::ChainHead;

/// Something that the log itself writes a line about. Its JSON has the variant as `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogNotice {
    /// The file ended with incomplete lines, which were moved to another file.
    Repaired {
        /// Number of bytes that were moved.
        bytes: u64,
        /// Name of the file to which they were moved.
        file: String,
    },
    /// The file had been removed and was created anew.
    Recreated,
    /// Lines are missing here, because the queue was full.
    Dropped {
        /// Number of missing lines.
        lines: u64,
    },
    /// Writing ended in an orderly way.
    Stop,
}

/// Something that happened to the lines of a log.
#[derive(Debug)]
pub enum LogEvent<'a> {
    /// Incomplete lines at the end of the file were moved aside.
    Repaired {
        /// Number of bytes that were moved.
        bytes: u64,
    },
    /// A batch was written, and synced with [`crate::Durability::Synced`].
    Written {
        /// Number of lines, notices included.
        lines: u64,
    },
    /// A line was dropped, because the queue is full.
    Dropped,
    /// A write failed, as the first one since the start or since a success; or no line was written
    /// within the timeout of a commit. Further failed writes are not reported until lines are
    /// written.
    Failed {
        /// Error of the operating system, or [`io::ErrorKind::TimedOut`].
        error: &'a io::Error,
    },
    /// A write succeeded after one that failed.
    Recovered,
    /// The log was closed, and its last lines could not be written.
    Lost {
        /// Number of lines that are not in the file.
        lines: u64,
    },
}

/// Writes a log's own lines and observes what happens to it.
pub trait LogObserver: Send + Sync {
    /// Returns the fields of the line about a notice: a JSON object without its braces.
    fn line(&self, notice: &LogNotice) -> Vec<u8>;

    /// Observes an event. Must not block.
    fn record(&self, event: LogEvent<'_>);

    /// Receives lines as they are in the file, each with its line break, once they are
    /// written and, with [`crate::Durability::Synced`], on disk. `head` is the last of
    /// them. Must not block; commits of these lines do not wait for it.
    fn written(&self, _lines: &[u8], _head: &ChainHead) {}
}
