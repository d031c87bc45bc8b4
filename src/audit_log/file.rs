//! The files of a log: `PATH`, to which lines are added; `PATH.N`, which were
//! full, where N is the number of their first line; `PATH.torn-N`, what a crash
//! left of the lines from N on; `PATH.lock`, held as long as somebody writes.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    AuditError, cannot_open,
    hash_chain::{self, Head},
};
use crate::config::{AuditMode, Rotation};

/// For the owner alone.
const MODE: u32 = 0o600;

/// The most that is taken for what a crash left, in bytes; it cannot leave more
/// than what is written at once.
const MOST_TORN: u64 = 64 * 1024 * 1024;

/// How much is read at once on the way back from a file's end.
const STEP: u64 = 64 * 1024;

/// What was cut off a file's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) bytes: u64,
    /// The name of the file that it is in now.
    pub(super) file: String,
}

/// The file that lines are added to.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    /// How long it is, as far as it is good.
    len: u64,
    /// The number of its first line.
    first: u64,
    /// Whether something may stand after that.
    dirty: bool,
    _lock: File,
}

impl LogFile {
    /// Opens the log at `path`: its file, where its chain has come to, and what
    /// was cut off.
    pub(super) fn open(path: &Path) -> Result<(Self, Head, Option<Torn>), AuditError> {
        let lock = lock(path)?;
        let failed = |it| cannot_open(path, it);
        let older = older(path).map_err(failed)?;
        let mut head = Head::default();
        if let Some(newest) = older.last() {
            let file = File::open(newest).map_err(failed)?;
            let (_, link) = last_line(&file).map_err(failed)?.ok_or_else(|| {
                let path = newest.clone();
                AuditError::Alien { path }
            })?;
            head = link;
        }
        let mut this = Self {
            path: path.to_owned(),
            file: None,
            len: 0,
            first: head.seq + 1,
            dirty: false,
            _lock: lock,
        };
        let mut torn = None;
        if path.try_exists().map_err(failed)? {
            let file = this.reopen().map_err(failed)?;
            let size = file.metadata().map_err(failed)?.len();
            match last_line(&file).map_err(failed)? {
                Some((end, last)) => (this.len, head) = (end, last),
                // What was torn is the first line of all.
                None if size < STEP && begins_like_a_line(&file) => (),
                None if size == 0 => (),
                None => {
                    let path = path.to_owned();
                    return Err(AuditError::Alien { path });
                }
            }
            this.first = first_number(&file).unwrap_or(head.seq + 1);
            if size > this.len {
                torn = Some(this.set_aside(&file, &head).map_err(failed)?);
            }
            this.file = Some(file);
        }
        Ok((this, head, torn))
    }

    /// Adds whole lines, of which the first has the number `first`. If this
    /// fails, nothing of them is there, or will be before the next are added.
    pub(super) fn append(
        &mut self,
        lines: &[u8],
        first: u64,
        rotation: Rotation,
        mode: AuditMode,
    ) -> io::Result<()> {
        let added = lines.len() as u64;
        if self.len > 0 && self.len + added > rotation.size {
            self.rotate(rotation)?;
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.create(first, mode)?,
        };
        let written = self.write(&mut file, lines, mode);
        if written.is_err() {
            // Cut off what is there of them now, or else the next time.
            self.dirty = file.set_len(self.len).is_err();
        } else {
            self.len += added;
        }
        self.file = Some(file);
        written
    }

    /// Whether the file is not where it should be, and so must be made anew.
    pub(super) fn is_gone(&mut self) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let ours = file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(false),
            Ok(_) => Err(io::Error::other("another file is in its place")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (self.file, self.len, self.dirty) = (None, 0, false);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, file: &mut File, lines: &[u8], mode: AuditMode) -> io::Result<()> {
        if self.dirty {
            file.set_len(self.len)?;
            self.dirty = false;
        }
        // It is open for appending, so this goes to its end.
        file.write_all(lines)?;
        match mode {
            AuditMode::Durable => file.sync_data(),
            AuditMode::BestEffort => Ok(()),
        }
    }

    /// Puts the full file aside, and removes those that are too old.
    fn rotate(&mut self, rotation: Rotation) -> io::Result<()> {
        if let Some(file) = &self.file {
            if self.dirty {
                file.set_len(self.len)?;
                self.dirty = false;
            }
            fs::rename(&self.path, older_path(&self.path, self.first))?;
        }
        (self.file, self.len) = (None, 0);
        let older = older(&self.path)?;
        for old in older.iter().take(older.len().saturating_sub(rotation.keep)) {
            fs::remove_file(old)?;
        }
        // The folder is synced when the next file is made.
        Ok(())
    }

    fn create(&mut self, first: u64, mode: AuditMode) -> io::Result<File> {
        let file = match options().create_new(true).open(&self.path) {
            // It was made before, and then something failed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let file = self.reopen()?;
                if file.metadata()?.len() > 0 {
                    return Err(io::Error::other("another file is in its place"));
                }
                file
            }
            opened => opened?,
        };
        self.first = first;
        self.sync_folder(mode)?;
        Ok(file)
    }

    fn reopen(&self) -> io::Result<File> {
        let file = options().open(&self.path)?;
        let known = file.metadata()?;
        if !known.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        if known.permissions().mode() & 0o777 != MODE {
            file.set_permissions(fs::Permissions::from_mode(MODE))?;
        }
        Ok(file)
    }

    /// A name that was made or changed is on the disk when its folder is.
    fn sync_folder(&self, mode: AuditMode) -> io::Result<()> {
        match mode {
            AuditMode::BestEffort => Ok(()),
            AuditMode::Durable => File::open(folder(&self.path))?.sync_all(),
        }
    }

    /// Moves what stands after the last good line into a file of its own.
    fn set_aside(&self, file: &File, head: &Head) -> io::Result<Torn> {
        let size = file.metadata()?.len();
        let mut tail = vec![0; usize::try_from(size - self.len).unwrap_or_default()];
        file.read_exact_at(&mut tail, self.len)?;
        let aside = with_ending(&self.path, &format!("torn-{}", head.seq + 1));
        // One from an earlier crash, after which nothing could be written, says
        // the same.
        let mut torn = options().create(true).open(&aside)?;
        torn.set_len(0)?;
        torn.write_all(&tail)?;
        torn.sync_all()?;
        file.set_len(self.len)?;
        file.sync_all()?;
        File::open(folder(&self.path))?.sync_all()?;
        let name = aside.file_name().unwrap_or_default();
        Ok(Torn {
            bytes: size - self.len,
            file: name.to_string_lossy().into_owned(),
        })
    }
}

/// The full files of a log, the oldest first.
pub(super) fn older(path: &Path) -> io::Result<Vec<PathBuf>> {
    let name = path.file_name().unwrap_or_default();
    let mut older: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        if let Some(number) = number_of(&entry.file_name(), name) {
            older.push((number, folder(path).join(entry.file_name())));
        }
    }
    older.sort();
    Ok(older.into_iter().map(|it| it.1).collect())
}

/// Whether somebody writes the log at `path` now.
pub(super) fn is_held(path: &Path) -> bool {
    let lock = File::open(with_ending(path, "lock"));
    lock.is_ok_and(|it| matches!(it.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

fn lock(path: &Path) -> Result<File, AuditError> {
    let lock = options().create(true).open(with_ending(path, "lock"));
    let lock = lock.map_err(|it| cannot_open(path, it))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => {
            let path = path.to_owned();
            Err(AuditError::Taken { path })
        }
        Err(fs::TryLockError::Error(error)) => Err(cannot_open(path, error)),
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A link could lead lines to where they do not belong.
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    options
        .read(true)
        .append(true)
        .mode(MODE)
        .custom_flags(no_link);
    options
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// Padded, so that names sort as numbers do.
fn older_path(path: &Path, first: u64) -> PathBuf {
    with_ending(path, &format!("{first:020}"))
}

fn number_of(name: &OsStr, log: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let number = name.strip_prefix(log.to_str()?)?.strip_prefix('.')?;
    let digits = number.len() == 20 && number.bytes().all(|it| it.is_ascii_digit());
    digits.then(|| number.parse().ok()).flatten()
}

/// Whether a file is the begin of a first line.
fn begins_like_a_line(file: &File) -> bool {
    let expected = b"{\"seq\":";
    let mut start = [0; 7];
    let read = file.read_at(&mut start, 0).unwrap_or_default();
    read > 0 && start.get(..read) == expected.get(..read)
}

fn first_number(file: &File) -> Option<u64> {
    let mut start = [0; 32];
    let read = file.read_at(&mut start, 0).ok()?;
    let start = str::from_utf8(start.get(..read)?).ok()?;
    let digits = start.strip_prefix("{\"seq\":")?;
    digits.split(',').next()?.parse().ok()
}

/// The last line that is good: where it ends, and what it says of its place.
/// What stands after it is what a crash left.
fn last_line(file: &File) -> io::Result<Option<(u64, Head)>> {
    let size = file.metadata()?.len();
    let mut end = size;
    while end > 0 && size - end < MOST_TORN {
        let start = line_start(file, end - 1)?;
        let mut line = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(&mut line, start)?;
        let good = line.strip_suffix(b"\n").and_then(hash_chain::read);
        if let Some(good) = good {
            return Ok(Some((end, good.head)));
        }
        end = start;
    }
    Ok(None)
}

/// Where the line begins that holds the byte at `at`, or ends there.
fn line_start(file: &File, at: u64) -> io::Result<u64> {
    let mut end = at;
    while end > 0 {
        let from = end.saturating_sub(STEP);
        let mut piece = vec![0; usize::try_from(end - from).unwrap_or_default()];
        file.read_exact_at(&mut piece, from)?;
        if let Some(found) = memchr::memrchr(b'\n', &piece) {
            return Ok(from + found as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}
