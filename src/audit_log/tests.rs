//! Logs on a disk: what is written, what a crash leaves, and what is found of
//! those who meddle.

use std::{fs, os::unix::fs::PermissionsExt};

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::*;
use crate::config::Rotation;

/// A folder with a log.
struct Place {
    folder: TempDir,
    settings: AuditSettings,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = AuditSettings {
            path: folder.path().join("audit.jsonl"),
            mode: AuditMode::Durable,
            content: false,
            rotate: Rotation::default(),
        };
        Self { folder, settings }
    }

    fn open(&self) -> Result<Audit, AuditError> {
        let metrics = Arc::new(Metrics::default());
        Audit::open(&self.settings, "v", &Logs::default(), &metrics)
    }

    /// Lets a gateway write so many lines of its own.
    async fn write(&self, lines: u64) {
        let tasks = TaskTracker::new();
        let audit = self.open().unwrap();
        audit.begin(&tasks);
        for number in 0..lines {
            audit.tell(&Record::Dropped { lines: number });
            if number % 3 == 0 {
                audit.commit(audit.mark()).await.unwrap();
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
        let kind = |it: Result<Line, Broken>| {
            let line: Value = serde_json::from_slice(&it.unwrap().bytes).unwrap();
            line["kind"].as_str().unwrap().to_owned()
        };
        lines.map(kind).collect()
    }

    #[track_caller]
    fn whole(&self) -> Verified {
        verify(self.path()).unwrap_or_else(|it| panic!("{it}"))
    }

    #[track_caller]
    fn broken(&self, at: u64, why: &str) {
        let broken = verify(self.path()).unwrap_err().to_string();
        let place = format!("{}:{at}: ", self.path().display());
        let what = broken.strip_prefix(&place);
        assert!(what.is_some_and(|it| it.contains(why)), "{broken}");
    }
}

#[tokio::test]
async fn a_log_goes_on_where_it_ended() {
    let place = Place::new();

    place.write(2).await;
    place.write(1).await;

    let kinds = place.kinds();
    let expected = [
        "start", "dropped", "dropped", "stop", "start", "dropped", "stop",
    ];
    assert_eq!(kinds, expected);
    let verified = place.whole();
    assert_eq!((verified.lines, verified.first), (7, 1));
    assert!(!verified.under_way);
    let mode = fs::metadata(place.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_is_committed_is_in_the_file() {
    let place = Place::new();
    let tasks = TaskTracker::new();
    let audit = place.open().unwrap();
    audit.begin(&tasks);

    for number in 0..20 {
        audit.tell(&Record::Dropped { lines: number });
        audit.commit(audit.mark()).await.unwrap();

        let last = place.text().lines().last().map(str::to_owned).unwrap();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["lines"], number);
    }
}

#[tokio::test]
async fn nobody_writes_a_log_that_another_writes() {
    let place = Place::new();
    let first = place.open().unwrap();

    let second = place.open();

    assert!(matches!(second, Err(AuditError::Taken { .. })));
    drop(first);
    assert!(place.open().is_ok());
}

#[tokio::test]
async fn one_process_opens_a_log_once() {
    let place = Place::new();
    let (logs, metrics) = (Logs::default(), Arc::new(Metrics::default()));
    let open = || Audit::open(&place.settings, "v", &logs, &metrics).unwrap();

    let (first, second) = (open(), open());

    let log = |it: &Audit| Arc::clone(&it.file.as_ref().unwrap().log);
    assert!(Arc::ptr_eq(&log(&first), &log(&second)));
}

#[tokio::test]
async fn a_torn_end_is_set_aside_wherever_it_was_torn() {
    let place = Place::new();
    place.write(1).await;
    let whole = place.text();
    let last = whole.trim_end().rfind('\n').unwrap() + 1;

    for at in last..whole.len() {
        let place = Place::new();
        fs::write(place.path(), whole.get(..at).unwrap()).unwrap();
        place.write(1).await;

        let verified = place.whole();
        let torn = at - last;
        let repaired = place.kinds().iter().any(|it| it == "repaired");
        assert_eq!(repaired, torn > 0, "at {at}");
        assert_eq!(verified.lines, 2 + 3 + u64::from(torn > 0), "at {at}");
        let aside = place.folder.path().join("audit.jsonl.torn-3");
        let aside = fs::read_to_string(aside).unwrap_or_default();
        assert_eq!(aside, whole.get(last..at).unwrap());
    }
}

#[tokio::test]
async fn a_torn_first_line_is_set_aside_too() {
    let place = Place::new();
    fs::write(place.path(), "{\"seq\":1,\"pre").unwrap();

    place.write(1).await;

    assert_eq!(place.kinds(), ["repaired", "start", "dropped", "stop"]);
    place.whole();
}

#[tokio::test]
async fn blocks_that_never_reached_the_disk_are_a_torn_end() {
    let place = Place::new();
    place.write(1).await;
    let whole = place.text();

    // Some file systems leave zeros where bytes were not written in time.
    fs::write(
        place.path(),
        format!("{whole}{}\n\0\0", "\0".repeat(70_000)),
    )
    .unwrap();
    place.write(1).await;

    assert_eq!(place.whole().lines, 3 + 1 + 3);
}

#[tokio::test]
async fn what_is_no_log_is_left_alone() {
    for text in ["precious", "precious\n", "{\"a\":1}\n"] {
        let place = Place::new();
        fs::write(place.path(), text).unwrap();

        let opened = place.open();

        assert!(matches!(opened, Err(AuditError::Alien { .. })), "{text}");
        assert_eq!(place.text(), text);
    }
}

#[tokio::test]
async fn a_link_is_not_followed() {
    let place = Place::new();
    let precious = place.folder.path().join("precious");
    fs::write(&precious, "").unwrap();
    std::os::unix::fs::symlink(&precious, place.path()).unwrap();

    assert!(matches!(place.open(), Err(AuditError::Open { .. })));
}

#[tokio::test]
async fn full_files_are_put_aside_and_the_oldest_go() {
    let mut place = Place::new();
    place.settings.rotate = Rotation {
        size: 2000,
        keep: 3,
    };

    place.write(100).await;

    let files = file::older(place.path()).unwrap();
    assert_eq!(files.len(), 3);
    for full in &files {
        let size = fs::metadata(full).unwrap().len();
        assert!((500..=2000).contains(&size), "{size}");
    }
    let verified = place.whole();
    assert!(verified.first > 1 && verified.first + verified.lines == 103);
    // A full file alone, just renamed, is gone on with.
    fs::rename(
        place.path(),
        place.folder.path().join(format!("audit.jsonl.{:020}", 99)),
    )
    .unwrap();
    place.write(1).await;
    place.whole();
}

#[tokio::test]
async fn a_file_that_is_taken_away_is_missed() {
    let place = Place::new();
    let tasks = TaskTracker::new();
    let audit = place.open().unwrap();
    audit.begin(&tasks);
    audit.commit(audit.mark()).await.unwrap();
    fs::remove_file(place.path()).unwrap();

    audit.tell(&Record::Reload {
        outcome: crate::observe::ReloadOutcome::Applied,
    });
    audit.commit(audit.mark()).await.unwrap();

    assert_eq!(place.kinds(), ["lost", "reload"]);
    assert_eq!(place.whole().first, 2);
}

#[tokio::test]
async fn who_meddles_is_found_out() {
    let place = Place::new();
    place.write(4).await;
    let text = place.text();
    let lines: Vec<&str> = text.lines().collect();
    let put = |lines: &[&str]| fs::write(place.path(), lines.join("\n") + "\n").unwrap();
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|it| (*it).to_owned()).collect();
        change(&mut lines);
        put(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    };

    with(&|it| it[2] = it[2].replace("\"lines\":1", "\"lines\":7"));
    place.broken(3, "its hash is another");
    with(&|it| drop(it.remove(2)));
    place.broken(3, "line 4 stands where 3 should");
    with(&|it| it.swap(2, 3));
    place.broken(3, "line 4 stands where 3 should");
    with(&|it| it.insert(2, it[1].clone()));
    place.broken(3, "line 2 stands where 3 should");
    with(&|it| it.insert(2, "{}".to_owned()));
    place.broken(3, "its hash is another");
    with(&|it| drop(it.remove(0)));
    assert_eq!(
        place.whole().first,
        2,
        "only that older ones are not there is known"
    );
    fs::write(place.path(), text.trim_end()).unwrap();
    place.broken(6, "torn");

    // Whoever writes a chain of his own cannot hang the rest of ours on it.
    let mut forged = Vec::new();
    let mut head = hash_chain::Head::default();
    for _ in 0..3 {
        hash_chain::seal(&mut forged, &mut head, b"\"kind\":\"stop\"");
    }
    let forged = String::from_utf8(forged).unwrap();
    let rest = lines[3..].join("\n");
    fs::write(place.path(), format!("{forged}{rest}\n")).unwrap();
    place.broken(4, "follows another line");
}

#[tokio::test]
async fn a_clock_that_jumps_breaks_nothing() {
    // Times are what the clock says; the order is the numbers'.
    let place = Place::new();
    let mut head = hash_chain::Head::default();
    let mut bytes = Vec::new();
    for time in ["2026-11-22T12:00:00.000Z", "1970-01-01T00:00:00.000Z"] {
        let fields = format!("\"time\":\"{time}\",\"kind\":\"stop\"");
        hash_chain::seal(&mut bytes, &mut head, fields.as_bytes());
    }
    fs::write(place.path(), bytes).unwrap();

    place.write(1).await;

    assert_eq!(place.whole().lines, 5);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_says_so_and_gets_over_it() {
    let place = Place::new();
    let tasks = TaskTracker::new();
    let audit = place.open().unwrap();
    audit.begin(&tasks);
    audit.commit(audit.mark()).await.unwrap();
    // Another file is in its place.
    let aside = place.folder.path().join("aside");
    fs::rename(place.path(), &aside).unwrap();
    fs::create_dir(place.path()).unwrap();

    audit.tell(&Record::Reload {
        outcome: crate::observe::ReloadOutcome::Applied,
    });

    assert_eq!(audit.commit(audit.mark()).await, Err(Unavailable));
    assert_eq!(audit.check(), Err(Unavailable));
    fs::remove_dir(place.path()).unwrap();
    fs::rename(&aside, place.path()).unwrap();
    // What could not be written waits, and goes first.
    let deadline = std::time::Instant::now() + PATIENCE;
    while audit.commit(audit.mark()).await.is_err() {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(place.kinds(), ["start", "reload"]);
    place.whole();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_byte_of_a_log_can_change(at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let place = Place::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(place.write(3));
        let mut bytes = fs::read(place.path()).unwrap();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != with);

        bytes[at] = with;
        fs::write(place.path(), bytes).unwrap();

        prop_assert!(verify(place.path()).is_err());
    }
}
