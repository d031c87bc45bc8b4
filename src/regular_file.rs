//! Reads of files that neither wait for another process nor grow without bound.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::fs::OFlags;

/// Maximum size of a file that a config consists of or names, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Time within which a pipe that a command reads in the place of a file must end.
pub const PIPE_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// Fails as [`open`] does, or if the file is larger, or cannot be read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_bounded(open(path)?, limit)
}

/// Opens a regular file to read it.
///
/// # Errors
///
/// Fails if the file is a pipe, a device or a folder, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened, which may have an effect on a device.
    check_regular(&fs::metadata(path)?)?;
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)?;
    // A pipe may have taken its place.
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes as UTF-8.
///
/// # Errors
///
/// Fails as [`read`] does, or if the file is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    to_text(read(path, limit)?)
}

/// Reads a text like [`read_or_pipe`].
///
/// # Errors
///
/// Fails as [`read_or_pipe`] does, or if the file is not UTF-8.
pub fn read_text_or_pipe(path: &Path, limit: u64, timeout: Duration) -> io::Result<String> {
    to_text(read_or_pipe(path, limit, timeout)?)
}

/// Reads a file of at most `limit` bytes, also from a pipe such as `/dev/stdin`, which must end
/// within `timeout`.
///
/// # Errors
///
/// Fails if the file is larger, does not end in time, or cannot be read.
pub fn read_or_pipe(path: &Path, limit: u64, timeout: Duration) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() || metadata.is_dir() {
        return read(path, limit);
    }
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    // Opening a named pipe waits for its writer, and cannot be interrupted.
    thread::spawn(move || {
        let bytes = File::open(path).and_then(|pipe| read_bounded(pipe, limit));
        // Without a receiver, the timeout has passed.
        let _ignored = sender.send(bytes);
    });
    receiver.recv_timeout(timeout).map_err(|_elapsed| {
        let seconds = timeout.as_secs();
        let message = format!("it is not a regular file, and did not end within {seconds} seconds");
        io::Error::other(message)
    })?
}

fn check_regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::other("it is not a regular file"))
}

fn read_bounded(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it is larger than {limit} bytes");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

fn to_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let invalid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().iter().take(invalid);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("line {line} is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    fn pipe(folder: &TempDir) -> std::path::PathBuf {
        let path = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    fn message<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up() {
        let folder = TempDir::new().unwrap();
        let pipe = pipe(&folder);

        let read = read_text_or_pipe(&pipe, 10, Duration::from_millis(50));

        let expected = "it is not a regular file, and did not end within 0 seconds";
        assert_eq!(message(read), expected);
        assert_eq!(message(read_text(&pipe, 10)), "it is not a regular file");
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let folder = TempDir::new().unwrap();
        let pipe = pipe(&folder);
        let writer = pipe.clone();
        let written = thread::spawn(move || fs::write(writer, "text"));

        let read = read_text_or_pipe(&pipe, 4, PIPE_TIMEOUT);

        assert_eq!(read.unwrap(), "text");
        written.join().unwrap().unwrap();
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one\ntw\u{e4}").unwrap();

        assert_eq!(read_text(&path, 8).unwrap(), "one\ntw\u{e4}");
        assert_eq!(message(read(&path, 7)), "it is larger than 7 bytes");
        fs::write(&path, b"one\ntw\xe4").unwrap();
        assert_eq!(message(read_text(&path, 7)), "line 2 is not UTF-8");
    }
}
