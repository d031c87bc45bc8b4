//! Paths of the files of a log, and their directory.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Makes a created, renamed or removed file survive a crash.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// Returns the directory of a log.
pub(crate) fn directory(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// Returns the path of a further file of a log.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}
