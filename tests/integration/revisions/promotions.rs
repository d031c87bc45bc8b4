//! Promotion and rollback, by the command line, the admin API and the console.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::RevisionGateway;
use crate::harness::{
    Agent, Browser, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, decision_log, run,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_revision_is_promoted_and_rolled_back_with_its_hook_files() {
    let gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    assert!(gateway.denies("banana").await && !gateway.denies("apple").await);
    fs::write(gateway.path("report.json"), "{}").unwrap();

    let started = Instant::now();
    let promote = ["promote", &apple[..6], "--report", "report.json"];
    let (code, out, err) = gateway.run_config_command(&promote);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, format!("in use: {apple} (before: {banana})\n"));
    assert!(gateway.denies("apple").await && !gateway.denies("banana").await);
    assert!(started.elapsed() < Duration::from_secs(1), "{started:?}");

    let started = Instant::now();
    let (code, out, _) = gateway.run_config_command(&["rollback"]);
    assert_eq!(
        (code, out),
        (0, format!("in use: {banana} (before: {apple})\n"))
    );
    assert!(gateway.denies("banana").await && !gateway.denies("apple").await);
    assert!(started.elapsed() < Duration::from_secs(1), "{started:?}");

    let lines = stop_and_read_log(gateway);
    let promoted: Vec<&Value> = lines
        .iter()
        .filter(|line| line["kind"] == "promoted")
        .collect();
    let fields =
        |line: &Value| ["action", "from", "to", "by", "report"].map(|field| line[field].clone());
    let report = HEXLOWER.encode(&Sha256::digest("{}"));
    let expected = [
        ["promote", &banana, &apple, "local", &report].map(Value::from),
        [
            "rollback".into(),
            apple.as_str().into(),
            banana.as_str().into(),
            "local".into(),
            Value::Null,
        ],
    ];
    assert_eq!(promoted.len(), 2, "{lines:#?}");
    assert_eq!(
        promoted.iter().map(|line| fields(line)).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(promoted[0]["config"], apple.as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_returns_to_the_cases_of_that_revision() {
    let gateway = RevisionGateway::start("apple").await;
    let cases = |names: &[&str]| {
        let case = |name: &&str| {
            format!(
                "  - {{ name: {name}, request: {{ contents: [] }}, path: '/v1beta/models/m:generateContent', expect: {{ verdict: deny }} }}\n"
            )
        };
        let cases: String = names.iter().map(case).collect();
        fs::write(gateway.path("cases.yaml"), format!("cases:\n{cases}")).unwrap();
    };
    let before = gateway.version().await;
    cases(&["one"]);
    let config = fs::read_to_string(gateway.path("hookgate.yaml")).unwrap();
    let policy = "policies: [{ policy: model_allow, models: [none], must_deny: [cases.yaml] }]\n";
    fs::write(gateway.path("hookgate.yaml"), config + policy).unwrap();
    let one = gateway.version_after(&before).await;
    cases(&["one", "two"]);
    let two = gateway.version_after(&one).await;

    let (code, out, _) = gateway.run_config_command(&["rollback"]);
    assert_eq!((code, out), (0, format!("in use: {one} (before: {two})\n")));
    let (code, out, _) = gateway.run_config_command(&["rollback"]);
    assert_eq!((code, out), (0, format!("in use: {two} (before: {one})\n")));
    let stored = |version: &str| {
        let path = gateway.path(&format!("revisions/{version}.json"));
        fs::read_to_string(path).unwrap()
    };
    assert!(!stored(&one).contains("name: two") && stored(&two).contains("name: two"));
}

/// Stops the gateway and returns the lines of its decision log, whose hash chain is verified.
fn stop_and_read_log(gateway: RevisionGateway) -> Vec<Value> {
    gateway.served.terminate();
    gateway.served.ended(Duration::from_secs(10));
    decision_log(&gateway.folder.path().join("audit.jsonl"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_survives_a_restart_and_ends_when_the_config_file_changes() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    gateway.run_config_command(&["promote", &apple]);

    gateway.restart();
    assert_eq!(gateway.version().await, apple);
    let view = gateway.operator.get("/config").await.json();
    assert_eq!(view["file_version"], banana.as_str());
    assert!(gateway.denies("apple").await);

    // A reload of the same config file changes nothing.
    let reloaded = gateway.operator.post("/reload", "").await;
    assert_eq!(
        (reloaded.status, gateway.version().await),
        (200, apple.clone())
    );

    let cherry = gateway.edit("cherry").await;
    assert!(gateway.denies("cherry").await && !gateway.denies("apple").await);
    assert_eq!(
        gateway.operator.get("/config").await.json()["file_version"],
        Value::Null
    );
    let (_, history, _) = gateway.run_config_command(&["history"]);
    let lines: Vec<&str> = history.lines().collect();
    assert!(
        lines[0].starts_with(&cherry) && lines[0].ends_with("in use, config file"),
        "{history}"
    );
    assert!(
        lines[1].starts_with(&apple) && lines[1].ends_with("previous"),
        "{history}"
    );
    assert_eq!(lines.len(), 3, "{history}");
    gateway.restart();
    assert_eq!(gateway.version().await, cherry);

    let lines = stop_and_read_log(gateway);
    let resumed = lines
        .iter()
        .find(|line| line["action"] == "resume")
        .unwrap();
    assert_eq!(
        (&resumed["from"], &resumed["to"]),
        (&banana.into(), &apple.into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_missing_line_of_a_rollback_is_written_once_at_the_next_start() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    gateway.run_config_command(&["promote", &apple]);
    gateway.run_config_command(&["rollback"]);
    until_recorded(&gateway).await;

    // The state of a process that is killed before it writes the line.
    let mut active = gateway.active_revision();
    active["unrecorded"] = json!([
        { "action": "rollback", "from": apple, "to": banana, "by": "olga" }
    ]);
    fs::write(gateway.path("revisions/active.json"), active.to_string()).unwrap();
    gateway.restart();
    until_recorded(&gateway).await;
    gateway.restart();

    let lines = stop_and_read_log(gateway);
    let written: Vec<_> = lines.iter().filter(|line| line["by"] == "olga").collect();
    assert_eq!(written.len(), 1, "{lines:#?}");
    let fields = ["kind", "action", "from", "to"].map(|field| &written[0][field]);
    assert_eq!(fields, ["promoted", "rollback", &apple, &banana]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_that_ends_the_decision_log_is_recorded_in_it() {
    let gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    remove_decision_log(&gateway);
    let silent = gateway.version_after(&apple).await;
    gateway.run_config_command(&["promote", &apple]);

    let (code, _, err) = gateway.run_config_command(&["rollback"]);

    assert_eq!((code, err.as_str()), (0, ""));
    until_recorded(&gateway).await;
    let lines = stop_and_read_log(gateway);
    let mut promoted = lines.iter().filter(|line| line["kind"] == "promoted");
    let last = promoted.next_back().unwrap();
    let fields = ["action", "from", "to", "config"].map(|field| &last[field]);
    assert_eq!(fields, ["rollback", &apple, &silent, &silent]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_line_is_written_at_the_next_start_with_a_decision_log() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    gateway.served.kill();
    // The state of a process that is killed before it writes the line.
    let mut active = gateway.active_revision();
    active["unrecorded"] = json!([
        { "action": "rollback", "from": "0123456789abcdef", "to": apple, "by": "olga" }
    ]);
    fs::write(gateway.path("revisions/active.json"), active.to_string()).unwrap();
    let config = remove_decision_log(&gateway);
    gateway.restart();
    gateway.version().await;

    fs::write(gateway.path("hookgate.yaml"), config).unwrap();
    gateway.restart();

    until_recorded(&gateway).await;
    let lines = stop_and_read_log(gateway);
    assert!(lines.iter().any(|line| line["by"] == "olga"), "{lines:#?}");
}

/// Removes `audit` from the config file. Returns the text of the file before.
fn remove_decision_log(gateway: &RevisionGateway) -> String {
    let file = gateway.path("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("audit: { path: audit.jsonl }\n", "")).unwrap();
    config
}

/// Waits until the lines of all promotions are written.
async fn until_recorded(gateway: &RevisionGateway) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !gateway.active_revision()["unrecorded"].is_null() {
        assert!(Instant::now() < deadline, "a line is missing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_are_compared_by_their_versions() {
    let gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;

    let (code, diff, err) = gateway.run_config_command(&["diff", &apple[..4], &banana[..4]]);

    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        diff.contains("\n-") && diff.contains("echo not apple"),
        "{diff}"
    );
    assert!(
        diff.contains("\n+") && diff.contains("echo not banana"),
        "{diff}"
    );
    let (code, _, err) = gateway.run_config_command(&["diff", "f00", &banana]);
    assert!(
        code == 1 && err.contains("no revision of the config has the version `f00`"),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_value_that_is_masked_is_a_difference_and_a_written_default_is_none() {
    let gateway = RevisionGateway::start("apple").await;
    let config = fs::read_to_string(gateway.path("hookgate.yaml")).unwrap();
    let edit = async |value: &str, more: &str| {
        let before = gateway.version().await;
        let hook = format!("{{ name: guard, command: \"true\", env: {{ ALLOWED: {value} }} }}");
        let hooks = format!("hooks: {{ BeforeModel: [{{ hooks: [{hook}] }}] }}\n");
        fs::write(
            gateway.path("hookgate.yaml"),
            format!("{more}{config}{hooks}"),
        )
        .unwrap();
        gateway.version_after(&before).await
    };
    let one = edit("hunter1", "").await;
    let other = edit("hunter2", "").await;
    let defaults = edit("hunter2", "coverage: { store: as_sent, compaction: any }\n").await;
    let diff = |from: &str, to: &str| gateway.run_config_command(&["diff", from, to]);

    let (code, masked, err) = diff(&one, &other);
    let (_, none, _) = diff(&other, &defaults);
    let page = gateway.operator.get("/console/config?from=2&to=1").await;

    assert_eq!((code, err.as_str()), (0, ""));
    let changed = |sign: &str| {
        let mut lines = masked.lines().filter(|line| line.starts_with(sign));
        lines.next().map(|line| line[1..].trim().to_owned())
    };
    for sign in ["-", "+"] {
        let line = changed(sign);
        assert_eq!(
            line.as_deref(),
            Some("ALLOWED: \"***\" (changed)"),
            "{masked}"
        );
    }
    assert!(
        !masked.contains("hunter") && masked.lines().count() < 12,
        "{masked}"
    );
    assert!(page.text().contains("(changed)"), "{}", page.text());
    assert_eq!(none.trim(), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_promotion_changes_nothing() {
    let gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    let promote = |revision: &str| gateway.run_config_command(&["promote", revision]);

    let (code, _, err) = promote(&banana);
    assert!(code == 1 && err.contains("is in use"), "{err}");

    let file = gateway.path(&format!("revisions/{apple}.json"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("not apple", "not avocado")).unwrap();
    let (code, _, err) = promote(&apple);
    assert!(
        code == 1 && err.contains("its files have the version"),
        "{err}"
    );

    fs::write(&file, text.replace("BeforeModel", "BeforeMoodle")).unwrap();
    let (code, _, err) = promote(&apple);
    assert!(
        code == 1 && err.contains(&format!("revision `{apple}`: ")),
        "{err}"
    );
    assert_eq!(gateway.active_revision()["revision"], banana.as_str());
    assert!(gateway.denies("banana").await && !gateway.denies("apple").await);

    fs::write(&file, text).unwrap();
    assert_eq!(promote(&apple).0, 0);
    assert!(gateway.denies("apple").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revision_files_are_private_and_their_number_is_bounded() {
    let gateway = RevisionGateway::start("apple").await;
    let mode = |name: &str| {
        fs::metadata(gateway.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode("revisions"), mode("revisions/active.json")),
        (0o700, 0o600)
    );
    let apple = gateway.version().await;
    assert_eq!(mode(&format!("revisions/{apple}.json")), 0o600);

    let config = fs::read_to_string(gateway.path("hookgate.yaml")).unwrap();
    let config = config.replace("path: revisions", "path: revisions, keep: 3");
    for connections in 100..106 {
        let limits = format!("{config}limits: {{ in_flight: {connections} }}\n");
        fs::write(gateway.path("hookgate.yaml"), limits).unwrap();
        assert_eq!(gateway.operator.post("/reload", "").await.status, 200);
    }

    let history = gateway.operator.get("/config/history").await.json();
    assert_eq!(history.as_array().unwrap().len(), 3, "{history:#}");
    let files = fs::read_dir(gateway.path("revisions")).unwrap();
    // The revisions, `active.json` and `lock`.
    assert_eq!(files.count(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_old_revision_blocks_nothing() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    gateway.edit("cherry").await;
    fs::write(gateway.path(&format!("revisions/{apple}.json")), "{\"ver").unwrap();

    gateway.edit("damson").await;
    let history = gateway.operator.get("/config/history").await.json();
    gateway.restart();

    assert_eq!(history.as_array().unwrap().len(), 4, "{history:#}");
    assert_eq!(history[3]["version"], apple.as_str());
    assert!(gateway.denies("damson").await);
    let (code, _, errors) = gateway.run_config_command(&["promote", &banana]);
    assert_eq!(code, 0, "{errors}");
    let (code, _, _) = gateway.run_config_command(&["promote", &apple]);
    assert_ne!(code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_that_cannot_be_read_is_listed_as_damaged() {
    let gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    let banana = gateway.edit("banana").await;
    fs::write(gateway.path(&format!("revisions/{apple}.json")), "{\"ver").unwrap();

    let (_, history, _) = gateway.run_config_command(&["history"]);
    let address = gateway.operator.base.strip_prefix("http://").unwrap();
    let browser = Browser::at_address(address.parse().unwrap());
    let page = browser.get("/console/changes").await.html;

    let lines: Vec<&str> = history.lines().collect();
    assert_eq!(lines.len(), 2, "{history}");
    assert!(lines[0].starts_with(&banana), "{history}");
    let damaged = lines[1].starts_with(&apple) && lines[1].contains("previous, damaged: ");
    assert!(damaged, "{history}");
    assert!(page.contains("previous damaged: "), "{page}");
    assert!(!page.contains(&format!("Promote {apple}")), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_revision_is_logged_when_another_is_stored_but_not_when_it_is_listed() {
    let gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    gateway.edit("banana").await;
    fs::write(gateway.path(&format!("revisions/{apple}.json")), "{\"ver").unwrap();
    gateway.edit("cherry").await;

    for _ in 0..3 {
        let history = gateway.operator.get("/config/history").await.json();
        assert_eq!(history.as_array().unwrap().len(), 3, "{history:#}");
    }
    gateway.served.terminate();
    let RevisionGateway { served, .. } = gateway;
    let ended = tokio::task::spawn_blocking(move || served.ended(TEST_TIMEOUT));
    let (_, log) = ended.await.unwrap();

    assert_eq!(log.matches("stored revision skipped").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_the_revision_in_use_names_the_way_out() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    gateway.edit("banana").await;
    gateway.run_config_command(&["promote", &apple]);
    gateway.served.kill();
    let start = || {
        let addresses = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let command = [&["serve", "--config", "hookgate.yaml"], &addresses[..]].concat();
        run(&command, gateway.folder.path())
    };

    fs::remove_file(gateway.path(&format!("revisions/{apple}.json"))).unwrap();
    let (code, _, error) = start();
    let expected = format!(
        "revisions/active.json`: its revision `{apple}` has no file here; remove `active.json` to \
         use the config file"
    );
    assert!(code != 0 && error.contains(&expected), "{error}");

    fs::write(gateway.path("revisions/active.json"), "{").unwrap();
    let (code, _, error) = start();
    let expected = "remove `active.json` to use the config file";
    assert!(code != 0 && error.contains(expected), "{error}");
}

#[tokio::test]
async fn an_address_that_is_not_that_of_the_admin_api_is_reported() {
    let gateway = RevisionGateway::start("apple").await;
    for url in [
        gateway.agent.base.clone(),
        format!("{}/console/", gateway.operator.base),
    ] {
        let command = ["config", "history", "--url", &url];
        let (code, _, error) = run(&command, gateway.folder.path());

        let expected = "`--url` must be the address of the admin API, without a path";
        assert!(code == 1 && error.contains(expected), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_revision_of_a_rollout_is_kept() {
    let mut gateway = RevisionGateway::start("apple").await;
    let apple = gateway.version().await;
    gateway.edit("banana").await;
    gateway.edit("cherry").await;

    let config = fs::read_to_string(gateway.path("hookgate.yaml")).unwrap();
    let config = config.replace("path: revisions", "path: revisions, keep: 2");
    let rollout = format!("{config}rollout: {{ to: \"{apple}\", percent: 100 }}\n");
    fs::write(gateway.path("hookgate.yaml"), rollout).unwrap();
    for _ in 0..2 {
        let reloaded = gateway.operator.post("/reload", "").await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    }
    gateway.restart();

    assert!(gateway.denies("apple").await);
}

#[tokio::test]
async fn history_begins_with_the_revision_in_use() {
    let gateway = RevisionGateway::start("apple").await;
    let config = fs::read_to_string(gateway.path("hookgate.yaml")).unwrap();
    let next = format!("{config}ask: allow\n");
    fs::write(gateway.path("next.yaml"), next).unwrap();
    let rollout = format!("{config}rollout: {{ to: next.yaml, percent: 1 }}\n");
    fs::write(gateway.path("hookgate.yaml"), rollout).unwrap();
    let reloaded = gateway.operator.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());

    let (_, history, _) = gateway.run_config_command(&["history"]);

    assert!(
        history.lines().next().unwrap().contains("in use"),
        "{history}"
    );
    assert!(history.contains("rollout"), "{history}");
}

#[tokio::test]
async fn history_and_rollback_are_rejected_if_no_revisions_are_kept() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;

    let history = gateway.operator().get("/config/history").await;
    let rollback = gateway.operator().post("/config/rollback", "").await;

    assert_eq!((history.status, rollback.status), (400, 400));
}

/// Returns a config with a viewer, an operator, and this body limit.
fn config_with_users(upstream: &Upstream, limit: &str) -> String {
    let users = "[{ name: vera, token: { file: vera }, roles: [viewer] }, \
                  { name: olga, token: { file: olga }, roles: [operator] }]";
    format!(
        "admin: {{ users: {users} }}\nupstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         revisions: {{ path: kept }}\nlimits: {{ body: {limit} }}\n",
        upstream.addr
    )
}

/// Starts a gateway whose config has two revisions. Returns their versions.
async fn two_revisions(
    folder: &Path,
    upstream: &Upstream,
) -> (ServerProcess, SocketAddr, [String; 2]) {
    for user in ["vera", "olga"] {
        fs::write(folder.join(user), format!("{user}-token")).unwrap();
    }
    let config = folder.join("hookgate.yaml");
    fs::write(&config, config_with_users(upstream, "1MiB")).unwrap();
    let mut served = ServerProcess::folder(folder);
    served.addr();
    let operators = served.operators();
    let operator = user_client(operators, "olga");
    let first = version(&operator).await;
    fs::write(&config, config_with_users(upstream, "2MiB")).unwrap();
    assert_eq!(operator.post("/reload", "").await.status, 200);
    let second = version(&operator).await;
    (served, operators, [first, second])
}

/// Returns a client with the token of a user.
fn user_client(operators: SocketAddr, name: &str) -> Agent {
    Agent::at(operators).sending("authorization", format!("Bearer {name}-token"))
}

async fn version(operator: &Agent) -> String {
    let config = operator.get("/config").await.json();
    config["version"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotion_requires_the_operator_role_and_a_known_revision() {
    let (upstream, folder) = (Upstream::mock().await, TempDir::new().unwrap());
    let (_served, operators, [first, second]) = two_revisions(folder.path(), &upstream).await;
    let (viewer, operator) = (
        user_client(operators, "vera"),
        user_client(operators, "olga"),
    );
    let promote = |by: &Agent, fields: &str| {
        let by = by.clone();
        let request = format!("{{{fields}}}");
        async move { by.post("/config/promote", request).await.status }
    };

    let known = format!("\"revision\":\"{first}\"");
    assert_eq!(promote(&viewer, &known).await, 403);
    assert_eq!(viewer.post("/config/rollback", "").await.status, 403);
    assert_eq!(promote(&Agent::at(operators), &known).await, 401);
    let bad_report = format!("{known},\"report\":\"no hash\"");
    assert_eq!(promote(&operator, &bad_report).await, 400);
    assert_eq!(
        promote(&operator, "\"revision\":\"../../../etc/passwd\"").await,
        400
    );
    assert_eq!(version(&operator).await, second);
    assert_eq!(promote(&operator, &known).await, 200);
    assert_eq!(version(&operator).await, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_promotes_and_rolls_back_for_operators_with_a_csrf_token() {
    let (upstream, folder) = (Upstream::mock().await, TempDir::new().unwrap());
    let (_served, operators, [first, second]) = two_revisions(folder.path(), &upstream).await;
    let operator = user_client(operators, "olga");
    let mut viewer = Browser::at_address(operators);
    viewer.log_in("vera-token", "").await;
    let mut browser = Browser::at_address(operators);
    browser.log_in("olga-token", "").await;
    let address = "/console/changes/promote";

    let csrf = browser.csrf("/console/changes").await;
    let fields = [("csrf", csrf.as_str()), ("revision", &first)];
    assert_eq!(browser.post(address, &fields[1..]).await.status, 403);
    let csrf_of_viewer = viewer.csrf("/console/changes").await;
    let of_viewer = [("csrf", csrf_of_viewer.as_str()), ("revision", &first)];
    assert_eq!(viewer.post(address, &of_viewer).await.status, 403);
    let page = viewer.get("/console/changes").await.html;
    assert!(
        page.contains(&first) && !page.contains("Promote</button>"),
        "{page}"
    );
    assert_eq!(version(&operator).await, second);

    let promoted = browser.post(address, &fields).await;
    assert_eq!(
        (promoted.status, version(&operator).await),
        (303, first.clone())
    );
    let page = browser.get(promoted.header("location")).await.html;
    assert!(page.contains("The revision is in use."), "{page}");
    assert!(page.contains("This revision was promoted"), "{page}");
    let fields = [fields[0], ("in_use", &first), ("revision", &second)];
    let rollback = browser.post("/console/changes/rollback", &fields).await;
    assert_eq!(rollback.status, 303, "{}", rollback.html);
    assert_eq!(version(&operator).await, second);
    let page = browser.get(promoted.header("location")).await.html;
    assert!(!page.contains("The revision is in use."), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_rollbacks_of_the_same_page_are_one() {
    let (upstream, folder) = (Upstream::mock().await, TempDir::new().unwrap());
    let (_served, operators, [first, second]) = two_revisions(folder.path(), &upstream).await;
    let mut browser = Browser::at_address(operators);
    browser.log_in("olga-token", "").await;
    let page = browser.get("/console/changes").await.html;
    let form = format!(
        "value=\"{second}\"><input type=\"hidden\" name=\"revision\" value=\"{first}\"><button>Roll back to {first}</button>"
    );
    assert!(page.contains(&form), "{page}");
    let csrf = browser.csrf("/console/changes").await;
    let fields = [
        ("csrf", csrf.as_str()),
        ("in_use", &second),
        ("revision", &first),
    ];
    // A form with another target is that of an older page.
    let older = [fields[0], fields[1], ("revision", &second)];
    let older = browser.post("/console/changes/rollback", &older).await;
    assert_eq!(older.status, 400, "{}", older.html);

    let press = || browser.post("/console/changes/rollback", &fields);
    let (one, other) = tokio::join!(press(), press());
    let later = press().await;

    let mut statuses = [one.status, other.status, later.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 400, 400]);
    assert_eq!(version(&user_client(operators, "olga")).await, first);
    let page = later.html;
    assert!(page.contains("since the page was loaded"), "{page}");
}
