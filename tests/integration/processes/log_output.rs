//! Lines on stderr of `serve`.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::wait_for_exit;
use crate::{
    harness::{
        Agent, ServerProcess, TEST_TIMEOUT, Upstream, assert_refused, prompt, serve_command,
    },
    tls::{self, Authority},
};

/// A config with a guard that fails open or closed.
fn write_config(folder: &TempDir, on_failure: &str) {
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:1\" }} }}\nlog: {{ format: json }}\n\
         hooks:\n  BeforeModel:\n    - hooks: [{{ name: guard, command: cat, on_failure: {on_failure} }}]\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
}

/// Parses each line of a log.
fn json_lines(log: &str) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    log.lines().map(line).collect()
}

fn warns_of_failing_open(line: &Value) -> bool {
    let problem = line["problem"].as_str().unwrap_or_default();
    line["level"] == "WARN" && problem.contains("hook `guard` on BeforeModel fails open")
}

#[tokio::test]
async fn blanks_in_the_filter_variable_have_no_effect() {
    let folder = TempDir::new().unwrap();
    write_config(&folder, "closed");
    for filter in [
        "",
        " ",
        "debug ",
        "hookgate,h2=off",
        "debug , h2=warn",
        "h2=off, info",
    ] {
        let mut command = serve_command(folder.path());
        command.env("HOOKGATE_LOG", filter);
        let mut served = ServerProcess::start(command);
        served.addr();
        served.terminate();

        let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;

        assert!(log.contains("shutting down"), "`{filter}`: {log}");
    }
}

#[tokio::test]
async fn an_invalid_filter_variable_is_refused() {
    let folder = TempDir::new().unwrap();
    write_config(&folder, "closed");
    for filter in ["hookgate=zzz", "=", "warning", "all", "info,verbose"] {
        let mut command = serve_command(folder.path());
        command.env("HOOKGATE_LOG", filter);

        let (code, log) = wait_for_exit(ServerProcess::start(command), TEST_TIMEOUT).await;

        assert_eq!(code, Some(78), "{log}");
        let problem = format!("`HOOKGATE_LOG` is not a log filter: `{filter}`");
        assert!(log.starts_with(&problem), "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}

#[tokio::test]
async fn warnings_of_a_start_are_lines_of_the_json_log() {
    let folder = TempDir::new().unwrap();
    write_config(&folder, "open");
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    served.terminate();

    let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;

    let lines = json_lines(&log);
    assert!(lines.iter().any(warns_of_failing_open), "{log}");
}

#[tokio::test]
async fn warnings_of_a_reloaded_config_are_logged() {
    let folder = TempDir::new().unwrap();
    write_config(&folder, "closed");
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operator = Agent::at(served.operators());
    write_config(&folder, "open");
    let answer = operator.post("/reload", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    served.terminate();

    let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;

    assert!(json_lines(&log).iter().any(warns_of_failing_open), "{log}");
}

#[tokio::test]
async fn the_config_does_not_end_a_line_of_the_text_log() {
    let folder = TempDir::new().unwrap();
    let config = "upstreams: { gemini: { url: \"http://127.0.0.1:1\" } }\n";
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operator = Agent::at(served.operators());
    let wrong = format!("{config}\"\\e[31ma\\nforged line\": 1\nb: 2\n");
    fs::write(folder.path().join("hookgate.yaml"), wrong).unwrap();
    let answer = operator.post("/reload", "").await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    served.terminate();

    let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;

    let rejected = log.lines().find(|line| line.contains("problems="));
    let rejected = rejected.unwrap_or_else(|| panic!("{log}"));
    for part in ["\\u{1b}[31ma\\nforged line", "unknown key `b`"] {
        assert!(rejected.contains(part), "{rejected}");
    }
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_logged_once() {
    let model_api = Upstream::mock().await;
    let authority = Authority::new("an unknown authority");
    let model_api = tls::gate(&model_api, &authority, tls::TLS).await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"https://{}\" }} }}\n",
        model_api.agents
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    for (filter, has_lines) in [("", false), ("info,rustls_platform_verifier=error", true)] {
        let mut command = serve_command(folder.path());
        command.env("HOOKGATE_LOG", filter);
        let mut served = ServerProcess::start(command);
        let agent = Agent::at(served.addr());

        let answer = agent.generate("m", &prompt("hi")).await;
        assert_refused(&answer, 503, "UPSTREAM_UNREACHABLE");
        served.terminate();
        let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;

        assert!(log.contains("upstream request failed"), "{log}");
        let is_repeated = log.contains("failed to verify TLS certificate");
        assert_eq!(is_repeated, has_lines, "`{filter}`: {log}");
    }
}
