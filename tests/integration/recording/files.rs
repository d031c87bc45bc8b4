//! Segments: encryption, damage, retention, write failures and memory limits.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use hookgate::recording;
use tempfile::TempDir;

use super::{RECORD, exchanges};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, eventually, prompt, run,
    run_without_reader, serve_command,
};

pub const IDENTITY: &str =
    "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
pub const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
pub const OTHER_IDENTITY: &str =
    "AGE-SECRET-KEY-1RHQXGMWXPQ7LU272J3WADENGYJ0CDSMPNTQWX65RR3728ZE9U5MQ3VZCY7";

/// Records one call. Returns the folder of the gateway and the segment.
async fn one_segment(settings: &str) -> (TempDir, PathBuf) {
    let upstream = Upstream::mock().await;
    let config = format!("record: {{ path: recordings{settings} }}\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    gateway
        .agent()
        .generate("m", &prompt("hello recording"))
        .await;
    let folder = gateway.stop_and_keep_files().await;
    let segment = only_file(&folder.path().join("recordings"));
    (folder, segment)
}

/// Waits until a metric has a value.
async fn wait_for_metric(operator: &Agent, metric: &str, expected: u64) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while operator.metric(metric).await != expected {
        assert!(Instant::now() < deadline, "{metric} is not {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn only_file(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder).unwrap();
    let path = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    path
}

/// Runs `hookgate recording`. Returns exit code, standard output and standard error.
fn recording_command(folder: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    run(&[&["recording"], arguments].concat(), folder.path())
}

#[tokio::test]
async fn recording_files_are_accessible_only_to_their_owner() {
    let (folder, segment) = one_segment("").await;

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

    assert_eq!(mode(&segment), 0o600);
    assert_eq!(mode(&folder.path().join("recordings")), 0o700);
}

#[tokio::test]
async fn recordings_can_be_shown_exported_and_verified() {
    let (folder, _) = one_segment("").await;

    let (code, shown, _) = recording_command(&folder, &["show", "recordings"]);
    assert_eq!(code, 0);
    assert!(
        shown.contains(" pass gemini POST /v1beta/models/m:generateContent status=200 rounds=1"),
        "{shown}"
    );
    let id = shown.split(' ').nth(1).unwrap();
    let (code, line, _) = recording_command(&folder, &["show", "recordings", "--id", id]);
    assert!(code == 0 && line.contains("hello recording"));
    let (code, _, error) = recording_command(&folder, &["show", "recordings", "--id", "none"]);
    assert!(
        code == 1 && error.contains("no exchange with the id `none`"),
        "{error}"
    );
    let nowhere = ["show", "recordings", "--session", "nope"];
    let (code, _, error) = recording_command(&folder, &nowhere);
    assert!(
        code == 1 && error.contains("`recordings` has no exchange in the session `nope`"),
        "{error}"
    );
    let (code, exported, _) = recording_command(&folder, &["export", "recordings"]);
    assert_eq!((code, exported), (0, line));
    let (code, har, _) = recording_command(&folder, &["export", "recordings", "--har"]);
    let har: serde_json::Value = serde_json::from_str(&har).unwrap();
    let entry = &har["log"]["entries"][0];
    assert_eq!((code, &entry["response"]["status"]), (0, &200.into()));
    assert!(
        entry["request"]["postData"]["text"]
            .as_str()
            .unwrap()
            .contains("hello recording")
    );
    let (code, verified, _) = recording_command(&folder, &["verify", "recordings"]);
    assert_eq!((code, &*verified), (0, "1 segment, 1 exchange\n"));
    let (code, schema, _) = run(&["schema", "--recording"], folder.path());
    assert!(code == 0 && schema.contains("RecordedExchange"));
}

#[tokio::test]
async fn an_encrypted_recording_can_be_read_only_with_its_key() {
    let (folder, segment) = one_segment(&format!(", encrypt_to: [{RECIPIENT}]")).await;
    fs::write(folder.path().join("key.txt"), IDENTITY).unwrap();
    fs::write(folder.path().join("other.txt"), OTHER_IDENTITY).unwrap();

    let bytes = fs::read(&segment).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1\n"));
    let (code, shown, error) =
        recording_command(&folder, &["export", "recordings", "--identity", "key.txt"]);
    assert!(code == 0 && shown.contains("hello recording"), "{error}");
    let name = segment.file_name().unwrap().to_str().unwrap();
    for (arguments, expected) in [
        (&["--identity", "other.txt"][..], "encrypted to other keys"),
        (&[], "encrypted; `--identity` names the file with the key"),
    ] {
        let arguments = [&["verify", "recordings"], arguments].concat();
        let (code, verified, error) = recording_command(&folder, &arguments);
        assert_eq!((code, &*verified), (1, "1 segment, 0 exchanges\n"));
        assert!(
            error.contains(&format!("{name}: byte 0: {expected}")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn damaged_and_truncated_segments_are_reported_and_the_rest_is_read() {
    for settings in [String::new(), format!(", encrypt_to: [{RECIPIENT}]")] {
        let (folder, segment) = one_segment(&settings).await;
        let key = folder.path().join("key.txt");
        fs::write(&key, IDENTITY).unwrap();
        let good = fs::read(&segment).unwrap();
        let suffix = segment.to_str().unwrap().split_once(".hgr").unwrap().1;
        let recordings = folder.path().join("recordings");
        let mut tampered = good.clone();
        let middle = good.len() - 40;
        tampered[middle] ^= 1;
        fs::write(
            recordings.join(format!("rec-0-cut.hgr{suffix}")),
            &good[..good.len() - 9],
        )
        .unwrap();
        fs::write(
            recordings.join(format!("rec-0-tampered.hgr{suffix}")),
            tampered,
        )
        .unwrap();

        let (code, verified, error) =
            recording_command(&folder, &["verify", "recordings", "--identity", "key.txt"]);

        assert_eq!(
            (code, &*verified),
            (1, "3 segments, 1 exchange\n"),
            "{error}"
        );
        assert!(
            error.contains("rec-0-cut.hgr") && error.contains("truncated"),
            "{error}"
        );
        assert!(error.contains("rec-0-tampered.hgr"), "{error}");
        assert!(error.contains("damaged parts: 2"), "{error}");
    }
}

#[tokio::test]
async fn a_killed_process_loses_of_an_encrypted_segment_what_waits_for_encryption() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("key.txt"), IDENTITY).unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: 'http://127.0.0.1:1' }} }}\n\
         record: {{ path: recordings, encrypt_to: [{RECIPIENT}] }}\n\
         policies: [{{ policy: model_allow, models: [other] }}]\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    let (mut calls, mut written) = (0_u64, 0);
    while written < 90 {
        assert!(calls < 20_000, "{written} exchanges are written");
        let noise = (0..200).map(|place| (calls * 200 + place).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let text: Vec<String> = noise.map(|noise| format!("{noise:x}")).collect();
        agent.generate("m", &prompt(&text.concat())).await;
        calls += 1;
        let metric = "hookgate_recording_exchanges_total";
        written = operator.metric(metric).await;
    }
    served.kill();

    let (code, verified, error) =
        recording_command(&folder, &["verify", "recordings", "--identity", "key.txt"]);

    let exchanges = verified.strip_prefix("1 segment, ").unwrap();
    let exchanges: u64 = exchanges.split(' ').next().unwrap().parse().unwrap();
    assert!((written..calls).contains(&exchanges), "{verified}");
    let truncated = "truncated: the gateway may still be writing it; wait for the next segment";
    assert!(code == 1 && error.contains(truncated), "{error}");
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_segment_is_reported() {
    let (folder, _) = one_segment("").await;
    let pipe = folder.path().join("recordings/rec-0-pipe.hgr");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());

    let (code, verified, error) = recording_command(&folder, &["verify", "recordings"]);

    assert_eq!((code, &*verified), (1, "2 segments, 1 exchange\n"));
    let expected = "rec-0-pipe.hgr: byte 0: unreadable: it is not a regular file";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a_damaged_frame_loses_only_its_own_exchanges() {
    let (folder, segment) = one_segment("").await;
    let good = fs::read(&segment).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    fs::write(&segment, [&*good, &bad, &good].concat()).unwrap();

    let (code, verified, error) = recording_command(&folder, &["verify", "recordings"]);

    assert_eq!(
        (code, &*verified),
        (1, "1 segment, 2 exchanges\n"),
        "{error}"
    );
    assert!(
        error.contains(&format!("byte {}: corrupt", good.len())),
        "{error}"
    );
}

#[tokio::test]
async fn old_segments_are_removed_at_start() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let old = folder.path().join("rec-20000101T000000Z-0000.hgr");
    fs::write(&old, "old").unwrap();
    let file = File::options().write(true).open(&old).unwrap();
    let age = Duration::from_hours(72);
    file.set_modified(SystemTime::now() - age).unwrap();
    let config = format!(
        "record: {{ path: {}, keep: {{ days: 2, size: 1MiB }} }}\n",
        folder.path().display()
    );

    let gateway = TestGateway::start(&upstream, &config).await;

    eventually("the old segment is removed", TEST_TIMEOUT, || !old.exists()).await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_unwritable_path_fails_no_call_and_is_counted() {
    let upstream = Upstream::mock().await;
    // Nothing can be created there.
    let config = "record: { path: /proc/recordings }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    for _ in 0..3 {
        let answer = gateway.agent().generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200);
    }

    let operator = gateway.operator();
    wait_for_metric(&operator, "hookgate_recording_dropped_total", 3).await;
    assert!(operator.metric("hookgate_recording_failures_total").await >= 2);
    assert_eq!(
        operator.metric("hookgate_recording_exchanges_total").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_leaves_no_incomplete_frame() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         record: {{ path: recordings, redact: none }}\n",
        upstream.addr
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let serve = serve_command(folder.path());
    let mut command = Command::new("bash");
    let limited = ["-c", "ulimit -f 16; exec \"$0\" \"$@\""];
    command.args(limited).arg(serve.get_program());
    command.args(serve.get_args()).current_dir(folder.path());
    let mut served = ServerProcess::start(command);
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    agent.generate("m", &prompt("small")).await;
    wait_for_metric(&operator, "hookgate_recording_exchanges_total", 1).await;

    // Compressed, it is still larger than a file may be.
    let noise = (0_u64..8000).map(|place| place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let noise: String = noise.map(|noise| noise.to_string()).collect();
    agent.generate("m", &prompt(&noise)).await;
    wait_for_metric(&operator, "hookgate_recording_dropped_total", 1).await;
    served.terminate();
    let (status, log) = served.ended(TEST_TIMEOUT);

    assert!(status.success(), "{log}");
    let (code, verified, error) = recording_command(&folder, &["verify", "recordings"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(verified, "1 segment, 1 exchange\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_was_removed_is_replaced_by_another_one() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{RECORD}",
        upstream.addr
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let (agent, operator) = (Agent::at(served.addr()), Agent::at(served.operators()));
    let recordings = folder.path().join("recordings");
    for count in [1, 2] {
        agent.generate("m", &prompt("hi")).await;
        wait_for_metric(&operator, "hookgate_recording_exchanges_total", count).await;
        if count == 1 {
            fs::remove_dir_all(&recordings).unwrap();
        }
    }
    let seen = operator.get("/overview").await.json();

    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (_, log) = ended.await.unwrap();

    assert_eq!(exchanges(&recordings).len(), 1);
    assert!(
        log.contains("segment removed while it was written"),
        "{log}"
    );
    let expected = serde_json::json!({ "exchanges": 2, "dropped": 0, "failures": 1 });
    assert_eq!(seen["recording"], expected);
}

#[tokio::test]
async fn an_encrypted_segment_that_was_moved_has_all_its_exchanges() {
    let upstream = Upstream::mock().await;
    let config = format!("record: {{ path: recordings, encrypt_to: [{RECIPIENT}] }}\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    let elsewhere = TempDir::new().unwrap();
    let moved = elsewhere.path().join("recordings");
    gateway.agent().generate("m", &prompt("first")).await;
    let recordings = gateway.path("recordings");
    let is_written = || fs::read_dir(&recordings).is_ok_and(|mut files| files.next().is_some());
    eventually("a segment is written", TEST_TIMEOUT, is_written).await;

    fs::rename(&recordings, &moved).unwrap();
    gateway.agent().generate("m", &prompt("second")).await;
    eventually("another segment is written", TEST_TIMEOUT, is_written).await;

    let key = elsewhere.path().join("key.txt");
    fs::write(&key, IDENTITY).unwrap();
    let read = recording::read(&moved, Some(&key)).unwrap();
    let read: Vec<_> = read.map(|exchange| exchange.map(drop)).collect();
    assert!(matches!(read[..], [Ok(())]), "{read:?}");
    let operator = gateway.operator();
    wait_for_metric(&operator, "hookgate_recording_exchanges_total", 1).await;
}

#[tokio::test]
async fn an_exchange_above_the_memory_limit_is_dropped_and_counted() {
    let upstream = Upstream::mock().await;
    let config = format!("{RECORD}limits: {{ body: 40MiB, memory: 200MiB }}\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    let large = "x".repeat(17 * 1024 * 1024);
    let answer = gateway.agent().generate("m", &prompt(&large)).await;
    assert_eq!(answer.status, 200);
    gateway.agent().generate("m", &prompt("small")).await;

    let operator = gateway.operator();
    wait_for_metric(&operator, "hookgate_recording_dropped_total", 1).await;
    wait_for_metric(&operator, "hookgate_recording_exchanges_total", 1).await;
    let folder = gateway.stop_and_keep_files().await;
    assert_eq!(exchanges(&folder.path().join("recordings")).len(), 1);
}

#[tokio::test]
async fn a_compressed_request_counts_with_its_decoded_bytes() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "{RECORD}policies: [{{ policy: model_allow, models: [good] }}]\n\
         limits: {{ body: 40MiB, memory: 200MiB }}\n"
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    let large = prompt(&"x".repeat(17 * 1024 * 1024)).to_string();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(large.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    let agent = gateway.agent().sending("content-encoding", "gzip");
    let path = "/v1beta/models/bad:generateContent";
    let denied = agent.post(path, compressed).await;
    assert_eq!(denied.header("x-hookgate-action"), "deny");

    let operator = gateway.operator();
    wait_for_metric(&operator, "hookgate_recording_dropped_total", 1).await;
    let recorded = operator.metric("hookgate_recording_exchanges_total").await;
    assert_eq!(recorded, 0);
}

#[tokio::test]
async fn an_exchange_outside_of_the_sample_is_not_counted_as_dropped() {
    let upstream = Upstream::mock().await;
    let config = "record: { path: recordings, what: { sample: 0.000000001 } }\n\
                  policies: [{ policy: model_allow, models: ['*'] }]\n\
                  limits: { body: 40MiB, memory: 200MiB }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let large = "x".repeat(17 * 1024 * 1024);
    for text in [&*large, "small"] {
        let answer = gateway.agent().generate("m", &prompt(text)).await;
        assert_eq!(answer.status, 200);
    }

    let operator = gateway.operator();
    for metric in ["dropped", "exchanges"] {
        let metric = format!("hookgate_recording_{metric}_total");
        assert_eq!(operator.metric(&metric).await, 0, "{metric}");
    }
}

#[tokio::test]
async fn a_config_with_a_wrong_recipient_is_rejected() {
    let folder = TempDir::new().unwrap();
    let config = "upstreams: { gemini: { url: 'http://127.0.0.1:1' } }\n\
         record: { path: recordings, encrypt_to: [age1wrong] }\n";
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, error) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78);
    assert!(error.contains("must be an age recipient"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_lost_has_its_place_in_the_session() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "{RECORD}policies: [{{ policy: model_allow, models: ['*'] }}]\n\
         limits: {{ body: 40MiB, memory: 200MiB }}\n"
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-session", "s");
    let large = "x".repeat(17 * 1024 * 1024);
    for text in ["small", &large, "small"] {
        let answer = agent.generate("m", &prompt(text)).await;
        assert_eq!(answer.status, 200);
    }

    let folder = gateway.stop_and_keep_files().await;

    let recorded = exchanges(&folder.path().join("recordings")).into_iter();
    let places: Vec<u64> = recorded
        .map(|exchange| exchange.session.unwrap().place)
        .collect();
    assert_eq!(places, [0, 2]);
}

#[tokio::test]
async fn commands_end_when_the_reader_of_their_output_has_gone() {
    let (folder, segment) = one_segment("").await;
    fs::write(segment.with_file_name("rec-z.hgr"), "damaged").unwrap();
    for arguments in [
        &["show", "recordings"][..],
        &["export", "recordings"],
        &["export", "recordings", "--har"],
    ] {
        let arguments = [&["recording"], arguments].concat();

        let ended = run_without_reader(&arguments, folder.path());

        assert_eq!(ended, (0, String::new()), "{arguments:?}");
    }
}
