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
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lru::LruCache;
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::Instant,
};
use tokio_util::task::TaskTracker;

pub use self::entry::{TranscriptRequest, TranscriptResponse};
use self::{
    file::{append, blocking, is_transcript, make, remove, remove_all},
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
    /// Removals of files, which the shutdown waits for.
    tasks: TaskTracker,
    open: Arc<OpenTranscripts>,
}

/// Transcripts in order of use.
type OpenTranscripts = Mutex<LruCache<SessionKey, OpenTranscript>>;

#[derive(Debug)]
struct OpenTranscript {
    path: PathBuf,
    last_used: Instant,
    /// Locked until its records are in the file, so that they are there in its order.
    log: Arc<AsyncMutex<TranscriptLog>>,
}

impl Transcripts {
    /// Transcripts of at most `max` sessions in a folder, which is not accessed yet. `tasks` are
    /// waited for at the shutdown.
    pub fn new(directory: PathBuf, max: usize, idle: Duration, tasks: TaskTracker) -> Self {
        Self {
            directory,
            max,
            idle,
            is_cleaned: AtomicBool::new(false),
            tasks,
            open: Arc::new(Mutex::new(LruCache::unbounded())),
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
    /// Dropping the future does not interrupt this.
    pub async fn path(&self, key: &SessionKey, id: &str, project: &str, now: &str) -> String {
        if let Some(transcript) = self.open.lock().get_mut(key) {
            transcript.last_used = Instant::now();
            return transcript.path.display().to_string();
        }
        let head = format::head(id, &sha256_hex(project), now);
        let (directory, now, max) = (self.directory.clone(), now.to_owned(), self.max);
        let (open, key) = (Arc::clone(&self.open), key.clone());
        let made = move || {
            let (path, bytes) = make(&directory, &key.id, &now, &head)?;
            let transcript = OpenTranscript {
                path,
                last_used: Instant::now(),
                log: Arc::new(AsyncMutex::new(TranscriptLog::new(bytes))),
            };
            let (shown, surplus) = add(&mut open.lock(), max, key, transcript);
            remove_all(&surplus);
            Ok(shown)
        };
        blocking(made).await.unwrap_or_default()
    }

    /// Appends the part of a request that is not written yet.
    pub async fn append_request(&self, key: &SessionKey, request: TranscriptRequest<'_>) {
        if let Some((path, mut log)) = self.lock(key).await {
            let lines = log.append_request(request);
            self.write(key, path, log, lines).await;
        }
    }

    /// Appends a response of the model.
    pub async fn append_response(&self, key: &SessionKey, response: TranscriptResponse<'_>) {
        if let Some((path, mut log)) = self.lock(key).await {
            let lines = log.append_response(response);
            self.write(key, path, log, lines).await;
        }
    }

    /// Locks the transcript of a session, behind the calls that locked it before.
    async fn lock(&self, key: &SessionKey) -> Option<(PathBuf, OwnedMutexGuard<TranscriptLog>)> {
        let (path, log) = {
            let mut open = self.open.lock();
            let transcript = open.get_mut(key)?;
            transcript.last_used = Instant::now();
            (transcript.path.clone(), Arc::clone(&transcript.log))
        };
        Some((path, log.lock_owned().await))
    }

    /// Appends lines to the file of a session that has not ended, and unlocks its log. If that
    /// fails, the file lacks records of the log, so both are removed. Dropping the future does not
    /// interrupt this.
    async fn write(
        &self,
        key: &SessionKey,
        path: PathBuf,
        log: OwnedMutexGuard<TranscriptLog>,
        lines: Option<String>,
    ) {
        let Some(lines) = lines else {
            return;
        };
        let (open, key) = (Arc::clone(&self.open), key.clone());
        let write = move || {
            let log = OwnedMutexGuard::mutex(&log);
            // The session may have ended meanwhile, and another one have a file of the same name.
            if !has_log(&open.lock(), &key, log) {
                return Ok(());
            }
            let Err(error) = append(&path, &lines) else {
                return Ok(());
            };
            let mut open = open.lock();
            if !has_log(&open, &key, log) {
                return Ok(());
            }
            open.pop(&key);
            drop(open);
            remove(&path);
            Err(error)
        };
        blocking(write).await;
    }

    /// Removes the transcript of a session that has ended.
    pub fn remove(&self, key: &SessionKey) {
        let ended = self.open.lock().pop(key);
        self.remove_files(ended.map(|ended| ended.path).into_iter().collect());
    }

    /// Removes transcripts of sessions that expired in another process.
    pub fn expire(&self) {
        let mut expired = Vec::new();
        let mut open = self.open.lock();
        let lifetime = self.idle.saturating_add(EXPIRY_GRACE_PERIOD);
        while let Some((_, oldest)) = open.peek_lru()
            && oldest.last_used.elapsed() > lifetime
        {
            expired.extend(open.pop_lru().map(|(_, oldest)| oldest.path));
        }
        drop(open);
        self.remove_files(expired);
    }

    /// Removes files on a thread for blocking tasks; at the end of the shutdown, which does not
    /// wait for such tasks, on this one.
    fn remove_files(&self, paths: Vec<PathBuf>) {
        match Handle::try_current() {
            _ if paths.is_empty() => (),
            Ok(runtime) if !self.tasks.is_closed() => {
                let removed = move || remove_all(&paths);
                self.tasks.spawn_blocking_on(removed, &runtime);
            }
            Ok(_) | Err(_) => remove_all(&paths),
        }
    }
}

/// Adds a transcript, unless another call of the session was first. Returns the path of the
/// session's, and of those that are not needed any more.
fn add(
    open: &mut LruCache<SessionKey, OpenTranscript>,
    max: usize,
    key: SessionKey,
    transcript: OpenTranscript,
) -> (String, Vec<PathBuf>) {
    if let Some(first) = open.get(&key) {
        return (first.path.display().to_string(), vec![transcript.path]);
    }
    let shown = transcript.path.display().to_string();
    open.push(key, transcript);
    let mut surplus = Vec::new();
    while open.len() > max
        && let Some((_, oldest)) = open.pop_lru()
    {
        surplus.push(oldest.path);
    }
    (shown, surplus)
}

/// Returns whether the transcript of a session has this log, so that it is not that of a later
/// session.
fn has_log(
    open: &LruCache<SessionKey, OpenTranscript>,
    key: &SessionKey,
    log: &Arc<AsyncMutex<TranscriptLog>>,
) -> bool {
    open.peek(key)
        .is_some_and(|open| Arc::ptr_eq(&open.log, log))
}

impl Drop for Transcripts {
    fn drop(&mut self) {
        let paths = {
            let open = self.open.lock();
            open.iter().map(|(_, open)| open.path.clone()).collect()
        };
        self.remove_files(paths);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, path::Path, sync::mpsc};

    use futures_util::{FutureExt, future::join_all};
    use serde_json::Value;
    use tokio::{runtime::Builder, task::spawn_blocking};

    use super::*;

    const NOW: &str = "2026-11-22T06:11:53.333Z";

    fn key(id: &str) -> SessionKey {
        SessionKey {
            caller: String::new(),
            id: id.to_owned(),
        }
    }

    fn transcripts_in(folder: &Path, max: usize) -> Transcripts {
        let tasks = TaskTracker::new();
        Transcripts::new(folder.to_owned(), max, EXPIRY_GRACE_PERIOD, tasks)
    }

    /// Waits until all files are removed that are not needed any more.
    async fn wait_for_removals(transcripts: &Transcripts) {
        transcripts.tasks.close();
        transcripts.tasks.wait().await;
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
        let transcripts = transcripts_in(folder.path(), 9);
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_responses_are_in_the_file_in_the_order_of_their_records() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = transcripts_in(folder.path(), 9);
        let path = transcripts.path(&key("a"), "a", "", NOW).await;
        let session = key("a");

        let appended = (0..200).map(|_| transcripts.append_response(&session, answered("text")));
        join_all(appended).await;

        let text = fs::read_to_string(path).unwrap();
        let mut known = HashSet::new();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            if let Some(target) = record["$rewindTo"].as_str() {
                assert!(known.contains(target), "{target} is not written yet");
            }
            known.extend(record["id"].as_str().map(str::to_owned));
        }
        assert_eq!(known.len(), 200);
    }

    #[tokio::test]
    async fn a_transcript_that_cannot_be_written_is_replaced_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = transcripts_in(folder.path(), 9);
        let first = transcripts.path(&key("a"), "a", "", NOW).await;
        // It can neither be written nor removed.
        fs::remove_file(&first).unwrap();
        fs::create_dir(&first).unwrap();

        transcripts
            .append_response(&key("a"), answered("lost"))
            .await;
        let second = transcripts.path(&key("a"), "a", "", NOW).await;
        transcripts
            .append_response(&key("a"), answered("kept"))
            .await;

        assert_ne!(first, second);
        let text = fs::read_to_string(second).unwrap();
        assert!(
            text.contains("kept") && !text.contains("$rewindTo"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_call_of_a_session_that_has_ended_does_not_write_to_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = transcripts_in(folder.path(), 9);
        let first = transcripts.path(&key("a"), "a", "", NOW).await;
        let (path, log) = transcripts.lock(&key("a")).await.unwrap();
        transcripts.remove(&key("a"));
        wait_for_removals(&transcripts).await;
        let second = transcripts.path(&key("a"), "a", "", NOW).await;

        let late = Some("late\n".to_owned());
        transcripts.write(&key("a"), path, log, late).await;

        assert_eq!(first, second);
        let text = fs::read_to_string(second).unwrap();
        assert!(!text.contains("late"), "{text}");
    }

    #[tokio::test]
    async fn each_session_has_its_own_file_and_the_oldest_is_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = transcripts_in(folder.path(), 2);
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
        wait_for_removals(&transcripts).await;

        assert!(first != second && third.ends_with("third.jsonl"));
        let exist = [first, second, third].map(|path| fs::exists(path).unwrap());
        assert_eq!(exist, [true, false, true]);
        drop(transcripts);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn concurrent_first_calls_of_a_session_share_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let transcripts = transcripts_in(folder.path(), 9);
        let session = key("a");
        let path = || transcripts.path(&session, "a", "", NOW);

        let paths = tokio::join!(path(), path(), path());
        wait_for_removals(&transcripts).await;

        assert!(fs::exists(&paths.0).unwrap());
        assert_eq!((&paths.1, &paths.2), (&paths.0, &paths.0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_belongs_to_its_session_if_the_call_ends_while_it_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let files = || fs::read_dir(folder.path()).unwrap().count();
        let transcripts = transcripts_in(folder.path(), 9);
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();

        runtime.block_on(async {
            let (release, released) = mpsc::channel();
            let busy = spawn_blocking(move || released.recv());
            let ended = transcripts.path(&key("a"), "a", "", NOW).now_or_never();
            assert_eq!(ended, None);
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            spawn_blocking(|| ()).await.unwrap();
        });

        assert_eq!(files(), 1);
        drop(transcripts);
        assert_eq!(files(), 0);
    }

    #[tokio::test]
    async fn without_a_folder_there_is_no_path() {
        let transcripts = transcripts_in("missing".as_ref(), 2);

        assert_eq!(transcripts.path(&key("a"), "a", "", NOW).await, "");
        transcripts
            .append_response(&key("a"), answered("text"))
            .await;
    }
}
