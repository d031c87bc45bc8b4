//! `PATH.sent`: the place of the last line that the endpoint has accepted.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use chained_log::ReadPosition;

/// Readable and writable by the owner only, as the log.
const FILE_MODE: u32 = 0o600;

/// Returns the place that is kept for a log; `None` if there is none, or if it is
/// unreadable, which is logged. Blocks.
pub(in crate::audit_log) fn load_position(log: &Path) -> Option<ReadPosition> {
    load(log).unwrap_or_else(|error| {
        tracing::warn!(%error, "audit sink: the place of the last sent line is unreadable");
        None
    })
}

fn load(log: &Path) -> io::Result<Option<ReadPosition>> {
    match fs::read(with_suffix(log, "sent")) {
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
    let next = with_suffix(log, "sent-next");
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE);
    let mut file = options.open(&next)?;
    file.write_all(&serde_json::to_vec(position)?)?;
    file.sync_data()?;
    fs::rename(next, with_suffix(log, "sent"))
}

fn with_suffix(log: &Path, suffix: &str) -> PathBuf {
    let mut name = log.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    log.with_file_name(name)
}
