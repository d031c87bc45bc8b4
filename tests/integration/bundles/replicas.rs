//! Replicas: gateways that take their policies from a server.

use std::{
    env, fs,
    io::Write,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use tempfile::TempDir;

use super::server::{Files, Holding, PolicyServer, Publisher, denying_files, unsigned};
use crate::harness::{Agent, PATIENCE, Served, Upstream, prompt, run, serving};

/// Number of replicas; more by this variable.
const REPLICAS: &str = "HOOKGATE_REPLICAS";

/// Minutes for which the server is away; a second without this variable.
const AWAY_MINUTES: &str = "HOOKGATE_AWAY_MINUTES";

/// A gateway whose policies are bundles of a server.
struct Replica {
    folder: TempDir,
    _upstream: Upstream,
    served: Served,
    agent: Agent,
    operator: Agent,
}

impl Replica {
    /// Starts with this `source`, without `persist`.
    async fn start(source: &str) -> Self {
        Self::start_with(source, &[]).await
    }

    /// Starts with these files beside the config.
    async fn start_with(source: &str, files: &[(&str, &str)]) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nsource:\n  persist: bundles\n  poll: 50ms..100ms\n  wait: 5s\n{source}",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = Served::folder(folder.path());
        Self {
            agent: Agent::at(served.addr()),
            operator: Agent::at(served.operators()),
            served,
            folder,
            _upstream: upstream,
        }
    }

    /// Starts with the bundle `prod` of a server.
    async fn of(server: &PolicyServer, publisher: &Publisher) -> Self {
        Self::start(&source(server, publisher)).await
    }

    /// Kills the process and starts it again.
    fn restart(&mut self) {
        self.served.kill();
        self.served = Served::folder(self.folder.path());
        self.agent = Agent::at(self.served.addr());
        self.operator = Agent::at(self.served.operators());
    }

    /// Whether a prompt with this word is denied.
    async fn denies(&self, word: &str) -> bool {
        let answer = self.agent.generate("m", &prompt(word)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        !answer.text().contains("You said")
    }

    /// The state of its bundles.
    async fn bundles(&self) -> Vec<Value> {
        let config = self.operator.get("/config").await.json();
        config["bundles"].as_array().unwrap().clone()
    }

    /// Waits until the first bundle has this revision.
    async fn activates(&self, revision: &str) {
        self.eventually(|bundles| bundles[0]["revision"] == revision)
            .await;
    }

    /// Waits until the first bundle has an error with this text; gives the error.
    async fn refuses(&self, text: &str) -> String {
        let has_text = |bundle: &Value| {
            let error = bundle["error"].as_str();
            error.is_some_and(|error| error.contains(text))
        };
        let bundles = self
            .eventually(|bundles| bundles.iter().any(has_text))
            .await;
        let bundle = bundles.iter().find(|it| has_text(it)).unwrap();
        bundle["error"].as_str().unwrap().to_owned()
    }

    async fn eventually(&self, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
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

fn source(server: &PolicyServer, publisher: &Publisher) -> String {
    format!(
        "  url: \"{}\"\n  keys: [\"{}\"]\n",
        server.url("prod"),
        publisher.public_key()
    )
}

async fn server_with(publisher: &Publisher, word: &str) -> PolicyServer {
    let server = PolicyServer::start(Holding::Held).await;
    server.publish("prod", publisher.denying("1", word));
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_converge_on_what_is_published() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let count = env::var(REPLICAS).map_or(3, |count| count.parse().unwrap());
    let mut replicas = Vec::new();
    for _ in 0..count {
        replicas.push(Replica::of(&server, &publisher).await);
    }
    for replica in &replicas {
        assert!(replica.denies("apple").await && !replica.denies("banana").await);
    }

    let started = Instant::now();
    server.publish("prod", publisher.denying("2", "banana"));
    for replica in &replicas {
        replica.activates("2").await;
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
async fn without_the_server_nothing_changes_and_restarts_have_the_last_bundle() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::of(&server, &publisher).await;
    server.publish("prod", publisher.denying("2", "banana"));
    replica.activates("2").await;

    drop(server);
    let away = env::var(AWAY_MINUTES).map_or(Duration::from_secs(1), |minutes| {
        Duration::from_mins(minutes.parse().unwrap())
    });
    let (gone, mut calls) = (Instant::now(), 0);
    for restarts in 0..3 {
        let error = replica.refuses("the server cannot be reached").await;
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
            if gone.elapsed() >= away * (restarts + 1) / 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        replica.restart();
    }

    assert!(replica.denies("banana").await && !replica.denies("apple").await);
    let mut report = std::io::stderr().lock();
    writeln!(report, "{away:?} away, {calls} calls as before").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_bundle_is_verified_again_at_a_start() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let mut replica = Replica::of(&server, &publisher).await;
    let stored = fs::read_dir(replica.folder.path().join("bundles")).unwrap();
    let mut archives = stored
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "gz"));
    let archive = archives.next().unwrap();
    assert_eq!(archives.next(), None);
    replica.served.kill();
    let mut bytes = fs::read(&archive).unwrap();
    let at = bytes.windows(5).position(|it| it == b"apple").unwrap();
    bytes[at..at + 5].copy_from_slice(b"peach");
    fs::write(&archive, bytes).unwrap();

    replica.restart();

    assert!(replica.denies("apple").await, "fetched again instead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_with_a_flipped_bit_is_refused_and_the_last_one_stays() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::of(&server, &publisher).await;
    let good = publisher.denying("2", "banana");
    let find = |text: &[u8]| good.windows(text.len()).position(|it| it == text).unwrap();
    let end = good.len();

    for (part, at) in [
        ("gzip header", 4),
        ("stored block", 12),
        ("manifest", find(b"revision")),
        ("created", find(b"created")),
        ("hash", find(b"\"hookgate.yaml\": \"") + 20),
        ("signature", find(b"manifest.sig") + 512 + 7),
        ("name of the signature", find(b"manifest.sig")),
        ("tar header", find(b"hooks/words.sh\0") + 101),
        ("config", find(b"on_failure")),
        ("hook", find(b"grep -q banana")),
        ("test", find(b"verdict")),
        ("padding", find(b"verdict") + 40),
        ("end of the tar archive", end - 9),
        ("checksum", end - 6),
        ("length", end - 1),
    ] {
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        server.publish("prod", changed);
        let error = replica.refuses("").await;
        assert!(replica.denies("apple").await, "{part}: {error}");
        assert_eq!(replica.bundles().await[0]["revision"], "1", "{part}");
        // Between two of them, so that each error is a new one.
        server.publish("prod", publisher.denying("1", "apple"));
        replica
            .eventually(|bundles| bundles[0]["error"].is_null())
            .await;
    }
    server.publish("prod", publisher.denying("3", "banana"));
    replica.activates("3").await;
    assert!(replica.denies("banana").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_an_older_revision_and_a_higher_version_are_refused_and_named() {
    let publisher = Publisher::new();
    let older = publisher.denying("0", "cherry");
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::of(&server, &publisher).await;

    server.publish("prod", Publisher::new().denying("2", "banana"));
    replica
        .refuses("the signature of `manifest.json` is not valid for any of the keys")
        .await;
    server.publish("prod", older);
    let error = replica.refuses("revision `0`").await;
    assert!(
        error.contains("is not newer than revision `1` in use"),
        "{error}"
    );
    let mut manifest = publisher.manifest("2");
    manifest.requires = ">=99.1".parse().unwrap();
    server.publish(
        "prod",
        publisher.signed(manifest, &denying_files("words", "banana").each()),
    );
    replica
        .refuses("it requires hookgate >=99.1, and this is ")
        .await;

    assert!(replica.denies("apple").await && !replica.denies("banana").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_returns_to_a_parent_only_if_its_bundle_allows_that() {
    let publisher = Publisher::new();
    let first = publisher.denying("1", "apple");
    let server = PolicyServer::start(Holding::Held).await;
    server.publish("prod", first.clone());
    let replica = Replica::of(&server, &publisher).await;
    let mut manifest = publisher.manifest("2");
    manifest.parent = Some("1".parse().unwrap());
    manifest.allows_parent = true;
    let second = publisher.signed(manifest, &denying_files("words", "banana").each());
    server.publish("prod", second);
    replica.activates("2").await;

    server.publish("prod", first.clone());
    replica.activates("1").await;

    assert!(replica.denies("apple").await);
    server.publish("prod", publisher.denying("3", "cherry"));
    replica.activates("3").await;
    server.publish("prod", first);
    replica.refuses("is not newer than revision `3`").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_whose_tests_or_settings_fail_is_refused_with_its_line() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::of(&server, &publisher).await;
    let publish = |files: Files| {
        let manifest = publisher.manifest("2");
        server.publish("prod", publisher.signed(manifest, &files.each()));
    };

    let more = "  - name: pears pass\n    request: { contents: [{ role: user, parts: [{ text: banana pear }] }] }\n    expect: { verdict: proceed }\n";
    publish(denying_files("words", "banana").with("tests/words.yaml", more));
    let error = replica
        .refuses("tests/words.yaml:5:5: test `pears pass`")
        .await;
    assert!(error.contains("verdict"), "{error}");
    publish(denying_files("words", "banana").with("hookgate.yaml", "listen: 127.0.0.1:1\n"));
    replica
        .refuses("hookgate.yaml:7:1: `listen` belongs to the config of each gateway")
        .await;
    publish(denying_files("words", "banana").with("hookgate.yaml", "polices: []\n"));
    replica.refuses("hookgate.yaml:7:1: `polices`").await;
    let guard = "          must_deny: [{ prompt: a pear }]\n";
    publish(denying_files("words", "banana").with("hookgate.yaml", guard));
    replica.refuses("hookgate.yaml:7:").await;

    assert!(replica.denies("apple").await && !replica.denies("banana").await);
    let ready = replica.operator.get("/readyz").await;
    let ready = ready.text();
    assert!(ready.contains("last config reload failed"), "{ready}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsigned_bundle_is_used_only_if_that_is_allowed_and_it_has_no_commands() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let signed_only = Replica::of(&server, &publisher).await;
    let policy = "policies: [{ policy: model_allow, models: [none] }]\n";
    let harmless = unsigned(publisher.manifest("2"), &[("hookgate.yaml", policy)]);
    server.publish("prod", harmless.to_bytes().unwrap());
    signed_only.refuses("not signed").await;

    let source = format!("  url: \"{}\"\n  unsigned: true\n", server.url("prod"));
    let replica = Replica::start(&source).await;
    assert!(replica.denies("anything").await);
    let files = denying_files("words", "banana");
    let commands = unsigned(publisher.manifest("3"), &files.each());
    server.publish("prod", commands.to_bytes().unwrap());

    let error = replica.refuses("not signed").await;
    assert!(
        error.contains("hookgate.yaml:4:11: hook `words`"),
        "{error}"
    );
    assert!(replica.denies("anything").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_bundle_is_asked_for_by_its_tag_and_changes_nothing() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Holding::Polled).await;
    server.publish("prod", publisher.denying("1", "apple"));
    let replica = Replica::of(&server, &publisher).await;
    let version = replica.operator.get("/config").await.json()["version"].clone();
    let deadline = Instant::now() + PATIENCE;
    while server.asked().len() < 6 {
        assert!(Instant::now() < deadline, "it does not poll");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let asked = server.asked();
    let tagged = asked
        .iter()
        .filter(|it| !it.header("if-none-match").is_empty());
    assert!(tagged.clone().count() >= 4, "{asked:?}");
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
    replica.activates("2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_goes_to_the_server_and_never_along_a_redirect() {
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
        .refuses("the server redirects, which is not followed")
        .await;

    assert_eq!(
        redirects.seen()[0].header("authorization"),
        "Bearer bundle-token"
    );
    assert!(other.asked().is_empty());
}

#[test]
fn settings_in_the_wrong_place_are_named_with_their_lines() {
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
async fn a_gateway_without_any_bundle_does_not_start() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Holding::Held).await;
    server.publish("prod", Publisher::new().denying("1", "apple"));
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:1\" }} }}\nsource:\n  persist: bundles\n{}",
        source(&server, &publisher)
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let gateway = Served::start(serving(folder.path()));
    let (status, err) = tokio::task::spawn_blocking(move || gateway.ended(PATIENCE))
        .await
        .unwrap();

    assert_eq!(status.code(), Some(1));
    assert!(
        err.contains("bundle `bundle` refused: the signature of `manifest.json` is not valid"),
        "{err}"
    );
}

/// The entry of a layer in the config of a replica.
fn layer(server: &PolicyServer, name: &str, publisher: &Publisher) -> String {
    let (url, key) = (server.url(name), publisher.public_key());
    format!("    - {{ name: {name}, url: \"{url}\", keys: [\"{key}\"] }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_cannot_weaken_the_organisation_on_a_replica() {
    let (org, team) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Holding::Held).await;
    let publish_team = |revision: &str, config: &str| {
        let manifest = team.manifest(revision);
        server.publish("team", team.signed(manifest, &[("hookgate.yaml", config)]));
    };
    let models = "policies: [{ name: org, policy: model_allow, models: [\"gemini-*\", m] }]\n";
    server.publish(
        "org",
        org.signed(org.manifest("1"), &[("hookgate.yaml", models)]),
    );
    publish_team(
        "1",
        "policies: [{ name: team, policy: model_allow, models: [m, other] }]\n",
    );
    let layers = layer(&server, "org", &org) + &layer(&server, "team", &team);
    let replica = Replica::start(&format!("  layers:\n{layers}")).await;
    let is_denied = async |model: &str| {
        let answer = replica.agent.generate(model, &prompt("hello")).await;
        !answer.text().contains("You said")
    };
    // Of two lists, only what both allow passes.
    assert!(!is_denied("m").await);
    assert!(is_denied("gemini-2.5-pro").await && is_denied("other").await);

    publish_team(
        "2",
        "policies: [{ name: org, policy: model_allow, models: [\"*\"], mode: observe }]\n",
    );
    let error = replica
        .refuses("`org` is the name of a policy or hook of the bundle `org`")
        .await;
    assert!(error.contains("hookgate.yaml:1:12: "), "{error}");
    publish_team("3", "ask: allow\n");
    replica
        .refuses("hookgate.yaml:1:1: `ask` applies to all layers")
        .await;
    // The team's key signs nothing of the organisation.
    server.publish(
        "org",
        team.signed(team.manifest("9"), &[("hookgate.yaml", "policies: []\n")]),
    );
    replica.refuses("the signature of `manifest.json`").await;
    assert!(is_denied("gemini-2.5-pro").await && !is_denied("m").await);

    // The organisation looks again at what a team's policy changed.
    server.publish(
        "org",
        org.signed(org.manifest("2"), &[("hookgate.yaml", models)]),
    );
    publish_team(
        "4",
        "policies: [{ name: swap, policy: model_swap, swap: { m: other } }]\n",
    );
    replica
        .eventually(|bundles| bundles[1]["revision"] == "4")
        .await;
    assert!(
        is_denied("m").await,
        "`other` is no model of the organisation"
    );
    assert!(!is_denied("gemini-2.5-pro").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_archive_is_refused_before_anything_is_written() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::of(&server, &publisher).await;
    let entry = |path: &str, kind: tar::EntryType| {
        let mut header = tar::Header::new_ustar();
        // As bytes, because the library refuses such paths.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_link_name("/etc/passwd").unwrap();
        header.set_size(0);
        header.set_cksum();
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&header, &[][..]).unwrap();
        let mut stream = GzEncoder::new(Vec::new(), Compression::none());
        stream.write_all(&archive.into_inner().unwrap()).unwrap();
        stream.finish().unwrap()
    };

    for (path, kind, expected) in [
        (
            "../../../evil.sh",
            tar::EntryType::Regular,
            "path `../../../evil.sh` has an empty part",
        ),
        (
            "/tmp/evil.sh",
            tar::EntryType::Regular,
            "path `/tmp/evil.sh` is absolute",
        ),
        (
            "evil.sh",
            tar::EntryType::Symlink,
            "`evil.sh` is no regular file",
        ),
        (
            "evil.sh",
            tar::EntryType::Fifo,
            "`evil.sh` is no regular file",
        ),
    ] {
        server.publish("prod", entry(path, kind));
        replica.refuses(expected).await;
    }

    let names = |folder: std::path::PathBuf| {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|it| it.unwrap().path()).collect::<Vec<_>>()
    };
    let stored = replica.folder.path().join("bundles");
    let extracted = names(stored.join("extracted"));
    assert_eq!(extracted.len(), 1, "{extracted:?}");
    assert_eq!(
        names(stored).len(),
        3,
        "active.json, one archive, extracted"
    );
    assert!(replica.denies("apple").await);
}
