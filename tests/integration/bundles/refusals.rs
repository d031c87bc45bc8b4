//! Bundles that a replica refuses: modified, wrongly signed, outdated, failing and hostile ones.

use std::{
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};

use super::{
    replicas::{Replica, server_with},
    server::{Files, PolicyServer, Polling, Publisher, denying_files, unsigned},
};
use crate::harness::{TEST_TIMEOUT, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_with_a_flipped_bit_is_refused_and_the_last_one_is_kept() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let good = publisher.denying("2", "banana");
    let find = |text: &[u8]| {
        good.windows(text.len())
            .position(|window| window == text)
            .unwrap()
    };
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
        let error = replica.wait_for_error("").await;
        assert!(replica.denies("apple").await, "{part}: {error}");
        assert_eq!(replica.bundles().await[0]["revision"], "1", "{part}");
        // A valid bundle in between clears the error, so that each error is a new one.
        server.publish("prod", publisher.denying("1", "apple"));
        replica
            .wait_until(|bundles| bundles[0]["error"].is_null())
            .await;
    }
    server.publish("prod", publisher.denying("3", "banana"));
    replica.wait_for_revision("3").await;
    assert!(replica.denies("banana").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_key_an_old_revision_and_a_required_newer_version_are_refused() {
    let publisher = Publisher::new();
    let older = publisher.denying("0", "cherry");
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;

    server.publish("prod", Publisher::new().denying("2", "banana"));
    replica
        .wait_for_error("the signature of `manifest.json` is not valid for any of the keys")
        .await;
    server.publish("prod", older);
    let error = replica.wait_for_error("revision `0`").await;
    assert!(
        error.contains("is not newer than revision `1` in use"),
        "{error}"
    );
    let mut manifest = publisher.manifest("2");
    manifest.requires = ">=99.1".parse().unwrap();
    server.publish(
        "prod",
        publisher.signed(manifest, &denying_files("words", "banana").as_pairs()),
    );
    replica
        .wait_for_error("it requires hookgate >=99.1, and this is ")
        .await;

    assert!(replica.denies("apple").await && !replica.denies("banana").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_rolls_back_to_a_parent_only_if_its_bundle_allows_that() {
    let publisher = Publisher::new();
    let first = publisher.denying("1", "apple");
    let server = PolicyServer::start(Polling::Long).await;
    server.publish("prod", first.clone());
    let replica = Replica::start_from(&server, &publisher).await;
    let mut manifest = publisher.manifest("2");
    manifest.parent = Some("1".parse().unwrap());
    manifest.allows_parent = true;
    let second = publisher.signed(manifest, &denying_files("words", "banana").as_pairs());
    server.publish("prod", second);
    replica.wait_for_revision("2").await;

    server.publish("prod", first.clone());
    replica.wait_for_revision("1").await;

    assert!(replica.denies("apple").await);
    server.publish("prod", publisher.denying("3", "cherry"));
    replica.wait_for_revision("3").await;
    server.publish("prod", first);
    replica
        .wait_for_error("is not newer than revision `3`")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_whose_tests_or_settings_fail_is_refused_with_its_line() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let publish = |files: Files| {
        let manifest = publisher.manifest("2");
        server.publish("prod", publisher.signed(manifest, &files.as_pairs()));
    };

    let more = "  - name: pears pass\n\
        \x20   request: { contents: [{ role: user, parts: [{ text: banana pear }] }] }\n\
        \x20   expect: { verdict: proceed }\n";
    publish(denying_files("words", "banana").with("tests/words.yaml", more));
    let error = replica
        .wait_for_error("tests/words.yaml:5:5: test `pears pass`")
        .await;
    assert!(error.contains("verdict"), "{error}");
    publish(denying_files("words", "banana").with("hookgate.yaml", "listen: 127.0.0.1:1\n"));
    replica
        .wait_for_error("hookgate.yaml:7:1: `listen` belongs to the config of each gateway")
        .await;
    publish(denying_files("words", "banana").with("hookgate.yaml", "polices: []\n"));
    replica.wait_for_error("hookgate.yaml:7:1: `polices`").await;
    let guard = "          must_deny: [{ prompt: a pear }]\n";
    publish(denying_files("words", "banana").with("hookgate.yaml", guard));
    replica.wait_for_error("hookgate.yaml:7:").await;

    assert!(replica.denies("apple").await && !replica.denies("banana").await);
    let ready = replica.operator.get("/readyz").await;
    let ready = ready.text();
    assert!(ready.contains("last config reload failed"), "{ready}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsigned_bundle_is_used_only_if_that_is_allowed_and_it_has_no_commands() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let signed_only = Replica::start_from(&server, &publisher).await;
    let policy = "policies: [{ policy: model_allow, models: [none] }]\n";
    let harmless = unsigned(publisher.manifest("2"), &[("hookgate.yaml", policy)]);
    server.publish("prod", harmless.to_bytes().unwrap());
    signed_only.wait_for_error("not signed").await;

    let source = format!("  url: \"{}\"\n  unsigned: true\n", server.url("prod"));
    let replica = Replica::start(&source).await;
    assert!(replica.denies("anything").await);
    let files = denying_files("words", "banana");
    let commands = unsigned(publisher.manifest("3"), &files.as_pairs());
    server.publish("prod", commands.to_bytes().unwrap());

    let error = replica.wait_for_error("not signed").await;
    assert!(
        error.contains("hookgate.yaml:4:11: hook `words`"),
        "{error}"
    );
    let spy = "hooks: { BeforeModel: [{ hooks: [{ type: http, url: 'http://127.0.0.1:9', bearer: { env: PATH } }] }] }\n";
    let secrets = unsigned(publisher.manifest("4"), &[("hookgate.yaml", spy)]);
    server.publish("prod", secrets.to_bytes().unwrap());
    let error = replica.wait_for_error("refers to a secret").await;
    assert!(error.contains("hookgate.yaml:1:"), "{error}");
    assert!(replica.denies("anything").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_names_files_outside_of_it_is_refused() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Long).await;
    let policy = "policies: [{ policy: model_allow, models: [none] }]\n";
    let first = unsigned(publisher.manifest("1"), &[("hookgate.yaml", policy)]);
    server.publish("prod", first.to_bytes().unwrap());
    let source = format!("  url: \"{}\"\n  unsigned: true\n", server.url("prod"));
    let replica = Replica::start(&source).await;
    let outside = replica.folder.path().join("outside.json");
    let hook = r#"{ "type": "command", "command": "touch ran" }"#;
    let settings = format!(r#"{{ "hooks": {{ "BeforeModel": [{{ "hooks": [{hook}] }}] }} }}"#);
    fs::write(&outside, settings).unwrap();
    let cases = "policies: [{ policy: model_allow, models: [none], must_deny: [../cases.yaml] }]\n";
    let hook_files = format!("hook_files: [{{ path: {} }}]\n", outside.display());

    for (revision, config, file) in [
        ("2", &*hook_files, "outside.json"),
        ("3", cases, "../cases.yaml"),
    ] {
        let bundle = unsigned(publisher.manifest(revision), &[("hookgate.yaml", config)]);
        server.publish("prod", bundle.to_bytes().unwrap());
        let error = replica
            .wait_for_error(&format!("{file}` is not in the bundle"))
            .await;
        assert!(error.contains("hookgate.yaml:1:"), "{error}");
    }
    assert!(replica.denies("anything").await);
    assert!(!replica.folder.path().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_archive_is_refused_before_anything_is_written() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
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
        replica.wait_for_error(expected).await;
    }

    let names = |folder: std::path::PathBuf| {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let stored = replica.folder.path().join("bundles");
    let extracted = names(stored.join("extracted"));
    assert_eq!(extracted.len(), 1, "{extracted:?}");
    assert_eq!(
        names(stored).len(),
        5,
        "active.json, manifests.json, urls.json, one archive, extracted"
    );
    assert!(replica.denies("apple").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_cannot_be_stored_is_tried_again() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let bundles = replica.folder.path().join("bundles");
    let (extracted, away) = (bundles.join("extracted"), bundles.join("away"));

    fs::rename(&extracted, &away).unwrap();
    fs::write(&extracted, "in the place of the folder").unwrap();
    server.publish("prod", publisher.denying("2", "banana"));
    replica.wait_for_error("").await;
    fs::remove_file(&extracted).unwrap();
    fs::rename(&away, &extracted).unwrap();
    replica.wait_for_revision("2").await;
    // The new name of the file cannot be written.
    fs::create_dir(bundles.join("active.json.new")).unwrap();
    server.publish("prod", publisher.denying("3", "cherry"));
    replica.wait_for_error("active.json").await;
    fs::remove_dir(bundles.join("active.json.new")).unwrap();
    replica.wait_for_revision("3").await;

    assert!(replica.denies("cherry").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_is_tried_again_when_the_config_file_is_repaired() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{config}unknown: 1\n")).unwrap();

    server.publish("prod", publisher.denying("2", "banana"));
    replica.wait_for_error("`unknown`").await;
    fs::write(&file, config).unwrap();
    replica.wait_for_revision("2").await;

    assert!(replica.denies("banana").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_bundle_that_is_tried_again_cause_no_reload() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let file = replica.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{config}unknown: 1\n")).unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    while replica
        .operator
        .metric("hookgate_config_reloads_total{outcome=\"rejected\"}")
        .await
        == 0
    {
        assert!(Instant::now() < deadline, "the config file is not read");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let policy = "policies: [{ policy: model_allow, models: [m], must_deny: [cases.yaml] }]\n";
    let cases = "cases: [{ model: other, prompt: hello }]\n";
    let files = [("hookgate.yaml", policy), ("cases.yaml", cases)];

    server.publish("prod", publisher.signed(publisher.manifest("2"), &files));
    replica.wait_for_error("`unknown`").await;
    tokio::time::sleep(Duration::from_secs(2)).await;

    let log = replica.stop().await;
    let reloads = log.matches("config reload rejected").count();
    assert_eq!(reloads, 2, "of the config file and of the bundle: {log}");
    assert!(!log.contains("failed to watch"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_stays_unproven_is_tried_again_after_growing_pauses() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let guard = "          must_deny: [{ prompt: a pear }]\n";
    let files = denying_files("words", "banana").with("hookgate.yaml", guard);
    let manifest = publisher.manifest("2");
    server.publish("prod", publisher.signed(manifest, &files.as_pairs()));
    replica.wait_for_error("must deny").await;
    let seen = server.requests().len();

    tokio::time::sleep(Duration::from_secs(3)).await;

    let requests = server.requests().split_off(seen);
    let fetched = requests.iter();
    let fetched = fetched.filter(|request| request.header("if-none-match").is_empty());
    assert!((2..9).contains(&fetched.count()), "{requests:?}");
    // The server's next bundle is used at once.
    server.publish("prod", publisher.denying("3", "banana"));
    replica.wait_for_revision("3").await;
}

/// Returns a bundle with a guard that denies "banana" if a file exists, which its proof needs.
fn needing(publisher: &Publisher, needed: &Path) -> Vec<u8> {
    let hook = format!(
        "#!/bin/sh\ntest -e {} || exit 1\ngrep -q banana && exit 2\nexit 0\n",
        needed.display()
    );
    let config = "hooks: { BeforeModel: [{ hooks: [{ name: g, command: ./hooks/g.sh, \
                  must_deny: [{ prompt: banana }] }] }] }\n";
    let files = [("hookgate.yaml", config), ("hooks/g.sh", &hook)];
    publisher.signed(publisher.manifest("2"), &files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_ends_the_pause_before_a_bundle_is_tried_again() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Short).await;
    server.publish("prod", publisher.denying("1", "apple"));
    let replica = Replica::start_from(&server, &publisher).await;
    let needed = replica.folder.path().join("needed");
    server.publish("prod", needing(&publisher, &needed));
    replica.wait_for_error("must deny").await;
    let attempts = || {
        let requests = server.requests().into_iter();
        let untagged = requests.filter(|request| request.header("if-none-match").is_empty());
        untagged.count()
    };
    let next_attempt = async || {
        let (seen, started) = (attempts(), Instant::now());
        eventually("it is tried again", 2 * TEST_TIMEOUT, || attempts() > seen).await;
        started.elapsed()
    };
    // The next pause is at least as long.
    while next_attempt().await < Duration::from_millis(4500) {}
    // The attempt ends.
    tokio::time::sleep(Duration::from_millis(300)).await;

    fs::write(&needed, "").unwrap();
    let started = Instant::now();
    let reloaded = replica.operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    replica.wait_for_revision("2").await;

    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_a_reload_does_not_repair_is_the_last_refused_reload_again() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Short).await;
    server.publish("prod", publisher.denying("1", "apple"));
    let replica = Replica::start_from(&server, &publisher).await;
    let needed = replica.folder.path().join("needed");
    server.publish("prod", needing(&publisher, &needed));
    replica.wait_for_error("must deny").await;

    let reloaded = replica.operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    let successful = "hookgate_config_last_reload_successful";
    let deadline = Instant::now() + TEST_TIMEOUT;
    while replica.operator.metric(successful).await == 1 {
        assert!(Instant::now() < deadline, "the refusal is not recorded");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let ready = replica.operator.get("/readyz").await;
    let ready = ready.text();
    assert!(ready.contains("last config reload failed"), "{ready}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_is_tried_again_until_its_guards_are_proven() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let needed = replica.folder.path().join("needed");

    server.publish("prod", needing(&publisher, &needed));
    replica.wait_for_error("must deny").await;
    let seen = server.requests().len();
    while server.requests().len() < seen + 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::write(&needed, "").unwrap();
    replica.wait_for_revision("2").await;

    assert!(replica.denies("banana").await);
    let log = replica.stop().await;
    assert_eq!(log.matches("config reload rejected").count(), 1, "{log}");
}
