//! Full disks, file locks, rotation and reloads of the decision log.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{kinds, only};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, Upstream, assert_refused, decision_log, eventually, hook,
    hookgate, prompt,
};
use crate::trace::until;

const MODEL: &str = "m";

/// Policy that allows all models, so that the body of every call is inspected.
const POLICY: &str = "policies: [{ policy: model_allow, models: [\"*\"] }]\n";

/// Shell commands that make `fdatasync` of the gateway wait while its folder has a file `hang`.
const HANGING_DISK: &str = r#"cat > hang.c << 'END'
#include <unistd.h>

int fdatasync(int file) {
    while (access("hang", F_OK) == 0) usleep(10000);
    return fsync(file);
}
END
cc -shared -fPIC -o hang.so hang.c
export LD_PRELOAD="$PWD/hang.so""#;

/// Gateway in a process of its own, with its config and log in a folder.
struct Gateway {
    folder: TempDir,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
}

impl Gateway {
    fn write_config(folder: &Path, upstream: &Upstream, audit: &str) -> PathBuf {
        let config = format!(
            "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
             upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{POLICY}audit: {audit}\n",
            upstream.addr
        );
        let file = folder.join("hookgate.yaml");
        fs::write(&file, config).unwrap();
        file
    }

    /// Starts in a shell, after its command `setup`.
    fn start_after(setup: &str, upstream: &Upstream, audit: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = Self::write_config(folder.path(), upstream, audit);
        let serve = hookgate(&[]);
        let program = serve.get_program().to_str().unwrap();
        let script = format!("{setup}; exec {program} serve --config {}", file.display());
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "bash", "-c", &script]);
        command
            .current_dir(folder.path())
            .env_remove("HOOKGATE_LOG");
        let mut served = ServerProcess::start(command);
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            served,
            folder,
        }
    }

    fn start(upstream: &Upstream, audit: &str) -> Self {
        Self::start_after("true", upstream, audit)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path within the mount namespace of the gateway.
    fn path_in_mount_namespace(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.served.id());
        Path::new(&root).join(self.path(name).strip_prefix("/").unwrap())
    }

    /// Calls until a call is not refused.
    async fn until_calls_pass(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.agent.generate(MODEL, &prompt("c")).await.status != 200 {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Shuts the gateway down and returns its folder.
    fn stop(self) -> TempDir {
        self.served.terminate();
        let (status, log) = self.served.ended(TEST_TIMEOUT);
        assert!(status.success(), "{log}");
        self.folder
    }
}

/// Writes to this file until the disk is full.
fn fill_disk(file: &Path) {
    let mut file = fs::File::create(file).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
}

#[tokio::test]
async fn a_full_disk_refuses_calls_until_there_is_space() {
    let upstream = Upstream::mock().await;
    let mount = "mkdir disk && mount -t tmpfs -o size=512k tmpfs disk";
    let gateway = Gateway::start_after(mount, &upstream, "{ path: disk/audit.jsonl }");
    assert_eq!(
        gateway.agent.generate(MODEL, &prompt("a")).await.status,
        200
    );
    let log_path = gateway.path_in_mount_namespace("disk/audit.jsonl");
    let filler = gateway.path_in_mount_namespace("disk/filler");

    // The remaining space is less than a line needs.
    fill_disk(&filler);
    let mut refused = 0;
    for _ in 0..40 {
        let answer = gateway.agent.generate(MODEL, &prompt("b")).await;
        if answer.status != 200 {
            assert_refused(&answer, 503, "AUDIT_UNAVAILABLE");
            refused += 1;
        }
    }
    assert!(refused >= 20, "{refused}");
    let seen = upstream.requests().len();
    assert_eq!(seen, 41 - refused, "refused calls reach no upstream");
    let path = "/calls?error=AUDIT_UNAVAILABLE";
    let listed = until(&gateway.operator, path, |found| {
        found["calls"][0].is_object()
    })
    .await;
    assert_eq!(listed["calls"][0]["rounds"], 0, "{listed:#}");
    assert_eq!(gateway.operator.get("/readyz").await.status, 503);
    assert_eq!(gateway.operator.metric("hookgate_audit_failing").await, 1);
    let text = fs::read_to_string(&log_path).unwrap();
    assert!(text.ends_with("}\n"), "every line is complete");

    fs::remove_file(&filler).unwrap();
    gateway.until_calls_pass().await;

    assert_eq!(gateway.operator.get("/readyz").await.status, 200);
    let lines = decision_log(&log_path);
    let sent = lines
        .iter()
        .filter(|line| line["kind"] == "request" && line["sent"].is_object());
    assert!(sent.count() >= upstream.requests().len());
}

#[tokio::test]
async fn a_limit_of_the_file_size_refuses_calls() {
    let upstream = Upstream::mock().await;
    let gateway = Gateway::start_after("ulimit -f 8", &upstream, "{ path: audit.jsonl }");

    let deadline = Instant::now() + TEST_TIMEOUT;
    let refused = loop {
        let answer = gateway.agent.generate(MODEL, &prompt("a")).await;
        if answer.status != 200 {
            break answer;
        }
        assert!(Instant::now() < deadline);
    };

    assert_refused(&refused, 503, "AUDIT_UNAVAILABLE");
    assert_eq!(gateway.operator.get("/readyz").await.status, 503);
}

#[tokio::test]
async fn a_disk_that_hangs_refuses_calls_until_lines_are_written() {
    let upstream = Upstream::mock().await;
    let gateway = Gateway::start_after(HANGING_DISK, &upstream, "{ path: audit.jsonl }");
    let hang = gateway.path("hang");
    fs::write(&hang, "").unwrap();

    let first = gateway.agent.generate(MODEL, &prompt("a")).await;
    let started = Instant::now();
    let second = gateway.agent.generate(MODEL, &prompt("b")).await;

    assert!(started.elapsed() < Duration::from_secs(5), "it waits again");
    for answer in [&first, &second] {
        assert_refused(answer, 503, "AUDIT_UNAVAILABLE");
    }
    assert_eq!(gateway.operator.get("/readyz").await.status, 503);
    assert_eq!(gateway.operator.metric("hookgate_audit_failing").await, 1);
    assert!(upstream.requests().is_empty());

    fs::remove_file(&hang).unwrap();
    gateway.until_calls_pass().await;

    assert_eq!(gateway.operator.get("/readyz").await.status, 200);
    assert_eq!(gateway.operator.metric("hookgate_audit_failing").await, 0);
    decision_log(&gateway.path("audit.jsonl"));
    gateway.served.terminate();
    let (_, log) = gateway.served.ended(TEST_TIMEOUT);
    for message in ["writing failed", "writing recovered"] {
        let message = format!("decision log: {message}");
        assert_eq!(log.matches(&message).count(), 1, "{log}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_no_calls_in_best_effort_mode() {
    let upstream = Upstream::mock().await;
    let mount = "mkdir disk && mount -t tmpfs -o size=512k tmpfs disk";
    let audit = "{ path: disk/audit.jsonl, mode: best_effort }";
    let gateway = Gateway::start_after(mount, &upstream, audit);
    let filler = gateway.path_in_mount_namespace("disk/filler");
    fill_disk(&filler);

    for _ in 0..30 {
        assert_eq!(
            gateway.agent.generate(MODEL, &prompt("b")).await.status,
            200
        );
    }
    assert_eq!(gateway.operator.get("/readyz").await.status, 200);
    fs::remove_file(&filler).unwrap();

    let path = gateway.path_in_mount_namespace("disk/audit.jsonl");
    eventually("queued lines are written", TEST_TIMEOUT, || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.matches("\"kind\":\"outcome\"").count() == 30
    })
    .await;
    decision_log(&path);
}

#[tokio::test]
async fn a_file_size_limit_acts_like_a_full_disk() {
    let upstream = Upstream::mock().await;
    let limit = "trap '' XFSZ; ulimit -S -f 8";
    let gateway = Gateway::start_after(limit, &upstream, "{ path: audit.jsonl }");

    let mut refused = 0;
    for _ in 0..30 {
        refused += usize::from(gateway.agent.generate(MODEL, &prompt("b")).await.status == 503);
    }

    assert!(refused > 0);
    assert_eq!(upstream.requests().len(), 30 - refused);
    decision_log(&gateway.path("audit.jsonl"));
}

/// Returns a hook that makes the log of its gateway unwritable, and prints this output.
fn breaking_log(output: &Value) -> Value {
    let limit = "import resource,sys; \
                 resource.prlimit(int(sys.argv[1]), resource.RLIMIT_FSIZE, (1, -1))";
    let command = format!("cat > /dev/null; python3 -c '{limit}' $PPID; echo '{output}'");
    hook::command("breaks", &command)
}

#[tokio::test]
async fn a_decision_on_a_call_is_in_the_log_before_the_agent_receives_the_call() {
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "path": "b" } } });
    let hooks = hook::config(&[("BeforeTool", breaking_log(&edit))]);
    for stream in [false, true] {
        let upstream = Upstream::mock().await;
        let audit = format!("{{ path: audit.jsonl }}\n{hooks}");
        let gateway = Gateway::start_after("trap '' XFSZ", &upstream, &audit);
        let mut body = prompt("please read {\"path\":\"a\"}");
        body["tools"] = json!([{ "functionDeclarations": [{ "name": "read" }] }]);

        let answer = if stream {
            gateway.agent.stream(MODEL, &body).await
        } else {
            gateway.agent.generate(MODEL, &body).await
        };

        assert_refused(&answer, 503, "AUDIT_UNAVAILABLE");
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_refused_answer_to_a_token_count_is_in_the_log_before_the_agent_receives_the_error() {
    let upstream = Upstream::mock().await;
    let answer = hook::response(&json!({ "text": "three" }));
    let hooks = hook::config(&[("BeforeModel", breaking_log(&answer))]);
    let audit = format!("{{ path: audit.jsonl }}\n{hooks}");
    let gateway = Gateway::start_after("trap '' XFSZ", &upstream, &audit);

    let path = format!("/v1beta/models/{MODEL}:countTokens");
    let refused = gateway.agent.post(&path, prompt("a").to_string()).await;

    assert_refused(&refused, 503, "AUDIT_UNAVAILABLE");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_second_gateway_cannot_open_the_same_log() {
    let upstream = Upstream::mock().await;
    let gateway = Gateway::start(&upstream, "{ path: audit.jsonl }");

    let config = gateway.path("hookgate.yaml");
    let config = config.to_str().unwrap();
    let second = hookgate(&["serve", "--config", config]).output().unwrap();
    let check = hookgate(&["check", config]).output().unwrap();

    let stderr = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("in use by another process"), "{stderr}");
    assert!(check.status.success(), "a config can be checked meanwhile");
    decision_log(&gateway.stop().path().join("audit.jsonl"));
}

#[tokio::test]
async fn rotated_files_continue_one_hash_chain_under_load() {
    let upstream = Upstream::mock().await;
    let audit = "{ path: audit.jsonl, rotate: { size: 24KiB, keep: 1000 } }";
    let gateway = Gateway::start(&upstream, audit);

    let calls = (0..100).map(|number| {
        let agent = gateway.agent.clone();
        async move {
            agent
                .generate(MODEL, &prompt(&format!("call {number}")))
                .await
                .status
        }
    });
    let statuses = futures_util::future::join_all(calls).await;

    assert_eq!(statuses, [200; 100]);
    let folder = gateway.stop();
    let lines = decision_log(&folder.path().join("audit.jsonl"));
    let count = |kind| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!((count("request"), count("outcome")), (100, 100));
    assert_eq!(
        lines.last().unwrap()["kind"],
        "stop",
        "the last line is written at shutdown"
    );
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert!(files > 5, "{files}");
    let log = fs::metadata(folder.path().join("audit.jsonl")).unwrap();
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_reload_is_logged_and_may_change_the_log_file() {
    let upstream = Upstream::mock().await;
    let gateway = Gateway::start(&upstream, "{ path: one.jsonl }");
    gateway.agent.generate(MODEL, &prompt("a")).await;

    let folder = gateway.folder.path();
    Gateway::write_config(folder, &upstream, "{ path: one.jsonl, content: true }");
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    gateway.agent.generate(MODEL, &prompt("b")).await;
    fs::write(folder.join("hookgate.yaml"), "nonsense: 1").unwrap();
    assert_eq!(gateway.operator.post("/reload", "").await.status, 400);
    Gateway::write_config(folder, &upstream, "{ path: two.jsonl }");
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    gateway.agent.generate(MODEL, &prompt("c")).await;
    let folder = gateway.stop();

    let one = decision_log(&folder.path().join("one.jsonl"));
    // One change of the file may cause several reloads.
    let other_kinds = ["AfterModel", "rejected", "reload"];
    let mut logged = kinds(&one);
    logged.retain(|kind| !other_kinds.contains(&kind.as_str()));
    let call = ["BeforeModel", "request", "outcome"];
    assert_eq!(logged, [&["start"][..], &call, &call, &["stop"]].concat());
    let reloads = one.iter().filter(|line| line["kind"] == "reload");
    let outcomes: Vec<&str> = reloads
        .map(|reload| reload["outcome"].as_str().unwrap())
        .collect();
    assert!(
        outcomes.contains(&"applied") && outcomes.contains(&"rejected"),
        "{outcomes:?}"
    );
    let requests: Vec<_> = one
        .iter()
        .filter(|line| line["kind"] == "request")
        .collect();
    assert_ne!(requests[0]["config"], requests[1]["config"]);
    let content = one
        .iter()
        .filter(|line| line["sent"]["text"].is_string())
        .count();
    assert_eq!(content, 1);
    let two = decision_log(&folder.path().join("two.jsonl"));
    assert_eq!(
        only(&two, "request")["received"]["bytes"],
        json!(prompt("c").to_string().len())
    );
}

#[tokio::test]
async fn a_log_that_fails_does_not_count_as_failing_once_another_is_in_use() {
    let upstream = Upstream::mock().await;
    let gateway = Gateway::start_after("mkdir logs", &upstream, "{ path: logs/audit.jsonl }");
    fs::rename(gateway.path("logs"), gateway.path("gone")).unwrap();
    let refused = gateway.agent.generate(MODEL, &prompt("a")).await;
    assert_refused(&refused, 503, "AUDIT_UNAVAILABLE");
    assert_eq!(gateway.operator.metric("hookgate_audit_failing").await, 1);

    Gateway::write_config(gateway.folder.path(), &upstream, "{ path: two.jsonl }");
    assert_eq!(gateway.operator.post("/reload", "").await.status, 200);

    let has_lost_lines = |found: &Value| found["decision_log"]["dropped_lines"].as_u64() > Some(0);
    let overview = until(&gateway.operator, "/overview", has_lost_lines).await;
    assert_eq!(overview["decision_log"]["failing"], false);
    assert_eq!(gateway.operator.metric("hookgate_audit_failing").await, 0);
    gateway.served.terminate();
    let (_, log) = gateway.served.ended(TEST_TIMEOUT);
    assert!(log.contains("decision log: records lost"), "{log}");
}

#[tokio::test]
async fn a_refused_view_of_content_is_not_logged_as_a_view() {
    let upstream = Upstream::mock().await;
    let audit = "{ path: logs/audit.jsonl }\ntrace: { content: { sample: 1.0 } }";
    let gateway = Gateway::start_after("mkdir logs", &upstream, audit);
    let called = gateway.agent.generate(MODEL, &prompt("a")).await;
    let content = format!("/calls/{}/content", called.header("x-hookgate-request-id"));
    let is_kept = |found: &Value| found["id"].is_string();
    until(&gateway.operator, &content, is_kept).await;
    fs::rename(gateway.path("logs"), gateway.path("gone")).unwrap();
    let refused_call = gateway.agent.generate(MODEL, &prompt("b")).await;
    assert_refused(&refused_call, 503, "AUDIT_UNAVAILABLE");

    let refused_view = gateway.operator.get(&content).await;

    assert_eq!(refused_view.status, 503, "{}", refused_view.text());
    gateway.served.terminate();
    let (_, log) = gateway.served.ended(TEST_TIMEOUT);
    assert_eq!(log.matches("content of a call viewed").count(), 1, "{log}");
}

#[test]
fn a_log_path_in_a_missing_folder_is_a_config_error() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let config = "upstreams: { gemini: { url: \"http://127.0.0.1:9\" } }\naudit:\n\
        \x20 path: none/audit.jsonl\n";
    fs::write(&file, config).unwrap();

    let checked = hookgate(&["check", file.to_str().unwrap()])
        .output()
        .unwrap();

    let stderr = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(78));
    assert!(
        stderr.contains(":3:9: the parent of `audit.path` is not a directory"),
        "{stderr}"
    );
}
