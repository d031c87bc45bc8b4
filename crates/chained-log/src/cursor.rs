//! Reads a log in batches from a position that outlives rotation and restarts.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    hash_chain::LineLink,
    log_file::{first_seq, open, rotated_path, segment_seqs},
    reader::MAX_LINE_BYTES,
};

/// Attempts to list the files of a log while it rotates.
const MAX_LIST_ATTEMPTS: usize = 10;

/// Place of a line in the files of a log. Reading continues behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPosition {
    /// Sequence number of the first line of the file.
    pub file: u64,
    /// Offset of the line in the file, in bytes.
    pub offset: u64,
    /// Sequence number of the line.
    pub seq: u64,
    /// Hash of the line.
    pub hash: String,
}

/// A complete line and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedLine {
    /// Content without the line break.
    pub bytes: Vec<u8>,
    /// Place of the line.
    pub position: ReadPosition,
}

/// Lines that follow each other in one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LineBatch {
    /// The lines; empty if there are none yet.
    pub lines: Vec<PlacedLine>,
    /// Number of lines before these, or between them, that are in no file any more or damaged.
    pub missing: u64,
}

/// Bounds of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Maximum number of lines.
    pub lines: usize,
    /// Maximum size of the lines in bytes, unless the first is longer.
    pub bytes: usize,
    /// Sequence number of the last line to read.
    pub last_seq: u64,
}

/// A file of the log, and the offset from which it is read.
struct OpenSegment {
    file: File,
    first_seq: u64,
    offset: u64,
}

/// Reads the lines behind a position, or the first ones of the log at `path`. A position
/// that is not of this log counts as none.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn read_batch(
    path: &Path,
    after: Option<&ReadPosition>,
    limits: BatchLimits,
) -> io::Result<LineBatch> {
    let Some(after) = after else {
        return read_from(oldest_segment(path, 0)?, None, limits);
    };
    let next_seq = after.seq + 1;
    if let Some(segment) = open_segment(path, after.file)? {
        let Some(segment) = segment.behind(after)? else {
            return read_from(oldest_segment(path, 0)?, None, limits);
        };
        let batch = read_from(Some(segment), Some(next_seq), limits)?;
        if !batch.lines.is_empty() {
            return Ok(batch);
        }
    }
    let next = match open_segment(path, next_seq)? {
        Some(next) => Some(next),
        None => oldest_segment(path, next_seq)?,
    };
    read_from(next, Some(next_seq), limits)
}

impl OpenSegment {
    /// Moves behind the line at a position; returns `None` if another line is there.
    fn behind(mut self, position: &ReadPosition) -> io::Result<Option<Self>> {
        self.offset = position.offset;
        let mut reader = self.reader()?;
        let bytes = self.read_line(&mut reader)?;
        let link = bytes.as_deref().and_then(LineLink::parse_unchecked);
        let is_same =
            |link: &LineLink| link.head.seq == position.seq && link.head.hash == position.hash;
        Ok(link.filter(is_same).map(|_| self))
    }

    fn reader(&self) -> io::Result<BufReader<File>> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(self.offset))?;
        Ok(BufReader::new(file))
    }

    /// Reads a complete line without its line break, and moves behind it.
    fn read_line(&mut self, reader: &mut BufReader<File>) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            return Ok(None);
        }
        self.offset += read as u64;
        Ok(Some(line))
    }
}

/// Reads lines from `next_seq`, or from the first line of the file.
fn read_from(
    segment: Option<OpenSegment>,
    next_seq: Option<u64>,
    limits: BatchLimits,
) -> io::Result<LineBatch> {
    let Some(mut segment) = segment else {
        return Ok(LineBatch::default());
    };
    let mut reader = segment.reader()?;
    let mut batch = LineBatch::default();
    let mut next_seq = next_seq.unwrap_or(segment.first_seq);
    let mut size = 0;
    while batch.lines.len() < limits.lines {
        let offset = segment.offset;
        let Some(bytes) = segment.read_line(&mut reader)? else {
            break;
        };
        // The sequence number of the next line shows how many are damaged.
        let Some(link) = LineLink::parse_unchecked(&bytes) else {
            continue;
        };
        size += bytes.len();
        if link.head.seq > limits.last_seq || (size > limits.bytes && !batch.lines.is_empty()) {
            break;
        }
        batch.missing += link.head.seq.saturating_sub(next_seq);
        next_seq = link.head.seq + 1;
        let position = ReadPosition {
            file: segment.first_seq,
            offset,
            seq: link.head.seq,
            hash: link.head.hash,
        };
        batch.lines.push(PlacedLine { bytes, position });
    }
    Ok(batch)
}

/// Opens the file whose first line has a sequence number.
fn open_segment(path: &Path, seq: u64) -> io::Result<Option<OpenSegment>> {
    let rotated = rotated_path(path, seq);
    // A file that is rotated between the attempts has its other name in the last one.
    for candidate in [&rotated, path, &rotated] {
        if let Some(file) = open(candidate)?
            && (candidate == rotated || first_seq(&file) == Some(seq))
        {
            return Ok(Some(OpenSegment {
                file,
                first_seq: seq,
                offset: 0,
            }));
        }
    }
    Ok(None)
}

/// Opens the first file that begins with `min_seq` or later.
fn oldest_segment(path: &Path, min_seq: u64) -> io::Result<Option<OpenSegment>> {
    for _ in 0..MAX_LIST_ATTEMPTS {
        let seqs = segment_seqs(path)?;
        // A rotation meanwhile may have hidden a file from the list.
        if seqs != segment_seqs(path)? {
            continue;
        }
        let Some(seq) = seqs.into_iter().find(|seq| *seq >= min_seq) else {
            return Ok(None);
        };
        if let Some(segment) = open_segment(path, seq)? {
            return Ok(Some(segment));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::hash_chain::ChainHead;

    const ALL: BatchLimits = BatchLimits {
        lines: 1000,
        bytes: 1 << 20,
        last_seq: u64::MAX,
    };

    /// A log with three lines in each file, the last of which is the active one.
    fn log(files: u64) -> TempDir {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("log");
        let mut head = ChainHead::default();
        for file in 0..files {
            let mut bytes = Vec::new();
            for _ in 0..3 {
                head.append_line(&mut bytes, b"\"a\":1");
            }
            let is_active = file + 1 == files;
            let rotated = rotated_path(&path, file * 3 + 1);
            fs::write(if is_active { &path } else { &rotated }, bytes).unwrap();
        }
        folder
    }

    fn seqs(batch: &LineBatch) -> Vec<u64> {
        batch.lines.iter().map(|line| line.position.seq).collect()
    }

    /// Reads a log in batches. Returns all sequence numbers, and the number of missing lines.
    fn read_all(
        path: &Path,
        mut after: Option<ReadPosition>,
        limits: BatchLimits,
    ) -> (Vec<u64>, u64) {
        let (mut all, mut missing) = (Vec::new(), 0);
        loop {
            let batch = read_batch(path, after.as_ref(), limits).unwrap();
            let Some(last) = batch.lines.last() else {
                return (all, missing);
            };
            after = Some(last.position.clone());
            missing += batch.missing;
            all.extend(seqs(&batch));
        }
    }

    #[test]
    fn batches_continue_over_files_within_their_bounds() {
        let folder = log(3);
        let path = folder.path().join("log");

        for (lines, bytes) in [(1000, 1 << 20), (2, 1 << 20), (1000, 1)] {
            let limits = BatchLimits {
                lines,
                bytes,
                ..ALL
            };
            assert_eq!(read_all(&path, None, limits), ((1..=9).collect(), 0));
        }
        let limits = BatchLimits { last_seq: 5, ..ALL };
        assert_eq!(read_all(&path, None, limits), ((1..=5).collect(), 0));
    }

    #[test]
    fn a_position_is_valid_after_its_file_is_rotated() {
        let folder = log(1);
        let path = folder.path().join("log");
        let limits = BatchLimits { lines: 2, ..ALL };
        let first = read_batch(&path, None, limits).unwrap();
        let after = first.lines.last().unwrap().position.clone();

        fs::rename(&path, rotated_path(&path, 1)).unwrap();

        assert_eq!(read_all(&path, Some(after), ALL), (vec![3], 0));
    }

    #[test]
    fn removed_lines_are_counted() {
        let folder = log(4);
        let path = folder.path().join("log");
        let limits = BatchLimits { lines: 2, ..ALL };
        let first = read_batch(&path, None, limits).unwrap();
        let after = first.lines.last().map(|line| line.position.clone());

        fs::remove_file(rotated_path(&path, 1)).unwrap();
        fs::remove_file(rotated_path(&path, 4)).unwrap();

        assert_eq!(read_all(&path, after, ALL), ((7..=12).collect(), 4));
    }

    #[test]
    fn damaged_lines_are_counted_and_the_others_are_read() {
        let folder = log(3);
        let path = folder.path().join("log");
        for (seq, index) in [(1, 2), (4, 0), (7, 1)] {
            let rotated = rotated_path(&path, seq);
            let file = if rotated.exists() { &rotated } else { &path };
            let text = fs::read_to_string(file).unwrap();
            let line = text.lines().nth(index).unwrap();
            fs::write(file, text.replace(line, &"\0".repeat(line.len()))).unwrap();
        }

        for lines in [1000, 1] {
            let limits = BatchLimits { lines, ..ALL };
            let expected = (vec![1, 2, 5, 6, 7, 9], 3);
            assert_eq!(read_all(&path, None, limits), expected);
        }
    }

    #[test]
    fn a_position_of_another_log_counts_as_none() {
        let folder = log(2);
        let path = folder.path().join("log");
        let position = |file: u64, seq: u64| ReadPosition {
            file,
            offset: 0,
            seq,
            hash: "f".repeat(64),
        };

        assert_eq!(
            read_all(&path, Some(position(1, 1)), ALL),
            ((1..=6).collect(), 0)
        );
    }

    #[test]
    fn an_incomplete_line_is_not_read_until_it_is_complete() {
        let folder = log(1);
        let path = folder.path().join("log");
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 1]).unwrap();
        let first = read_batch(&path, None, ALL).unwrap();
        assert_eq!(seqs(&first), [1, 2]);
        let after = first.lines.last().map(|line| line.position.clone());

        fs::write(&path, &text).unwrap();

        assert_eq!(read_all(&path, after, ALL), (vec![3], 0));
    }
}
