//! Hot reload of the config file.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use hookgate::{
    config::{Config, Overrides},
    hook,
    state::ConfigSource,
};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    callers::auth,
    harness::{
        Agent, Answer, ServerProcess, TEST_TIMEOUT, Upstream, assert_refused, hookgate, prompt,
        send_and_read,
    },
};

/// A running gateway whose config file is in a temporary folder.
struct Reloadable {
    folder: TempDir,
    served: ServerProcess,
    agent: Agent,
    operator: Agent,
    upstream: Upstream,
}

impl Reloadable {
    async fn start(write_config: impl FnOnce(&Path, &str)) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        write_config(folder.path(), &config(&upstream, ""));
        let file = folder.path().join("hookgate.yaml");
        let mut served =
            ServerProcess::start(hookgate(&["serve", "--config", file.to_str().unwrap()]));
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

    /// Number of voluntary context switches of its threads.
    fn context_switches(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.served.id())).unwrap();
        let switches_of = |folder: &Path| -> Option<u64> {
            let status = fs::read_to_string(folder.join("status")).ok()?;
            let (_, count) = status.split_once("\nvoluntary_ctxt_switches:")?;
            count.lines().next()?.trim().parse().ok()
        };
        threads
            .filter_map(|thread| switches_of(&thread.unwrap().path()))
            .sum()
    }

    /// Waits until the metrics contain this text.
    async fn wait_for_metric(&self, line: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
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

const APPLIED: &str = "hookgate_config_reloads_total{outcome=\"applied\"}";
const REJECTED: &str = "hookgate_config_reloads_total{outcome=\"rejected\"}";
const DENY: &str =
    "hooks: { BeforeModel: [{ hooks: [{ command: \"echo not now >&2; exit 2\" }] }] }";

fn config(upstream: &Upstream, hooks: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{hooks}\n",
        upstream.addr
    )
}

fn write_config_file(folder: &Path, text: &str) {
    fs::write(folder.join("hookgate.yaml"), text).unwrap();
}

#[tokio::test]
async fn a_changed_config_file_is_reloaded() {
    let gate = Reloadable::start(write_config_file).await;
    assert!(gate.generate().await.text().contains("You said"));

    gate.write(DENY);
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    assert!(gate.generate().await.text().contains("not now"));
}

#[tokio::test]
async fn an_invalid_config_changes_nothing_and_is_reported() {
    let gate = Reloadable::start(write_config_file).await;
    gate.write(DENY);
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    gate.write("hoks: {}");
    gate.wait_for_metric(&format!("{REJECTED} 1")).await;

    gate.wait_for_metric("hookgate_config_last_reload_successful 0")
        .await;
    let ready = gate.operator.get("/readyz").await;
    assert_eq!(ready.status, 200);
    assert!(
        ready.text().contains("last config reload failed"),
        "{}",
        ready.text()
    );
    assert!(gate.generate().await.text().contains("not now"));

    let response = gate.operator.post("/reload", "").await;
    assert_eq!(response.status, 400);
    assert!(
        response.text().contains("unknown key `hoks`"),
        "{}",
        response.text()
    );
    assert!(response.text().contains("BAD_CONFIG"));

    gate.write("");
    gate.wait_for_metric("hookgate_config_last_reload_successful 1")
        .await;
    assert!(gate.generate().await.text().contains("You said"));
    assert_eq!(
        gate.operator.get("/readyz").await.text(),
        r#"{"status":"ok"}"#
    );
}

#[tokio::test]
async fn a_bound_listener_that_is_open_keeps_its_authentication() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let open = config(&upstream, "auth: { keys: [{ name: ann, sha256: KEY }] }")
        .replace("listen: 127.0.0.1:0\nadmin", "listen: 0.0.0.0:0\nadmin")
        .replace("KEY", &"a".repeat(64));
    write_config_file(folder.path(), &open);
    let file = folder.path().join("hookgate.yaml");
    let command = hookgate(&["serve", "--config", file.to_str().unwrap()]);
    let mut served = ServerProcess::start(command);
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());

    write_config_file(folder.path(), &config(&upstream, ""));
    let reloaded = operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 400, "{}", reloaded.text());
    let problem = "hookgate.yaml:1:9: agents on other machines can connect without authentication";
    assert!(reloaded.text().contains(problem), "{}", reloaded.text());
    let answer = agent.generate("m", &prompt("hello")).await;
    assert_refused(&answer, 401, "UNAUTHENTICATED");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn the_bound_address_decides_on_names_of_hosts_after_a_reload() {
    for (bound, reloaded, status) in [("0.0.0.0", "127.0.0.1", 200), ("127.0.0.1", "0.0.0.0", 403)]
    {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        let write = |address: &str| {
            let text = config(&upstream, &auth(&[("ann", "")]));
            let listen = format!("listen: {address}:0\nadmin");
            let text = text.replace("listen: 127.0.0.1:0\nadmin", &listen);
            write_config_file(folder.path(), &text);
        };
        write(bound);
        let file = folder.path().join("hookgate.yaml");
        let command = hookgate(&["serve", "--config", file.to_str().unwrap()]);
        let mut served = ServerProcess::start(command);
        let (agents, operators) = (served.addr(), served.operators());
        let head = "GET /v1beta/models HTTP/1.1\r\nhost: gateway.example\r\n\
            x-hookgate-key: ann-key\r\nconnection: close\r\n\r\n";
        let before = send_and_read(agents, head.as_bytes()).await;

        write(reloaded);
        let answer = Agent::at(operators).post("/reload", "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let after = send_and_read(agents, head.as_bytes()).await;

        let expected = format!("HTTP/1.1 {status} ");
        assert!(before.starts_with(&expected), "{bound}: {before}");
        assert!(after.starts_with(&expected), "{bound}: {after}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_to_its_end_stops_no_operator_and_no_signal() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "a-key").unwrap();
    let more = "policies: [{ policy: prompt_guard, deny: [x] }]";
    let text = config(&upstream, more).replace("\" } }", "\", api_key: { file: secret } } }");
    write_config_file(folder.path(), &text);
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    assert_eq!(agent.generate("m", &prompt("hello")).await.status, 200);

    fs::remove_file(&secret).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&secret).status();
    assert!(made.unwrap().success());
    // Longer than the delay after a change.
    tokio::time::sleep(Duration::from_secs(1)).await;

    assert_eq!(operator.get("/healthz").await.status, 200);
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (status, log) = ended.await.unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[tokio::test]
async fn a_file_that_became_a_pipe_is_refused_by_a_reload() {
    for name in ["hookgate.yaml", "s.json"] {
        let gate = Reloadable::start(|folder, text| {
            fs::write(folder.join("s.json"), r#"{"hooks": {}}"#).unwrap();
            write_config_file(folder, &format!("{text}hook_files: [{{ path: s.json }}]\n"));
        })
        .await;
        let file = gate.folder.path().join(name);
        fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.unwrap().success());

        let reloaded = gate.operator.post("/reload", "").await;

        assert_eq!(reloaded.status, 400, "{name}: {}", reloaded.text());
        let (text, path) = (reloaded.text(), file.display());
        let names_file = text.contains(&format!("`{path}`"));
        assert!(names_file && text.contains("not a regular file"), "{text}");
        assert_eq!(gate.generate().await.status, 200);
    }
}

#[tokio::test]
async fn a_settings_file_that_became_empty_keeps_its_guards() {
    let guard = r#"{"hooks": {"BeforeModel": [{"hooks": [
        {"name": "guard", "command": "echo not now >&2; exit 2", "on_failure": "closed"}
    ]}]}}"#;
    let gate = Reloadable::start(|folder, text| {
        fs::write(folder.join("s.json"), guard).unwrap();
        write_config_file(
            folder,
            &format!("{text}\nhook_files: [{{ path: s.json }}]\n"),
        );
    })
    .await;
    assert!(gate.generate().await.text().contains("not now"));
    let settings = gate.folder.path().join("s.json");

    for empty in ["", " \n", "null", "// nothing"] {
        fs::write(&settings, empty).unwrap();
        let reloaded = gate.operator.post("/reload", "").await;

        assert_eq!(reloaded.status, 400, "{empty:?}: {}", reloaded.text());
        let problem = "s.json:1:1: the settings file is empty";
        assert!(reloaded.text().contains(problem), "{}", reloaded.text());
        assert!(gate.generate().await.text().contains("not now"));
    }
    assert!(gate.upstream.requests().is_empty());
}

#[tokio::test]
async fn guards_that_a_reload_removes_are_logged() {
    let gate = Reloadable::start(|folder, text| {
        let settings = r#"{"hooks": {"BeforeModel": [{"hooks": [
            {"name": "guard", "command": "exit 0", "on_failure": "closed"},
            {"name": "open", "command": "exit 0"}
        ]}]}}"#;
        fs::write(folder.join("s.json"), settings).unwrap();
        write_config_file(
            folder,
            &format!("{text}\nhook_files: [{{ path: s.json }}]\n"),
        );
    })
    .await;

    fs::write(gate.folder.path().join("s.json"), r#"{"Hooks": {}}"#).unwrap();
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    let Reloadable { served, .. } = gate;
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (_, log) = ended.await.unwrap();
    let removed = log.lines().filter(|line| line.contains("guard removed"));
    let removed: Vec<&str> = removed.collect();
    assert_eq!(removed.len(), 1, "{log}");
    let names = |text: &str| removed.iter().all(|line| line.contains(text));
    assert!(names("guard") && names("BeforeModel"), "{removed:?}");
    assert!(log.contains("did you mean `hooks`?"), "{log}");
}

#[tokio::test]
async fn changed_settings_of_the_start_are_listed_until_they_are_taken_back() {
    let gate = Reloadable::start(write_config_file).await;
    let needs_restart = async || {
        let config = gate.operator.get("/config").await.json();
        config["needs_restart"].clone()
    };
    assert_eq!(needs_restart().await, json!([]));

    gate.write("log: { level: debug }\nlimits: { connections: 100, body: 1MiB }");
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    assert_eq!(
        needs_restart().await,
        json!(["limits.connections", "log.level"])
    );
    let page = gate.operator.get("/console/config").await;
    let listed = page
        .text()
        .contains("<li><code>limits.connections</code></li>");
    assert!(listed, "{}", page.text());
    gate.write("");
    gate.wait_for_metric(&format!("{APPLIED} 2")).await;
    assert_eq!(needs_restart().await, json!([]));
    let Reloadable { served, .. } = gate;
    served.terminate();
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (_, log) = ended.await.unwrap();
    let line = log.lines().find(|line| line.contains("restart to apply"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("limits.connections, log.level"), "{line}");
}

#[tokio::test]
async fn sighup_and_the_admin_api_reload_an_unchanged_config() {
    let gate = Reloadable::start(write_config_file).await;

    gate.served.signal(Signal::HUP);
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;
    let response = gate.operator.post("/reload", "").await;

    assert_eq!(
        (response.status, response.text()),
        (200, r#"{"status":"reloaded"}"#)
    );
    gate.wait_for_metric(&format!("{APPLIED} 2")).await;
}

#[tokio::test]
async fn a_config_replaced_through_symbolic_links_is_reloaded() {
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
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    assert!(gate.generate().await.text().contains("not now"));
}

#[tokio::test]
async fn files_behind_a_link_to_a_folder_are_reloaded_each_time_it_is_replaced() {
    let link = |folder: &Path, release: &str| {
        symlink(release, folder.join("next")).unwrap();
        fs::rename(folder.join("next"), folder.join("current")).unwrap();
    };
    let gate = Reloadable::start(|folder, text| {
        for (release, events) in [("one", ""), ("two", "\"BeforeModel\": []"), ("three", "")] {
            fs::create_dir(folder.join(release)).unwrap();
            let settings = format!("{{\"hooks\": {{{events}}}}}");
            fs::write(folder.join(release).join("settings.json"), settings).unwrap();
        }
        link(folder, "one");
        let text = format!("{text}\nhook_files: [{{ path: current/settings.json }}]\n");
        fs::write(folder.join("hookgate.yaml"), text).unwrap();
    })
    .await;

    for (reloads, release) in [(1, "two"), (2, "three")] {
        link(gate.folder.path(), release);
        gate.wait_for_metric(&format!("{APPLIED} {reloads}")).await;
    }
}

/// Starts with a settings file without hooks at `pol/a/x/s.json`, and waits until it is watched.
async fn start_with_nested_settings() -> Reloadable {
    let gate = Reloadable::start(|folder, text| {
        write_settings(&folder.join("pol/a/x"), r#"{"hooks": {}}"#);
        write_config_file(
            folder,
            &format!("{text}\nhook_files: [{{ path: pol/a/x/s.json }}]\n"),
        );
    })
    .await;
    // The watcher is created after the start.
    tokio::time::sleep(Duration::from_millis(500)).await;
    gate
}

/// Writes a settings file, and creates its folder.
fn write_settings(folder: &Path, settings: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("s.json"), settings).unwrap();
}

const DENYING_SETTINGS: &str =
    r#"{"hooks": {"BeforeModel": [{"hooks": [{"command": "echo not now >&2; exit 2"}]}]}}"#;

#[tokio::test]
async fn files_in_a_folder_that_is_replaced_are_reloaded() {
    // The settings file is in `pol/a/x`: its folder is replaced, or the one above it.
    for (replaced, replacement) in [("pol/a/x", "pol/new/x"), ("pol/a", "pol/new")] {
        let gate = start_with_nested_settings().await;
        let folder = gate.folder.path();
        write_settings(&folder.join("pol/new/x"), DENYING_SETTINGS);

        fs::rename(folder.join(replaced), folder.join("pol/old")).unwrap();
        fs::rename(folder.join(replacement), folder.join(replaced)).unwrap();
        gate.wait_for_metric(&format!("{APPLIED} 1")).await;

        assert!(gate.generate().await.text().contains("not now"));
    }
}

#[tokio::test]
async fn files_in_a_folder_that_is_removed_and_created_again_are_reloaded() {
    let gate = start_with_nested_settings().await;
    let folder = gate.folder.path();

    fs::remove_dir_all(folder.join("pol/a")).unwrap();
    gate.wait_for_metric(&format!("{REJECTED} 1")).await;
    // Longer than the delay after a change.
    tokio::time::sleep(Duration::from_secs(1)).await;
    write_settings(&folder.join("pol/a/x"), DENYING_SETTINGS);
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    assert!(gate.generate().await.text().contains("not now"));
}

#[tokio::test]
async fn a_log_written_beside_the_config_rarely_wakes_the_gateway() {
    let gate = Reloadable::start(write_config_file).await;
    let mut log = fs::File::create(gate.folder.path().join("log")).unwrap();
    gate.write(DENY);
    gate.wait_for_metric(&format!("{APPLIED} 1")).await;

    let before = gate.context_switches();
    for line in 0..20_000 {
        writeln!(log, "{line}").unwrap();
    }
    // The counts of threads that have exited are missing.
    let switches = gate.context_switches().saturating_sub(before);

    assert!(switches < 2_000, "{switches}");
}

/// Config with a guard whose proof takes a second, and leaves a file when it begins.
const SLOW_PROOF: &str = "hooks: { BeforeTool: [{ hooks: [{ name: slow, \
    command: 'touch proving; sleep 1; exit 2', \
    must_deny: [{ tool_call: { name: a, args: {} } }] }] }] }";

/// Waits until a proof has begun.
async fn wait_for_proof(folder: &Path) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !folder.join("proving").exists() {
        assert!(Instant::now() < deadline, "no proof");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::remove_file(folder.join("proving")).unwrap();
}

#[tokio::test]
async fn signals_and_changes_during_the_start_are_not_lost() {
    let (upstream, folder) = (Upstream::mock().await, TempDir::new().unwrap());
    write_config_file(folder.path(), &config(&upstream, SLOW_PROOF));
    let mut served = ServerProcess::folder(folder.path());
    wait_for_proof(folder.path()).await;

    served.signal(Signal::HUP);
    write_config_file(folder.path(), &config(&upstream, DENY));
    let agent = Agent::at(served.addr());

    let deadline = Instant::now() + TEST_TIMEOUT;
    while !agent
        .generate("m", &prompt("hello"))
        .await
        .text()
        .contains("not now")
    {
        assert!(Instant::now() < deadline, "the change is not in use");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_change_during_a_reload_that_adds_a_file_is_not_lost() {
    let gate = Reloadable::start(write_config_file).await;
    let folder = gate.folder.path();
    fs::write(folder.join("case.json"), "{\"hooks\":{}}").unwrap();
    let more = "\nhook_files: [{ path: case.json }]";
    gate.write(&format!("{SLOW_PROOF}{more}"));
    wait_for_proof(folder).await;

    gate.write(&format!("{DENY}{more}"));

    gate.wait_for_metric(&format!("{APPLIED} 2")).await;
    assert!(gate.generate().await.text().contains("not now"));
}

#[tokio::test]
async fn a_corrected_file_of_a_refused_config_is_noticed() {
    let gate = Reloadable::start(write_config_file).await;
    let settings = gate.folder.path().join("settings.json");
    fs::write(&settings, "{").unwrap();
    gate.write("hook_files: [{ path: settings.json }]");
    gate.wait_for_metric(&format!("{REJECTED} 1")).await;

    let deny = r#"{ "hooks": { "BeforeModel": [{ "hooks": [{
        "type": "command", "command": "echo not now >&2; exit 2" }] }] } }"#;
    fs::write(&settings, deny).unwrap();

    gate.wait_for_metric(&format!("{APPLIED} 1")).await;
    assert!(gate.generate().await.text().contains("not now"));
}

#[test]
fn a_change_is_still_noticed_after_the_config_was_read_for_a_bundle() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let config = "upstreams: { gemini: { url: https://example.org } }\n";
    fs::write(&file, config).unwrap();
    let path = file.clone();
    let source = ConfigSource::new(Arc::new(move |_, _| {
        Config::load(&path, &Overrides::default(), &hook::registry())
    }));
    source.read().unwrap();
    assert!(!source.files().have_changed());

    fs::write(&file, format!("{config}denials: error\n")).unwrap();
    source.read_layers(Vec::new()).unwrap();

    // The bundle may be refused.
    assert!(source.files().have_changed());
    source.read().unwrap();
    assert!(!source.files().have_changed());
}
