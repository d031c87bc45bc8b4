//! `hookgate bundle`: build, sign, verify and push.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    thread,
};

use tempfile::TempDir;

use super::{bundle, new_key, try_bundle, write_policies};
use crate::harness::{hookgate, run};

const CREATED: [&str; 2] = ["--created", "2026-11-25T16:00:00Z"];

/// Returns a folder with policies in `policies`.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    write_policies(&folder.path().join("policies"), "words", "apple");
    folder
}

fn build(folder: &Path, more: &[&str]) -> (i32, String, String) {
    let mut arguments = vec!["build", "policies", "-o", "prod.tar.gz"];
    arguments.extend(CREATED);
    arguments.extend(more);
    try_bundle(folder, &arguments)
}

fn append(path: &Path, text: &str) {
    let before = fs::read_to_string(path).unwrap();
    fs::write(path, before + text).unwrap();
}

#[test]
fn a_bundle_in_its_own_folder_is_not_part_of_the_next_one() {
    let folder = folder();
    symlink("policies", folder.path().join("link")).unwrap();
    for output in ["./policies", "policies", "policies/hooks/..", "link"] {
        let output = format!("{output}/prod.tar.gz");
        let arguments = ["build", "policies", "-o", &output];

        let (code, out, err) = try_bundle(folder.path(), &[&arguments[..], &CREATED].concat());

        assert_eq!(code, 0, "{err}");
        assert!(out.contains(", 3 files, "), "{output}: {out}");
    }
}

#[test]
fn a_bundle_is_built_signed_verified_and_listed_by_tar() {
    let folder = folder();
    let folder = folder.path();
    let key = new_key(folder, "bundle.key");

    let (code, out, err) = build(folder, &["--revision", "7"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(
        out,
        "built: revision 7, created 2026-11-25T16:00:00Z, 3 files, 1 tests passed\n"
    );
    let signed = bundle(folder, &["sign", "prod.tar.gz", "--key", "bundle.key"]);
    assert_eq!(signed, format!("signed: revision 7 by {key}\n"));
    let valid = bundle(folder, &["verify", "prod.tar.gz", "--key", &key]);
    assert_eq!(
        valid,
        format!("valid: revision 7, created 2026-11-25T16:00:00Z, 3 files, signed by {key}\n")
    );

    let mode = fs::metadata(folder.join("bundle.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let list = Command::new("tar")
        .args(["tzf", "prod.tar.gz"])
        .current_dir(folder)
        .output()
        .unwrap();
    let expected = "manifest.json\nmanifest.sig\nhookgate.yaml\nhooks/words.sh\ntests/words.yaml\n";
    assert_eq!(String::from_utf8(list.stdout).unwrap(), expected);
}

#[test]
fn builds_are_reproducible() {
    let (one, other) = (folder(), folder());

    for folder in [&one, &other] {
        let (code, _, err) = build(folder.path(), &[]);
        assert_eq!(code, 0, "{err}");
    }

    let bytes = |folder: &TempDir| fs::read(folder.path().join("prod.tar.gz")).unwrap();
    assert_eq!(bytes(&one), bytes(&other));
}

#[test]
fn a_wrong_key_and_an_unsigned_bundle_are_refused() {
    let folder = folder();
    let folder = folder.path();
    new_key(folder, "bundle.key");
    let other = new_key(folder, "other.key");
    assert_eq!(build(folder, &[]).0, 0);

    let verify = || try_bundle(folder, &["verify", "prod.tar.gz", "--key", &other]);
    let (code, _, err) = verify();
    assert_eq!(
        (code, err.as_str()),
        (1, "hookgate: bundle `prod.tar.gz` refused: not signed\n")
    );
    bundle(folder, &["sign", "prod.tar.gz", "--key", "bundle.key"]);
    let (code, _, err) = verify();
    assert_eq!(
        (code, err.as_str()),
        (
            1,
            "hookgate: bundle `prod.tar.gz` refused: the signature of `manifest.json` is not \
             valid for any of the keys\n"
        )
    );
    let (code, _, err) = try_bundle(folder, &["key", "-o", "bundle.key"]);
    assert_eq!(code, 1, "a key is never overwritten: {err}");
}

#[test]
fn a_failed_test_is_reported_with_its_line() {
    let folder = folder();
    let cases = folder.path().join("policies/tests/words.yaml");
    let text = fs::read_to_string(&cases).unwrap();
    fs::write(&cases, text.replace("verdict: deny", "verdict: proceed")).unwrap();

    let (code, _, err) = build(folder.path(), &[]);

    assert_eq!(code, 78, "{err}");
    assert!(
        err.starts_with("policies/tests/words.yaml:3:5: test `apple is denied`: verdict: "),
        "{err}"
    );
    assert!(!folder.path().join("prod.tar.gz").exists());
}

#[test]
fn a_failed_proof_of_a_guard_is_reported_with_its_line() {
    let folder = folder();
    let script = folder.path().join("policies/hooks/words.sh");
    fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();

    let (code, _, err) = build(folder.path(), &[]);

    assert_eq!(code, 78, "{err}");
    let expected =
        "policies/hookgate.yaml:7:23: hook `words` on BeforeModel: must deny this prompt";
    assert!(err.starts_with(expected), "{err}");
}

#[test]
fn gateway_settings_in_a_bundle_are_reported_with_their_lines() {
    let folder = folder();
    let config = folder.path().join("policies/hookgate.yaml");
    append(
        &config,
        "admin: { listen: 127.0.0.1:1 }\npolicies: [{ policy: model_allowed }]\n",
    );

    let (code, _, err) = build(folder.path(), &[]);

    assert_eq!(code, 78, "{err}");
    let expected = "policies/hookgate.yaml:8:1: `admin` belongs to the config of each gateway, \
        not to a bundle";
    assert_eq!(err.lines().next(), Some(expected), "{err}");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("admin: { listen: 127.0.0.1:1 }\n", ""),
    )
    .unwrap();
    let (code, _, err) = build(folder.path(), &[]);
    assert_eq!(code, 78, "{err}");
    assert!(err.starts_with("policies/hookgate.yaml:8:"), "{err}");
    assert!(err.contains("must be `model_allow` or"), "{err}");
}

#[test]
fn symlinks_and_outside_files_are_refused_and_hidden_files_are_omitted() {
    let folder = folder();
    let at = |path: &str| folder.path().join(path);
    fs::write(at("policies/.env"), "KEY=secret").unwrap();
    fs::write(at("settings.json"), "{}").unwrap();
    append(
        &at("policies/hookgate.yaml"),
        "hook_files: [{ path: ../settings.json }]\n",
    );

    let (code, _, err) = build(folder.path(), &[]);

    assert_eq!(code, 78, "{err}");
    let outside = ": `policies/../settings.json` is not in the bundle\n";
    assert!(err.starts_with("policies/hookgate.yaml:"), "{err}");
    assert!(err.ends_with(outside), "{err}");
    write_policies(&at("policies"), "words", "apple");
    assert_eq!(build(folder.path(), &[]).0, 0);
    let bytes = fs::read(at("prod.tar.gz")).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
    symlink("/etc/passwd", at("policies/hooks/link")).unwrap();
    let (code, _, err) = build(folder.path(), &[]);
    assert_eq!(code, 1);
    assert!(
        err.starts_with("hookgate: `hooks/link` is no regular file"),
        "{err}"
    );
}

#[test]
fn every_command_refuses_a_changed_bundle_and_names_the_file() {
    let folder = folder();
    let key = new_key(folder.path(), "bundle.key");
    assert_eq!(build(folder.path(), &[]).0, 0);
    let path = folder.path().join("prod.tar.gz");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();

    for arguments in [
        vec!["verify", "prod.tar.gz", "--key", &key],
        vec!["sign", "prod.tar.gz", "--key", "bundle.key"],
        vec!["push", "prod.tar.gz", "http://127.0.0.1:9/prod.tar.gz"],
    ] {
        let (code, _, err) = try_bundle(folder.path(), &arguments);
        assert_eq!(code, 1, "{arguments:?}");
        assert!(
            err.starts_with("hookgate: bundle `prod.tar.gz` refused: "),
            "{err}"
        );
    }
}

#[test]
fn push_sends_a_token_and_fails_on_an_error_status() {
    let folder = folder();
    assert_eq!(build(folder.path(), &[]).0, 0);
    fs::write(folder.path().join("token"), "secret-token\n").unwrap();
    let bytes = fs::read(folder.path().join("prod.tar.gz")).unwrap();
    let push = |status: u16| {
        let server = OneRequest::start(status);
        let output = hookgate(&["bundle", "push", "prod.tar.gz", &server.url])
            .args(["--token-file", "token"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        (output, server.request.join().unwrap())
    };

    let (output, (head, body)) = push(201);
    assert!(output.status.success(), "{output:?}");
    assert!(head.starts_with("PUT /prod.tar.gz HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("authorization: Bearer secret-token\r\n"),
        "{head}"
    );
    assert!(body == bytes);
    let (output, _) = push(403);
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(err, "hookgate: the server responded with 403 Forbidden\n");
}

#[test]
fn push_refuses_a_token_that_is_not_one_line() {
    let folder = folder();
    assert_eq!(build(folder.path(), &[]).0, 0);
    fs::write(folder.path().join("token"), "one\ntwo\n").unwrap();
    fs::write(folder.path().join("empty"), "\n").unwrap();
    let wrong = "must be one line of ASCII without white space";

    for (arguments, variable, source) in [
        (&["--token-file", "token"][..], "", "token file `token`"),
        (&["--token-file", "empty"], "", "token file `empty`"),
        (&[], "one\ntwo", "variable `HOOKGATE_BUNDLE_TOKEN`"),
    ] {
        let output = hookgate(&["bundle", "push", "prod.tar.gz", "http://127.0.0.1:1/x"])
            .args(arguments)
            .env("HOOKGATE_BUNDLE_TOKEN", variable)
            .current_dir(folder.path())
            .output()
            .unwrap();

        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(err, format!("hookgate: the {source} {wrong}\n"));
    }
}

#[test]
fn push_sends_no_token_if_the_variable_is_empty() {
    let folder = folder();
    assert_eq!(build(folder.path(), &[]).0, 0);
    let server = OneRequest::start(201);

    let output = hookgate(&["bundle", "push", "prod.tar.gz", &server.url])
        .env("HOOKGATE_BUNDLE_TOKEN", "")
        .current_dir(folder.path())
        .output()
        .unwrap();

    assert!(output.status.success(), "{output:?}");
    let (head, _) = server.request.join().unwrap();
    assert!(!head.contains("authorization"), "{head}");
}

#[test]
fn a_push_that_fails_names_the_server_and_the_cause() {
    let folder = folder();
    assert_eq!(build(folder.path(), &[]).0, 0);

    let url = "http://127.0.0.1:1/x?key=secret";
    let (code, _, err) = try_bundle(folder.path(), &["push", "prod.tar.gz", url]);

    assert_eq!(code, 1);
    let expected = "hookgate: the server at http://127.0.0.1:1 cannot be reached: \
        Connection refused (os error 111)\n";
    assert_eq!(err, expected);
}

/// Server that responds to one request and returns its head and body.
struct OneRequest {
    url: String,
    request: thread::JoinHandle<(String, Vec<u8>)>,
}

impl OneRequest {
    fn start(status: u16) -> Self {
        use std::io::{BufRead, BufReader, Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/prod.tar.gz", listener.local_addr().unwrap());
        let request = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
            }
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            (head, body)
        });
        Self { url, request }
    }
}

/// Settings of a team that weaken the bundle of the organisation, and the expected errors.
const WEAKENING_SETTINGS: [(&str, &str); 8] = [
    (
        "policies:\n  - { name: models, policy: model_allow, models: [\"*\"], mode: observe }\n",
        "policies/hookgate.yaml:9:5: `models` is the name of a policy or hook of the bundle \
         `org`, which cannot be replaced",
    ),
    (
        "policies:\n  - { name: words, policy: model_allow, models: [\"*\"], when: \"false\" }\n",
        "policies/hookgate.yaml:9:5: `words` is the name of a policy or hook of the bundle `org`",
    ),
    (
        "hooksConfig:\n  disabled: [words]\n",
        "policies/hookgate.yaml:9:14: the hook `words` of the bundle `org` cannot be disabled here",
    ),
    (
        "hooksConfig: { enabled: false }\n",
        "policies/hookgate.yaml:8:",
    ),
    (
        "ask: allow\n",
        "policies/hookgate.yaml:8:1: `ask` applies to all layers, so that only the bundle `org` \
         can have it",
    ),
    (
        "hook_defaults: { on_failure: open }\n",
        "policies/hookgate.yaml:8:1: `hook_defaults` applies to all layers",
    ),
    (
        "coverage: {}\n",
        "policies/hookgate.yaml:8:1: `coverage` applies to all layers",
    ),
    (
        "tool_names: {}\n",
        "policies/hookgate.yaml:8:1: `tool_names` applies to all layers",
    ),
];

#[test]
fn a_team_bundle_that_weakens_the_organisation_bundle_is_refused() {
    let folder = folder();
    let at = |path: &str| folder.path().join(path);
    let text = fs::read_to_string(at("policies/hookgate.yaml")).unwrap();
    fs::write(
        at("policies/hookgate.yaml"),
        text + "policies:\n  - { name: models, policy: model_allow, models: [\"gemini-2.5-*\"] }\n",
    )
    .unwrap();
    assert_eq!(build(folder.path(), &[]).0, 0);
    fs::rename(at("prod.tar.gz"), at("org.tar.gz")).unwrap();
    let error_for = |config: &str| {
        write_policies(&at("policies"), "team", "pear");
        append(&at("policies/hookgate.yaml"), config);
        let (code, _, err) = build(folder.path(), &["--org", "org.tar.gz"]);
        assert_eq!(code, 78, "{config}: {err}");
        err
    };

    for (config, expected) in WEAKENING_SETTINGS {
        let err = error_for(config);
        assert!(err.contains(expected), "{config}: {err}");
        if config.contains("name: models") {
            assert!(
                err.contains("it is at org.tar.gz/hookgate.yaml:9:5"),
                "{err}"
            );
        }
        let temporary = std::env::temp_dir().join("hookgate-bundle-");
        assert!(!err.contains(temporary.to_str().unwrap()), "{err}");
    }
    write_policies(&at("policies"), "team", "pear");
    let (code, out, err) = build(folder.path(), &["--org", "org.tar.gz"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("2 tests passed"),
        "the organisation's tests too: {out}"
    );
}

#[test]
fn the_example_bundles_build_and_pass_their_tests() {
    let folder = TempDir::new().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples/bundles");
    let example = |name: &str| examples.join(name).to_string_lossy().into_owned();

    let org = bundle(
        folder.path(),
        &["build", &example("org"), "-o", "org.tar.gz"],
    );
    let team = [
        "build",
        &example("team"),
        "-o",
        "team.tar.gz",
        "--org",
        "org.tar.gz",
    ];
    let team = bundle(folder.path(), &team);

    let check = ["check", &example("gateway.yaml")];
    let (code, out, err) = run(&check, folder.path());

    assert_eq!((code, err.lines().count()), (0, 1), "{out}{err}");
    let warning = "gateway.yaml:4:1: the policies and hooks of the bundles of `source` are not \
                   part of this";
    assert!(
        err.starts_with("warning: ") && err.contains(warning),
        "{err}"
    );
    assert!(org.ends_with("2 files, 2 tests passed\n"), "{org}");
    assert!(team.ends_with("3 files, 4 tests passed\n"), "{team}");
}
