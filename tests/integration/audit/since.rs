//! `hookgate audit show --since` on a long log.

use std::{
    env, fs,
    io::{BufWriter, Write},
    path::Path,
    time::Instant,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::run;

/// Number of lines in the log, unless `HOOKGATE_AUDIT_LINES` sets another.
const LINES: i64 = 20_000;

/// Largest number of lines in a file.
const LINES_PER_FILE: i64 = 160_000;

/// Time between two lines: 200 lines per second.
const STEP: SignedDuration = SignedDuration::from_millis(5);

fn start_time() -> Timestamp {
    "2026-11-01T00:00:00Z".parse().unwrap()
}

/// Writes a log whose lines are as long as those of calls. Their hashes are not real, because
/// `show` does not check them.
fn write_log(path: &Path, lines: i64) {
    let hash = "0123456789abcdef".repeat(4);
    let rest = json!({ "config": "0123456789abcdef", "kind": "outcome",
        "request": "b2fb43fc-fd59-4f59-b79e-85af4b0768e8", "session": "s1",
        "caller": { "name": "team-a", "key": hash, "agent": "gemini-cli/0.61 (linux; x64)" },
        "action": "pass", "status": 200, "ended": "complete", "upstream": "primary",
        "rounds": 1, "model": "gemini-2.5-pro", "received": { "bytes": 2048, "sha256": hash },
        "response": { "bytes": 512, "sha256": hash }, "chunks": 3,
        "usage": { "prompt": 10, "candidates": 5, "total": 15 }, "duration_ms": 53, "hash": hash });
    let rest = rest.to_string();
    let rest = rest.strip_prefix('{').unwrap();
    let per_file = LINES_PER_FILE.min(lines / 7);
    let mut time = start_time();
    let mut file = None;
    for seq in 1..=lines {
        if (seq - 1) % per_file == 0 {
            let is_last = lines - seq < per_file;
            let name = format!("{}.{seq:020}", path.display());
            let name = if is_last { path } else { Path::new(&name) };
            file = Some(BufWriter::new(fs::File::create(name).unwrap()));
        }
        let file = file.as_mut().unwrap();
        writeln!(
            file,
            "{{\"seq\":{seq},\"prev\":\"{hash}\",\"time\":\"{time:.3}\",{rest}"
        )
        .unwrap();
        time += STEP;
    }
}

#[test]
fn show_since_prints_the_later_lines_of_a_long_log() {
    let lines: i64 = env::var("HOOKGATE_AUDIT_LINES").map_or(LINES, |count| count.parse().unwrap());
    let folder = TempDir::new().unwrap();
    write_log(&folder.path().join("audit.jsonl"), lines);
    let mut log = std::io::stderr().lock();

    for later_lines in [0, 7, 1000, lines / 2] {
        let since = start_time() + STEP * i32::try_from(lines - later_lines).unwrap();
        let since = format!("{since:.3}");
        // From the middle on, the filter matches no line, so that little is printed.
        let filter = if later_lines > 1000 {
            "no-such-session"
        } else {
            "s1"
        };
        let arguments = [
            "audit",
            "show",
            "audit.jsonl",
            "--since",
            &since,
            "--session",
            filter,
        ];
        let started = Instant::now();

        let (code, out, error) = run(&arguments, folder.path());

        let elapsed = started.elapsed();
        assert_eq!(code, 0, "{error}");
        let expected = if later_lines > 1000 { 0 } else { later_lines };
        assert_eq!(out.lines().count(), usize::try_from(expected).unwrap());
        if let Some(first) = out.lines().next() {
            assert!(
                first.contains(&format!(" #{} ", lines - later_lines + 1)),
                "{first}"
            );
        }
        writeln!(
            log,
            "{lines} lines, --since {later_lines} before the end: {elapsed:?}"
        )
        .unwrap();
    }
}
