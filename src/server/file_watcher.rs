//! What the kernel tells of some files and of the folders they are in.
//!
//! Of a folder only what comes and goes is told: a log may lie there, too, and each
//! of its lines would be told of.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};

/// What is told of a folder: a name in it stands for something else than before.
const FOLDER: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::ONLYDIR);

/// What is told of a file: it is written, or is another one from now on.
const FILE: WatchMask = WatchMask::MODIFY
    .union(WatchMask::CLOSE_WRITE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF);

/// Room for one notice, whatever the name in it.
const ROOM: usize = 1024;

/// Tells that files may have changed.
#[derive(Debug)]
pub(super) struct Notices(EventStream<[u8; ROOM]>);

impl Notices {
    /// Listens from now on. A link is followed to the file that it leads to now.
    pub(super) fn of(files: &[PathBuf]) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let folders: BTreeSet<&Path> = files.iter().map(|it| folder_of(it)).collect();
        for folder in folders {
            if let Err(error) = inotify.watches().add(folder, FOLDER) {
                tracing::warn!(%error, "failed to watch a config directory");
            }
        }
        for file in files {
            // Of one that is not there, its folder tells.
            inotify.watches().add(file, FILE).ok();
        }
        inotify.into_event_stream([0; ROOM]).map(Self)
    }

    /// Waits for the next one. One is as good as many.
    pub(super) async fn next(&mut self) -> io::Result<()> {
        let ended = || Err(io::ErrorKind::UnexpectedEof.into());
        self.0.next().await.unwrap_or_else(ended).map(drop)
    }
}

/// A bare name is a file of the current folder.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    }
}
