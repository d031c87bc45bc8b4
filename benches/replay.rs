//! Speed and memory of a replay: calls of 2 KiB and of 100 KiB, of sessions in parallel.
//!
//! `cargo bench --profile release --bench replay [-- CALLS]`. The bounds are those of
//! `docs/changes.md`. The benchmark fails if one is exceeded.

#![allow(
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a benchmark prints and may panic"
)]

use std::{fs, io::Write, path::Path, sync::Arc};

use hookgate::{
    config::Config,
    hook,
    recording::RecordedExchange,
    replay::{RecordingSource, ReplayConfigs, ReplayReport, ReplayedHooks, replay},
};
use serde_json::json;

/// Size of a call's prompt and of its answer in bytes, and the minimum of calls per second.
const CASES: &[(usize, u64)] = &[(2 * 1024, 2000), (100 * 1024, 300)];

/// Maximum memory of the process in KiB.
const MAX_PEAK_KIB: u64 = 512 * 1024;

const CONFIG: &str = "upstreams: { gemini: { url: \"http://127.0.0.1:9\" } }
policies:
  - { policy: redact }
  - { policy: tool_guard, deny: [rm] }
  - { policy: model_allow, models: [\"m*\"] }
";

/// Calls of each session.
const SESSION_CALLS: u64 = 10;

fn main() {
    let mut arguments = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let calls = arguments.next().unwrap_or(20_000);
    let mut failed = false;
    for (bytes, bound) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let count = if *bytes > 10_000 { calls / 5 } else { calls };
        write(folder.path(), count, *bytes);
        let report = run(folder.path());
        let (rate, peak) = (report.effort.calls_per_second, report.effort.peak_kib);
        let peak = peak.unwrap_or_default();
        println!(
            "{count} calls of {} KiB: {rate} calls/s (bound {bound}), peak {} MiB (bound {})",
            bytes / 1024,
            peak / 1024,
            MAX_PEAK_KIB / 1024
        );
        assert_eq!(report.counts.calls, count);
        assert_eq!(report.counts.unchanged, count, "{:?}", report.counts);
        failed |= rate < *bound || peak > MAX_PEAK_KIB;
    }
    assert!(!failed, "a bound is exceeded");
}

fn run(folder: &Path) -> ReplayReport {
    let after = Config::parse(CONFIG, &folder.join("hookgate.yaml"), &hook::registry()).unwrap();
    let configs = ReplayConfigs {
        after,
        before: None,
        hooks: ReplayedHooks::Policies,
    };
    let recording = RecordingSource {
        path: folder.to_owned(),
        identity: None,
        since: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    let replayed = replay(configs, recording, Arc::default());
    runtime.block_on(replayed).unwrap()
}

/// Writes a recording in segments of about 64 MiB before compression.
fn write(folder: &Path, calls: u64, bytes: usize) {
    let mut segment = Vec::new();
    let mut segments = 0;
    for number in 0..calls {
        let line = serde_json::to_vec(&exchange(number, bytes)).unwrap();
        segment.extend_from_slice(&line);
        segment.push(b'\n');
        if segment.len() > 16 << 20 || number + 1 == calls {
            segments += 1;
            let file = folder.join(format!("rec-{segments:05}.hgr"));
            let mut file = fs::File::create(file).unwrap();
            let frame = zstd::encode_all(segment.as_slice(), 1).unwrap();
            file.write_all(&frame).unwrap();
            segment.clear();
        }
    }
}

fn exchange(number: u64, bytes: usize) -> RecordedExchange {
    let text: String = (0..bytes / 2)
        .map(|at| char::from(b'a' + (at % 23) as u8))
        .collect();
    let groups = text.as_bytes().chunks(7).map(String::from_utf8_lossy);
    let text = groups.collect::<Vec<_>>().join(" ");
    let request = json!({ "contents": [{ "role": "user", "parts": [{ "text": format!("{number} {text}") }] }] });
    let half = text.len() / 2;
    let event = |text: &str| {
        let part = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "index": 0 }] });
        format!("data: {part}\r\n\r\n")
    };
    let chunks: Vec<_> = [&text[..half], &text[half..]]
        .iter()
        .map(|text| json!({ "ms": 1, "bytes": { "text": event(text) } }))
        .collect();
    let target = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let exchange = json!({
        "v": 1, "id": number.to_string(), "time": "2026-11-22T00:00:00.000Z", "revision": "r",
        "caller": "", "dialect": "gemini", "operation": "generateContentStream", "method": "POST",
        "session": {
            "id": (number / SESSION_CALLS).to_string(), "place": number % SESSION_CALLS,
            "source": "history",
            "match": if number.is_multiple_of(SESSION_CALLS) { "new" } else { "continued" },
        },
        "target": target, "headers": [["content-type", "application/json"]],
        "request": { "text": request.to_string() },
        "rounds": [{ "ms": 1, "target": target, "sent": "same", "response": {
            "ms": 1, "status": 200, "head": [["content-type", "text/event-stream"]],
            "chunks": chunks, "complete": true,
        } }],
        "events": [],
        "answer": { "ms": 1, "status": 200, "body": "same" },
        "outcome": { "action": "pass", "end": "complete", "ms": 2 },
    });
    serde_json::from_value(exchange).unwrap()
}
