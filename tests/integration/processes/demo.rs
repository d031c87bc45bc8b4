//! The command `demo`: the commands that it prints, its console and its config changes.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use super::wait_for_exit;
use crate::harness::{ServerProcess, TEST_TIMEOUT, hookgate, processes};

/// Runs a command that the demo printed, and returns its output as JSON.
async fn run_in_bash(line: &str, directory: &Path) -> Value {
    let mut bash = tokio::process::Command::new("bash");
    bash.args(["-c", line]).current_dir(directory);
    let output = bash.output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
}

/// Sends an email address to the other APIs, at the address of a command for the Gemini API.
async fn assert_masked_in_each_api(line: &str, directory: &Path) {
    let base = line.split("/v1beta").next().unwrap();
    for (path, body) in [
        (
            "messages",
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Write to ann@example.com"}]}"#,
        ),
        (
            "responses",
            r#"{"model":"m","input":"Write to ann@example.com"}"#,
        ),
        (
            "chat/completions",
            r#"{"model":"m","messages":[{"role":"user","content":"Write to ann@example.com"}]}"#,
        ),
    ] {
        let line = format!("{base}/v1/{path} -H 'content-type: application/json' -d '{body}'");
        let answer = run_in_bash(&line, directory).await.to_string();
        assert!(answer.contains("You said: Write to [EMAIL]"), "{answer}");
    }
}

async fn assert_console_shows_denials_and_proofs(address: &str) {
    let console = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let console = console.build().unwrap();
    let page = |path: &str| console.get(format!("{address}{path}")).send();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let denials = page("denials").await.unwrap().text().await.unwrap();
        if denials.contains("guard") && denials.contains("shell") {
            break;
        }
        assert!(Instant::now() < deadline, "{denials}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let changes = page("changes").await.unwrap().text().await.unwrap();
    assert!(changes.contains("in use (config file)"), "{changes}");
    let rules = page("rules").await.unwrap().text().await.unwrap();
    assert_eq!(rules.matches("</span> proven").count(), 3, "{rules}");
}

/// Calls of other APIs: five of the demo that are not denied, and three of this test.
const CALLS_OF_OTHER_APIS: u64 = 5 + 3;

/// Follows the steps of docs/changes.md with the demo.
async fn replay_apply_roll_back_and_promote_a_change(folder: &Path, admin: &str) {
    let mut config = fs::read_to_string(folder.join("demo.yaml")).unwrap();
    config.push_str("policies: [{ policy: model_allow, models: [\"gemini-*\"] }]\n");
    fs::write(folder.join("next.yaml"), &config).unwrap();
    let run = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::from(hookgate(arguments));
        let output = command.current_dir(folder).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let deadline = Instant::now() + TEST_TIMEOUT;
    let replay = [
        "replay",
        "--config",
        "next.yaml",
        "--format",
        "json",
        "recordings/",
    ];
    let report = loop {
        // The recording may be written a second later.
        let report: Value = serde_json::from_str(&run(&replay).await).unwrap_or_default();
        if report["counts"]["newly_denied"] == CALLS_OF_OTHER_APIS {
            break report;
        }
        assert!(Instant::now() < deadline, "{report:#}");
    };
    assert_eq!(
        report["rules"]["model_allow"]["newly_denied"], CALLS_OF_OTHER_APIS,
        "{report:#}"
    );
    fs::write(folder.join("report.json"), report.to_string()).unwrap();

    fs::rename(folder.join("next.yaml"), folder.join("demo.yaml")).unwrap();
    let reload = format!("curl -s -X POST {admin}/reload");
    assert!(run_in_bash(&reload, folder).await["error"].is_null());
    let history = run(&["config", "history", "--url", admin]).await;
    // The demo has one from its start.
    assert_eq!(history.lines().count(), 2, "{history}");
    let version = history.split(' ').next().unwrap();
    let back = run(&["config", "rollback", "--url", admin]).await;
    assert!(back.contains(&format!("(before: {version})")), "{back}");
    let promote = [
        "config",
        "promote",
        version,
        "--report",
        "report.json",
        "--url",
        admin,
    ];
    let promoted = run(&promote).await;
    assert!(
        promoted.contains(&format!("in use: {version}")),
        "{promoted}"
    );
}

#[tokio::test]
async fn the_demo_prints_commands_that_work() {
    // If the port is taken, the demo finds another.
    let _taken = TcpListener::bind("127.0.0.1:8787");
    let folder = TempDir::new().unwrap();
    let mut command = hookgate(&["demo"]);
    command
        .env("TMPDIR", folder.path())
        .env("HOOKGATE_LOG", "warn");
    let mut served = ServerProcess::start(command);
    let greeting: Vec<String> = (0..12).map(|_| served.line()).collect();
    let commands: Vec<&String> = greeting
        .iter()
        .filter(|line| line.contains("http"))
        .filter(|line| !line.starts_with("hookgate is") && !line.starts_with("The console"))
        .collect();
    let [generate, cli, claude, event] = commands[..] else {
        panic!("four commands to paste: {greeting:#?}");
    };
    assert!(!generate.contains(":8787/"), "{generate}");
    assert!(cli.contains("gemini-cli"), "{cli}");
    assert!(claude.contains("claude-code"), "{claude}");

    let answer = run_in_bash(generate, folder.path()).await;
    let text = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(text, "You said: Write to [EMAIL]");
    assert_masked_in_each_api(generate, folder.path()).await;
    let output = run_in_bash(event, folder.path()).await;
    assert_eq!(output["decision"], "deny");
    let console = greeting.iter().find(|line| line.starts_with("The console"));
    let address = console
        .unwrap()
        .split(' ')
        .find(|word| word.starts_with("http"));
    assert_console_shows_denials_and_proofs(address.unwrap()).await;
    let folder_of_demo = greeting.iter().find_map(|line| {
        line.strip_prefix("Its config is ")?
            .split_once("/demo.yaml")
    });
    replay_apply_roll_back_and_promote_a_change(
        Path::new(folder_of_demo.unwrap().0),
        address.unwrap().trim_end_matches("/console/"),
    )
    .await;
    let mark = served.mark.clone();
    served.terminate();
    let (code, log) = wait_for_exit(served, TEST_TIMEOUT).await;

    assert_eq!(code, Some(0), "{log}");
    assert_eq!(processes(&mark), [0; 0]);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "the demo removes its files"
    );
}
