//! Notifications about changes of some files and of names in their directories.
//!
//! `notify` cannot exclude data that is written to other files of a directory:
//! 20,000 lines of a log beside the config woke it 7,236 times.

use std::{
    collections::BTreeSet,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Events of a directory: a name in it refers to another file than before, or a file in it has
/// another mode or owner. A file that could not be read has no watch of its own.
const DIRECTORY_EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(ANCESTOR_EVENTS);

/// Events of a directory and of those above it: their names refer to other directories than
/// before. One directory may be above several, so events are added.
const ANCESTOR_EVENTS: WatchFlags = WatchFlags::DELETE_SELF
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::MASK_ADD);

/// Events of a file: it is written or replaced.
const FILE_EVENTS: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Space for one event with the longest file name.
const EVENT_BUFFER_BYTES: usize = 1024;

/// Links that are followed to one file, as in Linux.
const MAX_LINKS: usize = 40;

/// Watches files, their directories and those of links on the way, with all above them: editors,
/// deployments and Kubernetes replace files, directories or links, so that names refer to other
/// files than those that are watched.
#[derive(Debug)]
pub(super) struct FileWatcher(AsyncFd<OwnedFd>);

impl FileWatcher {
    /// Starts to watch. Symbolic links are followed to their current targets.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no resources for a watcher.
    #[expect(
        deprecated,
        reason = "an `OwnedFd` keeps its descriptor open; the replacement is `unsafe`, for types \
                  that may not"
    )]
    pub(super) fn new(files: &[PathBuf]) -> io::Result<Self> {
        let watcher = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut directories = BTreeSet::new();
        for file in files {
            add_directories(file, &mut directories);
        }
        for directory in directories {
            watch_directory(&watcher, &directory);
        }
        for file in files {
            // Missing files are covered by the watch on their directory, or on one above it.
            inotify::add_watch(&watcher, file, FILE_EVENTS).ok();
        }
        AsyncFd::with_interest(watcher, Interest::READABLE).map(Self)
    }

    /// Waits until something may have changed.
    ///
    /// # Errors
    ///
    /// Returns an error if there will be no further events.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let mut events = [0; EVENT_BUFFER_BYTES];
        let read = |watcher: &OwnedFd| Ok(rustix::io::read(watcher, &mut events)?);
        self.0.async_io(Interest::READABLE, read).await.map(drop)
    }
}

/// Watches the names in a directory, or in the nearest one above it that exists, and the
/// replacement of all directories above that.
fn watch_directory(watcher: &OwnedFd, directory: &Path) {
    let mut events = DIRECTORY_EVENTS;
    for path in directory.ancestors().map(or_current) {
        let added = inotify::add_watch(watcher, path, events);
        // A missing directory becomes a name in the next one.
        if let Err(Errno::NOENT | Errno::NOTDIR) = added {
            continue;
        }
        if let Err(error) = added
            && events == DIRECTORY_EVENTS
        {
            let path = path.display();
            tracing::warn!(%error, config.path = %path, "failed to watch a config directory");
        }
        events = ANCESTOR_EVENTS;
    }
}

/// Adds the directories of all names that a path of a file refers to: its own, and those of links.
fn add_directories(file: &Path, directories: &mut BTreeSet<PathBuf>) {
    let mut path = file.to_owned();
    for _ in 0..MAX_LINKS {
        directories.insert(parent(&path).to_owned());
        let Some((link, target)) = first_link(&path) else {
            return;
        };
        let directory = parent(&link);
        directories.insert(directory.to_owned());
        let rest = path.strip_prefix(&link).unwrap_or(Path::new(""));
        let target = directory.join(target);
        path = if rest == Path::new("") {
            target
        } else {
            target.join(rest)
        };
    }
}

/// Returns the first link on the way to a file, and its target.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut prefixes: Vec<&Path> = path.ancestors().collect();
    prefixes.reverse();
    prefixes.into_iter().find_map(|prefix| {
        let target = fs::read_link(prefix).ok()?;
        Some((prefix.to_owned(), target))
    })
}

/// Returns the parent directory; the current one for a bare name.
fn parent(file: &Path) -> &Path {
    or_current(file.parent().unwrap_or(Path::new("")))
}

/// Returns a directory; the current one for an empty path.
fn or_current(directory: &Path) -> &Path {
    if directory == Path::new("") {
        Path::new(".")
    } else {
        directory
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, slice, time::Duration};

    use tempfile::TempDir;
    use tokio::time::timeout;

    use super::*;

    const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_new_mode_of_a_file_without_a_watch_is_noticed() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("key");
        let mut watcher = FileWatcher::new(slice::from_ref(&file)).unwrap();
        // Without a watch, as one that cannot be read, which no file is for root.
        fs::write(&file, "key").unwrap();
        let created = timeout(EVENT_TIMEOUT, watcher.changed()).await;
        created.unwrap().unwrap();

        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

        let changed = timeout(EVENT_TIMEOUT, watcher.changed()).await;
        changed.unwrap().unwrap();
    }
}
