//! Notifications about changes of some files and of names in their directories.
//!
//! `notify` cannot exclude data that is written to other files of a directory:
//! 20,000 lines of a log beside the config woke it 7,236 times.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};

/// Events of a directory: a name in it refers to another file than before.
const DIRECTORY_EVENTS: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::ONLYDIR);

/// Events of a file: it is written or replaced.
const FILE_EVENTS: WatchMask = WatchMask::MODIFY
    .union(WatchMask::CLOSE_WRITE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF);

/// Space for one event with the longest file name.
const EVENT_BUFFER_BYTES: usize = 1024;

/// Watches files and their parent directories: editors and Kubernetes replace files, so
/// that their names refer to other files than those that are watched.
#[derive(Debug)]
pub(super) struct FileWatcher(EventStream<[u8; EVENT_BUFFER_BYTES]>);

impl FileWatcher {
    /// Starts to watch. Symbolic links are followed to their current targets.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no resources for a watcher.
    pub(super) fn new(files: &[PathBuf]) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let directories: BTreeSet<&Path> = files.iter().map(|file| parent(file)).collect();
        for directory in directories {
            if let Err(error) = inotify.watches().add(directory, DIRECTORY_EVENTS) {
                tracing::warn!(%error, "failed to watch a config directory");
            }
        }
        for file in files {
            // Missing files are covered by the watch on their parent directory.
            inotify.watches().add(file, FILE_EVENTS).ok();
        }
        inotify.into_event_stream([0; EVENT_BUFFER_BYTES]).map(Self)
    }

    /// Waits until something may have changed.
    ///
    /// # Errors
    ///
    /// Returns an error if there will be no further events.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let ended = || Err(io::ErrorKind::UnexpectedEof.into());
        self.0.next().await.unwrap_or_else(ended).map(drop)
    }
}

/// Returns the parent directory; the current one for a bare name.
fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if directory != Path::new("") => directory,
        Some(_) | None => Path::new("."),
    }
}
