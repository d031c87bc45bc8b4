//! Transcript of a session: a file for hooks in gemini-cli's conversation format, to
//! which records are only appended.
//!
//! It contains the conversation as the model receives it, with the results that hooks
//! replaced. Its size is bounded, and it is removed with its session.

mod entry;
mod file;
mod format;
mod log;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lru::LruCache;
use tokio::time::Instant;

pub use self::entry::{TranscriptRequest, TranscriptResponse};
use self::{
    file::{append, blocking, is_transcript, make, remove},
    log::TranscriptLog,
};
use super::SessionKey;
use crate::{mutex::Mutex, sha256::sha256_hex};

/// Extra time that a transcript is kept after its session has expired.
const EXPIRY_GRACE_PERIOD: Duration = Duration::from_mins(1);

/// The transcripts of all sessions, in one folder.
#[derive(Debug)]
pub struct Transcripts {
    directory: PathBuf,
    max: usize,
    idle: Duration,
    is_cleaned: AtomicBool,
    /// In order of use.
    logs: Mutex<LruCache<SessionKey, TranscriptLog>>,
}

impl Transcripts {
    /// Transcripts of at most `max` sessions in a folder, which is not accessed yet.
    pub fn new(directory: PathBuf, max: usize, idle: Duration) -> Self {
        Self {
            directory,
            max,
            idle,
            is_cleaned: AtomicBool::new(false),
            logs: Mutex::new(LruCache::unbounded()),
        }
    }

    /// Removes the files of an earlier process, on the first call only.
    pub fn remove_leftovers(&self) {
        if self.is_cleaned.swap(true, Ordering::Relaxed) {
            return;
        }
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        for entry in entries.flatten() {
            if is_transcript(&entry.file_name()) {
                remove(&entry.path());
            }
        }
    }

    /// Returns the path of a session's transcript and creates the file if necessary;
    /// empty if that fails. `id` is the session's id for hooks, `project` its folder.
    pub async fn path(&self, key: &SessionKey, id: &str, project: &str, now: &str) -> String {
        if let Some(log) = self.logs.lock().get_mut(key) {
            log.last_used = Instant::now();
            return log.path.display().to_string();
        }
        let head = format::head(id, &sha256_hex(project), now);
        let (directory, id, now) = (self.directory.clone(), key.id.clone(), now.to_owned());
        let made = move || make(&directory, &id, &now, &head);
        let Some((path, bytes)) = blocking(made).await else {
            return String::new();
        };
        let shown = path.display().to_string();
        let mut logs = self.logs.lock();
        if let Some(log) = logs.get(key) {
            // Another call of the session was first.
            remove(&path);
            return log.path.display().to_string();
        }
        logs.push(key.clone(), TranscriptLog::new(path, bytes));
        while logs.len() > self.max
            && let Some((_, oldest)) = logs.pop_lru()
        {
            remove(&oldest.path);
        }
        shown
    }

    /// Appends the part of a request that is not written yet.
    pub async fn append_request(&self, key: &SessionKey, request: TranscriptRequest<'_>) {
        let append_to = |log: &mut TranscriptLog| log.append_request(request);
        let lines = self.logs.lock().get_mut(key).and_then(append_to);
        append(lines).await;
    }

    /// Appends a response of the model.
    pub async fn append_response(&self, key: &SessionKey, response: TranscriptResponse<'_>) {
        let append_to = |log: &mut TranscriptLog| log.append_response(response);
        let lines = self.logs.lock().get_mut(key).and_then(append_to);
        append(lines).await;
    }

    /// Removes the transcript of a session that has ended.
    pub fn remove(&self, key: &SessionKey) {
        if let Some(log) = self.logs.lock().pop(key) {
            remove(&log.path);
        }
    }

    /// Removes transcripts of sessions that expired in another process.
    pub fn expire(&self) {
        let mut logs = self.logs.lock();
        let lifetime = self.idle.saturating_add(EXPIRY_GRACE_PERIOD);
        while let Some((_, oldest)) = logs.peek_lru()
            && oldest.last_used.elapsed() > lifetime
        {
            remove(&oldest.path);
            logs.pop_lru();
        }
    }
}

impl Drop for Transcripts {
    fn drop(&mut self) {
        for (_, log) in self.logs.lock().iter() {
            remove(&log.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const NOW: &str = "2026-11-22T06:11:53.333Z";

    fn key(id: &str) -> SessionKey {
        SessionKey {
            caller: String::new(),
            id: id.to_owned(),
        }
    }

    fn answered(text: &str) -> TranscriptResponse<'_> {
        TranscriptResponse {
            text,
            calls: &[],
            model: "m",
            usage: &Value::Null,
            now: NOW,
        }
    }

    #[tokio::test]
    async fn a_full_transcript_ends_with_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = Transcripts::new(folder.path().to_owned(), 9, EXPIRY_GRACE_PERIOD);
        let path = transcripts.path(&key("a"), "a", "", NOW).await;
        let long = "x".repeat(log::MAX_TRANSCRIPT_BYTES / 2);

        for text in [&long, &long, "short"] {
            transcripts.append_response(&key("a"), answered(text)).await;
        }

        let text = fs::read_to_string(path).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["type"], "info");
        assert!(!text.contains("short") && text.len() < log::MAX_TRANSCRIPT_BYTES);
    }

    #[tokio::test]
    async fn each_session_has_its_own_file_and_the_oldest_is_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = Transcripts::new(folder.path().to_owned(), 2, EXPIRY_GRACE_PERIOD);
        let first = transcripts
            .path(&key("same-begin-1"), "same-begin-1", "", NOW)
            .await;
        let second = transcripts
            .path(&key("same-begin-2"), "same-begin-2", "", NOW)
            .await;
        let again = transcripts
            .path(&key("same-begin-1"), "same-begin-1", "", NOW)
            .await;
        let third = transcripts.path(&key("third"), "third", "", NOW).await;

        assert!(first.ends_with("/session-2026-11-22T06-11-same-beg.jsonl"));
        assert_eq!(first, again);
        assert!(first != second && third.ends_with("third.jsonl"));
        let exist = [first, second, third].map(|path| fs::exists(path).unwrap());
        assert_eq!(exist, [true, false, true]);
        drop(transcripts);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn concurrent_first_calls_of_a_session_share_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = Transcripts::new(folder.path().to_owned(), 9, EXPIRY_GRACE_PERIOD);
        let session = key("a");
        let path = || transcripts.path(&session, "a", "", NOW);

        let paths = tokio::join!(path(), path(), path());

        assert!(fs::exists(&paths.0).unwrap());
        assert_eq!((&paths.1, &paths.2), (&paths.0, &paths.0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn without_a_folder_there_is_no_path() {
        let transcripts = Transcripts::new("missing".into(), 2, EXPIRY_GRACE_PERIOD);

        assert_eq!(transcripts.path(&key("a"), "a", "", NOW).await, "");
        transcripts
            .append_response(&key("a"), answered("text"))
            .await;
    }
}
