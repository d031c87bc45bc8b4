//! Replicas: gateways that fetch their policies from a bundle server.

use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    time::{Duration, Instant},
};

use policy_bundle::Bundle;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::server::{PolicyServer, Polling, Publisher};
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, Upstream, eventually, prompt, run, serve_command,
};
use crate::trace::until;

/// Environment variable with the number of replicas.
const REPLICAS: &str = "HOOKGATE_REPLICAS";

/// Environment variable with the minutes of the server outage, which is a second without it.
const OUTAGE_MINUTES: &str = "HOOKGATE_AWAY_MINUTES";

/// Gateway that uses bundles of a server.
pub(super) struct Replica {
    pub(super) folder: TempDir,
    pub(super) upstream: Upstream,
    served: ServerProcess,
    pub(super) agent: Agent,
    pub(super) operator: Agent,
}

impl Replica {
    /// Starts with these settings of `source`.
    pub(super) async fn start(source: &str) -> Self {
        Self::start_with(source, &[]).await
    }

    /// Starts with these files beside the config.
    async fn start_with(source: &str, files: &[(&str, &str)]) -> Self {
        Self::start_before(Upstream::mock().await, source, files)
    }

    /// Starts with this model API, and these files beside the config.
    pub(super) fn start_before(upstream: Upstream, source: &str, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{addr}\" }}, anthropic: {{ url: \"http://{addr}\" }} }}\n\
             source:\n  persist: bundles\n  poll: 50ms..100ms\n  wait: 5s\n{source}",
            addr = upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            served,
            folder,
            upstream,
        }
    }

    /// Starts with the bundle `prod` of a server.
    pub(super) async fn start_from(server: &PolicyServer, publisher: &Publisher) -> Self {
        Self::start(&source(server, publisher)).await
    }

    /// Kills the process and starts it again.
    fn restart(&mut self) {
        self.served.kill();
        self.served = ServerProcess::folder(self.folder.path());
        self.agent = Agent::at(self.served.addr());
        self.operator = Agent::at(self.served.operators());
    }

    /// Returns the path of the stored archive.
    fn stored_archive(&self) -> PathBuf {
        let stored = fs::read_dir(self.folder.path().join("bundles")).unwrap();
        let mut archives = stored
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "gz"));
        let archive = archives.next().unwrap();
        assert_eq!(archives.next(), None);
        archive
    }

    /// Changes a word in the stored archive.
    fn modify_stored_bundle(&self) {
        let archive = self.stored_archive();
        let mut bytes = fs::read(&archive).unwrap();
        let apple = bytes.windows(5).position(|window| window == b"apple");
        let at = apple.unwrap();
        bytes[at..at + 5].copy_from_slice(b"peach");
        fs::write(&archive, bytes).unwrap();
    }

    /// Stops the process, and returns its log.
    pub(super) async fn stop(self) -> String {
        self.served.terminate();
        let ended = tokio::task::spawn_blocking(move || self.served.ended(TEST_TIMEOUT));
        ended.await.unwrap().1
    }

    /// Returns whether a prompt with this word is denied.
    pub(super) async fn denies(&self, word: &str) -> bool {
        let answer = self.agent.generate("m", &prompt(word)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        !answer.text().contains("You said")
    }

    /// Returns the state of the bundles.
    pub(super) async fn bundles(&self) -> Vec<Value> {
        let config = self.operator.get("/config").await.json();
        config["bundles"].as_array().unwrap().clone()
    }

    /// Waits until the first bundle has this revision.
    pub(super) async fn wait_for_revision(&self, revision: &str) {
        self.wait_until(|bundles| bundles[0]["revision"] == revision)
            .await;
    }

    /// Waits until a bundle has an error with this text; returns the error.
    pub(super) async fn wait_for_error(&self, text: &str) -> String {
        let has_text = |bundle: &Value| {
            let error = bundle["error"].as_str();
            error.is_some_and(|error| error.contains(text))
        };
        let bundles = self
            .wait_until(|bundles| bundles.iter().any(has_text))
            .await;
        let bundle = bundles.iter().find(|bundle| has_text(bundle)).unwrap();
        bundle["error"].as_str().unwrap().to_owned()
    }

    /// Waits until the state of the bundles fulfils a condition; returns the state.
    pub(super) async fn wait_until(&self, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let bundles = self.bundles().await;
            if holds(&bundles) {
                return bundles;
            }
            assert!(Instant::now() < deadline, "{bundles:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(super) fn source(server: &PolicyServer, publisher: &Publisher) -> String {
    format!(
        "  url: \"{}\"\n  keys: [\"{}\"]\n",
        server.url("prod"),
        publisher.public_key()
    )
}

/// Starts a server with a bundle `prod` that denies prompts with this word.
pub(super) async fn server_with(publisher: &Publisher, word: &str) -> PolicyServer {
    let server = PolicyServer::start(Polling::Long).await;
    server.publish("prod", publisher.denying("1", word));
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_made_of_a_denial_is_for_the_bundle() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let trace = "trace: { content: { denied_or_edited: true } }\n";
    let replica = Replica::start(&(source(&server, &publisher) + trace)).await;
    let answer = replica.agent.generate("m", &prompt("an apple")).await;
    let id = answer.header("x-hookgate-request-id");

    let deadline = Instant::now() + TEST_TIMEOUT;
    let page = loop {
        let address = format!("/console/calls/{id}/test");
        let page = replica.operator.get(&address).await.text().to_owned();
        if page.contains("<pre tabindex") {
            break page;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };

    assert!(page.contains("come from bundles"), "{page}");
    assert!(page.contains("config: ../hookgate.yaml"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_converge_on_the_published_bundle() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let count = env::var(REPLICAS).map_or(3, |count| count.parse().unwrap());
    let mut replicas = Vec::new();
    for _ in 0..count {
        replicas.push(Replica::start_from(&server, &publisher).await);
    }
    for replica in &replicas {
        assert!(replica.denies("apple").await && !replica.denies("banana").await);
    }

    let started = Instant::now();
    server.publish("prod", publisher.denying("2", "banana"));
    for replica in &replicas {
        replica.wait_for_revision("2").await;
    }
    let converged = started.elapsed();

    for replica in &replicas {
        assert!(replica.denies("banana").await && !replica.denies("apple").await);
    }
    let mut report = std::io::stderr().lock();
    writeln!(report, "{count} replicas converged in {converged:?}").unwrap();
    if env::var(REPLICAS).is_ok() {
        assert!(converged < Duration::from_secs(2), "{converged:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_server_replicas_keep_the_last_bundle_over_restarts() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::start_from(&server, &publisher).await;
    server.publish("prod", publisher.denying("2", "banana"));
    replica.wait_for_revision("2").await;

    drop(server);
    let outage = env::var(OUTAGE_MINUTES).map_or(Duration::from_secs(1), |minutes| {
        Duration::from_mins(minutes.parse().unwrap())
    });
    let (started, mut calls) = (Instant::now(), 0);
    for restarts in 0..3 {
        let error = replica
            .wait_for_error("the server cannot be reached: Connection refused")
            .await;
        assert!(!error.contains("http"), "no URL in errors: {error}");
        let ready = replica.operator.get("/readyz").await;
        assert_eq!(ready.status, 200);
        let status = ready.text();
        let warning = "bundles may be out of date: bundle";
        assert!(status.contains(warning), "{status}");
        loop {
            assert!(replica.denies("banana").await && !replica.denies("apple").await);
            assert_eq!(replica.bundles().await[0]["revision"], "2");
            calls += 2;
            if started.elapsed() >= outage * (restarts + 1) / 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        replica.restart();
    }

    assert!(replica.denies("banana").await && !replica.denies("apple").await);
    let mut report = std::io::stderr().lock();
    writeln!(report, "{outage:?} away, {calls} calls as before").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modified_stored_bundle_is_fetched_again_at_the_next_start() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::start_from(&server, &publisher).await;
    replica.served.kill();
    replica.modify_stored_bundle();

    replica.restart();

    assert!(replica.denies("apple").await, "it is fetched again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bundle_older_than_a_damaged_stored_one_is_accepted() {
    let publisher = Publisher::new();
    let older = publisher.denying("0", "cherry");
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::start_from(&server, &publisher).await;
    replica.served.kill();
    replica.modify_stored_bundle();
    server.publish("prod", older);

    let gateway = ServerProcess::start(serve_command(replica.folder.path()));
    let ended = tokio::task::spawn_blocking(move || gateway.ended(TEST_TIMEOUT));
    let (status, err) = ended.await.unwrap();

    assert_eq!(status.code(), Some(1));
    assert!(
        err.contains("is not newer than revision `1` in use"),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_lists_of_stored_bundles_are_reported() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::start_from(&server, &publisher).await;
    replica.served.kill();
    for list in ["active.json", "manifests.json"] {
        fs::write(replica.folder.path().join("bundles").join(list), "{").unwrap();
    }

    replica.restart();
    assert!(replica.denies("apple").await, "it is fetched again");
    let log = replica.stop().await;

    for warning in ["stored bundles refused", "older bundles are accepted"] {
        assert_eq!(log.matches(warning).count(), 1, "{warning}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_bundle_of_a_key_that_was_replaced_bounds_no_other() {
    let (publisher, successor) = (Publisher::new(), Publisher::new());
    // Created before the one that is stored.
    let good = successor.denying("2", "cherry");
    publisher.denying("0", "pear");
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::start_from(&server, &publisher).await;
    assert!(replica.denies("apple").await);
    replica.served.kill();
    server.publish("prod", good);

    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    let keys = [&publisher, &successor].map(|publisher| publisher.public_key().to_string());
    assert!(config.contains(&keys[0]));
    fs::write(&file, config.replace(&keys[0], &keys[1])).unwrap();
    replica.restart();

    assert!(replica.denies("cherry").await);
    assert!(!replica.denies("apple").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_bundle_of_another_url_is_not_used_and_bounds_no_other() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Long).await;
    // Created before the one that is stored.
    server.publish("other", publisher.denying("0", "cherry"));
    server.publish("prod", publisher.denying("1", "apple"));
    let mut replica = Replica::start_from(&server, &publisher).await;
    assert!(replica.denies("apple").await);
    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    assert!(config.contains("/prod\""), "{config}");

    fs::write(&file, config.replace("/prod\"", "/prod?signature=2\"")).unwrap();
    replica.restart();
    assert!(replica.denies("apple").await);
    fs::write(&file, config.replace("/prod\"", "/other\"")).unwrap();
    replica.restart();
    assert!(replica.denies("cherry").await && !replica.denies("apple").await);
    drop(server);
    replica.restart();
    assert!(replica.denies("cherry").await, "it is stored");

    let log = replica.stop().await;
    assert!(!log.contains("another source.url"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_is_signed_again_is_stored_with_its_new_signature() {
    let (publisher, successor) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Polling::Long).await;
    let archive = publisher.denying("1", "apple");
    server.publish("prod", archive.clone());
    let keys = [&publisher, &successor].map(|publisher| publisher.public_key().to_string());
    let source = source(&server, &publisher);
    let both = source.replace(&keys[0], &keys.join("\", \""));
    let mut replica = Replica::start(&both).await;

    server.publish("prod", successor.signed_again(&archive));
    let is_stored = || {
        let stored = fs::read(replica.stored_archive()).unwrap();
        let stored = Bundle::from_bytes(&stored).unwrap();
        stored.verify(&[successor.public_key()]).is_ok()
    };
    eventually("the signature is stored", TEST_TIMEOUT, is_stored).await;
    drop(server);
    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    let config = config.replace(&format!("\"{}\", ", keys[0]), "");
    assert!(!config.contains(&keys[0]));
    fs::write(&file, config).unwrap();
    replica.restart();

    assert!(replica.denies("apple").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_bundle_with_commands_that_are_not_allowed_any_more_is_fetched_again() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::start_from(&server, &publisher).await;
    assert!(replica.denies("apple").await);
    replica.served.kill();
    let policy = "policies: [{ policy: prompt_guard, deny: [cherry] }]\n";
    let bundle = publisher.signed(publisher.manifest("2"), &[("hookgate.yaml", policy)]);
    server.publish("prod", bundle);

    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config + "  allow: []\n").unwrap();
    replica.restart();

    assert!(replica.denies("cherry").await && !replica.denies("apple").await);
    let log = replica.stop().await;
    assert_eq!(log.matches("stored bundles refused").count(), 1, "{log}");
    assert!(log.contains("hook `words` runs a command"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_bundle_that_is_not_proven_any_more_is_fetched_again() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Long).await;
    let guard = |revision, needs: &str| {
        let hook = format!("#!/bin/sh\n{needs}grep -q apple && exit 2\nexit 0\n");
        let config = "hooks: { BeforeModel: [{ hooks: [{ name: g, command: ./hooks/g.sh, \
                      must_deny: [{ prompt: apple }] }] }] }\n";
        let manifest = publisher.manifest(revision);
        publisher.signed(
            manifest,
            &[("hookgate.yaml", config), ("hooks/g.sh", &hook)],
        )
    };
    let needed = TempDir::new().unwrap();
    let needs = format!("test -d {} || exit 3\n", needed.path().display());
    server.publish("prod", guard("1", &needs));
    let mut replica = Replica::start_from(&server, &publisher).await;
    replica.served.kill();
    drop(needed);
    server.publish("prod", guard("2", ""));

    replica.restart();

    assert!(replica.denies("apple").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_bundle_is_requested_by_its_etag_and_not_reloaded() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Short).await;
    server.publish("prod", publisher.denying("1", "apple"));
    let replica = Replica::start_from(&server, &publisher).await;
    let version = replica.operator.get("/config").await.json()["version"].clone();
    let deadline = Instant::now() + TEST_TIMEOUT;
    while server.requests().len() < 6 {
        assert!(Instant::now() < deadline, "it does not poll");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let requests = server.requests();
    let tagged = requests
        .iter()
        .filter(|request| !request.header("if-none-match").is_empty());
    assert!(tagged.clone().count() >= 4, "{requests:?}");
    for request in tagged {
        assert_eq!(request.header("prefer"), "wait=5");
    }
    assert_eq!(
        replica.operator.get("/config").await.json()["version"],
        version
    );
    let metrics = replica.operator.get("/metrics").await;
    let metrics = metrics.text();
    assert!(
        metrics.contains("hookgate_bundle_fetches_total{bundle=\"bundle\",outcome=\"unchanged\"}"),
        "{metrics}"
    );
    assert!(!metrics.contains("outcome=\"activated\"}"), "{metrics}");
    server.publish("prod", publisher.denying("2", "banana"));
    replica.wait_for_revision("2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_is_sent_to_the_server_and_redirects_are_not_followed() {
    let publisher = Publisher::new();
    let other = server_with(&publisher, "apple").await;
    let target = other.url("prod");
    let archive = publisher.denying("1", "apple");
    let redirects = Upstream::with(move |asked| {
        let response = http::Response::builder();
        if asked.header("if-none-match").is_empty() {
            return response
                .header("etag", "\"1\"")
                .body(archive.clone().into())
                .unwrap();
        }
        response
            .status(302)
            .header("location", &target)
            .body(axum::body::Body::empty())
            .unwrap()
    })
    .await;
    let source = format!(
        "  url: \"http://{}/prod\"\n  keys: [\"{}\"]\n  token: {{ file: token }}\n",
        redirects.addr,
        publisher.public_key()
    );

    let replica = Replica::start_with(&source, &[("token", "bundle-token")]).await;
    replica
        .wait_for_error("the server redirects, which is not followed")
        .await;

    assert_eq!(
        redirects.requests()[0].header("authorization"),
        "Bearer bundle-token"
    );
    assert!(other.requests().is_empty());
}

#[test]
fn misplaced_and_invalid_source_settings_are_reported_with_their_lines() {
    let folder = TempDir::new().unwrap();
    let config = "upstreams: { gemini: { url: http://127.0.0.1:1 } }
policies: [{ policy: model_allow, models: [a] }]
ask: allow
revisions: { path: revisions }
source:
  url: ftp://policy.example/prod
  poll: 20s..10s
  persist: bundles
";
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, err) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78);
    for line in [
        "hookgate.yaml:2:1: `policies` belongs to the bundle of `source`, not to this file",
        "hookgate.yaml:3:1: `ask` belongs to the bundle of `source`, not to this file",
        "hookgate.yaml:4:12: `revisions` and `source` exclude each other",
        "hookgate.yaml:6:8: `source.url`",
        "hookgate.yaml:7:9: the range begins with the shorter duration",
    ] {
        assert!(err.contains(line), "{line}\n{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_with_another_source_is_refused_at_its_position() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();

    fs::write(&file, config.replace("wait: 5s", "wait: 6s")).unwrap();
    let reloaded = replica.operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 400, "{}", reloaded.text());
    let problem = "hookgate.yaml:2:1: `source` has changed: restart to apply";
    assert!(reloaded.text().contains(problem), "{}", reloaded.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_with_the_source_in_use_has_its_bundles() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let config = fs::read_to_string(replica.folder.path().join("hookgate.yaml")).unwrap();

    let other = config.replace("wait: 5s", "wait: 6s");
    let refused = replica.operator.post("/shadow?sample=1", other).await;
    let started = replica.operator.post("/shadow?sample=1", config).await;
    assert!(replica.denies("apple").await);

    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(
        refused.text().contains("cannot have another `source`"),
        "{}",
        refused.text()
    );
    assert_eq!(started.status, 200, "{}", started.text());
    let is_evaluated = |status: &Value| status["report"]["counts"]["calls"] == 1;
    let status = until(&replica.operator, "/shadow", is_evaluated).await;
    assert_eq!(status["report"]["counts"]["unchanged"], 1, "{status:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_name_a_source_whose_bundles_they_do_not_read() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Long).await;
    let folder = folder_with_source(&server, &publisher);
    let event = "{ \"contents\": [{ \"role\": \"user\", \"parts\": [{ \"text\": \"hi\" }] }] }";
    let cases = format!(
        "config: hookgate.yaml\n\
         cases: [{{ name: hi, request: {event}, expect: {{ verdict: proceed }} }}]\n"
    );
    for (name, content) in [
        ("cases.yaml", cases.as_str()),
        ("event.json", event),
        ("log", "{}\n"),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }

    let warning = "warning: hookgate.yaml:2:1: the policies and hooks of the bundles of `source`";
    for command in [
        &["check"][..],
        &["test", "cases.yaml"],
        &["explain", "--config", "hookgate.yaml", "event.json"],
        &["coverage", "--config", "hookgate.yaml"],
    ] {
        let (code, _, err) = run(command, folder.path());
        assert_eq!(code, 0, "{command:?}: {err}");
        assert!(err.contains(warning), "{command:?}: {err}");
    }
    for command in [
        &["replay", "--config", "hookgate.yaml", "log"][..],
        &["replay", "--config", "hookgate.yaml", "--from", "log"],
    ] {
        let (code, _, err) = run(command, folder.path());
        assert_eq!(code, 78, "{command:?}: {err}");
        let refusal = "\nhookgate.yaml:2:1: `source`: ";
        assert!(err.contains(refusal), "{command:?}: {err}");
    }
}

/// A folder with the config of a gateway that has no stored bundle.
fn folder_with_source(server: &PolicyServer, publisher: &Publisher) -> TempDir {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:1\" }} }}\nsource:\n\
         \x20 persist: bundles\n{}",
        source(server, publisher)
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_without_any_bundle_does_not_start() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Long).await;
    server.publish("prod", Publisher::new().denying("1", "apple"));
    let folder = folder_with_source(&server, &publisher);

    let gateway = ServerProcess::start(serve_command(folder.path()));
    let (status, err) = tokio::task::spawn_blocking(move || gateway.ended(TEST_TIMEOUT))
        .await
        .unwrap();

    assert_eq!(status.code(), Some(1));
    assert!(
        err.contains("bundle `bundle` refused: the signature of `manifest.json` is not valid"),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sighup_during_the_fetch_of_the_first_bundle_does_not_end_the_gateway() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Short).await;
    let folder = folder_with_source(&server, &publisher);
    let mut gateway = ServerProcess::start(serve_command(folder.path()));
    eventually("the bundle is requested", TEST_TIMEOUT, || {
        !server.requests().is_empty()
    })
    .await;

    gateway.signal(Signal::HUP);
    server.publish("prod", publisher.denying("1", "apple"));

    let agent = Agent::at(gateway.addr());
    let answer = agent.generate("m", &prompt("an apple")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
