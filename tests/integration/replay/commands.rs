//! The command `replay`: exit codes, report formats, damaged recordings, and isolation.

use std::{
    fs,
    io::{self, Write},
};

use serde_json::Value;

use super::{
    changes::base,
    conversations::{Call, REASON, Topic},
    recorded::RecordedCalls,
};
use crate::{
    families::family::ALL,
    harness::{
        ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, eventually, hookgate, processes,
        prompt, run,
    },
    recording::{IDENTITY, OTHER_IDENTITY, RECIPIENT},
};

/// Records 16 calls, and writes `next.yaml`, which allows the tool `rm`.
async fn record_calls() -> RecordedCalls {
    let calls = ALL.iter().flat_map(|family| {
        [Topic::Text, Topic::Look, Topic::Remove, Topic::SecretAnswer]
            .map(|topic| Call::single(*family, true, topic, "ci"))
    });
    let recorded = RecordedCalls::record(&base(), calls).await;
    recorded.write_config("next.yaml", &base().replace("deny: [rm]", "deny: ['*<&']"));
    recorded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fail_on_expression_sets_the_exit_code() {
    let recorded = record_calls().await;
    let code = |expression: &str| recorded.replay("next.yaml", &["--fail-on", expression]).0;

    assert_eq!(code("newly_allowed > 0"), 1);
    assert_eq!(code("newly_denied > 0.1% || newly_allowed > 50%"), 0);
    assert_eq!(code("newly_allowed == 4 && calls == 16"), 1);
    assert_eq!(code("newly_refused > 0"), 2);
    let (_, out, err) = recorded.replay("next.yaml", &["--fail-on", "newly_allowed > 0"]);
    assert!(
        out.contains("newly allowed             4 (25.0 %)"),
        "{out}"
    );
    assert!(
        err.contains("`--fail-on` holds: newly_allowed > 0"),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_report_format_has_counts_rules_and_samples() {
    let recorded = record_calls().await;
    for format in ["text", "markdown", "html", "junit", "json"] {
        let (code, out, err) = recorded.replay("next.yaml", &["--format", format]);
        assert_eq!(code, 0, "{err}");
        for part in ["guard", "rm", "ci", "allowed"] {
            assert!(out.contains(part), "{format} has no {part}: {out}");
        }
        // No hook ran.
        assert!(!out.contains("recorded hooks"), "{format}: {out}");
    }
    for format in ["html", "junit"] {
        let (_, out, _) = recorded.replay("next.yaml", &["--format", format]);
        assert_well_formed(&out);
    }
    let condition = ["--format", "junit", "--fail-on", "newly_allowed > 0"];
    let (code, out, _) = recorded.replay("next.yaml", &condition);
    assert_eq!(code, 1);
    assert!(
        out.contains("failures=\"1\"") && out.contains("newly_allowed &gt; 0"),
        "{out}"
    );
}

/// Checks that all elements are closed, in order.
#[track_caller]
fn assert_well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, rest) = tag.split_once('>').unwrap();
        assert!(!rest.contains('>') || rest.contains("body{"), "{rest}");
        let name = tag.split([' ', '\n']).next().unwrap();
        let is_void = tag.ends_with('/') || name == "meta";
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{text}");
        } else if !is_void && !name.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_and_truncated_segments_are_reported_and_the_rest_is_replayed() {
    let recorded = record_calls().await;
    let whole = recorded.segments().remove(0);
    let bytes = fs::read(&whole).unwrap();
    let mut tampered = bytes.clone();
    let last = tampered.len() - 20;
    tampered[last] ^= 1;
    for (name, bytes) in [
        ("rec-z-truncated.hgr", &bytes[..bytes.len() - 5]),
        ("rec-z-tampered.hgr", &tampered),
        ("rec-z-foreign.hgr", b"no recording"),
    ] {
        fs::write(whole.with_file_name(name), bytes).unwrap();
    }

    let report = recorded.report("base.yaml", &[]);
    let (_, _, err) = recorded.replay("base.yaml", &[]);

    let counts = &report["counts"];
    assert!(counts["calls"].as_u64().unwrap() >= 16, "{report:#}");
    assert_eq!(counts["unchanged"], counts["calls"], "{report:#}");
    for (name, cause) in [
        ("rec-z-truncated.hgr", "truncated"),
        ("rec-z-tampered.hgr", "corrupt"),
        ("rec-z-foreign.hgr", "not a frame of a recording"),
    ] {
        let is_reported = |line: &str| line.contains(name) && line.contains(cause);
        assert!(err.lines().any(is_reported), "{err}");
        let parts = report["damaged"]["parts"].to_string();
        assert!(parts.contains(name), "{report:#}");
    }
    assert_eq!(report["damaged"]["count"], 3, "{report:#}");
    let condition = ["--fail-on", "damaged == 3"];
    assert_eq!(recorded.replay("base.yaml", &condition).0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_encrypted_to_other_keys_are_reported_and_the_rest_is_replayed() {
    let recorded = record_calls().await;
    let encrypted = format!(", encrypt_to: [{RECIPIENT}]");
    let call = Call::single(ALL[0], true, Topic::Remove, "dev");
    let other = RecordedCalls::record_with(&encrypted, &base(), [call]).await;
    let segment = other.segments().remove(0);
    fs::copy(&segment, recorded.path().join("recordings/rec-z.hgr.age")).unwrap();
    fs::write(recorded.path().join("key.txt"), IDENTITY).unwrap();
    fs::write(recorded.path().join("other.txt"), OTHER_IDENTITY).unwrap();

    let all = recorded.report("base.yaml", &["--identity", "key.txt"]);
    let wrong = recorded.report("base.yaml", &["--identity", "other.txt"]);
    let none = recorded.report("base.yaml", &[]);

    assert_eq!(all["counts"]["unchanged"], 17, "{all:#}");
    assert_eq!(all["damaged"]["count"], 0, "{all:#}");
    for (report, cause) in [(wrong, "encrypted to other keys"), (none, "--identity")] {
        assert_eq!(report["counts"]["unchanged"], 16, "{report:#}");
        let parts = report["damaged"]["parts"].to_string();
        let is_reported = parts.contains("rec-z.hgr.age") && parts.contains(cause);
        assert!(is_reported, "{report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_from_a_pipe_decrypts_every_segment() {
    let encrypted = format!(", encrypt_to: [{RECIPIENT}]");
    let call = Call::single(ALL[0], true, Topic::Text, "dev");
    let recorded = RecordedCalls::record_with(&encrypted, &base(), [call]).await;
    let segment = recorded.segments().remove(0);
    fs::copy(&segment, segment.with_file_name("rec-z.hgr.age")).unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(IDENTITY.as_bytes()).unwrap();
    drop(writer);

    let arguments = ["--format", "json", "--identity", "/dev/stdin"];
    let mut command = recorded.command("base.yaml", &arguments);
    let output = command.stdin(reader).output().unwrap();

    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["counts"]["calls"], 2, "{report:#}");
    assert_eq!(report["damaged"]["count"], 0, "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_that_reads_no_call_fails_and_so_do_the_jobs_for_ci() {
    let encrypted = format!(", encrypt_to: [{RECIPIENT}]");
    let call = Call::single(ALL[0], true, Topic::Text, "dev");
    let recorded = RecordedCalls::record_with(&encrypted, &base(), [call]).await;
    fs::write(recorded.path().join("key.txt"), IDENTITY).unwrap();
    fs::write(recorded.path().join("other.txt"), OTHER_IDENTITY).unwrap();
    let later = ["--identity", "key.txt", "--since", "2999-01-01T00:00:00Z"];

    let (code, _, err) = recorded.replay("base.yaml", &["--identity", "other.txt"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no call could be read"), "{err}");
    let other = ["--identity", "other.txt", "--format", "junit"];
    let (_, suite, _) = recorded.replay("base.yaml", &other);
    assert!(suite.contains("failures=\"1\""), "{suite}");
    assert!(suite.contains("no call could be read"), "{suite}");
    assert_eq!(recorded.replay("base.yaml", &later).0, 0);
    fs::write(recorded.path().join("recordings/rec-z.hgr"), "damaged").unwrap();
    let (code, _, err) = recorded.replay("base.yaml", &later);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("rec-z.hgr"), "{err}");
    fs::remove_file(recorded.path().join("recordings/rec-z.hgr")).unwrap();

    for job in ["github", "gitlab"] {
        let condition = fail_on_of_job(job);
        let fails = |arguments: &[&str]| {
            let arguments = [arguments, &["--fail-on", condition.as_str()]].concat();
            let (code, _, err) = recorded.replay("base.yaml", &arguments);
            assert_eq!(code == 1, err.contains("`--fail-on` holds"), "{err}");
            code == 1
        };
        assert!(!fails(&["--identity", "key.txt"]), "{job}");
        assert!(fails(&["--identity", "other.txt"]), "{job}");
        assert!(fails(&later), "{job}");
    }
}

/// Returns the expression of `FAIL_ON` in a job of `config/ci`.
pub(super) fn fail_on_of_job(name: &str) -> String {
    let file = format!("{}/config/ci/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(file).unwrap();
    let compared = text.contains("--against base/config/hookgate.yaml");
    assert!(compared, "{name} compares with the recording: {text}");
    let mut lines = text.lines().skip_while(|line| !line.contains("FAIL_ON:"));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = lines.next().unwrap();
    assert!(first.ends_with("FAIL_ON: >-"), "{first}");
    let folded = lines.take_while(|line| indent(line) > indent(first));
    let folded: Vec<&str> = folded.map(str::trim).collect();
    folded.join(" ")
}

#[test]
fn the_gitlab_job_compares_with_a_config_whose_hooks_are_in_other_folders() {
    let job = format!("{}/config/ci/gitlab.yaml", env!("CARGO_MANIFEST_DIR"));
    let job = fs::read_to_string(job).unwrap();
    let line = job.lines().find(|line| line.contains("git archive"));
    let line = line.unwrap().trim().trim_start_matches("- ");
    let repository = tempfile::tempdir().unwrap();
    let at = |path: &str| repository.path().join(path);
    let config = "upstreams: { gemini: { url: http://127.0.0.1:1 } }\n\
                  hook_files: [{ path: ../.gemini/settings.json }]\nhook_directory: ..\n";
    for (folder, file, content) in [
        ("config", "hookgate.yaml", config),
        (".gemini", "settings.json", r#"{ "hooks": {} }"#),
    ] {
        fs::create_dir(at(folder)).unwrap();
        fs::write(at(folder).join(file), content).unwrap();
    }
    let script = format!(
        "git init -q . && git add . && git -c user.name=a -c user.email=a@a -c commit.gpgsign=false commit -qm a \
         && git fetch -q . HEAD && {line}"
    );

    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).current_dir(repository.path());
    assert!(shell.status().unwrap().success());
    let arguments = ["coverage", "--config", "base/config/hookgate.yaml"];
    let (code, _, err) = run(&arguments, repository.path());

    assert_eq!(code, 0, "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_before_the_since_time_are_skipped() {
    let recorded = record_calls().await;

    assert_eq!(
        recorded.report("base.yaml", &["--since", "1h"])["counts"]["calls"],
        16
    );
    let later = ["--since", "2999-01-01T00:00:00Z"];
    assert_eq!(recorded.report("base.yaml", &later)["counts"]["calls"], 0);
    assert_eq!(recorded.replay("base.yaml", &["--since", "soon"]).0, 2);
    assert_eq!(recorded.replay("base.yaml", &["--since", "7dd"]).0, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_run_only_with_hooks_run_and_unrecorded_outputs_are_unknown() {
    let recorded = record_calls().await;
    let hook = "hooks:\n  BeforeTool: [{ hooks: [{ name: new, command: touch ran }] }]\n";
    recorded.write_config("hooked.yaml", &format!("{}{hook}", base()));

    let policies = recorded.report("hooked.yaml", &[]);
    let all = recorded.report("hooked.yaml", &["--hooks", "recorded"]);
    assert!(!recorded.path().join("ran").exists());
    recorded.report("hooked.yaml", &["--hooks", "run"]);

    assert_eq!(policies["counts"]["unchanged"], 16, "{policies:#}");
    assert_eq!(all["unknown"]["hook_not_recorded"], 4, "{all:#}");
    assert!(recorded.path().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_hooks_of_a_replay() {
    let recorded = record_calls().await;
    let hook = "hooks:\n  BeforeModel: [{ hooks: [{ command: 'cat > /dev/null; sleep 600 & touch started; wait' }] }]\n";
    recorded.write_config("slow.yaml", &format!("{}{hook}", base()));
    let replay = ServerProcess::start(recorded.command("slow.yaml", &["--hooks", "run"]));
    let marker = replay.mark.clone();
    let started = recorded.path().join("started");
    eventually("a hook runs", TEST_TIMEOUT, || started.exists()).await;

    replay.terminate();
    let ended = tokio::task::spawn_blocking(move || replay.ended(TEST_TIMEOUT));
    let (status, stderr) = ended.await.unwrap();

    assert_eq!(status.code(), Some(143), "{stderr}");
    let is_gone = || processes(&marker).is_empty();
    eventually("no process is left", TEST_TIMEOUT, is_gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_rules_and_tools_without_a_rule_are_reported() {
    let recorded = record_calls().await;
    let unused =
        "  - { policy: model_allow, name: unused, models: [m], when: 'caller.name == \"eve\"' }\n";
    recorded.write_config("unused.yaml", &format!("{}{unused}", base()));

    let report = recorded.report("unused.yaml", &[]);

    assert_eq!(
        report["never_asked"],
        serde_json::json!(["unused"]),
        "{report:#}"
    );
    let coverage = &report["coverage"];
    assert_eq!(coverage["tool_calls"], 8, "{report:#}");
    assert_eq!(coverage["named"], 4, "{report:#}");
    assert_eq!(
        coverage["unnamed_tools"],
        serde_json::json!([["look", 4]]),
        "{report:#}"
    );
}

/// Lines of a decision log, one of which is damaged.
fn decision_log() -> [String; 7] {
    let line = |line: Value| format!("{line}\n");
    let request = |id: &str, model: &str, round: u32| {
        line(serde_json::json!({
            "kind": "request", "request": id, "round": round, "requested_model": model,
            "time": "2026-11-22T00:00:00Z", "caller": { "name": "ci" },
        }))
    };
    let tool = |id: &str, tool: &str, verdict: &str| {
        line(serde_json::json!({
            "kind": "event", "request": id, "event": "BeforeTool", "subject": tool,
            "verdict": verdict, "time": "2026-11-22T00:00:00Z", "caller": { "name": "ci" },
        }))
    };
    [
        request("a", "m", 1),
        request("a", "m", 2),
        tool("a", "rm", "proceed"),
        tool("a", "look", "proceed"),
        request("b", "big", 1),
        tool("c", "cat", "deny"),
        "broken\n".to_owned(),
    ]
}

#[test]
fn a_decision_log_can_be_replayed_for_rules_on_names() {
    let folder = tempfile::TempDir::new().unwrap();
    let log = decision_log();
    // The first two lines are in a file that was rotated.
    let rotated = "decisions.jsonl.00000000000000000001";
    fs::write(folder.path().join(rotated), log[..2].concat()).unwrap();
    fs::write(folder.path().join("decisions.jsonl"), log[2..].concat()).unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:9\" }} }}
policies:
  - {{ policy: model_allow, name: models, models: [m] }}
  - {{ policy: tool_guard, name: guard, deny: [rm], reason: {REASON}, rules: [{{ tool: look, argument: /x, matches: a }}] }}
  - {{ policy: prompt_guard, name: prompts, deny: [aurora] }}
"
    );
    fs::write(folder.path().join("next.yaml"), config).unwrap();

    let command = ["replay", "--config", "next.yaml", "--format", "json"];
    let from = [&command[..], &["--from", "decisions.jsonl"]].concat();
    let (code, out, err) = run(&from, folder.path());
    let path = [&command[..], &["decisions.jsonl"]].concat();
    let same = run(&path, folder.path());

    assert_eq!((code, same.0), (0, 0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let counts = &report["counts"];
    assert_eq!(counts["newly_denied"], 2, "{report:#}");
    assert_eq!(
        (&counts["unknown"], &counts["unchanged"]),
        (&1.into(), &0.into()),
        "{report:#}"
    );
    assert_eq!(report["tools"]["rm"]["newly_denied"], 1);
    assert_eq!(report["rules"]["models"]["newly_denied"], 1);
    assert_eq!(report["damaged"]["count"], 1);
    let evaluated = report["judged_rules"].to_string();
    assert!(
        evaluated.contains("its `rules`, which need arguments; `allow` and `deny` are evaluated"),
        "{evaluated}"
    );
    assert!(
        evaluated.contains(r#"{"rule":"models","not_judged":null}"#),
        "{evaluated}"
    );
    assert!(
        evaluated.contains("it needs the content of calls"),
        "{evaluated}"
    );
}

#[test]
fn calls_of_a_decision_log_count_once_and_are_denied_if_their_outcome_is() {
    let policies = "  - { policy: model_allow, name: models, models: [m] }
  - { policy: tool_guard, name: guard, deny: [rm] }\n";
    let folder = log_of_models(&[], policies);
    let line = |kind: &str, id: &str, fields: Value| {
        let mut line = serde_json::json!({
            "kind": kind, "request": id, "time": "2026-11-22T00:00:00Z",
        });
        let fields = fields.as_object().unwrap().clone();
        line.as_object_mut().unwrap().extend(fields);
        format!("{line}\n")
    };
    let request = |id, model: &str, round: u32| {
        let fields = serde_json::json!({ "requested_model": model, "round": round });
        line("request", id, fields)
    };
    let tool = |id| {
        let fields =
            serde_json::json!({ "event": "BeforeTool", "subject": "rm", "verdict": "proceed" });
        line("event", id, fields)
    };
    let outcome = |id, action: &str| line("outcome", id, serde_json::json!({ "action": action }));
    let failed = |id, error: &str| {
        let fields = serde_json::json!({ "action": "error", "error": error });
        line("outcome", id, fields)
    };
    let log = [
        request("tools", "m", 1),
        request("respond", "big", 0),
        tool("tools"),
        tool("tools"),
        outcome("respond", "respond"),
        request("deny", "big", 0),
        outcome("deny", "deny"),
        outcome("tools", "edit"),
        request("overloaded", "m", 0),
        failed("overloaded", "OVERLOADED"),
        request("refused", "m", 0),
        failed("refused", "POLICY_DENIED"),
        serde_json::json!({ "v": 1, "id": "i" }).to_string(),
    ];
    fs::write(folder.path().join("decisions.jsonl"), log.concat()).unwrap();

    let command = ["replay", "--config", "next.yaml", "--format", "json"];
    let from = [&command[..], &["--from", "decisions.jsonl"]].concat();
    let (_, out, err) = run(&from, folder.path());

    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    let counts = &report["counts"];
    assert_eq!(counts["calls"], 5, "{report:#}");
    assert_eq!(counts["newly_denied"], 2, "{report:#}");
    assert_eq!(counts["unchanged"], 2, "{report:#}");
    assert_eq!(counts["unknown"], 1, "{report:#}");
    assert_eq!(report["damaged"]["count"], 1, "{report:#}");
    fs::write(folder.path().join("decisions.jsonl"), &log[12]).unwrap();
    assert_eq!(run(&from, folder.path()).0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_decision_log_that_no_rule_on_models_sees_are_unchanged() {
    let upstream = Upstream::mock().await;
    let policies = "policies: [{ policy: model_allow, models: [m] }]\n";
    let config = format!("audit: {{ path: decisions.jsonl }}\n{policies}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent();
    for path in ["/v1beta/models", "/v1beta/models/other"] {
        agent.get(path).await;
    }
    agent
        .post("/v1beta/models/other:generateContent", "{")
        .await;
    agent.generate("m", &prompt("hello")).await;
    agent.generate("other", &prompt("hello")).await;
    let folder = gateway.stop_and_keep_files().await;
    let upstreams = "upstreams: { gemini: { url: \"http://127.0.0.1:9\" } }\n";
    fs::write(
        folder.path().join("next.yaml"),
        format!("{upstreams}{policies}"),
    )
    .unwrap();

    let command = ["replay", "--config", "next.yaml", "--format", "json"];
    let from = [&command[..], &["--from", "decisions.jsonl"]].concat();
    let (_, out, err) = run(&from, folder.path());

    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    assert_eq!(report["counts"]["calls"], 5, "{report:#}");
    assert_eq!(report["counts"]["unchanged"], 5, "{report:#}");
}

#[expect(clippy::print_stdout, reason = "a skipped test must be visible")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_policies_starts_no_process_and_opens_no_connection() {
    if std::process::Command::new("strace")
        .arg("-V")
        .output()
        .is_err()
    {
        println!("skipped: there is no strace");
        return;
    }
    let hook = "hooks:\n  BeforeTool: [{ hooks: [{ name: h, command: cat > /dev/null }, { name: web, type: http, url: 'http://127.0.0.1:9/' }] }]\n";
    let config = format!("{}{hook}", base());
    let calls = ALL
        .iter()
        .map(|family| Call::single(*family, true, Topic::Look, "ci"));
    let recorded = RecordedCalls::record(&config, calls).await;
    let policies = trace_system_calls(&recorded, "policies");
    let run = trace_system_calls(&recorded, "run");

    assert!(policies.is_empty(), "{policies:#?}");
    // When the hooks run, the trace shows it.
    for call in ["execve(", "connect("] {
        assert!(run.iter().any(|line| line.contains(call)), "{run:#?}");
    }
}

/// Replays under strace. Returns the calls that start a process or open a connection.
#[track_caller]
fn trace_system_calls(recorded: &RecordedCalls, hooks: &str) -> Vec<String> {
    let replay = recorded.command("base.yaml", &["--format", "json", "--hooks", hooks]);
    let calls = "execve,execveat,fork,vfork,clone,clone3,socket,connect,sendto,sendmsg,bind";
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-qq", "-o", "trace", "-e", calls, "--"]);
    strace.arg(replay.get_program()).args(replay.get_args());
    let output = strace.current_dir(recorded.path()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["counts"]["calls"], 4, "{report:#}");
    if hooks == "policies" {
        assert_eq!(report["counts"]["unchanged"], 4, "{report:#}");
    }
    let trace = fs::read_to_string(recorded.path().join("trace")).unwrap();
    // Excludes the command itself and its threads.
    let lines = trace.lines().filter(|line| {
        let is_thread = line.contains("CLONE_THREAD") || line.contains("resumed>");
        let is_own = line.contains("execve(") && line.contains("hookgate");
        !is_thread && !is_own && !line.contains("+++") && !line.contains("---")
    });
    lines.map(str::to_owned).collect()
}

/// Returns a folder with a decision log of these models, and `next.yaml` with these policies.
fn log_of_models(models: &[&str], policies: &str) -> tempfile::TempDir {
    let folder = tempfile::TempDir::new().unwrap();
    let lines = models.iter().map(|model| {
        let line = serde_json::json!({
            "kind": "request", "request": model, "round": 1, "requested_model": model,
            "time": "2026-11-22T00:00:00Z", "caller": { "name": "ci" },
        });
        format!("{line}\n")
    });
    let log: String = lines.collect();
    fs::write(folder.path().join("decisions.jsonl"), log).unwrap();
    let upstreams = "upstreams: { gemini: { url: \"http://127.0.0.1:9\" } }\n";
    fs::write(
        folder.path().join("next.yaml"),
        format!("{upstreams}policies:\n{policies}"),
    )
    .unwrap();
    folder
}

#[test]
fn a_report_has_no_control_characters_of_a_decision_log() {
    let policies = "  - { policy: tool_guard, name: guard, deny: [rm] }\n";
    let folder = log_of_models(&[], policies);
    let line = serde_json::json!({
        "kind": "event", "request": "a\u{1b}[31m", "event": "BeforeTool", "subject": "rm",
        "verdict": "proceed", "time": "2026\u{1b}[31m", "caller": { "name": "ci\u{1b}[31m" },
    });
    fs::write(folder.path().join("decisions.jsonl"), format!("{line}\n")).unwrap();
    let command = [
        "replay",
        "--config",
        "next.yaml",
        "--from",
        "decisions.jsonl",
    ];

    for format in ["text", "markdown", "junit", "html"] {
        let command = [&command[..], &["--format", format]].concat();
        let (_, out, err) = run(&command, folder.path());

        assert!(out.contains("[31m"), "{format}: {out}{err}");
        assert!(!out.contains('\u{1b}'), "{format}: {out:?}");
    }
}

#[test]
fn models_of_a_decision_log_are_evaluated_after_they_are_swapped() {
    let allow = "  - { policy: model_allow, models: ['gemini-*'] }\n";
    let swap = "swap: { other: gemini-pro, gemini-old: evil }";
    let report = |policies: &str| {
        let folder = log_of_models(&["other", "gemini-old", "gemini-pro"], policies);
        let command = ["replay", "--config", "next.yaml", "--format", "json"];
        let from = [&command[..], &["--from", "decisions.jsonl"]].concat();
        let (_, out, err) = run(&from, folder.path());
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {err}"))
    };

    let evaluated = report(&format!("  - {{ policy: model_swap, {swap} }}\n{allow}"));
    assert_eq!(evaluated["counts"]["newly_denied"], 1, "{evaluated:#}");
    let sample = &evaluated["samples"]["newly_denied"][0];
    assert_eq!(sample["request"], "gemini-old", "{evaluated:#}");

    let rules = "rules: [{ model: 'other', to: gemini-pro }]";
    let unknown = report(&format!("  - {{ policy: model_swap, {rules} }}\n{allow}"));
    assert_eq!(unknown["counts"]["newly_denied"], 0, "{unknown:#}");
    let rules = unknown["judged_rules"].to_string();
    assert!(rules.contains("before it is not evaluated"), "{rules}");
}

#[test]
fn models_of_callers_are_not_evaluated_behind_a_swap_that_is_not() {
    let report = |policies: &str| {
        let key = format!(
            "{{ name: ci, sha256: {}, models: [gemini-pro] }}",
            "a".repeat(64)
        );
        let config = format!("{policies}auth: {{ keys: [{key}] }}\n");
        let folder = log_of_models(&["other", "gemini-pro"], &config);
        let command = ["replay", "--config", "next.yaml", "--format", "json"];
        let from = [&command[..], &["--from", "decisions.jsonl"]].concat();
        let (_, out, err) = run(&from, folder.path());
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {err}"))
    };

    let evaluated = report("  - { policy: model_swap, swap: { old: new } }\n");
    assert_eq!(evaluated["counts"]["newly_denied"], 1, "{evaluated:#}");
    let rules = "rules: [{ model: other, to: gemini-pro }]";
    let unknown = report(&format!("  - {{ policy: model_swap, {rules} }}\n"));
    assert_eq!(unknown["counts"]["newly_denied"], 0, "{unknown:#}");
    let swap = "type: builtin, policy: model_swap, swap: { other: gemini-pro }";
    let hooks = format!("  []\nhooks: {{ BeforeModel: [{{ hooks: [{{ {swap} }}] }}] }}\n");
    let unknown = report(&hooks);
    assert_eq!(unknown["counts"]["newly_denied"], 0, "{unknown:#}");
}

#[test]
fn a_decision_log_from_a_pipe_is_replayed_from_its_first_line() {
    let folder = log_of_models(&["m", "n"], "  - { policy: model_allow, models: [n] }\n");
    let log = fs::read(folder.path().join("decisions.jsonl")).unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&log).unwrap();
    drop(writer);

    let options = ["--config", "next.yaml", "--format", "json", "/dev/stdin"];
    let mut command = hookgate(&[&["replay"], &options[..]].concat());
    let output = command.current_dir(folder.path()).stdin(reader).output();

    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(report["counts"]["newly_denied"], 1, "{report:#}");
    assert_eq!(report["damaged"]["count"], 0, "{report:#}");
}

#[test]
fn options_apply_to_decision_logs_or_are_refused() {
    let allow = "  - { policy: model_allow, models: [m] }\n";
    let folder = log_of_models(&["m", "n"], allow);
    let replay = |arguments: &[&str]| {
        let command = ["replay", "--config", "next.yaml", "--format", "json"];
        run(&[&command, arguments].concat(), folder.path())
    };

    let (_, out, err) = replay(&["--since", "2999-01-01T00:00:00Z", "decisions.jsonl"]);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    assert_eq!(report["counts"]["calls"], 0, "{report:#}");
    for option in [
        ["--against", "next.yaml"],
        ["--hooks", "run"],
        ["--identity", "next.yaml"],
    ] {
        let (code, _, err) = replay(&[&option[..], &["decisions.jsonl"]].concat());
        assert_eq!(code, 1, "{option:?}");
        assert!(err.contains("need a recording"), "{err}");
    }
}
