//! Reading a log, line by line and file by file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use serde_json::Value;
use thiserror::Error;

use super::{
    file::{is_held, older},
    hash_chain::{self, Head, NOTHING},
};

/// The longest line that is read, in bytes. None that is written comes near it.
const LONGEST: u64 = 128 * 1024 * 1024;

/// One line of a log.
#[derive(Debug)]
pub struct Line {
    /// The file that it is in.
    pub file: PathBuf,
    /// Its place there, from 1.
    pub number: u64,
    /// Without its line break.
    pub bytes: Vec<u8>,
    /// Whether a line break follows.
    whole: bool,
}

impl Line {
    /// Whether all of it is there; the last one may just be being written.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// As JSON.
    pub fn json(&self) -> Result<Value, Broken> {
        serde_json::from_slice(&self.bytes).map_err(|_| Broken::Line {
            file: self.file.clone(),
            number: self.number,
            what: "the line is no JSON".to_owned(),
        })
    }
}

/// What is found of a log whose chain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// How many lines it has.
    pub lines: u64,
    /// The number of the first one: if that is not 1, older ones are not there.
    pub first: u64,
    /// The hash of the last one.
    pub last: String,
    /// Whether a line is just being written.
    pub under_way: bool,
}

/// Where a log is broken, and how.
#[derive(Debug, Error)]
pub enum Broken {
    /// A line is not what was written.
    #[error("{}:{number}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A file cannot be read.
    #[error("`{}` cannot be read: {cause}", file.display())]
    Unread {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// There is no log.
    #[error("`{}` holds no line of a decision log", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
}

/// The lines of the log at `path`, the oldest first, those of full files
/// included. Nothing is checked.
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Line, Broken>>, Broken> {
    let mut files = older(path).map_err(|it| unread(path, it))?;
    // Between two files, there is none for a moment.
    if path.exists() || files.is_empty() {
        files.push(path.to_owned());
    }
    Ok(files.into_iter().flat_map(file_lines))
}

/// Checks the whole chain of the log at `path`. It ends at the first line that
/// is broken.
pub fn verify(path: &Path) -> Result<Verified, Broken> {
    let mut first = None;
    let (mut head, mut lines_seen, mut under_way) = (Head::default(), 0, false);
    for line in lines(path)? {
        let line = line?;
        if !line.whole && line.file == path && is_held(path) {
            under_way = true;
            break;
        }
        head = follows(&line, &head, first.is_none()).map_err(|what| Broken::Line {
            file: line.file.clone(),
            number: line.number,
            what,
        })?;
        first = first.or(Some(head.seq));
        lines_seen += 1;
    }
    let Some(first) = first else {
        let file = path.to_owned();
        return Err(Broken::Empty { file });
    };
    Ok(Verified {
        lines: lines_seen,
        first,
        last: head.hash,
        under_way,
    })
}

/// Whether a line follows the one before; nobody knows that one if it is the
/// first there is.
fn follows(line: &Line, before: &Head, is_first: bool) -> Result<Head, String> {
    if !line.whole {
        return Err("the line is torn: its end is missing".to_owned());
    }
    let Some(found) = hash_chain::read(&line.bytes) else {
        return Err("the line is not what was written: its hash is another".to_owned());
    };
    if serde_json::from_slice::<serde::de::IgnoredAny>(&line.bytes).is_err() {
        return Err("the line is no JSON".to_owned());
    }
    let (seq, expected) = (found.head.seq, before.seq + 1);
    if is_first {
        if (seq == 1) != (found.prev == NOTHING) {
            return Err(format!("line {seq} cannot begin a log"));
        }
    } else if seq != expected {
        return Err(format!("line {seq} stands where {expected} should"));
    } else if found.prev != before.hash {
        return Err(format!("line {seq} follows another line than the one here"));
    }
    Ok(found.head)
}

fn file_lines(file: PathBuf) -> impl Iterator<Item = Result<Line, Broken>> {
    let mut number = 0;
    let mut reader = None;
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        number += 1;
        let line = next_line(&mut reader, &file, number);
        ended = !matches!(line, Ok(Some(_)));
        line.map_err(|it| unread(&file, it)).transpose()
    })
}

fn next_line(
    reader: &mut Option<BufReader<File>>,
    file: &Path,
    number: u64,
) -> io::Result<Option<Line>> {
    let reader = match reader {
        Some(reader) => reader,
        none => none.insert(BufReader::new(File::open(file)?)),
    };
    let mut bytes = Vec::new();
    let read = reader.take(LONGEST).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    let whole = bytes.pop_if(|it| *it == b'\n').is_some();
    Ok(Some(Line {
        file: file.to_owned(),
        number,
        bytes,
        whole,
    }))
}

fn unread(file: &Path, cause: io::Error) -> Broken {
    let file = file.to_owned();
    Broken::Unread { file, cause }
}
