//! Reads and verifies a log, line by line and file by file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use serde_json::Value;
use thiserror::Error;

use crate::{
    hash_chain::{ChainHead, GENESIS_HASH, LineLink},
    log_file::{is_locked, rotated_files},
};

/// Length of a line that is read, in bytes; written lines are far shorter.
pub(crate) const MAX_LINE_BYTES: u64 = 128 * 1024 * 1024;

/// One line of a log.
#[derive(Debug)]
pub struct LogLine {
    /// Path of the file.
    pub file: PathBuf,
    /// Line number in the file, from 1.
    pub number: u64,
    /// Content without the line break.
    pub bytes: Vec<u8>,
    /// True if a line break follows. The last line may be incomplete while it is written.
    pub is_complete: bool,
}

/// Result of verifying a log whose chain is intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// Number of verified lines.
    pub lines: u64,
    /// Sequence number of the first line. Above 1, older files were removed.
    pub first_seq: u64,
    /// Hash of the last line.
    pub last_hash: String,
    /// True if a further line was being written.
    pub has_incomplete_line: bool,
}

/// Error of reading or verifying a log.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A line is not the one that was written.
    #[error("{}:{number}: {reason}", file.display())]
    Line {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        number: u64,
        /// Description of the problem with the line.
        reason: String,
    },
    /// A file could not be read.
    #[error("failed to read `{}`: {cause}", file.display())]
    Io {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The log has no lines.
    #[error("`{}` contains no log records", file.display())]
    Empty {
        /// Path of the log.
        file: PathBuf,
    },
}

impl LogLine {
    /// Parses the line as JSON.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Line`] if the line is not JSON.
    pub fn json(&self) -> Result<Value, ReadError> {
        serde_json::from_slice(&self.bytes).map_err(|_| self.error("invalid JSON".to_owned()))
    }

    fn error(&self, reason: String) -> ReadError {
        ReadError::Line {
            file: self.file.clone(),
            number: self.number,
            reason,
        }
    }
}

/// Returns the lines of the log at `path`, rotated files included, oldest first. The
/// chain is not verified.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<LogLine, ReadError>>, ReadError> {
    Ok(log_files(path)?.into_iter().flat_map(file_lines))
}

/// Verifies the hash chain of the log at `path`.
///
/// # Errors
///
/// Returns the first line that breaks the chain, or why the log could not be read.
pub fn verify(path: &Path) -> Result<Verification, ReadError> {
    let mut first_seq = None;
    let (mut head, mut count, mut has_incomplete_line) = (ChainHead::default(), 0, false);
    for line in lines(path)? {
        let line = line?;
        if !line.is_complete && line.file == path && is_locked(path) {
            has_incomplete_line = true;
            break;
        }
        let previous = first_seq.is_some().then_some(&head);
        head = verify_line(&line, previous).map_err(|reason| line.error(reason))?;
        first_seq = first_seq.or(Some(head.seq));
        count += 1;
    }
    let first_seq = first_seq.ok_or_else(|| ReadError::Empty {
        file: path.to_owned(),
    })?;
    Ok(Verification {
        lines: count,
        first_seq,
        last_hash: head.hash,
        has_incomplete_line,
    })
}

/// Checks that a line is intact and follows `previous`; older files may have been
/// removed before the first line.
fn verify_line(line: &LogLine, previous: Option<&ChainHead>) -> Result<ChainHead, String> {
    if !line.is_complete {
        return Err("incomplete line".to_owned());
    }
    let Some(LineLink { head, prev }) = LineLink::parse(&line.bytes) else {
        return Err("hash mismatch: the line was changed".to_owned());
    };
    if serde_json::from_slice::<serde::de::IgnoredAny>(&line.bytes).is_err() {
        return Err("invalid JSON".to_owned());
    }
    let seq = head.seq;
    match previous {
        None if (seq == 1) != (prev == GENESIS_HASH) => {
            Err(format!("line {seq} cannot be the first of a log"))
        }
        Some(previous) if seq != previous.seq + 1 => {
            let expected = previous.seq + 1;
            Err(format!("sequence number {seq}, expected {expected}"))
        }
        Some(previous) if prev != previous.hash => Err(format!(
            "`prev` of line {seq} is not the hash of the previous line"
        )),
        _ => Ok(head),
    }
}

/// Returns the files of a log, oldest first.
pub(crate) fn log_files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = rotated_files(path).map_err(|cause| io_error(path, cause))?;
    // During a rotation the log's own file is missing for a moment.
    if path.exists() || files.is_empty() {
        files.push(path.to_owned());
    }
    Ok(files)
}

fn file_lines(file: PathBuf) -> impl Iterator<Item = Result<LogLine, ReadError>> {
    lines_behind(file, 0, None)
}

/// Returns the lines of a file behind `number` lines, which `reader` has read.
pub(crate) fn lines_behind(
    file: PathBuf,
    mut number: u64,
    mut reader: Option<BufReader<File>>,
) -> impl Iterator<Item = Result<LogLine, ReadError>> {
    let mut has_ended = false;
    std::iter::from_fn(move || {
        if has_ended {
            return None;
        }
        number += 1;
        let line = next_line(&mut reader, &file, number);
        has_ended = !matches!(line, Ok(Some(_)));
        line.map_err(|cause| io_error(&file, cause)).transpose()
    })
}

fn next_line(
    reader: &mut Option<BufReader<File>>,
    file: &Path,
    number: u64,
) -> io::Result<Option<LogLine>> {
    let reader = match reader {
        Some(reader) => reader,
        none => none.insert(BufReader::new(File::open(file)?)),
    };
    let mut bytes = Vec::new();
    let read = reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    let is_complete = bytes.pop_if(|byte| *byte == b'\n').is_some();
    Ok(Some(LogLine {
        file: file.to_owned(),
        number,
        bytes,
        is_complete,
    }))
}

pub(crate) fn io_error(file: &Path, cause: io::Error) -> ReadError {
    let file = file.to_owned();
    ReadError::Io { file, cause }
}
