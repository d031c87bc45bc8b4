//! Reads a log in batches from a position that outlives rotation and restarts.

use std::{
    fs::File,
    io::{self, BufReader, Seek, SeekFrom},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    hash_chain::LineLink,
    log_file::{last_line, read_line},
    reader::{LogSegment, log_segments},
};

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

/// A file of the log that has lines, or had some.
struct NumberedSegment {
    segment: LogSegment,
    first_seq: u64,
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
    let segments = numbered_segments(path)?;
    let begins_before = |after: &ReadPosition| {
        let mut segments = segments.iter();
        segments.rposition(|segment| segment.first_seq <= after.seq)
    };
    let current = after.and_then(begins_before);
    let oldest = segments.first().map(|segment| segment.first_seq);
    let next_seq = after.map_or(oldest, |after| Some(after.seq + 1));
    let segments = segments.into_iter().enumerate();
    for (index, mut numbered) in segments.skip(current.unwrap_or_default()) {
        // A rotation meanwhile may have removed it.
        let Some(reader) = numbered.segment.reader()? else {
            continue;
        };
        let (first_seq, mut offset) = (numbered.first_seq, 0);
        if let Some(after) = after.filter(|_| Some(index) == current) {
            match offset_behind(reader, after)? {
                Some(behind) => offset = behind,
                None if first_seq == after.file || reaches(reader, after.seq)? => {
                    return read_batch(path, None, limits);
                }
                // The file that had the line was moved away.
                None => (),
            }
        }
        let next_seq = next_seq.unwrap_or_default();
        let batch = read_from(reader, offset, first_seq, next_seq, limits)?;
        if !batch.lines.is_empty() {
            return Ok(batch);
        }
    }
    Ok(LineBatch::default())
}

/// Returns the files of a log, oldest first, without an active one that has no intact line.
fn numbered_segments(path: &Path) -> io::Result<Vec<NumberedSegment>> {
    let mut numbered = Vec::new();
    for mut segment in log_segments(path).map_err(io::Error::other)? {
        if let Some(first_seq) = segment.first_seq(path)? {
            numbered.push(NumberedSegment { segment, first_seq });
        }
    }
    Ok(numbered)
}

/// Returns the offset behind the line at a position; `None` if another line is there.
fn offset_behind(reader: &mut BufReader<File>, position: &ReadPosition) -> io::Result<Option<u64>> {
    reader.seek(SeekFrom::Start(position.offset))?;
    let bytes = read_line(reader)?.unwrap_or_default();
    let link = LineLink::parse_unchecked(&bytes);
    let is_same =
        |link: &LineLink| link.head.seq == position.seq && link.head.hash == position.hash;
    let behind = position.offset + bytes.len() as u64 + 1;
    Ok(link.filter(is_same).map(|_| behind))
}

/// Returns whether the last intact line of a file has this sequence number or a greater one.
fn reaches(reader: &BufReader<File>, seq: u64) -> io::Result<bool> {
    let last = last_line(reader.get_ref())?;
    Ok(last.is_some_and(|(_, head)| head.seq >= seq))
}

/// Reads the intact lines of a file from an offset on, and from `next_seq` on.
fn read_from(
    reader: &mut BufReader<File>,
    mut offset: u64,
    file: u64,
    mut next_seq: u64,
    limits: BatchLimits,
) -> io::Result<LineBatch> {
    reader.seek(SeekFrom::Start(offset))?;
    let mut batch = LineBatch::default();
    let mut size = 0;
    while batch.lines.len() < limits.lines {
        let Some(bytes) = read_line(reader)? else {
            break;
        };
        let start = offset;
        offset += bytes.len() as u64 + 1;
        // The sequence number of the next line shows how many are damaged.
        let Some(LineLink { head, .. }) = LineLink::parse(&bytes) else {
            continue;
        };
        if head.seq < next_seq {
            continue;
        }
        size += bytes.len();
        if head.seq > limits.last_seq || (size > limits.bytes && !batch.lines.is_empty()) {
            break;
        }
        batch.missing += head.seq - next_seq;
        next_seq = head.seq + 1;
        let position = ReadPosition {
            file,
            offset: start,
            seq: head.seq,
            hash: head.hash,
        };
        batch.lines.push(PlacedLine { bytes, position });
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::{hash_chain::ChainHead, log_file::rotated_path};

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

    /// Zeroes the bytes of a line of the file that begins with a sequence number.
    fn damage(path: &Path, first_seq: u64, index: usize) {
        let rotated = rotated_path(path, first_seq);
        let file = if rotated.exists() { &rotated } else { path };
        let text = fs::read_to_string(file).unwrap();
        let line = text.lines().nth(index).unwrap();
        fs::write(file, text.replace(line, &"\0".repeat(line.len()))).unwrap();
    }

    #[test]
    fn damaged_lines_are_counted_and_the_others_are_read() {
        let folder = log(3);
        let path = folder.path().join("log");
        for (seq, index) in [(1, 2), (4, 0), (7, 1)] {
            damage(&path, seq, index);
        }

        for lines in [1000, 1] {
            let limits = BatchLimits { lines, ..ALL };
            let expected = (vec![1, 2, 5, 6, 7, 9], 3);
            assert_eq!(read_all(&path, None, limits), expected);
        }
    }

    #[test]
    fn a_file_whose_first_line_is_damaged_is_read_and_rotated() {
        for files in [1, 3] {
            let folder = log(files);
            let path = folder.path().join("log");
            let active = files * 3 - 2;
            damage(&path, active, 0);
            let intact: Vec<u64> = (1..=files * 3).filter(|seq| *seq != active).collect();
            for lines in [1000, 1] {
                let limits = BatchLimits { lines, ..ALL };
                assert_eq!(read_all(&path, None, limits), (intact.clone(), 1));
            }

            let limits = BatchLimits {
                last_seq: active + 1,
                ..ALL
            };
            let (mut after, mut batch) = (None, read_batch(&path, None, limits).unwrap());
            while let Some(last) = batch.lines.last() {
                after = Some(last.position.clone());
                batch = read_batch(&path, after.as_ref(), limits).unwrap();
            }
            fs::rename(&path, rotated_path(&path, active)).unwrap();
            assert_eq!(read_all(&path, after, ALL), (vec![active + 2], 0));
        }
    }

    #[test]
    fn a_file_without_an_intact_line_is_skipped_and_its_lines_are_counted() {
        for damaged in [1, 4] {
            for is_empty in [true, false] {
                let folder = log(3);
                let path = folder.path().join("log");
                if is_empty {
                    fs::write(rotated_path(&path, damaged), "").unwrap();
                } else {
                    (0..3).for_each(|index| damage(&path, damaged, index));
                }
                let intact = (1..=9).filter(|seq| !(damaged..damaged + 3).contains(seq));
                let intact: Vec<u64> = intact.collect();
                for lines in [1000, 1] {
                    let limits = BatchLimits { lines, ..ALL };
                    assert_eq!(read_all(&path, None, limits), (intact.clone(), 3));
                }
            }
        }
    }

    #[test]
    fn a_line_with_a_damaged_sequence_number_is_skipped() {
        for changed in ["9", "1"] {
            let folder = log(2);
            let path = folder.path().join("log");
            let text = fs::read_to_string(&path).unwrap();
            let damaged = text.replace("\"seq\":5,", &format!("\"seq\":{changed},"));
            fs::write(&path, damaged).unwrap();

            let limits = BatchLimits { last_seq: 6, ..ALL };
            assert_eq!(read_all(&path, None, limits), (vec![1, 2, 3, 4, 6], 1));
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

        // Also if the file of the position has another first line than any file of this log, or if
        // this log is shorter.
        for (file, seq) in [(1, 1), (3, 5), (4, 9)] {
            let after = Some(position(file, seq));
            assert_eq!(read_all(&path, after, ALL), ((1..=6).collect(), 0));
        }
    }

    #[test]
    fn reading_continues_if_the_file_of_the_position_is_moved_away() {
        let folder = log(3);
        let path = folder.path().join("log");
        let mut after = None;
        for _ in 0..2 {
            let batch = read_batch(&path, after.as_ref(), ALL).unwrap();
            after = batch.lines.last().map(|line| line.position.clone());
        }

        fs::remove_file(rotated_path(&path, 4)).unwrap();

        assert_eq!(read_all(&path, after, ALL), ((7..=9).collect(), 0));
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
