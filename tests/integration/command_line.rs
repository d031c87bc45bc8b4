//! The command line: help, completions and man pages.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::harness::{Upstream, respond, run, run_with_input};

const COMMANDS: [&str; 21] = [
    "serve",
    "demo",
    "mock",
    "forward",
    "check",
    "coverage",
    "explain",
    "test",
    "key",
    "audit",
    "bundle",
    "config",
    "doctor",
    "fleet",
    "recording",
    "replay",
    "shadow",
    "schema",
    "openapi",
    "completions",
    "man",
];

/// The output of a command that succeeds.
fn stdout(arguments: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let (code, stdout, stderr) = run(arguments, folder.path());
    assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
    stdout
}

#[test]
fn every_command_has_help_with_an_example() {
    let overview = stdout(&["--help"]);

    for command in COMMANDS {
        assert!(overview.contains(&format!("\n  {command} ")), "{command}");
        let help = stdout(&[command, "--help"]);
        assert!(help.contains("Example"), "{command}: {help}");
    }
}

#[test]
fn a_config_that_cannot_be_read_twice_is_refused_with_the_reason() {
    let upstream = ["--upstream", "http://127.0.0.1:1"];
    for option in ["--config", "--hooks"] {
        let arguments = [&["serve", option, "/dev/stdin"][..], &upstream].concat();

        let (code, _, stderr) = run_with_input(&arguments, "upstreams: {}");

        assert_eq!(code, 78, "{stderr}");
        assert!(
            stderr.contains("`/dev/stdin` is not a regular file"),
            "{stderr}"
        );
    }
}

#[test]
fn bash_accepts_its_completions() {
    let completions = stdout(&["completions", "bash"]);

    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = bash.stdin.take().unwrap();
    stdin.write_all(completions.as_bytes()).unwrap();
    drop(stdin);
    assert!(bash.wait().unwrap().success());
    for command in COMMANDS {
        assert!(completions.contains(&format!("__{command}")), "{command}");
    }
}

#[test]
fn completions_exist_for_other_shells() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&["completions", shell]).contains("audit"), "{shell}");
    }
}

#[test]
fn the_man_pages_cover_every_command() {
    let roff = stdout(&["man"]);

    assert!(roff.contains(".TH hookgate 1"), "{roff}");
    for command in COMMANDS {
        assert!(
            roff.contains(&format!(".TH hookgate-{command} 1")),
            "{command}"
        );
    }
    assert!(roff.contains(".TH hookgate-audit-verify 1"));
}

/// The stderr of a command that fails.
fn failure(arguments: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let (code, stdout, stderr) = run(arguments, folder.path());
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    stderr
}

#[test]
fn a_gateway_that_cannot_be_reached_is_reported_with_the_cause() {
    let stderr = failure(&["config", "history", "--url", "http://127.0.0.1:1"]);

    assert!(stderr.contains("Connection refused"), "{stderr}");
    assert!(!stderr.contains("127.0.0.1:1/"), "{stderr}");
}

#[test]
fn a_url_with_credentials_is_refused_and_not_printed() {
    let commands: &[&[&str]] = &[
        &["forward", "--url"],
        &["doctor", "--url"],
        &["config", "history", "--url"],
        &["bundle", "push", "policies.tar.gz"],
    ];
    let urls = [
        "http://ci:s3cret@127.0.0.1:1",
        "http://s3cret@127.0.0.1:1",
        "http://ci:s3cret@127.0.0.1:port",
    ];
    for (command, url) in commands
        .iter()
        .flat_map(|command| urls.map(|url| (command, url)))
    {
        let folder = TempDir::new().unwrap();
        let (code, stdout, stderr) = run(&[command, &[url][..]].concat(), folder.path());

        // The agent of `forward` would take 2 for a denial.
        let expected = if command.contains(&"forward") { 1 } else { 2 };
        assert_eq!(
            (code, stdout.as_str()),
            (expected, ""),
            "{command:?}: {stderr}"
        );
        assert!(stderr.contains("URL>` must be"), "{stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
}

#[test]
fn every_subcommand_has_help_with_an_example() {
    for (command, subcommands) in [
        ("audit", &["verify", "show", "export"][..]),
        ("bundle", &["build", "sign", "verify", "key", "push"]),
        ("config", &["history", "diff", "promote", "rollback"]),
        ("fleet", &["status"]),
        ("recording", &["show", "export", "verify"]),
    ] {
        for subcommand in subcommands {
            let help = stdout(&[command, subcommand, "--help"]);
            assert!(help.contains("Example"), "{command} {subcommand}: {help}");
        }
    }
}

#[test]
fn failures_name_their_file_and_the_address_of_the_gateway() {
    let history = ["config", "history"];
    let away = failure(&[&history[..], &["--url", "http://127.0.0.1:1/x"]].concat());
    let token = failure(&[&history[..], &["--token-file", "none.token"]].concat());
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("two.token");
    fs::write(&file, "one\ntwo\n").unwrap();
    let file = file.to_str().unwrap();
    let lines = failure(&[&history[..], &["--token-file", file]].concat());
    let empty = failure(&[&history[..], &["--token-file", "/dev/null"]].concat());
    let project = failure(&["doctor", "--project", "none"]);
    let log = failure(&["audit", "verify", "none.jsonl"]);

    assert!(
        away.contains("the gateway at http://127.0.0.1:1 cannot be reached"),
        "{away}"
    );
    let missing = "No such file or directory";
    assert!(token.contains("`none.token` cannot be read"), "{token}");
    let expected = "two.token` must be one line of ASCII without white space";
    assert!(lines.contains(expected), "{lines}");
    let expected = "`/dev/null` must be one line";
    assert!(empty.contains(expected), "{empty}");
    assert!(project.contains(&format!("`none`: {missing}")), "{project}");
    assert!(log.contains("none.jsonl") && log.contains(missing), "{log}");
}

#[test]
fn hooks_that_a_shadow_cannot_ask_are_refused_before_a_request() {
    let shadow = ["shadow", "--config", "next.yaml", "--duration", "1m"];
    let (code, _, stderr) = run_with_input(&[&shadow[..], &["--hooks", "run"]].concat(), "");

    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("policies, recorded"), "{stderr}");
}

#[test]
fn an_empty_copy_of_a_log_is_reported_as_empty() {
    let (code, _, stderr) = run_with_input(&["audit", "verify", "--stdin"], "");

    let expected = "hookgate: the copy is empty: there is no line to verify\n";
    assert_eq!((code, stderr.as_str()), (1, expected));
}

#[test]
fn a_key_file_of_forward_without_a_key_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("empty.key");
    fs::write(&file, "\n").unwrap();
    let file = file.to_str().unwrap();
    let forward = |file: &str| {
        let arguments = ["forward", "--url", "http://127.0.0.1:1", "--key-file", file];
        let (code, _, stderr) = run_with_input(&arguments, r#"{"hook_event_name":"SessionEnd"}"#);
        assert_eq!(code, 1, "{stderr}");
        stderr
    };

    let wrong = "must be one line of ASCII without white space";
    let expected = format!("hookgate: the key file `{file}` {wrong}\n");
    assert_eq!(forward(file), expected);
    assert!(forward("none.key").contains("`none.key` cannot be read"));
}

#[test]
fn options_out_of_range_are_refused_before_a_connection() {
    let shadow = [
        "shadow",
        "--config",
        "next.yaml",
        "--url",
        "http://127.0.0.1:1",
    ];
    let fleet = [
        "fleet",
        "status",
        "--wait-for",
        "5f1d3c0a",
        "--replicas",
        "0",
    ];
    for (arguments, option) in [
        (
            &[&shadow[..], &["--duration", "0s"]].concat()[..],
            "--duration",
        ),
        (
            &[&shadow[..], &["--duration", "1s", "--sample", "2"]].concat(),
            "--sample",
        ),
        (&fleet, "--replicas"),
        (&["mock", "--chunks", "0"], "--chunks"),
    ] {
        let (code, _, stderr) = run(arguments, ".".as_ref());
        assert!(code == 2 && stderr.contains(option), "{code}: {stderr}");
    }
}

#[test]
fn audit_show_accepts_a_duration_before_now() {
    let folder = TempDir::new().unwrap();
    let line =
        |time: &str| format!("{{\"seq\":1,\"prev\":\"0\",\"time\":\"{time}\",\"kind\":\"x\"}}\n");
    let log = folder.path().join("log.jsonl");
    fs::write(&log, line("2020-01-01T00:00:00Z")).unwrap();
    let export = |since: &str| {
        let arguments = ["audit", "export", "log.jsonl", "--since", since];
        run(&arguments, folder.path())
    };

    let recent = export("7d");
    let all = export("99999d");

    assert_eq!((recent.0, recent.1.trim()), (0, "[]"), "{}", recent.2);
    assert!(
        all.0 == 0 && all.1.contains("2020-01-01"),
        "{}{}",
        all.1,
        all.2
    );
    assert_eq!(export("soon").0, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_admin_token_is_reported_with_the_option_for_it() {
    let body = r#"{"error":{"message":"missing or invalid admin token"}}"#;
    let gateway = Upstream::with(|_| respond(401, "application/json", body.to_owned())).await;
    let url = format!("http://{}", gateway.addr);

    let stderr = failure(&["config", "history", "--url", &url]);

    assert!(
        stderr.contains("missing or invalid admin token; `--token-file`"),
        "{stderr}"
    );
}
