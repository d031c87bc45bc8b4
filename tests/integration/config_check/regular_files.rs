//! Files of a config that are pipes, devices or folders.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use tempfile::TempDir;

use crate::harness::{TEST_TIMEOUT, hookgate, run_with_input};

const UPSTREAM: &str = "upstreams: { gemini: { url: https://a.example } }\n";

/// A folder with a config and the named pipe `pipe`, which no process writes to.
fn folder(config: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    make_pipe(&folder.path().join("pipe"));
    folder
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// The exit code and stderr of a command, which must end in time.
fn run_in(folder: &TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = hookgate(arguments);
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{arguments:?} does not end");
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), stderr)
}

#[test]
fn files_that_are_pipes_are_refused_with_their_names() {
    for (setting, expected) in [
        (
            "hook_files: [{ path: pipe }]",
            "hookgate.yaml:2:22: `pipe` cannot be read: it is not a regular file",
        ),
        (
            "admin: { token: { file: pipe } }",
            "hookgate.yaml:2:17: file `pipe` cannot be read: it is not a regular file",
        ),
        (
            "auth: { jwt: { issuer: a, audience: b, jwks: { file: pipe } } }",
            "hookgate.yaml:2:54: file `pipe` cannot be read: it is not a regular file",
        ),
        (
            "tls: { certificate: pipe, key: pipe }",
            "hookgate.yaml:2:21: the certificate cannot be read: it is not a regular file (`tls.certificate` is `pipe`)",
        ),
    ] {
        let folder = folder(&format!("{UPSTREAM}{setting}\n"));

        for command in [
            &["check", "hookgate.yaml"],
            &["serve", "--config=hookgate.yaml"],
        ] {
            let (code, stderr) = run_in(&folder, command);

            assert_eq!(code, Some(78), "{setting}: {stderr}");
            assert!(stderr.contains(expected), "{setting}: {stderr}");
        }
    }
}

#[test]
fn files_of_cases_that_are_pipes_are_refused_when_they_are_proven() {
    let folder = folder(&format!(
        "{UPSTREAM}policies: [{{ policy: prompt_guard, deny: [x], must_deny: [pipe] }}]\n"
    ));

    let (code, stderr) = run_in(&folder, &["check", "--prove", "hookgate.yaml"]);

    assert_eq!(code, Some(78), "{stderr}");
    let problem = "hookgate.yaml:2:59: policy `prompt_guard`: `pipe` cannot be read: it is not a regular file";
    assert!(stderr.contains(problem), "{stderr}");
}

#[test]
fn folders_and_devices_are_no_files_of_a_config() {
    for path in [".", "/dev/zero"] {
        let folder = folder(&format!("{UPSTREAM}hook_files: [{{ path: '{path}' }}]\n"));

        let (code, stderr) = run_in(&folder, &["check", "hookgate.yaml"]);

        assert_eq!(code, Some(78), "{path}: {stderr}");
        assert!(
            stderr.contains("it is not a regular file"),
            "{path}: {stderr}"
        );
    }
    let folder = folder(UPSTREAM);
    let (code, stderr) = run_in(&folder, &["check", "."]);
    assert_eq!(code, Some(78), "{stderr}");
    assert_eq!(stderr, "`.` cannot be read: it is not a regular file\n");
}

#[test]
fn a_config_from_a_pipe_is_read_once() {
    let (code, stdout, stderr) = run_with_input(&["check", "/dev/stdin"], UPSTREAM);

    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, "/dev/stdin: valid, 0 hooks\n");
}

#[test]
fn a_config_without_an_end_is_refused() {
    let folder = folder(UPSTREAM);

    let (code, stderr) = run_in(&folder, &["check", "/dev/zero"]);

    assert_eq!(code, Some(78), "{stderr}");
    assert_eq!(
        stderr,
        "`/dev/zero` cannot be read: it is larger than 67108864 bytes\n"
    );
}
