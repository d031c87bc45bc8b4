//! The command line: help, completions and man pages.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::harness::run;

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
