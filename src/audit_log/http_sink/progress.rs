//! `PATH.sent`: the place of the last line that the endpoint has accepted.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use chained_log::ReadPosition;

use crate::file_replacement::{PRIVATE_MODE, replace_file};

/// Returns the place that is kept for a log; `None` if there is none, or if it is
/// unreadable, which is logged. Blocks.
pub(in crate::audit_log) fn load_position(log: &Path) -> Option<ReadPosition> {
    load(log).unwrap_or_else(|error| {
        tracing::warn!(%error, "audit sink: the place of the last sent line is unreadable");
        None
    })
}

fn load(log: &Path) -> io::Result<Option<ReadPosition>> {
    match fs::read(path_of(log)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the place in one step: after a crash it is the old or the new one.
///
/// # Errors
///
/// Fails if the file cannot be written; the old place is kept.
pub(super) fn save(log: &Path, position: &ReadPosition) -> io::Result<()> {
    let position = serde_json::to_vec(position)?;
    replace_file(&path_of(log), &position, PRIVATE_MODE)
}

fn path_of(log: &Path) -> PathBuf {
    log.with_added_extension("sent")
}
