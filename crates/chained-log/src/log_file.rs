//! The files of a log: `PATH`, to which lines are appended; `PATH.N`, rotated files,
//! where N is the sequence number of their first line; `PATH.torn-N`, the incomplete
//! line N that a crash left; `PATH.lock`, locked by the process that writes.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, ErrorKind, Read, Seek, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{
    error::OpenError,
    hash_chain::{ChainHead, LineLink},
    observer::LogNotice,
    paths::{directory, sync_directory, with_suffix},
    write_options::{Durability, WriteOptions},
};

/// Readable and writable by the owner only.
const FILE_MODE: u32 = 0o600;

/// Length of a line that is read, in bytes; written lines are far shorter.
pub(crate) const MAX_LINE_BYTES: u64 = 128 * 1024 * 1024;

/// Bytes at the end of a file that are treated as an incomplete write. A crash leaves
/// at most one batch of lines.
const MAX_TORN_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes per read when searching backwards from the end of a file.
const READ_BYTES: u64 = 64 * 1024;

/// Every line begins so.
const LINE_START: &[u8] = b"{\"seq\":";

/// The file to which lines are appended.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    /// Length up to the end of the last complete line.
    len: u64,
    /// Sequence number of the first line.
    first_seq: u64,
    /// True if a crash or a failed write may have left bytes after `len`.
    is_dirty: bool,
    /// Number of bytes after `len` that a crash has left, until they are copied.
    torn_bytes: u64,
    /// True if the file was removed, and no line was written since.
    is_gone: bool,
    lock: File,
}

impl LogFile {
    /// Opens the log at `path`. Returns the file and the head of its chain. Incomplete lines at
    /// its end stay until [`Self::copy_torn_lines`] and [`Self::append`].
    pub(crate) fn open(path: &Path) -> Result<(Self, ChainHead), OpenError> {
        let lock = lock(path)?;
        let failed = |cause| OpenError::io(path, cause);
        let mut head = ChainHead::default();
        if let Some(newest) = rotated_files(path).map_err(failed)?.last() {
            let file = File::open(newest).map_err(failed)?;
            let last = last_line(&file).map_err(failed)?;
            (_, head) = last.ok_or_else(|| OpenError::not_a_log(newest))?;
        }
        let mut log = Self {
            path: path.to_owned(),
            file: None,
            len: 0,
            first_seq: head.seq + 1,
            is_dirty: false,
            torn_bytes: 0,
            is_gone: false,
            lock,
        };
        if path.try_exists().map_err(failed)? {
            let file = log.reopen().map_err(failed)?;
            let size = file.metadata().map_err(failed)?.len();
            match last_line(&file).map_err(failed)? {
                Some((end, last)) => {
                    (log.len, head) = (end, last);
                    let first_seq = first_seq(&file).map_err(failed)?;
                    log.first_seq = first_seq.unwrap_or(log.first_seq);
                }
                // Empty, or the very first line is incomplete.
                None if size == 0 || is_torn_line(&file, size, head.seq + 1) => (),
                None => return Err(OpenError::not_a_log(path)),
            }
            log.torn_bytes = size - log.len;
            log.is_dirty = log.torn_bytes > 0;
            log.file = Some(file);
        }
        Ok((log, head))
    }

    /// Copies incomplete lines that a crash has left into a file of their own, once. Returns the
    /// notice about them. The next [`Self::append`] cuts them off.
    pub(crate) fn copy_torn_lines(&mut self, head: &ChainHead) -> io::Result<Option<LogNotice>> {
        let Some(file) = self.file.as_ref().filter(|_| self.torn_bytes > 0) else {
            return Ok(None);
        };
        let bytes = self.torn_bytes;
        let mut tail = vec![0; usize::try_from(bytes).unwrap_or_default()];
        file.read_exact_at(&mut tail, self.len)?;
        let path = with_suffix(&self.path, &format!("torn-{}", head.seq + 1));
        // A file left by an earlier attempt has the same content.
        let mut torn = open_options().create(true).open(&path)?;
        torn.set_len(0)?;
        torn.write_all(&tail)?;
        torn.sync_all()?;
        sync_directory(&self.path)?;
        self.torn_bytes = 0;
        let name = path.file_name().unwrap_or_default();
        Ok(Some(LogNotice::Repaired {
            bytes,
            file: name.to_string_lossy().into_owned(),
        }))
    }

    /// Appends complete lines, the first of which has the sequence number `first_seq`.
    ///
    /// # Errors
    ///
    /// Fails with none of the lines in the file: what a failed write left is cut off
    /// at once, or else before the next write.
    pub(crate) fn append(
        &mut self,
        lines: &[u8],
        first_seq: u64,
        options: WriteOptions,
    ) -> io::Result<()> {
        let added = lines.len() as u64;
        if self.len > 0 && self.len + added > options.max_file_bytes {
            self.rotate(options.max_rotated_files)?;
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.create(first_seq, options.durability)?,
        };
        let written = self.write(&mut file, lines, options.durability);
        if written.is_err() {
            self.is_dirty = file.set_len(self.len).is_err();
        } else {
            self.len += added;
            self.is_gone = false;
        }
        self.file = Some(file);
        written
    }

    /// Returns whether the file was removed from its path, and no line was written since.
    ///
    /// # Errors
    ///
    /// Fails if another file is at its path.
    pub(crate) fn is_gone(&mut self) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(self.is_gone);
        };
        match is_at(file, &self.path) {
            Ok(true) => Ok(self.is_gone),
            Ok(false) => Err(io::Error::other("another file is at the log's path")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (self.file, self.len, self.is_dirty) = (None, 0, false);
                self.is_gone = true;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, file: &mut File, lines: &[u8], durability: Durability) -> io::Result<()> {
        self.cut_dirty_tail(file)?;
        // The file is open for appending.
        file.write_all(lines)?;
        match durability {
            Durability::Synced => file.sync_data(),
            Durability::Buffered => Ok(()),
        }
    }

    fn cut_dirty_tail(&mut self, file: &File) -> io::Result<()> {
        if self.is_dirty {
            file.set_len(self.len)?;
            self.is_dirty = false;
        }
        Ok(())
    }

    /// Renames the full file and removes the oldest rotated files.
    fn rotate(&mut self, max_rotated_files: usize) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let renamed = self
                .cut_dirty_tail(&file)
                .and_then(|()| fs::rename(&self.path, rotated_path(&self.path, self.first_seq)));
            if renamed.is_err() {
                self.file = Some(file);
                return renamed;
            }
        }
        self.len = 0;
        let rotated = rotated_files(&self.path)?;
        let excess = rotated.len().saturating_sub(max_rotated_files);
        for oldest in rotated.iter().take(excess) {
            fs::remove_file(oldest)?;
        }
        // The directory is synced when the next file is created.
        Ok(())
    }

    fn create(&mut self, first_seq: u64, durability: Durability) -> io::Result<File> {
        self.lock_again_if_moved()?;
        let file = match open_options().create_new(true).open(&self.path) {
            // An earlier attempt created it, and then failed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let file = self.reopen()?;
                if file.metadata()?.len() > 0 {
                    return Err(io::Error::other("another file is at the log's path"));
                }
                file
            }
            opened => opened?,
        };
        self.first_seq = first_seq;
        // A created or renamed file survives a crash once its directory is synced.
        if durability == Durability::Synced {
            sync_directory(&self.path)?;
        }
        Ok(file)
    }

    /// Locks a new lock file if that of the log was moved away or removed with its other files.
    fn lock_again_if_moved(&mut self) -> io::Result<()> {
        if !is_at(&self.lock, &with_suffix(&self.path, "lock")).unwrap_or(false) {
            self.lock = lock(&self.path).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn reopen(&self) -> io::Result<File> {
        let file = open_options().open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if metadata.permissions().mode() & 0o777 != FILE_MODE {
            file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
        }
        Ok(file)
    }
}

/// Returns the rotated files of a log, oldest first.
///
/// # Errors
///
/// Fails if the log's folder cannot be read.
pub fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let name = path.file_name().unwrap_or_default();
    let mut rotated: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory(path))? {
        let entry = entry?;
        if let Some(first_seq) = rotated_seq(&entry.file_name(), name) {
            rotated.push((first_seq, directory(path).join(entry.file_name())));
        }
    }
    rotated.sort();
    Ok(rotated.into_iter().map(|(_, path)| path).collect())
}

/// Returns whether a process holds the lock of the log at `path`.
pub(crate) fn is_locked(path: &Path) -> bool {
    let lock = File::open(with_suffix(path, "lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let lock_path = with_suffix(path, "lock");
    let failed = |cause| OpenError::io(&lock_path, cause);
    let lock = open_options().create(true).open(&lock_path);
    let lock = lock.map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => {
            let path = path.to_owned();
            Err(OpenError::Locked { path })
        }
        Err(fs::TryLockError::Error(cause)) => Err(failed(cause)),
    }
}

/// Returns whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, found) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino()))
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A symbolic link could redirect records to another file.
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    options
        .read(true)
        .append(true)
        .mode(FILE_MODE)
        .custom_flags(no_follow);
    options
}

/// Returns the path of a rotated file. Pads the sequence number, so that names sort as numbers do.
pub(crate) fn rotated_path(path: &Path, first_seq: u64) -> PathBuf {
    with_suffix(path, &format!("{first_seq:020}"))
}

/// Returns the sequence number in the name of a rotated file.
pub(crate) fn rotated_seq(name: &OsStr, log_name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let digits = name.strip_prefix(log_name.to_str()?)?.strip_prefix('.')?;
    let is_padded = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_padded.then(|| digits.parse().ok()).flatten()
}

/// Returns whether a file without a complete line is the begin of one. A long one must have the
/// expected sequence number, so that no other file is moved aside.
fn is_torn_line(file: &File, size: u64, seq: u64) -> bool {
    let mut expected = LINE_START.to_vec();
    if size >= READ_BYTES {
        expected.extend_from_slice(format!("{seq},").as_bytes());
    }
    let mut start = vec![0; expected.len()];
    let read = file.read_at(&mut start, 0).unwrap_or_default();
    size < MAX_TORN_BYTES && read > 0 && start.get(..read) == expected.get(..read)
}

/// Returns the sequence number of the first line of a file, which its first intact line shows.
pub(crate) fn first_seq(mut file: &File) -> io::Result<Option<u64>> {
    file.rewind()?;
    let mut reader = BufReader::new(file);
    let mut damaged = 0;
    while let Some(line) = read_line(&mut reader)? {
        if let Some(link) = LineLink::parse(&line) {
            return Ok(link.head.seq.checked_sub(damaged));
        }
        damaged += 1;
    }
    Ok(None)
}

/// Reads a complete line without its line break.
pub(crate) fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    Ok(line.pop_if(|byte| *byte == b'\n').map(|_| line))
}

/// Opens a file; `None` if there is none.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the last intact line: the offset of its end, and its position in the chain.
/// Bytes after it are what a crash left.
pub(crate) fn last_line(file: &File) -> io::Result<Option<(u64, ChainHead)>> {
    let size = file.metadata()?.len();
    let mut end = size;
    while end > 0 && size - end < MAX_TORN_BYTES {
        let start = line_start(file, end - 1)?;
        let mut line = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(&mut line, start)?;
        if let Some(link) = line.strip_suffix(b"\n").and_then(LineLink::parse) {
            return Ok(Some((end, link.head)));
        }
        end = start;
    }
    Ok(None)
}

/// Returns the start of the line whose last byte is at `last`.
fn line_start(file: &File, last: u64) -> io::Result<u64> {
    let mut end = last;
    while end > 0 {
        let start = end.saturating_sub(READ_BYTES);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(line_break) = memchr::memrchr(b'\n', &bytes) {
            return Ok(start + line_break as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_lock_that_is_a_link_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        symlink("elsewhere", folder.path().join("log.lock")).unwrap();

        let error = LogFile::open(&path).unwrap_err().to_string();

        assert!(error.contains("log.lock`: "), "{error}");
    }

    #[test]
    fn an_incomplete_first_line_names_no_rotated_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "{\"seq\":77,\"prev\":\"0").unwrap();

        let (log, head) = LogFile::open(&path).unwrap();

        assert_eq!((log.first_seq, head.seq), (1, 0));
        assert_eq!(log.torn_bytes, 19);
    }
}
