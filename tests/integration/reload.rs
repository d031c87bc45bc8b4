//! A config that changes while the gateway runs.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Agent, Answer, PATIENCE, Served, Upstream, hookgate, prompt};

/// A running gateway whose config lies in a folder.
struct Reloadable {
    folder: TempDir,
    served: Served,
    agent: Agent,
    operator: Agent,
    upstream: Upstream,
}

impl Reloadable {
    async fn start(place: impl FnOnce(&Path, &str)) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        place(folder.path(), &config(&upstream, ""));
        let file = folder.path().join("hookgate.yaml");
        let mut served = Served::start(hookgate(&["serve", "--config", file.to_str().unwrap()]));
        let agent = Agent::at(served.addr());
        let operator = Agent::at(served.operators());
        Self {
            folder,
            served,
            agent,
            operator,
            upstream,
        }
    }

    fn write(&self, hooks: &str) {
        let text = config(&self.upstream, hooks);
        fs::write(self.folder.path().join("hookgate.yaml"), text).unwrap();
    }

    async fn generate(&self) -> Answer {
        self.agent.generate("m", &prompt("hello")).await
    }

    /// How often its threads have gone to sleep.
    fn wakes(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.served.id())).unwrap();
        let of = |folder: &Path| -> Option<u64> {
            let status = fs::read_to_string(folder.join("status")).ok()?;
            let (_, count) = status.split_once("\nvoluntary_ctxt_switches:")?;
            count.lines().next()?.trim().parse().ok()
        };
        threads.filter_map(|it| of(&it.unwrap().path())).sum()
    }

    /// Waits until the metrics hold a line.
    async fn counted(&self, line: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = self.operator.get("/metrics").await;
            if metrics.text().contains(line) {
                return;
            }
            assert!(Instant::now() < deadline, "{}", metrics.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

const SWAPPED: &str = "hookgate_config_reloads_total{outcome=\"applied\"}";
const REFUSED: &str = "hookgate_config_reloads_total{outcome=\"rejected\"}";
const DENY: &str =
    "hooks: { BeforeModel: [{ hooks: [{ command: \"echo not now >&2; exit 2\" }] }] }";

fn config(upstream: &Upstream, hooks: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{hooks}\n",
        upstream.addr
    )
}

fn plainly(folder: &Path, text: &str) {
    fs::write(folder.join("hookgate.yaml"), text).unwrap();
}

#[tokio::test]
async fn a_file_that_changes_is_read_anew() {
    let gate = Reloadable::start(plainly).await;
    assert!(gate.generate().await.text().contains("You said"));

    gate.write(DENY);
    gate.counted(&format!("{SWAPPED} 1")).await;

    assert!(gate.generate().await.text().contains("not now"));
}

#[tokio::test]
async fn a_bad_config_changes_nothing_and_says_so() {
    let gate = Reloadable::start(plainly).await;
    gate.write(DENY);
    gate.counted(&format!("{SWAPPED} 1")).await;

    gate.write("hoks: {}");
    gate.counted(&format!("{REFUSED} 1")).await;

    gate.counted("hookgate_config_last_reload_successful 0")
        .await;
    let ready = gate.operator.get("/readyz").await;
    assert_eq!(ready.status, 200);
    assert!(
        ready.text().contains("last config reload failed"),
        "{}",
        ready.text()
    );
    assert!(gate.generate().await.text().contains("not now"));

    let asked = gate.operator.post("/reload", "").await;
    assert_eq!(asked.status, 400);
    assert!(
        asked.text().contains("unknown key `hoks`"),
        "{}",
        asked.text()
    );
    assert!(asked.text().contains("BAD_CONFIG"));

    gate.write("");
    gate.counted("hookgate_config_last_reload_successful 1")
        .await;
    assert!(gate.generate().await.text().contains("You said"));
    assert_eq!(
        gate.operator.get("/readyz").await.text(),
        r#"{"status":"ok"}"#
    );
}

#[tokio::test]
async fn a_hangup_and_an_operator_reload_what_has_not_changed() {
    let gate = Reloadable::start(plainly).await;

    gate.served.signal(Signal::HUP);
    gate.counted(&format!("{SWAPPED} 1")).await;
    let asked = gate.operator.post("/reload", "").await;

    assert_eq!(
        (asked.status, asked.text()),
        (200, r#"{"status":"reloaded"}"#)
    );
    gate.counted(&format!("{SWAPPED} 2")).await;
}

#[tokio::test]
async fn a_config_swapped_by_links_is_read_anew() {
    // Kubernetes: the file links to `..data/`, which links to a folder that is
    // replaced.
    let gate = Reloadable::start(|folder, text| {
        fs::create_dir(folder.join("..one")).unwrap();
        fs::write(folder.join("..one/hookgate.yaml"), text).unwrap();
        symlink("..one", folder.join("..data")).unwrap();
        symlink("..data/hookgate.yaml", folder.join("hookgate.yaml")).unwrap();
    })
    .await;
    assert!(gate.generate().await.text().contains("You said"));

    let folder = gate.folder.path();
    fs::create_dir(folder.join("..two")).unwrap();
    let text = config(&gate.upstream, DENY);
    fs::write(folder.join("..two/hookgate.yaml"), text).unwrap();
    symlink("..two", folder.join("..tmp")).unwrap();
    fs::rename(folder.join("..tmp"), folder.join("..data")).unwrap();
    gate.counted(&format!("{SWAPPED} 1")).await;

    assert!(gate.generate().await.text().contains("not now"));
}

#[tokio::test]
async fn writes_to_a_log_beside_the_config_cause_no_reload() {
    let gate = Reloadable::start(plainly).await;
    let mut log = fs::File::create(gate.folder.path().join("log")).unwrap();
    gate.write(DENY);
    gate.counted(&format!("{SWAPPED} 1")).await;

    let before = gate.wakes();
    for line in 0..20_000 {
        writeln!(log, "{line}").unwrap();
    }
    // A thread that has ended has taken its count along.
    let woken = gate.wakes().saturating_sub(before);

    assert!(woken < 2_000, "{woken}");
}
