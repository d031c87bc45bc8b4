//! Finds the first line that satisfies a condition by bisection: over the files, and
//! within one.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom},
    path::Path,
};

use crate::{
    hash_chain::{ChainHead, LineLink},
    log_file::{first_seq, read_line},
    reader::{LogLine, LogSegment, ReadError, io_error, log_segments},
};

/// Returns the lines of the log at `path` from the first one that `is_before` refuses.
/// The lines that it accepts must come before all others; few lines are read to find the
/// place between them. The chain is not verified.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn lines_from(
    path: &Path,
    is_before: impl Fn(&[u8]) -> bool,
) -> Result<impl Iterator<Item = Result<LogLine, ReadError>>, ReadError> {
    let mut segments = log_segments(path)?;
    // The last file whose first line comes before, or the first file.
    let (mut first, mut end) = (0, segments.len());
    while end - first > 1 {
        let middle = usize::midpoint(first, end);
        let starts_before = match segments.get_mut(middle) {
            Some(segment) => starts_before(segment, &is_before),
            None => Ok(false),
        };
        if starts_before.map_err(|cause| io_error(path, cause))? {
            first = middle;
        } else {
            end = middle;
        }
    }
    let later = segments.split_off((first + 1).min(segments.len()));
    let first_lines = segments.pop().map(|mut segment| {
        let number = move_behind(&mut segment, is_before);
        let number = number.map_err(|cause| io_error(&segment.path, cause))?;
        Ok(segment.lines_behind(number))
    });
    let first_lines = first_lines.transpose()?;
    let later = later.into_iter();
    let later = later.flat_map(|segment| segment.lines_behind(0));
    Ok(first_lines.into_iter().flatten().chain(later))
}

/// Returns whether the log at `path` has this line, which is intact. Few lines are read to find
/// it. The chain is not verified.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn contains(path: &Path, head: &ChainHead) -> Result<bool, ReadError> {
    let is_before = |line: &[u8]| {
        let link = LineLink::parse_unchecked(line);
        link.is_some_and(|link| link.head.seq < head.seq)
    };
    let found = lines_from(path, is_before)?.next().transpose()?;
    let found = found.filter(|found| found.is_complete);
    let link = found.and_then(|found| LineLink::parse(&found.bytes));
    Ok(link.is_some_and(|link| link.head == *head))
}

/// Returns whether the first line of a file comes before. Files that a rotation removes do.
fn starts_before(segment: &mut LogSegment, is_before: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let Some(reader) = segment.reader()? else {
        return Ok(true);
    };
    let line = read_line(reader)?;
    reader.rewind()?;
    Ok(line.is_some_and(|line| is_before(&line)))
}

/// Moves behind the lines that come before. Returns their number.
fn move_behind(segment: &mut LogSegment, is_before: impl Fn(&[u8]) -> bool) -> io::Result<u64> {
    let Some(reader) = segment.reader()? else {
        return Ok(0);
    };
    let first_seq = first_seq(reader.get_ref())?.unwrap_or_default();
    let start = bisect(reader, is_before)?;
    reader.seek(SeekFrom::Start(start))?;
    let line = read_line(reader)?;
    reader.seek(SeekFrom::Start(start))?;
    let seq = line.as_deref().and_then(LineLink::parse_unchecked);
    Ok(seq.map_or(0, |link| link.head.seq.saturating_sub(first_seq)))
}

/// Returns the offset of the first line that does not come before.
fn bisect(reader: &mut BufReader<File>, is_before: impl Fn(&[u8]) -> bool) -> io::Result<u64> {
    // Lines that begin before `start` come before; those that begin at `end` or later do
    // not. A line begins at `start`.
    let (mut start, mut end) = (0, reader.get_ref().metadata()?.len());
    while start < end {
        let middle = u64::midpoint(start, end);
        let candidate = if middle == start {
            start
        } else {
            reader.seek(SeekFrom::Start(middle - 1))?;
            middle - 1 + reader.skip_until(b'\n')? as u64
        };
        if candidate >= end {
            end = middle;
            continue;
        }
        reader.seek(SeekFrom::Start(candidate))?;
        match read_line(reader)? {
            Some(line) if is_before(&line) => start = candidate + line.len() as u64 + 1,
            Some(_) | None => end = candidate,
        }
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::log_file::rotated_path;

    /// A log of lines `"a":0` to `"a":N` of several lengths, some in each file.
    fn log(lines: u64, per_file: u64) -> TempDir {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("log");
        let mut head = ChainHead::default();
        let mut bytes = Vec::new();
        let mut first_seq = 1;
        for number in 0..lines {
            if number > 0 && number % per_file == 0 {
                fs::write(rotated_path(&path, first_seq), &bytes).unwrap();
                bytes.clear();
                first_seq = number + 1;
            }
            let padding = "x".repeat(usize::try_from(number * 37 % 200).unwrap());
            let fields = format!("\"a\":{number},\"b\":\"{padding}\"");
            head.append_line(&mut bytes, fields.as_bytes());
        }
        fs::write(&path, bytes).unwrap();
        folder
    }

    fn number(line: &[u8]) -> u64 {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        line["a"].as_u64().unwrap()
    }

    #[test]
    fn the_search_finds_the_first_line_that_is_not_before() {
        for (lines, per_file) in [(0, 5), (1, 5), (5, 5), (23, 5), (23, 100), (40, 1)] {
            let folder = log(lines, per_file);
            let path = folder.path().join("log");
            for from in 0..=lines {
                let found = lines_from(&path, |line| number(line) < from);

                let found: Vec<LogLine> = found.unwrap().map(Result::unwrap).collect();
                let numbers: Vec<u64> = found.iter().map(|line| number(&line.bytes)).collect();
                assert_eq!(numbers, (from..lines).collect::<Vec<_>>());
                for line in &found {
                    assert_eq!(line.number, number(&line.bytes) % per_file + 1);
                }
            }
        }
    }

    #[test]
    fn a_log_contains_its_lines_and_no_other() {
        let folder = log(23, 5);
        let path = folder.path().join("log");
        let mut heads = Vec::new();
        for line in lines_from(&path, |_| false).unwrap() {
            heads.push(LineLink::parse(&line.unwrap().bytes).unwrap().head);
        }
        assert_eq!(heads.len(), 23);
        for head in &heads {
            assert!(contains(&path, head).unwrap(), "{head:?}");
        }
        let other = |seq, hash: &str| ChainHead {
            seq,
            hash: hash.to_owned(),
        };
        for head in [
            other(7, &heads[7].hash),
            other(7, "ff"),
            other(24, &heads[22].hash),
        ] {
            assert!(!contains(&path, &head).unwrap(), "{head:?}");
        }

        fs::remove_file(rotated_path(&path, 1)).unwrap();

        assert!(!contains(&path, &heads[0]).unwrap());
        assert!(contains(&path, &heads[5]).unwrap());
    }
}
