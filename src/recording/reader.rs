//! Reads recordings. What is damaged is reported with its file and place, and the rest is read.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use age_file::{DecryptError, Decryptor, Identity, KeyError};
use memchr::{memchr, memmem, memrchr};
use thiserror::Error;

use super::format::RecordedExchange;
use crate::regular_file;

/// Ending of the names of segments.
pub const SEGMENT_SUFFIX: &str = ".hgr";

/// Ending of the names of encrypted segments.
pub const ENCRYPTED_SUFFIX: &str = ".hgr.age";

/// First bytes of a zstd frame (RFC 8878, section 3.1.1).
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Most bytes of a segment that are read. Segments are rotated at 64 MiB.
const MAX_SEGMENT_BYTES: u64 = 256 * 1024 * 1024;

/// Most decoded bytes of one frame.
pub const MAX_FRAME_BYTES: u64 = 128 * 1024 * 1024;

/// Damaged frames of a segment after which the rest of it is skipped, because each may be decoded
/// in vain.
const MAX_DAMAGED_FRAMES: usize = 64;

/// Reason why no recording can be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The folder or file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable {
        /// Path of the recording.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The file of the identity holds no key.
    #[error("`{}`: {error}", path.display())]
    Identity {
        /// Path of the file.
        path: PathBuf,
        /// Mistake in the file.
        error: KeyError,
    },
    /// A folder without segments.
    #[error("`{}` contains no segment of a recording", .0.display())]
    Empty(PathBuf),
}

/// A part of a recording that cannot be read.
#[derive(Debug, Error)]
#[error("{}: byte {byte}: {cause}", file.display())]
pub struct Damage {
    /// Path of the segment.
    pub file: Arc<Path>,
    /// Position of the frame in the segment, once decrypted.
    pub byte: u64,
    /// Reason why this part cannot be read.
    pub cause: DamageCause,
}

/// Reason why a part of a recording cannot be read.
#[derive(Debug, Error)]
pub enum DamageCause {
    /// The file cannot be read.
    #[error("unreadable: {0}")]
    Io(#[from] io::Error),
    /// The segment is encrypted, and no identity was given.
    #[error("encrypted; `--identity` names the file with the key")]
    NoIdentity,
    /// The segment cannot be decrypted.
    #[error("{0}")]
    Decrypt(DecryptError),
    /// The file is larger than any segment.
    #[error("larger than a segment can be")]
    TooLarge,
    /// The end of the last frame is missing.
    #[error("truncated")]
    Truncated,
    /// The end of an encrypted segment is missing, as it is until the next one begins.
    #[error(
        "truncated: the gateway may still be writing it; wait for the next segment, or stop the gateway"
    )]
    Unfinished,
    /// No frame begins here, as in a file that is no segment.
    #[error("not a frame of a recording")]
    NoFrame,
    /// The bytes are not those that were written.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// A line is no exchange of a known version.
    #[error("line {line} of the frame: {error}")]
    Line {
        /// Number of the line in its frame, from 1.
        line: u64,
        /// Mistake in the line.
        error: String,
    },
}

/// Returns the exchanges of a recording, in the order in which they were written. `path` is a
/// folder or a segment; `identity` is a file with keys that decrypt it.
///
/// # Errors
///
/// If the folder or the identity cannot be read, or there is no segment.
pub fn read(path: &Path, identity: Option<&Path>) -> Result<Exchanges, ReadError> {
    let identities = identity.map(read_identities).transpose()?;
    Ok(Exchanges {
        files: segments(path)?.into(),
        identities: identities.unwrap_or_default(),
        current: None,
    })
}

/// Returns the segments of a folder in the order of their names, or the one file.
///
/// # Errors
///
/// If the folder cannot be read, or there is no segment.
pub fn segments(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let metadata = fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files = segment_files(path).map_err(|source| unreadable(path, source))?;
    if files.is_empty() {
        return Err(ReadError::Empty(path.to_owned()));
    }
    Ok(files)
}

/// Returns the segments of a folder in the order of their names.
pub(super) fn segment_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    let files: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files = files?;
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_segment = name.ends_with(SEGMENT_SUFFIX) || name.ends_with(ENCRYPTED_SUFFIX);
        name.starts_with("rec-") && is_segment
    });
    files.sort();
    Ok(files)
}

/// The exchanges of a recording. Holds one segment in memory.
#[derive(Debug)]
pub struct Exchanges {
    files: VecDeque<PathBuf>,
    identities: Vec<Identity>,
    current: Option<SegmentReader>,
}

impl Exchanges {
    /// Returns the number of segments that are not read to their end.
    pub fn segments_left(&self) -> usize {
        self.files.len() + usize::from(self.current.is_some())
    }
}

impl Iterator for Exchanges {
    type Item = Result<RecordedExchange, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.current.as_mut().and_then(Iterator::next) {
                return Some(next);
            }
            let file = self.files.pop_front()?;
            let mut bytes = Vec::new();
            let damage = read_segment(&file, &self.identities, &mut bytes).err();
            let reader = SegmentReader::new(&file, bytes);
            self.current = Some(SegmentReader { damage, ..reader });
        }
    }
}

fn read_identities(path: &Path) -> Result<Vec<Identity>, ReadError> {
    let text = fs::read_to_string(path).map_err(|source| unreadable(path, source))?;
    Identity::parse_file(&text).map_err(|error| ReadError::Identity {
        path: path.to_owned(),
        error,
    })
}

fn unreadable(path: &Path, source: io::Error) -> ReadError {
    let path = path.to_owned();
    ReadError::Unreadable { path, source }
}

fn read_segment(
    file: &Path,
    identities: &[Identity],
    bytes: &mut Vec<u8>,
) -> Result<(), DamageCause> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let source = regular_file::open(file)?.take(MAX_SEGMENT_BYTES + 1);
    if !name.ends_with(ENCRYPTED_SUFFIX) {
        let mut source = source;
        source.read_to_end(bytes)?;
    } else if identities.is_empty() {
        return Err(DamageCause::NoIdentity);
    } else {
        let mut decryptor = Decryptor::new(source, identities).map_err(DamageCause::Decrypt)?;
        let read = decryptor.read_to_end(bytes);
        read.map_err(|error| match corrupt(&error) {
            DamageCause::Truncated => DamageCause::Unfinished,
            cause => cause,
        })?;
    }
    if bytes.len() as u64 > MAX_SEGMENT_BYTES {
        bytes.clear();
        return Err(DamageCause::TooLarge);
    }
    Ok(())
}

/// The exchanges of one segment.
#[derive(Debug)]
pub struct SegmentReader {
    file: Arc<Path>,
    bytes: Vec<u8>,
    /// Position of the next frame.
    next: usize,
    /// Position of the frame that `text` is of.
    frame: usize,
    /// Lines of the frame.
    text: Vec<u8>,
    /// Position of the next line in `text`.
    next_line: usize,
    /// Number of lines that were read.
    line: u64,
    /// Reason why the frame cannot be read further, until it is reported.
    frame_damage: Option<DamageCause>,
    /// Reason why the segment is incomplete, until it is reported.
    damage: Option<DamageCause>,
    damaged_frames: usize,
}

impl SegmentReader {
    /// Reads the bytes of a segment, once decrypted.
    pub fn new(file: &Path, bytes: Vec<u8>) -> Self {
        Self {
            file: file.into(),
            bytes,
            next: 0,
            frame: 0,
            text: Vec::new(),
            next_line: 0,
            line: 0,
            frame_damage: None,
            damage: None,
            damaged_frames: 0,
        }
    }

    fn read_line(&mut self) -> Option<Result<RecordedExchange, DamageCause>> {
        let rest = self.text.get(self.next_line..)?;
        let start = rest.iter().position(|byte| *byte != b'\n')?;
        let rest = rest.get(start..)?;
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        let exchange = parse(rest.get(..length)?);
        self.next_line += start + length;
        self.line += 1;
        Some(exchange.map_err(|error| DamageCause::Line {
            line: self.line,
            error,
        }))
    }

    /// Decodes the next frame. Returns false at the end of the segment.
    fn next_frame(&mut self) -> bool {
        self.frame = self.next;
        let rest = self.bytes.get(self.next..).unwrap_or_default();
        if rest.is_empty() {
            self.frame_damage = self.damage.take();
            return self.frame_damage.is_some();
        }
        let (text, end) = decode(rest);
        (self.text, self.next_line, self.line) = (text, 0, 0);
        match end {
            Ok(length) => self.next += length,
            Err(cause) => {
                // The next frame is found by its first bytes.
                let after = rest.get(1..).unwrap_or_default();
                let is_given_up = self.damaged_frames >= MAX_DAMAGED_FRAMES;
                let found = memmem::find(after, &FRAME_MAGIC).filter(|_| !is_given_up);
                self.damaged_frames += 1;
                self.next = found.map_or(self.bytes.len(), |at| self.next + 1 + at);
                // The last frame of an incomplete segment is cut.
                let is_last = found.is_none();
                let damage = self.damage.take_if(|_| is_last);
                self.frame_damage = Some(damage.unwrap_or(cause));
            }
        }
        true
    }
}

impl Iterator for SegmentReader {
    type Item = Result<RecordedExchange, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = loop {
            if let Some(next) = self.read_line() {
                break next;
            }
            if let Some(cause) = self.frame_damage.take() {
                break Err(cause);
            }
            if !self.next_frame() {
                return None;
            }
        };
        Some(next.map_err(|cause| Damage {
            file: Arc::clone(&self.file),
            byte: self.frame as u64,
            cause,
        }))
    }
}

/// Decodes the first frame of `bytes`. Returns its content and its length. Of a frame without
/// its end, the content is that of its whole lines.
fn decode(bytes: &[u8]) -> (Vec<u8>, Result<usize, DamageCause>) {
    let mut text = Vec::new();
    let length = decode_into(&mut text, bytes);
    let whole = match &length {
        Ok(_) => text.len(),
        Err(DamageCause::Truncated) => memrchr(b'\n', &text).map_or(0, |end| end + 1),
        Err(_) => 0,
    };
    text.truncate(whole);
    (text, length)
}

/// Decodes the first frame of `bytes`. Returns its length.
fn decode_into(text: &mut Vec<u8>, bytes: &[u8]) -> Result<usize, DamageCause> {
    if !bytes.starts_with(&FRAME_MAGIC) && !FRAME_MAGIC.starts_with(bytes) {
        return Err(DamageCause::NoFrame);
    }
    let decoder = zstd::Decoder::with_buffer(bytes).map_err(|error| corrupt(&error))?;
    let mut decoder = decoder.single_frame();
    let mut limited = (&mut decoder).take(MAX_FRAME_BYTES + 1);
    let read = limited.read_to_end(text);
    read.map_err(|error| corrupt(&error))?;
    if text.len() as u64 > MAX_FRAME_BYTES {
        return Err(DamageCause::Corrupt("frame too large".to_owned()));
    }
    Ok(bytes.len() - decoder.finish().len())
}

fn corrupt(error: &io::Error) -> DamageCause {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => DamageCause::Truncated,
        _ => DamageCause::Corrupt(error.to_string()),
    }
}

fn parse(line: &[u8]) -> Result<RecordedExchange, String> {
    let exchange: RecordedExchange =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if exchange.v != RecordedExchange::VERSION {
        return Err(format!("unknown version {}", exchange.v));
    }
    Ok(exchange)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str) -> String {
        let line = json!({
            "v": 1, "id": id, "time": "T", "revision": "r", "caller": "", "dialect": "gemini",
            "operation": "o", "method": "POST", "target": "/", "headers": [],
            "request": { "text": id }, "rounds": [], "events": [],
            "outcome": { "action": "pass", "end": "complete", "ms": 1 },
        });
        format!("{line}\n")
    }

    fn frame(text: &str) -> Vec<u8> {
        let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
        compressor.include_checksum(true).unwrap();
        compressor.compress(text.as_bytes()).unwrap()
    }

    /// Returns ids and errors in order.
    fn read_all(bytes: Vec<u8>) -> Vec<String> {
        let reader = SegmentReader::new(Path::new("rec-1.hgr"), bytes);
        reader
            .map(|read| read.map_or_else(|damage| damage.to_string(), |exchange| exchange.id))
            .collect()
    }

    #[test]
    fn whole_lines_of_a_frame_without_its_end_are_read() {
        // Each line is larger than a block, and cannot be compressed.
        let bytes = (0_u64..40_000).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let noise: Vec<String> = bytes.map(|number| format!("{number:x}")).collect();
        let noise = noise.concat();
        let text: String = ["a", "b", "c"]
            .map(|id| line(id).replace("\"T\"", &format!("\"{noise}\"")))
            .concat();
        let whole = frame(&text);
        let cut = whole.get(..whole.len() - 10_000).unwrap().to_vec();

        let read = read_all([frame(&line("0")), cut].concat());

        let start = frame(&line("0")).len();
        let damage = format!("rec-1.hgr: byte {start}: truncated");
        assert_eq!(read, ["0", "a", "b", &damage]);
    }

    #[test]
    fn lines_of_other_versions_are_damage() {
        let text = line("a").replace("\"v\":1", "\"v\":2") + "{}\n" + &line("b");

        let read = read_all(frame(&text));

        assert_eq!(
            read[0],
            "rec-1.hgr: byte 0: line 1 of the frame: unknown version 2"
        );
        assert!(
            read[1].contains("line 2 of the frame: missing field"),
            "{read:?}"
        );
        assert_eq!(read[2], "b");
    }

    #[test]
    fn a_segment_of_nothing_but_damage_ends() {
        let bytes = FRAME_MAGIC.repeat(10_000);

        assert_eq!(read_all(bytes).len(), MAX_DAMAGED_FRAMES + 1);
    }
}
