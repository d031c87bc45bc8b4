//! Capabilities that a gateway does not allow a bundle: commands, HTTP hooks, references to secrets.

use std::fs;

use tempfile::TempDir;

use super::{
    replicas::{Replica, server_with, source},
    server::{PolicyServer, Polling, Publisher},
    try_bundle, write_policies,
};
use crate::harness::{ServerProcess, TEST_TIMEOUT, run, serve_command};

/// Policies of a bundle without any capability.
const POLICIES: &str = "policies: [{ policy: prompt_guard, deny: [apple] }]\n\
        hooks: { BeforeModel: [{ hooks: [{ type: builtin, policy: prompt_guard, deny: [pear] }] }] }\n";

const NO_COMMANDS: &str = "runs a command, but `allow` of the bundle does not list `commands`";
const NO_HTTP: &str = "calls a server, but `allow` of the bundle does not list `http`";
const NO_SECRETS: &str =
    "the setting refers to a secret, but `allow` of the bundle does not list `secrets`";

/// Starts a replica with a bundle of an organisation and one of a team, which may have the
/// capabilities of a list.
async fn replica_allowing(list: &str) -> (Replica, PolicyServer, Publisher) {
    let (org, team) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Polling::Long).await;
    for (name, publisher, config) in [("org", &org, "policies: []\n"), ("team", &team, POLICIES)] {
        let files = [("hookgate.yaml", config)];
        server.publish(name, publisher.signed(publisher.manifest("1"), &files));
    }
    let layer = |name: &str, publisher: &Publisher, more: &str| {
        let (url, key) = (server.url(name), publisher.public_key());
        format!("    - {{ name: {name}, url: \"{url}\", keys: [\"{key}\"]{more} }}\n")
    };
    let layers = layer("org", &org, "") + &layer("team", &team, &format!(", allow: [{list}]"));
    let replica = Replica::start(&format!("  layers:\n{layers}")).await;
    (replica, server, team)
}

/// Returns a config with one hook on `BeforeModel`.
fn hook(fields: &str) -> String {
    format!("hooks:\n  BeforeModel:\n    - hooks:\n        - {{ {fields} }}\n")
}

/// Returns the position of the first occurrence of a text, as errors have it.
fn position(config: &str, text: &str) -> String {
    let mut lines = config.lines().enumerate();
    let found = lines.find_map(|(index, line)| Some((index, line.find(text)?)));
    let (line, column) = found.unwrap();
    format!("{}:{}", line + 1, column + 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_with_a_capability_that_is_not_allowed_is_refused_at_its_line() {
    let (replica, server, team) = replica_allowing("").await;
    let ran = replica.folder.path().join("ran");
    let command = |name: &str, more: &str| {
        let config = hook(&format!(
            "name: {name}, command: touch {}{more}",
            ran.display()
        ));
        (config, "{ name", format!("hook `{name}` {NO_COMMANDS}"))
    };
    let (disabled, marker, message) = command("disabled", "");
    let url = "type: http, url: 'http://127.0.0.1:9'";
    let key = "policies: [{ policy: redact, action: hash, key: { file: /etc/hostname } }]\n";
    let cases = [
        command("plain", ""),
        command("worker", ", type: worker"),
        command("guard", ", must_deny: [{ prompt: a }]"),
        (
            format!("hooksConfig: {{ disabled: [disabled] }}\n{disabled}"),
            marker,
            message,
        ),
        (
            hook(&format!("name: call, {url}")),
            "{ name",
            format!("hook `call` {NO_HTTP}"),
        ),
        (
            hook(&format!("name: call, {url}, bearer: {{ env: PATH }}")),
            "{ env",
            NO_SECRETS.to_owned(),
        ),
        (key.to_owned(), "{ file", NO_SECRETS.to_owned()),
    ];

    for (index, (config, marker, message)) in cases.iter().enumerate() {
        let manifest = team.manifest(&(index + 2).to_string());
        server.publish("team", team.signed(manifest, &[("hookgate.yaml", config)]));
        let place = position(config, marker);
        let expected = format!("hookgate.yaml:{place}: {message}");
        replica.wait_for_error(&expected).await;
    }

    assert!(replica.denies("apple").await && replica.denies("pear").await);
    assert!(!replica.denies("banana").await);
    assert_eq!(replica.bundles().await[1]["revision"], "1");
    assert!(!ran.exists(), "no command has run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_in_a_settings_file_of_a_bundle_are_refused_at_their_line() {
    let (replica, server, team) = replica_allowing("http, secrets").await;
    let ran = replica.folder.path().join("ran");
    let touch = format!("touch {}", ran.display());
    let config = "hook_files: [{ path: agent/settings.json }]\n";

    for (revision, event) in [("2", "BeforeTool"), ("3", "PreToolUse")] {
        let hook = format!(r#"{{"type":"command","command":"{touch}"}}"#);
        let settings = format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{hook}]}}]}}}}"#);
        let files = [
            ("hookgate.yaml", config),
            ("agent/settings.json", &settings),
        ];
        server.publish("team", team.signed(team.manifest(revision), &files));
        let place = position(&settings, &hook);
        let expected = format!("agent/settings.json:{place}: hook `{touch}` {NO_COMMANDS}");
        replica.wait_for_error(&expected).await;
    }

    assert!(replica.denies("apple").await);
    assert!(!ran.exists(), "no command has run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_may_have_the_capabilities_that_are_listed_and_no_others() {
    let (replica, server, team) = replica_allowing("http").await;
    let publish = |revision: &str, config: &str| {
        let manifest = team.manifest(revision);
        server.publish("team", team.signed(manifest, &[("hookgate.yaml", config)]));
    };
    let url = "type: http, url: 'http://127.0.0.1:9'";

    publish("2", &hook(&format!("name: call, {url}")));
    replica
        .wait_until(|bundles| bundles[1]["revision"] == "2")
        .await;
    publish(
        "3",
        &hook(&format!("name: call, {url}, bearer: {{ env: PATH }}")),
    );
    replica.wait_for_error(NO_SECRETS).await;
    publish("4", &hook("name: run, command: cat"));
    replica.wait_for_error(NO_COMMANDS).await;

    assert_eq!(replica.bundles().await[1]["revision"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_does_not_start_with_a_capability_that_it_does_not_allow() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:1\" }} }}\nsource:\n\
         \x20 persist: bundles\n  allow: []\n{}",
        source(&server, &publisher)
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let gateway = ServerProcess::start(serve_command(folder.path()));
    let ended = tokio::task::spawn_blocking(move || gateway.ended(TEST_TIMEOUT));
    let (status, err) = ended.await.unwrap();

    assert_eq!(status.code(), Some(78), "{err}");
    let expected = format!("hookgate.yaml:4:11: hook `words` {NO_COMMANDS}");
    assert!(err.contains(&expected), "{err}");
}

#[test]
fn a_build_reports_capabilities_that_gateways_do_not_allow() {
    let folder = TempDir::new().unwrap();
    write_policies(&folder.path().join("policies"), "words", "apple");
    let output = folder.path().join("prod.tar.gz");
    let build = |allow: &str| {
        let arguments = ["build", "policies", "-o", "prod.tar.gz", "--allow", allow];
        try_bundle(folder.path(), &arguments)
    };

    for allow in ["", "http", "http,secrets"] {
        let (code, _, err) = build(allow);
        assert_eq!(code, 78, "{allow}: {err}");
        let expected = format!("policies/hookgate.yaml:4:11: hook `words` {NO_COMMANDS}\n");
        assert_eq!(err, expected, "{allow}");
        assert!(!output.exists(), "{allow}");
    }
    let (code, _, err) = build("command");
    assert_eq!(code, 2, "{err}");
    let expected = "`command` is not one of `commands`, `http` and `secrets`";
    assert!(err.contains(expected), "{err}");
    let (code, _, err) = build("commands");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(output.exists());
}

#[test]
fn wrong_lists_of_capabilities_are_reported_with_their_lines() {
    let folder = TempDir::new().unwrap();
    let key = Publisher::new().public_key();
    let check = |source: &str| {
        let upstreams = "upstreams: { gemini: { url: http://127.0.0.1:1 } }";
        let config = format!("{upstreams}\nsource:\n  persist: bundles\n{source}");
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, err) = run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!(code, 78, "{err}");
        err
    };

    let unknown = check(&format!(
        "  allow: [command]\n  url: http://127.0.0.1:9/prod\n  keys: [\"{key}\"]\n"
    ));
    let layer =
        |name: &str| format!("{{ name: {name}, url: http://127.0.0.1:9/a, keys: [\"{key}\"] }}");
    let shared = check(&format!(
        "  allow: [http]\n  layers: [{}, {}]\n",
        layer("org"),
        layer("team")
    ));

    let expected = "hookgate.yaml:4:11: `source.allow[0]` must be `commands` or `http` or \
                    `secrets`, not `command`";
    assert!(unknown.contains(expected), "{unknown}");
    let expected = "hookgate.yaml:4:10: each of the `layers` has this setting of its own";
    assert!(shared.contains(expected), "{shared}");
}
