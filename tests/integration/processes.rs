//! The commands `serve`, `check`, `mock`, `schema`, `openapi` and `demo`, run as processes.

mod demo;
mod log_output;

use std::{fs, net::TcpListener, process::Command, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Notify, mpsc},
    task::spawn_blocking,
};

use crate::harness::{
    Agent, End, ServerProcess, TEST_TIMEOUT, Upstream, chunked_head, eventually, hookgate,
    next_chunk, processes, prompt, read_to_end, run, wait_for_signal, wait_until_closed,
    write_chunk, write_last_chunk,
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const GENERATE: &str = "/v1beta/models/m:generateContent";

/// Returns a command that serves on free ports.
fn serve_command<'a>(upstream: &'a str, more_arguments: &[&'a str]) -> Command {
    let mut command = hookgate(&["serve", "--upstream", upstream]);
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(more_arguments);
    command
}

fn base_url(upstream: &Upstream) -> String {
    format!("http://{}", upstream.addr)
}

/// Creates a directory with one file. Returns it and the path of the file.
fn folder_with_file(name: &str, text: &str) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

/// Waits for the end of a process. Returns its exit code and its log.
async fn wait_for_exit(served: ServerProcess, within: Duration) -> (Option<i32>, String) {
    let (status, log) = spawn_blocking(move || served.ended(within)).await.unwrap();
    (status.code(), log)
}

#[tokio::test]
async fn the_gateway_runs_without_a_config_file() {
    let upstream = Upstream::mock().await;
    let deny = r#"{"hooks":{"BeforeModel":[{"hooks":[{"type":"command","name":"guard",
        "command":"echo '{\"decision\":\"deny\",\"reason\":\"no\"}'"}]}]}}"#;
    let (_folder, settings) = folder_with_file("settings.json", deny);
    let mut served =
        ServerProcess::start(serve_command(&base_url(&upstream), &["--hooks", &settings]));
    let agent = Agent::at(served.addr());

    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(
        answer.json()["candidates"][0]["content"]["parts"][0]["text"],
        "no"
    );
    assert!(upstream.requests().is_empty());
    let admin = served.line();
    assert!(admin.starts_with("admin on http://127.0.0.1:"), "{admin}");
    served.terminate();
    let (code, log) = wait_for_exit(served, TEST_TIMEOUT).await;
    assert_eq!(code, Some(0));
    assert!(
        log.contains("hook `guard` on BeforeModel fails open"),
        "{log}"
    );
}

#[tokio::test]
async fn graceful_shutdown_completes_an_open_stream() {
    let release = std::sync::Arc::new(Notify::new());
    let released = std::sync::Arc::clone(&release);
    let upstream = Upstream::raw(move |_, mut socket| {
        let released = std::sync::Arc::clone(&released);
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_chunk(&mut socket, b"data: 1\n\n").await.unwrap();
            released.notified().await;
            write_chunk(&mut socket, b"data: 2\n\n").await.unwrap();
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    let mut served = ServerProcess::start(serve_command(&base_url(&upstream), &[]));
    let addr = served.addr();
    let agent = Agent::at(addr);
    let mut answer = agent.open(SSE, prompt("hello").to_string()).await;
    assert_eq!(next_chunk(&mut answer).await, "data: 1\n\n");

    served.terminate();
    eventually("no connection is accepted", TEST_TIMEOUT, || {
        std::net::TcpStream::connect(addr).is_err()
    })
    .await;
    release.notify_one();
    let (text, end) = read_to_end(&mut answer).await;

    assert_eq!((text.as_str(), end), ("data: 2\n\n", End::Clean));
    assert_eq!(wait_for_exit(served, TEST_TIMEOUT).await.0, Some(0));
}

#[tokio::test]
async fn calls_are_cut_off_after_the_drain_timeout() {
    let (disconnected, mut disconnects) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |_, mut socket| {
        let disconnected = disconnected.clone();
        async move {
            wait_until_closed(&mut socket).await;
            disconnected.send(()).unwrap();
        }
    })
    .await;
    let hanging_hook = "hooks: { BeforeModel: [{ hooks: [{ command: \
         \"cat > /dev/null; grep -q SLOW && exit; sleep 600 & wait\" }] }] }";
    for (hooks, hook_processes) in [(hanging_hook, 2), ("", 0)] {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"{}\" }} }}\ntimeouts: {{ drain: 200ms }}\n{hooks}",
            base_url(&upstream)
        );
        let (_folder, file) = folder_with_file("hookgate.yaml", &config);
        let mut command = hookgate(&["serve", "--config", &file]);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        let mut served = ServerProcess::start(command);
        let mut socket = TcpStream::connect(served.addr()).await.unwrap();
        let request = format!(
            "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mark = served.mark.clone();
        eventually("the call is under way", TEST_TIMEOUT, || {
            processes(&mark).len() == 1 + hook_processes
                && (hook_processes > 0 || !upstream.requests().is_empty())
        })
        .await;

        served.terminate();
        let (code, log) = wait_for_exit(served, TEST_TIMEOUT).await;

        assert_eq!(code, Some(0), "{log}");
        assert_eq!(log.matches("drain timeout exceeded").count(), 1, "{log}");
        assert!(!log.contains("background tasks did not finish"), "{log}");
        assert_eq!(processes(&mark), [0; 0]);
    }
    wait_for_signal(&mut disconnects, "the end of the call to upstream").await;
}

#[tokio::test]
async fn no_key_is_ever_logged() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"{}\", api_key: {{ env: OWN }} }} }}\n\
         admin: {{ listen: 127.0.0.1:0, token: {{ env: TOKEN }} }}\n\
         log: {{ level: trace }}\n\
         hooks: {{ BeforeModel: [{{ hooks: [{{ command: cat > /dev/null, env: {{ K: HOOK-KEY }} }}] }}] }}",
        base_url(&upstream)
    );
    let (_folder, file) = folder_with_file("hookgate.yaml", &config);
    let mut command = hookgate(&["serve", "--config", &file, "--listen", "127.0.0.1:0"]);
    command.env("OWN", "OWN-KEY").env("TOKEN", "TOKEN-KEY");
    let mut served = ServerProcess::start(command);
    let agent = Agent::at(served.addr())
        .sending("x-goog-api-key", "AGENT-KEY")
        .sending("authorization", "Bearer BEARER-KEY");

    for (path, status) in [
        (GENERATE, 200),
        ("/v1beta/models/m:generateContent?key=QUERY-KEY", 200),
        ("/v1beta/models/m:generateContent?key=QUERY-KEY&x=1", 400),
        ("/v1beta/files?key=QUERY-KEY", 403),
        ("/hookgate/v1/events?key=QUERY-KEY", 400),
    ] {
        let answer = agent.post(path, prompt("PROMPT-KEY").to_string()).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(!answer.text().contains("QUERY-KEY"), "{}", answer.text());
    }
    let operator = served.line();
    let operator = operator.strip_prefix("admin on http://").unwrap();
    let operator = Agent::at(operator.parse().unwrap());
    let refused = operator
        .clone()
        .sending("authorization", "Bearer WRONG-KEY");
    assert_eq!(refused.get("/metrics").await.status, 401);
    let trusted = operator.sending("authorization", "Bearer TOKEN-KEY");
    let metrics = trusted.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(!metrics.text().contains("-KEY"), "{}", metrics.text());
    assert_eq!(upstream.requests()[0].header("x-goog-api-key"), "OWN-KEY");

    served.terminate();
    let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;
    assert!(log.contains("exchange finished"), "{log}");
    let leaks: Vec<&str> = log.lines().filter(|line| line.contains("-KEY")).collect();
    assert_eq!(leaks, [""; 0]);
}

#[test]
fn check_lists_every_config_error_with_its_position() {
    let config = "listen: nowhere
upstreams: { gemini: { url: ftp://x } }
denials: maybe
limits: { body: 12 parsecs }
hooks:
  BeforeModle: [{ hooks: [{ command: x }] }]
";
    let (folder, _) = folder_with_file("hookgate.yaml", config);

    let (code, stdout, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!((code, stdout.as_str()), (78, ""));
    let positions: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(position, _)| position)
        .collect();
    let expected = ["1:9", "2:29", "3:10", "4:17", "6:3"];
    assert_eq!(
        positions,
        expected.map(|position| format!("hookgate.yaml:{position}")),
        "{stderr}"
    );
    assert!(
        stderr.contains("BeforeModel"),
        "a suggestion of the correct key: {stderr}"
    );
    let (code, _, served) = run(&["serve", "--config", "hookgate.yaml"], folder.path());
    assert_eq!((code, served), (78, stderr));
}

#[test]
fn check_accepts_a_valid_config_with_warnings() {
    let config = "upstreams: { gemini: { url: \"http://x\" } }\n\
         hooks: { BeforeModel: [{ hooks: [{ name: guard, command: x }] }],\n\
         BeforeTool: [{ hooks: [{ name: tools, command: x, on_failure: closed }] }] }\n\
         events: { derive: [AfterTool] }\n";
    let (folder, _) = folder_with_file("hookgate.yaml", config);

    let (code, stdout, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(
        (code, stdout.as_str()),
        (0, "hookgate.yaml: valid, 2 hooks\n")
    );
    assert!(
        stderr.contains("`guard` on BeforeModel fails open"),
        "{stderr}"
    );
    assert!(
        stderr.contains("hooks on BeforeTool run only for agents that report the event: `events.derive` does not include it"),
        "{stderr}"
    );
}

#[test]
fn check_reads_the_file_of_its_argument_or_of_the_option_config() {
    let config = "upstreams: { gemini: { url: \"http://x\" } }\n";
    let (folder, _) = folder_with_file("own.yaml", config);

    for arguments in [
        &["check", "own.yaml"][..],
        &["check", "--config", "own.yaml"],
    ] {
        let (code, stdout, stderr) = run(arguments, folder.path());
        assert_eq!(
            (code, stdout.as_str()),
            (0, "own.yaml: valid, 0 hooks\n"),
            "{stderr}"
        );
    }
    let both = ["check", "own.yaml", "--config", "own.yaml"];
    let (code, _, stderr) = run(&both, folder.path());
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn invalid_arguments_and_missing_files_set_the_exit_code() {
    let folder = TempDir::new().unwrap();
    for arguments in [
        &["fly"][..],
        &["serve", "--fly"],
        &[],
        &["mock", "--chunks", "x"],
    ] {
        let (code, _, stderr) = run(arguments, folder.path());
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("--help"), "{stderr}");
    }
    for arguments in [
        &["serve"][..],
        &["check", "nothing.yaml"],
        &["check", "-"],
        &["serve", "--config", "nothing.yaml"],
    ] {
        let (code, _, stderr) = run(arguments, folder.path());
        assert_eq!((code, stderr.lines().count()), (78, 1), "{stderr}");
    }
    let (code, _, stderr) = run(&["mock", "--responses", "nothing"], folder.path());
    assert_eq!((code, stderr.lines().count()), (1, 1), "{stderr}");
}

#[test]
fn a_port_in_use_is_an_error_of_one_line() {
    let folder = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (other, url) = (
        "--admin-listen=127.0.0.1:0",
        "--upstream=http://127.0.0.1:1",
    );
    for (arguments, setting) in [
        (&["serve", url, other, "--listen", &addr][..], "`listen`"),
        (
            &[
                "serve",
                url,
                "--listen=127.0.0.1:0",
                "--admin-listen",
                &addr,
            ],
            "`admin.listen`",
        ),
        (&["mock", "--listen", &addr], "`--listen`"),
    ] {
        let (code, _, stderr) = run(arguments, folder.path());

        assert_eq!((code, stderr.lines().count()), (1, 1), "{stderr}");
        assert!(
            stderr.starts_with("hookgate: cannot listen on "),
            "{stderr}"
        );
        assert!(stderr.contains(&addr), "{stderr}");
        assert!(stderr.contains(setting), "{stderr}");
    }
}

#[test]
fn the_schema_and_the_openapi_document_are_printed() {
    let folder = TempDir::new().unwrap();

    let (code, schema, _) = run(&["schema"], folder.path());
    assert_eq!(code, 0);
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["upstreams"].is_object());
    let (code, openapi, _) = run(&["openapi"], folder.path());
    assert_eq!(code, 0);
    assert!(openapi.starts_with("openapi: \"3."), "{openapi}");
}

#[tokio::test]
async fn the_mock_answers_from_a_script() {
    let line = json!({ "method": "generateContent", "response": { "candidates": [{ "n": 1.0 }] } });
    let (folder, file) = folder_with_file("answers", &format!("{line}\n"));
    let mut command = hookgate(&["mock", "--listen", "127.0.0.1:0", "--responses", &file]);
    command.current_dir(folder.path());
    let mut served = ServerProcess::start(command);
    let agent = Agent::at(served.addr());

    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(answer.text(), line["response"].to_string());
    let seen = agent.get("/__requests").await.json();
    assert_eq!(seen[0]["body"], prompt("hello"));
    served.terminate();
    assert_eq!(wait_for_exit(served, TEST_TIMEOUT).await.0, Some(0));
}
