//! Disks that are full, gateways that meet, files that are full, configs that
//! change.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;

use super::{kinds, only};
use crate::harness::{
    Agent, PATIENCE, Served, Upstream, assert_refused, decision_log, eventually, hookgate, prompt,
};

const MODEL: &str = "m";

/// A policy makes of each call one that is read.
const POLICY: &str = "policies: [{ policy: model_allow, models: [\"*\"] }]\n";

/// A gateway as a process, its log in a folder.
struct Gateway {
    folder: TempDir,
    served: Served,
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

    /// Started by a shell after it has done `before`.
    fn after(before: &str, upstream: &Upstream, audit: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = Self::write_config(folder.path(), upstream, audit);
        let serve = hookgate(&[]);
        let program = serve.get_program().to_str().unwrap();
        let script = format!("{before}; exec {program} serve --config {}", file.display());
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "bash", "-c", &script]);
        command
            .current_dir(folder.path())
            .env_remove("HOOKGATE_LOG");
        let mut served = Served::start(command);
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            served,
            folder,
        }
    }

    fn start(upstream: &Upstream, audit: &str) -> Self {
        Self::after("true", upstream, audit)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path as the gateway itself sees it: its mounts are its own.
    fn inside(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.served.id());
        Path::new(&root).join(self.path(name).strip_prefix("/").unwrap())
    }

    /// Waits for its orderly end.
    fn stop(self) -> TempDir {
        self.served.terminate();
        let (status, log) = self.served.ended(PATIENCE);
        assert!(status.success(), "{log}");
        self.folder
    }
}

/// Takes all room there is.
fn fill(file: &Path) {
    let mut file = fs::File::create(file).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
}

#[tokio::test]
async fn a_full_disk_refuses_calls_until_there_is_room() {
    let upstream = Upstream::mock().await;
    let mount = "mkdir disk && mount -t tmpfs -o size=512k tmpfs disk";
    let gateway = Gateway::after(mount, &upstream, "{ path: disk/audit.jsonl }");
    assert_eq!(
        gateway.agent.generate(MODEL, &prompt("a")).await.status,
        200
    );
    let log_path = gateway.inside("disk/audit.jsonl");
    let filler = gateway.inside("disk/filler");

    // Whatever is left, less than a line of it.
    fill(&filler);
    let mut refused = 0;
    for _ in 0..40 {
        let answer = gateway.agent.generate(MODEL, &prompt("b")).await;
        if answer.status != 200 {
            assert_refused(&answer, 503, "AUDIT_UNAVAILABLE");
            refused += 1;
        }
    }
    assert!(refused >= 20, "{refused}");
    let seen = upstream.seen().len();
    assert_eq!(seen, 41 - refused, "what is refused goes nowhere");
    assert_eq!(gateway.operator.get("/readyz").await.status, 503);
    assert_eq!(gateway.operator.metric("hookgate_audit_failing").await, 1);
    let text = fs::read_to_string(&log_path).unwrap();
    assert!(text.ends_with("}\n"), "no line is torn");

    fs::remove_file(&filler).unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while gateway.agent.generate(MODEL, &prompt("c")).await.status != 200 {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    assert_eq!(gateway.operator.get("/readyz").await.status, 200);
    let lines = decision_log(&log_path);
    let sent = lines
        .iter()
        .filter(|it| it["kind"] == "request" && it["sent"].is_object());
    assert!(sent.count() >= upstream.seen().len());
}

#[tokio::test]
async fn a_full_disk_does_not_stop_calls_that_need_no_log() {
    let upstream = Upstream::mock().await;
    let mount = "mkdir disk && mount -t tmpfs -o size=512k tmpfs disk";
    let audit = "{ path: disk/audit.jsonl, mode: best_effort }";
    let gateway = Gateway::after(mount, &upstream, audit);
    let filler = gateway.inside("disk/filler");
    fill(&filler);

    for _ in 0..30 {
        assert_eq!(
            gateway.agent.generate(MODEL, &prompt("b")).await.status,
            200
        );
    }
    assert_eq!(gateway.operator.get("/readyz").await.status, 200);
    fs::remove_file(&filler).unwrap();

    let path = gateway.inside("disk/audit.jsonl");
    eventually("what waited is written", PATIENCE, || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.matches("\"kind\":\"outcome\"").count() == 30
    })
    .await;
    decision_log(&path);
}

#[tokio::test]
async fn a_limit_on_files_is_a_full_disk_too() {
    let upstream = Upstream::mock().await;
    let limit = "trap '' XFSZ; ulimit -S -f 8";
    let gateway = Gateway::after(limit, &upstream, "{ path: audit.jsonl }");

    let mut refused = 0;
    for _ in 0..30 {
        refused += usize::from(gateway.agent.generate(MODEL, &prompt("b")).await.status == 503);
    }

    assert!(refused > 0);
    assert_eq!(upstream.seen().len(), 30 - refused);
    decision_log(&gateway.path("audit.jsonl"));
}

#[tokio::test]
async fn two_gateways_do_not_write_one_log() {
    let upstream = Upstream::mock().await;
    let gateway = Gateway::start(&upstream, "{ path: audit.jsonl }");

    let config = gateway.path("hookgate.yaml");
    let config = config.to_str().unwrap();
    let second = hookgate(&["serve", "--config", config]).output().unwrap();
    let check = hookgate(&["check", config]).output().unwrap();

    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("in use by another process"), "{said}");
    assert!(check.status.success(), "a config can be checked meanwhile");
    decision_log(&gateway.stop().path().join("audit.jsonl"));
}

#[tokio::test]
async fn files_that_are_full_hang_together_under_load() {
    let upstream = Upstream::mock().await;
    let audit = "{ path: audit.jsonl, rotate: { size: 24KiB, keep: 1000 } }";
    let gateway = Gateway::start(&upstream, audit);

    let calls = (0..100).map(|it| {
        let agent = gateway.agent.clone();
        async move {
            agent
                .generate(MODEL, &prompt(&format!("call {it}")))
                .await
                .status
        }
    });
    let statuses = futures_util::future::join_all(calls).await;

    assert_eq!(statuses, [200; 100]);
    let folder = gateway.stop();
    let lines = decision_log(&folder.path().join("audit.jsonl"));
    let count = |kind| lines.iter().filter(|it| it["kind"] == kind).count();
    assert_eq!((count("request"), count("outcome")), (100, 100));
    assert_eq!(
        lines.last().unwrap()["kind"],
        "stop",
        "what is told last is there"
    );
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert!(files > 5, "{files}");
}

#[tokio::test]
async fn a_config_that_changes_is_written_down_and_may_change_the_file() {
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
    // A file that changes may be noticed more than once.
    let beside = ["AfterModel", "rejected", "reload"];
    let mut told = kinds(&one);
    told.retain(|it| !beside.contains(&it.as_str()));
    let call = ["BeforeModel", "request", "outcome"];
    assert_eq!(told, [&["start"][..], &call, &call, &["stop"]].concat());
    let reloads = one.iter().filter(|it| it["kind"] == "reload");
    let outcomes: Vec<&str> = reloads.map(|it| it["outcome"].as_str().unwrap()).collect();
    assert!(
        outcomes.contains(&"applied") && outcomes.contains(&"rejected"),
        "{outcomes:?}"
    );
    let configs: Vec<_> = one.iter().filter(|it| it["kind"] == "request").collect();
    assert_ne!(configs[0]["config"], configs[1]["config"]);
    let content = one
        .iter()
        .filter(|it| it["sent"]["text"].is_string())
        .count();
    assert_eq!(content, 1);
    let two = decision_log(&folder.path().join("two.jsonl"));
    assert_eq!(
        only(&two, "request")["received"]["bytes"],
        json!(prompt("c").to_string().len())
    );
}

#[test]
fn a_folder_that_takes_no_file_is_a_mistake_in_the_config() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let config = "upstreams: { gemini: { url: \"http://127.0.0.1:9\" } }\naudit:\n  path: none/audit.jsonl\n";
    fs::write(&file, config).unwrap();

    let checked = hookgate(&["check", file.to_str().unwrap()])
        .output()
        .unwrap();

    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(78));
    assert!(
        said.contains(":3:9: the parent of `audit.path` is not a directory"),
        "{said}"
    );
}
