//! The thread that masks, compresses and writes exchanges, and removes old segments.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    mem,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant, SystemTime},
};

use age_file::Encryptor;
use jiff::Timestamp;
use stream_redact::Mask;
use zstd::bulk::Compressor;

use super::{
    format::RecordedExchange,
    raw_exchange::CollectedExchange,
    reader::{ENCRYPTED_SUFFIX, MAX_FRAME_BYTES, SEGMENT_SUFFIX, segment_files},
    recording_mask::RecordingMask,
};
use crate::{
    config::{RecordRetention, RecordSettings},
    observe::Metrics,
};

/// Bytes of a segment after which a new one begins.
const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Time after which a new segment begins.
const MAX_SEGMENT_AGE: Duration = Duration::from_mins(10);

/// Bytes of lines that are compressed together.
const FRAME_BYTES: usize = 1024 * 1024;

/// Bytes of a line. With the lines before it, one of this length still fits into a frame.
const MAX_LINE_BYTES: u64 = MAX_FRAME_BYTES - FRAME_BYTES as u64;

/// Time after which lines are written although the frame is small.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Compression level: at higher ones the CPU time exceeds that of the calls.
const COMPRESSION_LEVEL: i32 = 1;

/// Writes exchanges into segments.
pub(super) struct SegmentWriter {
    settings: RecordSettings,
    mask: Option<RecordingMask>,
    metrics: Arc<Metrics>,
    /// Lines that are not written yet.
    frame: Vec<u8>,
    lines: u64,
    /// Time at which the first of them was added.
    frame_since: Instant,
    segment: Option<Segment>,
    /// Number of the next segment.
    number: u64,
    is_failing: bool,
}

/// A segment that is being written.
struct Segment {
    path: PathBuf,
    file: SegmentFile,
    bytes: u64,
    /// Lines of which a part waits for encryption.
    unsealed_lines: u64,
    opened: Instant,
}

enum SegmentFile {
    Plain(File),
    Encrypted(Box<Encryptor<File>>),
}

impl Segment {
    /// Removes what a failed write has left behind the last frame; all of the file if it has none.
    /// An encrypted file keeps it.
    fn discard_incomplete_frame(self) {
        match &self.file {
            _ if self.bytes == 0 => remove_empty(&self.path),
            // If it fails, the file is damaged as after a crash.
            SegmentFile::Plain(file) => drop(file.set_len(self.bytes)),
            SegmentFile::Encrypted(_) => (),
        }
    }

    /// Returns whether the file was removed or moved.
    fn is_removed(&self) -> bool {
        matches!(self.path.try_exists(), Ok(false))
    }
}

impl SegmentWriter {
    pub(super) fn new(settings: RecordSettings, mask: Option<Mask>, metrics: Arc<Metrics>) -> Self {
        Self {
            settings,
            mask: mask.map(RecordingMask::new),
            metrics,
            frame: Vec::new(),
            lines: 0,
            frame_since: Instant::now(),
            segment: None,
            number: 0,
            is_failing: false,
        }
    }

    /// Writes exchanges until the recorder is dropped.
    pub(super) fn run(mut self, queue: &Receiver<Box<CollectedExchange>>) {
        // Shows at start what would be lost, and applies the retention.
        if let Err(error) = self.prepare_folder() {
            self.fail(&error);
        }
        loop {
            match queue.recv_timeout(FLUSH_INTERVAL) {
                Ok(exchange) => {
                    let (line, _memory) = exchange.into_masked(self.mask.as_ref());
                    self.add_line(&line);
                }
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let is_due = !self.frame.is_empty() && self.frame_since.elapsed() >= FLUSH_INTERVAL;
            if self.frame.len() >= FRAME_BYTES || is_due {
                self.flush();
            }
            let is_full = |segment: &Segment| {
                segment.bytes >= MAX_SEGMENT_BYTES || segment.opened.elapsed() >= MAX_SEGMENT_AGE
            };
            if self.segment.as_ref().is_some_and(is_full) {
                self.close();
            }
        }
        self.flush();
        self.close();
    }

    /// Adds a line to the frame. One that is too large is dropped and counted.
    fn add_line(&mut self, line: &RecordedExchange) {
        if self.frame.is_empty() {
            self.frame_since = Instant::now();
        }
        let start = self.frame.len();
        let is_written = serde_json::to_writer(&mut self.frame, line).is_ok();
        let length = self.frame.len() - start;
        if !is_written || length as u64 >= MAX_LINE_BYTES {
            self.frame.truncate(start);
            self.frame.shrink_to(FRAME_BYTES);
            self.metrics.recording_dropped.inc();
            return;
        }
        self.frame.push(b'\n');
        self.lines += 1;
    }

    /// Writes the lines as one frame. If that fails, they are dropped and counted.
    fn flush(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        self.close_removed();
        let frame = mem::take(&mut self.frame);
        let lines = mem::take(&mut self.lines);
        match self.write(&frame, lines) {
            Ok(written) => {
                self.metrics.recording_exchanges.inc_by(written);
                if mem::take(&mut self.is_failing) {
                    tracing::info!("recording: writing recovered");
                }
            }
            Err(error) => {
                self.fail(&error);
                let segment = self.segment.take();
                let unsealed = segment.as_ref().map_or(0, |segment| segment.unsealed_lines);
                self.metrics.recording_dropped.inc_by(unsealed + lines);
                if let Some(segment) = segment {
                    segment.discard_incomplete_frame();
                }
            }
        }
    }

    /// Ends a segment that was removed or moved while it was written.
    fn close_removed(&mut self) {
        if self.segment.as_ref().is_some_and(Segment::is_removed) {
            self.close();
        }
    }

    /// Writes a frame of some lines. Returns the number of lines that are in the file now and were
    /// not before: encryption holds back the last ones.
    fn write(&mut self, frame: &[u8], lines: u64) -> io::Result<u64> {
        let compressed = compress(frame)?;
        if self.segment.is_none() {
            self.segment = Some(self.open()?);
        }
        let Some(segment) = &mut self.segment else {
            return Ok(0);
        };
        let written = match &mut segment.file {
            SegmentFile::Plain(file) => {
                file.write_all(&compressed)?;
                lines
            }
            SegmentFile::Encrypted(file) => {
                file.write_all(&compressed)?;
                // If a chunk was written, it has all frames before this one.
                if file.pending_len() <= compressed.len() {
                    mem::replace(&mut segment.unsealed_lines, lines)
                } else {
                    segment.unsealed_lines += lines;
                    0
                }
            }
        };
        segment.bytes += compressed.len() as u64;
        Ok(written)
    }

    fn open(&mut self) -> io::Result<Segment> {
        self.prepare_folder()?;
        let is_encrypted = !self.settings.encrypt_to.is_empty();
        let suffix = if is_encrypted {
            ENCRYPTED_SUFFIX
        } else {
            SEGMENT_SUFFIX
        };
        let (path, file) = loop {
            let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
            let name = format!("rec-{time}-{:04}{suffix}", self.number);
            self.number += 1;
            let path = self.settings.path.join(name);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => break (path, file),
                // A recorder of an earlier config writes there, too.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(error),
            }
        };
        let file = if is_encrypted {
            let encryptor = Encryptor::new(file, &self.settings.encrypt_to);
            let encryptor = encryptor.inspect_err(|_| remove_empty(&path))?;
            SegmentFile::Encrypted(Box::new(encryptor))
        } else {
            SegmentFile::Plain(file)
        };
        Ok(Segment {
            path,
            file,
            bytes: 0,
            unsealed_lines: 0,
            opened: Instant::now(),
        })
    }

    /// Ends the segment that is being written. One that was removed or moved is logged.
    fn close(&mut self) {
        let Some(segment) = self.segment.take() else {
            return;
        };
        if segment.is_removed() {
            self.metrics.recording_failures.inc();
            let path = segment.path.display();
            tracing::warn!(recording.path = %path, "recording: segment removed while it was written");
        }
        let SegmentFile::Encrypted(file) = segment.file else {
            return;
        };
        let ended = file.finish().and_then(|file| file.metadata());
        let counted = match ended {
            // A file that was moved has a link elsewhere.
            Ok(metadata) if metadata.nlink() > 0 => &self.metrics.recording_exchanges,
            Ok(_) => &self.metrics.recording_dropped,
            Err(error) => {
                self.fail(&error);
                &self.metrics.recording_dropped
            }
        };
        counted.inc_by(segment.unsealed_lines);
    }

    /// Creates the folder and removes old segments. Those that cannot be removed are counted and
    /// logged.
    fn prepare_folder(&self) -> io::Result<()> {
        let folder = &self.settings.path;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        if let Err(error) = remove_old(folder, self.settings.keep) {
            self.metrics.recording_failures.inc();
            let path = folder.display();
            tracing::warn!(%error, recording.path = %path, "recording: old segments not removed");
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        self.metrics.recording_failures.inc();
        if !mem::replace(&mut self.is_failing, true) {
            let path = self.settings.path.display();
            tracing::error!(%error, recording.path = %path, "recording: writing failed");
        }
    }
}

fn compress(frame: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = Compressor::new(COMPRESSION_LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(frame)
}

/// Removes a segment without a frame, which would be reported as damaged.
fn remove_empty(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        let path = path.display();
        tracing::warn!(%error, recording.path = %path, "recording: empty segment not removed");
    }
}

/// Removes segments that are too old, and the oldest while all of them are too large. Another
/// gateway may remove them at the same time.
///
/// # Errors
///
/// The last failure. The other segments are removed nonetheless.
fn remove_old(folder: &Path, keep: RecordRetention) -> io::Result<()> {
    let age = Duration::from_hours(24) * keep.days;
    let oldest = SystemTime::now().checked_sub(age);
    let mut segments = Vec::new();
    for path in segment_files(folder)? {
        if let Ok(metadata) = fs::metadata(&path) {
            segments.push((path, metadata.len(), metadata.modified()?));
        }
    }
    let mut removed = Ok(());
    let mut total: u64 = segments.iter().map(|(_, bytes, _)| bytes).sum();
    for (path, bytes, modified) in segments {
        let is_old = oldest.is_some_and(|oldest| modified < oldest);
        if is_old || total > keep.size {
            total -= bytes;
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => removed = Err(error),
                Ok(()) | Err(_) => (),
            }
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use std::{os::fd::OwnedFd, thread};

    use super::*;
    use crate::{
        config::{RecordRedaction, RecordSelection},
        recording::{RecordedBody, read},
        sha256::sha256_hex,
    };

    fn segment(folder: &Path, name: &str, bytes: usize, age: Duration) {
        let path = folder.join(name);
        fs::write(&path, vec![0; bytes]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn old_segments_and_the_oldest_of_too_many_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
        segment(folder.path(), "rec-1-0.hgr", 10, 3 * day);
        segment(folder.path(), "rec-2-0.hgr.age", 10, 3 * hour);
        segment(folder.path(), "rec-3-0.hgr", 10, 2 * hour);
        segment(folder.path(), "rec-4-0.hgr", 10, hour);
        segment(folder.path(), "notes.txt", 1000, 9 * day);

        let keep = RecordRetention { days: 2, size: 25 };
        remove_old(folder.path(), keep).unwrap();

        assert_eq!(
            names(folder.path()),
            ["notes.txt", "rec-3-0.hgr", "rec-4-0.hgr"]
        );
    }

    fn writer(folder: &Path) -> SegmentWriter {
        let settings = RecordSettings {
            path: folder.to_owned(),
            what: RecordSelection::default(),
            redact: RecordRedaction::None,
            encrypt_to: Vec::new(),
            keep: RecordRetention::default(),
        };
        SegmentWriter::new(settings, None, Arc::default())
    }

    fn exchange(id: &str, bytes: usize) -> RecordedExchange {
        let line = serde_json::json!({
            "v": 1, "id": id, "time": "T", "revision": "r", "caller": "", "dialect": "gemini",
            "operation": "o", "method": "POST", "target": "/", "headers": [],
            "request": { "text": "x".repeat(bytes) }, "rounds": [], "events": [],
            "outcome": { "action": "pass", "end": "complete", "ms": 1 },
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn a_line_that_is_too_large_for_a_frame_is_dropped_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path());
        let too_large = usize::try_from(MAX_LINE_BYTES).unwrap();
        for (id, bytes) in [("a", 1), ("b", too_large), ("c", 1)] {
            writer.add_line(&exchange(id, bytes));
        }
        writer.flush();

        let read = read(folder.path(), None).unwrap();
        let ids: Vec<String> = read.map(|exchange| exchange.unwrap().id).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(writer.metrics.recording_dropped.get(), 1);
    }

    #[test]
    fn a_segment_whose_first_frame_cannot_be_written_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path());
        let path = folder.path().join("rec-1-0.hgr");
        fs::write(&path, "").unwrap();
        writer.segment = Some(Segment {
            file: SegmentFile::Plain(File::open(&path).unwrap()),
            path,
            bytes: 0,
            unsealed_lines: 0,
            opened: Instant::now(),
        });

        writer.add_line(&exchange("a", 1));
        writer.flush();

        assert_eq!(writer.metrics.recording_dropped.get(), 1);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn two_gateways_remove_old_segments_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..300 {
            let name = format!("rec-{number}-0.hgr");
            segment(folder.path(), &name, 1, Duration::from_hours(72));
        }
        let keep = RecordRetention { days: 1, size: 1 };

        thread::scope(|scope| {
            let removals = [(); 4].map(|()| scope.spawn(|| remove_old(folder.path(), keep)));
            for removal in removals {
                removal.join().unwrap().unwrap();
            }
        });

        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_segment_that_cannot_be_removed_prevents_neither_others_nor_writing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("rec-1-0.hgr")).unwrap();
        let old = File::open(folder.path().join("rec-1-0.hgr")).unwrap();
        let month = Duration::from_hours(24 * 30);
        old.set_modified(SystemTime::now() - month).unwrap();
        segment(folder.path(), "rec-2-0.hgr", 10, month);
        let mut writer = writer(folder.path());
        writer.add_line(&exchange("a", 1));
        writer.flush();

        assert!(!names(folder.path()).contains(&"rec-2-0.hgr".to_owned()));
        assert_eq!(writer.metrics.recording_failures.get(), 1);
        assert_eq!(writer.metrics.recording_exchanges.get(), 1);
    }

    /// Segment that is encrypted into a pipe, and the end of the pipe that reads it.
    fn encrypted_segment(folder: &Path) -> (Segment, io::PipeReader) {
        let (reader, pipe) = io::pipe().unwrap();
        let path = folder.join("rec-1-0.hgr.age");
        fs::write(&path, "").unwrap();
        let key = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
        let file = File::from(OwnedFd::from(pipe));
        let file = Encryptor::new(file, &[key.parse().unwrap()]).unwrap();
        let segment = Segment {
            path,
            file: SegmentFile::Encrypted(Box::new(file)),
            bytes: 0,
            unsealed_lines: 0,
            opened: Instant::now(),
        };
        (segment, reader)
    }

    /// Exchange whose line does not become shorter than a chunk of an encrypted file.
    fn large_exchange(id: &str) -> RecordedExchange {
        let hashes = (0..3000).map(|number| sha256_hex(number.to_string()));
        RecordedExchange {
            request: RecordedBody::Text(hashes.collect()),
            ..exchange(id, 1)
        }
    }

    #[test]
    fn encrypted_exchanges_count_once_their_chunk_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path());
        let (segment, mut reader) = encrypted_segment(folder.path());
        let reading = thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        writer.segment = Some(segment);
        let mut counts = Vec::new();
        for exchange in [exchange("a", 1), large_exchange("b")] {
            writer.add_line(&exchange);
            writer.flush();
            counts.push(writer.metrics.recording_exchanges.get());
        }
        writer.close();
        reading.join().unwrap().unwrap();

        assert_eq!(counts, [0, 1]);
        assert_eq!(writer.metrics.recording_exchanges.get(), 2);
        assert_eq!(writer.metrics.recording_dropped.get(), 0);
    }

    #[test]
    fn encrypted_exchanges_whose_chunk_cannot_be_written_are_dropped() {
        for exchanges in [
            vec![exchange("a", 1)],
            vec![exchange("a", 1), large_exchange("b")],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = writer(folder.path());
            let (segment, reader) = encrypted_segment(folder.path());
            drop(reader);
            writer.segment = Some(segment);
            for exchange in &exchanges {
                writer.add_line(exchange);
                writer.flush();
            }
            writer.close();

            assert_eq!(writer.metrics.recording_exchanges.get(), 0);
            let dropped = writer.metrics.recording_dropped.get();
            assert_eq!(dropped, exchanges.len() as u64);
        }
    }
}
