//! File operations of transcripts.

use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use uuid::Uuid;

/// Serialises records, one per line.
pub(super) fn in_lines(records: &[Value]) -> String {
    let mut text = String::new();
    for record in records {
        text.push_str(&record.to_string());
        text.push('\n');
    }
    text
}

/// Creates a transcript. Returns its path and size.
pub(super) fn make(
    directory: &Path,
    id: &str,
    now: &str,
    head: &Value,
) -> io::Result<(PathBuf, usize)> {
    let minute: String = now.chars().take("2026-11-22T06-11".len()).collect();
    let minute = minute.replace(':', "-");
    let named: String = id.chars().take(8).collect();
    let named = named.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    let line = in_lines(std::slice::from_ref(head));
    let mut name = format!("session-{minute}-{named}.jsonl");
    loop {
        let path = directory.join(&name);
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(line.as_bytes())?;
                return Ok((path, line.len()));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let other = Uuid::new_v4().simple().to_string();
                let other: String = other.chars().take(8).collect();
                name = format!("session-{minute}-{other}.jsonl");
            }
            Err(error) => return Err(error),
        }
    }
}

/// Appends lines to a file. It is not created again: its session may have ended meanwhile.
pub(super) fn append(path: &Path, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(lines.as_bytes())
}

/// Runs file operations on a blocking thread and logs failures.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let done = tokio::task::spawn_blocking(work).await;
    match done.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(done) => Some(done),
        Err(error) => {
            log_failure(&error);
            None
        }
    }
}

/// Removes files if they exist.
pub(super) fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        remove(path);
    }
}

/// Removes a file if it exists.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => log_failure(&error),
        Ok(()) | Err(_) => (),
    }
}

/// Logs that a file cannot be written or removed.
pub(super) fn log_failure(error: &io::Error) {
    tracing::warn!(%error, "transcript write failed");
}

/// Returns whether a file name is that of a transcript.
pub(super) fn is_transcript(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("session-") && name.ends_with(".jsonl")
}
