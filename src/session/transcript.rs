//! What was said in a session, as a file that hooks can read: the conversation
//! format of gemini-cli, in which records are only ever added.
//!
//! It holds what the model is shown: results that hooks replaced stand there
//! replaced. It is bounded, and goes with its session.

mod file;
mod format;
mod log;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use data_encoding::HEXLOWER;
use lru::LruCache;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use self::{
    file::{append, blocking, is_transcript, make, remove},
    log::TranscriptLog,
};
use super::{Conversation, SessionKey};
use crate::dialect::History;

/// How long a transcript stays after its session has ended unseen.
const GRACE: Duration = Duration::from_mins(1);

/// The transcripts of all sessions, in one folder.
#[derive(Debug)]
pub struct Transcripts {
    directory: PathBuf,
    max: usize,
    idle: Duration,
    begun: AtomicBool,
    /// The one that was heard of last is first.
    records: Mutex<LruCache<SessionKey, TranscriptLog>>,
}

/// What a request says of its session.
#[derive(Debug, Clone, Copy)]
pub struct TranscriptRequest<'a> {
    /// What the model is shown.
    pub history: &'a History,
    /// The same, item by item.
    pub conversation: &'a Conversation,
    /// The model that is asked.
    pub model: &'a str,
    /// RFC 3339 in UTC.
    pub now: &'a str,
}

/// What the model answered.
#[derive(Debug, Clone, Copy)]
pub struct TranscriptResponse<'a> {
    /// All text, thoughts left out.
    pub text: &'a str,
    /// The calls, by name and arguments.
    pub calls: &'a [(String, Value)],
    /// The model that was asked.
    pub model: &'a str,
    /// `usageMetadata` as on the wire; `null` if there was none.
    pub usage: &'a Value,
    /// RFC 3339 in UTC.
    pub now: &'a str,
}

impl Transcripts {
    /// Those of at most `max` sessions in this folder. Touches nothing yet.
    pub fn new(directory: PathBuf, max: usize, idle: Duration) -> Self {
        Self {
            directory,
            max,
            idle,
            begun: AtomicBool::new(false),
            records: Mutex::new(LruCache::unbounded()),
        }
    }

    /// Removes what an earlier process left, the first time that it is called.
    pub fn remove_leftovers(&self) {
        if self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        for entry in entries
            .flatten()
            .filter(|it| is_transcript(&it.file_name()))
        {
            remove(&entry.path());
        }
    }

    /// Where the transcript of a session is, which is made if there is none;
    /// empty if it cannot be. `id` is the session's id for hooks, and `project` the
    /// folder that the session is about.
    pub async fn path(&self, key: &SessionKey, id: &str, project: &str, now: &str) -> String {
        if let Some(record) = self.records().get_mut(key) {
            record.heard = Instant::now();
            return record.path.display().to_string();
        }
        let project = HEXLOWER.encode(&Sha256::digest(project));
        let head = format::head(id, &project, now);
        let (directory, id, now) = (self.directory.clone(), key.id.clone(), now.to_owned());
        let made = move || make(&directory, &id, &now, &head);
        let Some((path, bytes)) = blocking(made).await else {
            return String::new();
        };
        let shown = path.display().to_string();
        let record = TranscriptLog::new(path, bytes);
        let mut records = self.records();
        if let Some((_, replaced)) = records.push(key.clone(), record) {
            remove(&replaced.path);
        }
        while records.len() > self.max {
            if let Some((_, oldest)) = records.pop_lru() {
                remove(&oldest.path);
            }
        }
        shown
    }

    /// Adds what a request says that is not written yet.
    pub async fn append_request(&self, key: &SessionKey, told: TranscriptRequest<'_>) {
        let lines = {
            let mut records = self.records();
            let Some(record) = records.get_mut(key) else {
                return;
            };
            let lines = record.take_down(told);
            record.room_for(&lines, told.now)
        };
        append(lines).await;
    }

    /// Adds what the model answered.
    pub async fn append_response(&self, key: &SessionKey, answered: TranscriptResponse<'_>) {
        let lines = {
            let mut records = self.records();
            let Some(record) = records.get_mut(key) else {
                return;
            };
            let lines = record.answer(answered);
            record.room_for(&lines, answered.now)
        };
        append(lines).await;
    }

    /// Removes the transcript of a session that has ended.
    pub fn remove(&self, key: &SessionKey) {
        if let Some(record) = self.records().pop(key) {
            remove(&record.path);
        }
    }

    /// Removes those of sessions that ended elsewhere.
    pub fn expire(&self) {
        let mut records = self.records();
        let lasts = self.idle.saturating_add(GRACE);
        while records
            .peek_lru()
            .is_some_and(|(_, it)| it.heard.elapsed() > lasts)
        {
            if let Some((_, oldest)) = records.pop_lru() {
                remove(&oldest.path);
            }
        }
    }

    fn records(&self) -> MutexGuard<'_, LruCache<SessionKey, TranscriptLog>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Transcripts {
    fn drop(&mut self) {
        for (_, record) in self.records().iter() {
            remove(&record.path);
        }
    }
}

#[cfg(test)]
mod tests {
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
    async fn a_transcript_that_is_full_says_so_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = Transcripts::new(folder.path().to_owned(), 9, GRACE);
        let path = transcripts.path(&key("a"), "a", "", NOW).await;
        let long = "x".repeat(log::MOST / 2);

        for text in [&long, &long, "short"] {
            transcripts.append_response(&key("a"), answered(text)).await;
        }

        let text = fs::read_to_string(path).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["type"], "info");
        assert!(!text.contains("short") && text.len() < log::MOST);
    }

    #[tokio::test]
    async fn each_session_has_a_file_of_its_own_and_the_oldest_goes_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = Transcripts::new(folder.path().to_owned(), 2, GRACE);
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
        let there = [first, second, third].map(|it| fs::exists(it).unwrap());
        assert_eq!(there, [true, false, true]);
        drop(transcripts);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn without_a_folder_there_is_no_path() {
        let transcripts = Transcripts::new("missing".into(), 2, GRACE);

        assert_eq!(transcripts.path(&key("a"), "a", "", NOW).await, "");
        transcripts
            .append_response(&key("a"), answered("text"))
            .await;
    }
}
