//! Logs on disk: writing, recovery after a crash, and detection of changes.

use std::{fs, path::Path, sync::Arc};

use chained_log::{
    ChainHead, LogLine, LogNotice, OpenError, ReadError, Verification, lines, verify,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    config::{AuditMode, AuditSettings, Rotation},
    observe::{Metrics, ReloadOutcome},
};

/// A log in a directory of its own.
struct TestLog {
    directory: TempDir,
    settings: AuditSettings,
}

impl TestLog {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = AuditSettings {
            path: directory.path().join("audit.jsonl"),
            mode: AuditMode::Durable,
            content: false,
            rotate: Rotation::default(),
            sink: None,
        };
        Self {
            directory,
            settings,
        }
    }

    fn open(&self) -> Result<AuditLog, AuditError> {
        let metrics = Arc::new(Metrics::default());
        AuditLog::open(&self.settings, "v", &OpenLogs::default(), &metrics)
    }

    /// Opens the log, appends records and closes the log.
    async fn write(&self, lines: u64) {
        let tasks = TaskTracker::new();
        let audit = self.open().unwrap();
        audit.start(&tasks, &CancellationToken::new());
        for number in 0..lines {
            audit.append(&AuditRecord::Log(LogNotice::Dropped { lines: number }));
            if number % 3 == 0 {
                audit.commit(audit.checkpoint()).await.unwrap();
            }
        }
        drop(audit);
        tasks.close();
        tasks.wait().await;
    }

    fn path(&self) -> &Path {
        &self.settings.path
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn kinds(&self) -> Vec<String> {
        let lines = lines(self.path()).unwrap();
        let kind = |line: Result<LogLine, ReadError>| {
            let line: Value = serde_json::from_slice(&line.unwrap().bytes).unwrap();
            line["kind"].as_str().unwrap().to_owned()
        };
        lines.map(kind).collect()
    }

    #[track_caller]
    fn whole(&self) -> Verification {
        verify(self.path()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn broken(&self, at: u64, why: &str) {
        let broken = verify(self.path()).unwrap_err().to_string();
        let log = format!("{}:{at}: ", self.path().display());
        let what = broken.strip_prefix(&log);
        assert!(what.is_some_and(|what| what.contains(why)), "{broken}");
    }
}

#[tokio::test]
async fn an_incomplete_line_is_moved_aside_wherever_it_ends() {
    let log = TestLog::new();
    log.write(1).await;
    let whole = log.text();
    let last = whole.trim_end().rfind('\n').unwrap() + 1;

    for at in last..whole.len() {
        let log = TestLog::new();
        fs::write(log.path(), whole.get(..at).unwrap()).unwrap();
        log.write(1).await;

        let verified = log.whole();
        let torn = at - last;
        let repaired = log.kinds().iter().any(|kind| kind == "repaired");
        assert_eq!(repaired, torn > 0, "at {at}");
        assert_eq!(verified.lines, 2 + 3 + u64::from(torn > 0), "at {at}");
        let aside = log.directory.path().join("audit.jsonl.torn-3");
        let aside = fs::read_to_string(aside).unwrap_or_default();
        assert_eq!(aside, whole.get(last..at).unwrap());
    }
}

#[tokio::test]
async fn an_incomplete_first_line_is_moved_aside() {
    let thousands = format!("{{\"seq\":1,\"prev\":\"{}", "x".repeat(100_000));
    for line in ["{\"seq\":1,\"pre", &thousands] {
        let log = TestLog::new();
        fs::write(log.path(), line).unwrap();

        log.write(1).await;

        assert_eq!(log.kinds(), ["repaired", "start", "dropped", "stop"]);
        log.whole();
    }
}

#[tokio::test]
async fn zeros_after_the_last_line_are_moved_aside() {
    let log = TestLog::new();
    log.write(1).await;
    let whole = log.text();

    // Some file systems leave zeros where bytes were not written before a crash.
    fs::write(log.path(), format!("{whole}{}\n\0\0", "\0".repeat(70_000))).unwrap();
    log.write(1).await;

    assert_eq!(log.whole().lines, 3 + 1 + 3);
}

#[tokio::test]
async fn a_file_that_is_not_a_log_is_not_changed() {
    let other = format!("{{\"seq\":7,\"text\":\"{}", "x".repeat(100_000));
    for text in ["precious", "precious\n", "{\"a\":1}\n", &other] {
        let log = TestLog::new();
        fs::write(log.path(), text).unwrap();

        let opened = log.open();

        assert!(
            matches!(opened, Err(AuditError::File(OpenError::NotALog { .. }))),
            "{text}"
        );
        assert_eq!(log.text(), text);
    }
}

#[tokio::test]
async fn a_symbolic_link_is_not_followed() {
    let log = TestLog::new();
    let precious = log.directory.path().join("precious");
    fs::write(&precious, "").unwrap();
    std::os::unix::fs::symlink(&precious, log.path()).unwrap();

    assert!(matches!(
        log.open(),
        Err(AuditError::File(OpenError::Io { .. }))
    ));
}

#[tokio::test]
async fn full_files_are_rotated_and_the_oldest_removed() {
    let mut log = TestLog::new();
    log.settings.rotate = Rotation {
        size: 2000,
        keep: 3,
    };

    log.write(100).await;

    let files = chained_log::rotated_files(log.path()).unwrap();
    assert_eq!(files.len(), 3);
    for full in &files {
        let size = fs::metadata(full).unwrap().len();
        assert!((500..=2000).contains(&size), "{size}");
    }
    let verified = log.whole();
    assert!(verified.first_seq > 1 && verified.first_seq + verified.lines == 103);
    // A rotated file without a current one is continued.
    fs::rename(
        log.path(),
        log.directory.path().join(format!("audit.jsonl.{:020}", 99)),
    )
    .unwrap();
    log.write(1).await;
    log.whole();
}

#[tokio::test]
async fn a_removed_file_is_recreated_and_recorded() {
    let log = TestLog::new();
    let tasks = TaskTracker::new();
    let audit = log.open().unwrap();
    audit.start(&tasks, &CancellationToken::new());
    audit.commit(audit.checkpoint()).await.unwrap();
    fs::remove_file(log.path()).unwrap();

    audit.append(&AuditRecord::Reload {
        outcome: ReloadOutcome::Applied,
    });
    audit.commit(audit.checkpoint()).await.unwrap();

    assert_eq!(log.kinds(), ["recreated", "reload"]);
    assert_eq!(log.whole().first_seq, 2);
}

#[tokio::test]
async fn changed_removed_added_and_moved_lines_are_detected() {
    let log = TestLog::new();
    log.write(4).await;
    let text = log.text();
    let lines: Vec<&str> = text.lines().collect();
    let put = |lines: &[&str]| fs::write(log.path(), lines.join("\n") + "\n").unwrap();
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut lines);
        put(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    };

    with(&|lines| lines[2] = lines[2].replace("\"lines\":1", "\"lines\":7"));
    log.broken(3, "hash mismatch");
    with(&|lines| drop(lines.remove(2)));
    log.broken(3, "sequence number 4, expected 3");
    with(&|lines| lines.swap(2, 3));
    log.broken(3, "sequence number 4, expected 3");
    with(&|lines| lines.insert(2, lines[1].clone()));
    log.broken(3, "sequence number 2, expected 3");
    with(&|lines| lines.insert(2, "{}".to_owned()));
    log.broken(3, "hash mismatch");
    with(&|lines| drop(lines.remove(0)));
    assert_eq!(
        log.whole().first_seq,
        2,
        "removal of the oldest lines shows as a higher first number"
    );
    fs::write(log.path(), text.trim_end()).unwrap();
    log.broken(6, "incomplete line");

    // A forged chain cannot be continued by the original lines.
    let mut forged = Vec::new();
    let mut head = ChainHead::default();
    for _ in 0..3 {
        head.append_line(&mut forged, b"\"kind\":\"stop\"");
    }
    let forged = String::from_utf8(forged).unwrap();
    let rest = lines[3..].join("\n");
    fs::write(log.path(), format!("{forged}{rest}\n")).unwrap();
    log.broken(4, "is not the hash of the previous line");
}
