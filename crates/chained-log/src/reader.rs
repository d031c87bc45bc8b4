//! Reads and verifies a log, line by line and file by file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
};

use serde_json::Value;
use thiserror::Error;

use crate::{
    hash_chain::{ChainHead, GENESIS_HASH, LineLink},
    log_file::{MAX_LINE_BYTES, first_seq, is_locked, open, rotated_files, rotated_seq},
};

/// Attempts to list the files of a log while it rotates.
const MAX_LIST_ATTEMPTS: usize = 10;

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

/// A file of a log. Rotated files are opened when they are read.
#[derive(Debug)]
pub(crate) struct LogSegment {
    pub(crate) path: PathBuf,
    reader: Option<BufReader<File>>,
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
/// chain is not verified. A rotation meanwhile hides none of the lines that were there;
/// those of a file that it removes are skipped.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<LogLine, ReadError>>, ReadError> {
    let segments = log_segments(path)?.into_iter();
    Ok(segments.flat_map(|segment| segment.lines_behind(0)))
}

/// Verifies the hash chain of the log at `path`.
///
/// # Errors
///
/// Returns the first line that breaks the chain, or why the log could not be read.
pub fn verify(path: &Path) -> Result<Verification, ReadError> {
    verify_lines(path, lines(path)?)
}

fn verify_lines(
    path: &Path,
    lines: impl Iterator<Item = Result<LogLine, ReadError>>,
) -> Result<Verification, ReadError> {
    let mut first_seq = None;
    let (mut head, mut count, mut has_incomplete_line) = (ChainHead::default(), 0, false);
    for line in lines {
        let line = line?;
        if !line.is_complete && line.file == path && is_locked(path) {
            has_incomplete_line = true;
            break;
        }
        let previous = first_seq.is_some().then_some(&head);
        head = match verify_line(&line, previous) {
            Err(_) if is_behind_removed(path, &line, &head) => {
                // A rotation removed the files before it.
                (first_seq, count) = (None, 0);
                verify_line(&line, None)
            }
            verified => verified,
        }
        .map_err(|reason| line.error(reason))?;
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

/// Returns whether the oldest file begins with a line that comes after `head`.
fn is_behind_removed(path: &Path, line: &LogLine, head: &ChainHead) -> bool {
    let oldest = log_segments(path).unwrap_or_default().into_iter().next();
    let oldest = oldest.and_then(|mut segment| segment.first_seq(path).ok()?);
    let seq = LineLink::parse_unchecked(&line.bytes).map(|link| link.head.seq);
    line.number == 1 && seq > Some(head.seq) && seq == oldest
}

/// Checks that a line is intact and follows `previous`; older files may have been
/// removed before the first line.
fn verify_line(line: &LogLine, previous: Option<&ChainHead>) -> Result<ChainHead, String> {
    if !line.is_complete {
        return Err("incomplete line".to_owned());
    }
    let Some(LineLink { head, prev }) = LineLink::parse(&line.bytes) else {
        let is_other_file = line.number == 1 && !line.bytes.starts_with(b"{\"seq\":");
        return Err(if is_other_file {
            "not a line of a log with a hash chain".to_owned()
        } else {
            "hash mismatch: the line was changed".to_owned()
        });
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
pub(crate) fn log_segments(path: &Path) -> Result<Vec<LogSegment>, ReadError> {
    let failed = |cause| io_error(path, cause);
    let mut listed = rotated_files(path).map_err(failed)?;
    let mut active = open(path).map_err(failed)?;
    for _ in 0..MAX_LIST_ATTEMPTS {
        let again = rotated_files(path).map_err(failed)?;
        if again == listed {
            break;
        }
        // A rotation meanwhile has renamed a file that is in no list.
        listed = again;
        active = open(path).map_err(failed)?;
    }
    // During a rotation the log's own file is missing for a moment.
    if active.is_none() && listed.is_empty() {
        let missing = File::open(path).err();
        return Err(failed(
            missing.unwrap_or_else(|| ErrorKind::NotFound.into()),
        ));
    }
    let segment = |path, reader| LogSegment { path, reader };
    let rotated = listed.into_iter().map(|file| segment(file, None));
    let active = active.map(|file| segment(path.to_owned(), Some(BufReader::new(file))));
    Ok(rotated.chain(active).collect())
}

impl LogSegment {
    /// Returns the reader of the file; `None` if a rotation has removed the file.
    pub(crate) fn reader(&mut self) -> io::Result<Option<&mut BufReader<File>>> {
        if self.reader.is_none() {
            self.reader = open(&self.path)?.map(BufReader::new);
        }
        Ok(self.reader.as_mut())
    }

    /// Returns the sequence number of its first line; `None` if the log's own file has no
    /// intact line.
    pub(crate) fn first_seq(&mut self, log: &Path) -> io::Result<Option<u64>> {
        let names = self.path.file_name().zip(log.file_name());
        match names.and_then(|(name, log)| rotated_seq(name, log)) {
            Some(seq) => Ok(Some(seq)),
            None => match self.reader()? {
                Some(reader) => first_seq(reader.get_ref()),
                None => Ok(None),
            },
        }
    }

    /// Returns the lines of the file behind `number` lines, which were read.
    pub(crate) fn lines_behind(
        mut self,
        mut number: u64,
    ) -> impl Iterator<Item = Result<LogLine, ReadError>> {
        let mut has_ended = false;
        std::iter::from_fn(move || {
            if has_ended {
                return None;
            }
            number += 1;
            let line = self.next_line(number);
            has_ended = !matches!(line, Ok(Some(_)));
            line.map_err(|cause| io_error(&self.path, cause))
                .transpose()
        })
    }

    fn next_line(&mut self, number: u64) -> io::Result<Option<LogLine>> {
        let Some(reader) = self.reader()? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let read = reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        let is_complete = bytes.pop_if(|byte| *byte == b'\n').is_some();
        Ok(Some(LogLine {
            file: self.path.clone(),
            number,
            bytes,
            is_complete,
        }))
    }
}

pub(crate) fn io_error(file: &Path, cause: io::Error) -> ReadError {
    let file = file.to_owned();
    ReadError::Io { file, cause }
}

#[cfg(test)]
mod tests {
    use std::{fs, iter};

    use tempfile::TempDir;

    use super::*;
    use crate::log_file::rotated_path;

    /// Appends three lines to the log.
    fn append(path: &Path, head: &mut ChainHead) {
        let mut bytes = fs::read(path).unwrap_or_default();
        for _ in 0..3 {
            head.append_line(&mut bytes, b"\"a\":1");
        }
        fs::write(path, bytes).unwrap();
    }

    fn rotate(path: &Path, first_seq: u64) {
        fs::rename(path, rotated_path(path, first_seq)).unwrap();
    }

    /// A log of nine lines in three files.
    fn log() -> (TempDir, PathBuf, ChainHead) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("log");
        let mut head = ChainHead::default();
        for first_seq in [1, 4] {
            append(&path, &mut head);
            rotate(&path, first_seq);
        }
        append(&path, &mut head);
        (folder, path, head)
    }

    #[test]
    fn a_log_that_rotates_while_it_is_read_is_intact() {
        let (_folder, path, mut head) = log();

        let lines = lines(&path).unwrap();
        rotate(&path, 7);
        append(&path, &mut head);
        let verified = verify_lines(&path, lines).unwrap();

        assert_eq!((verified.first_seq, verified.lines), (1, 9));
        assert_eq!(verify(&path).unwrap().lines, 12);
    }

    #[test]
    fn files_that_a_rotation_removes_while_they_are_read_are_no_gap() {
        let (_folder, path, _) = log();

        let mut lines = lines(&path).unwrap();
        let first = lines.next();
        for first_seq in [1, 4] {
            fs::remove_file(rotated_path(&path, first_seq)).unwrap();
        }
        rotate(&path, 7);
        let verified = verify_lines(&path, iter::chain(first, lines)).unwrap();

        assert_eq!((verified.first_seq, verified.lines), (7, 3));
    }

    #[test]
    fn a_missing_file_between_others_breaks_the_chain() {
        let (_folder, path, _) = log();
        fs::remove_file(rotated_path(&path, 4)).unwrap();

        let error = verify(&path).unwrap_err();

        assert!(error.to_string().contains("expected 4"), "{error}");
    }

    #[test]
    fn a_repeated_first_line_breaks_the_chain() {
        let (_folder, path, _) = log();
        let oldest = rotated_path(&path, 1);
        let text = fs::read_to_string(&oldest).unwrap();
        let first = text.lines().next().unwrap();

        for changed in [format!("{first}\n{text}"), format!("{text}{text}")] {
            fs::write(&oldest, changed).unwrap();
            let error = verify(&path).unwrap_err();
            assert!(error.to_string().contains("sequence number"), "{error}");
        }
    }
}
