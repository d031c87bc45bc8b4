//! The commands, as processes.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::harness::{
    Agent, End, PATIENCE, Served, Upstream, chunked_head, closed, eventually, hookgate, piece,
    processes, prompt, rest, run, signalled, write_chunk, write_last_chunk,
};

use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Notify, mpsc},
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const GENERATE: &str = "/v1beta/models/m:generateContent";

/// The arguments of a gateway on free ports.
fn serve<'a>(upstream: &'a str, more: &[&'a str]) -> Command {
    let mut command = hookgate(&["serve", "--upstream", upstream]);
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(more);
    command
}

fn base(upstream: &Upstream) -> String {
    format!("http://{}", upstream.addr)
}

/// A directory with one file.
fn folder(name: &str, text: &str) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

async fn ended(served: Served, within: Duration) -> (Option<i32>, String) {
    let (status, log) = spawn_blocking(move || served.ended(within)).await.unwrap();
    (status.code(), log)
}

#[tokio::test]
async fn a_gateway_needs_no_config() {
    let upstream = Upstream::mock().await;
    let deny = r#"{"hooks":{"BeforeModel":[{"hooks":[{"type":"command","name":"guard",
        "command":"echo '{\"decision\":\"deny\",\"reason\":\"no\"}'"}]}]}}"#;
    let (_folder, settings) = folder("settings.json", deny);
    let mut served = Served::start(serve(&base(&upstream), &["--hooks", &settings]));
    let agent = Agent::at(served.addr());

    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(
        answer.json()["candidates"][0]["content"]["parts"][0]["text"],
        "no"
    );
    assert!(upstream.seen().is_empty());
    let admin = served.line();
    assert!(admin.starts_with("admin on http://127.0.0.1:"), "{admin}");
    served.terminate();
    let (code, log) = ended(served, PATIENCE).await;
    assert_eq!(code, Some(0));
    assert!(
        log.contains("hook `guard` on BeforeModel fails open"),
        "{log}"
    );
}

#[tokio::test]
async fn a_stream_under_way_completes_when_the_gateway_is_asked_to_end() {
    let go_on = std::sync::Arc::new(Notify::new());
    let told = std::sync::Arc::clone(&go_on);
    let upstream = Upstream::raw(move |_, mut socket| {
        let told = std::sync::Arc::clone(&told);
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_chunk(&mut socket, b"data: 1\n\n").await.unwrap();
            told.notified().await;
            write_chunk(&mut socket, b"data: 2\n\n").await.unwrap();
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    let mut served = Served::start(serve(&base(&upstream), &[]));
    let addr = served.addr();
    let agent = Agent::at(addr);
    let mut answer = agent.open(SSE, prompt("hello").to_string()).await;
    assert_eq!(piece(&mut answer).await, "data: 1\n\n");

    served.terminate();
    eventually("no connection is accepted", PATIENCE, || {
        std::net::TcpStream::connect(addr).is_err()
    })
    .await;
    go_on.notify_one();
    let (text, end) = rest(&mut answer).await;

    assert_eq!((text.as_str(), end), ("data: 2\n\n", End::Clean));
    assert_eq!(ended(served, PATIENCE).await.0, Some(0));
}

#[tokio::test]
async fn what_hangs_is_cut_off_after_the_drain_time() {
    let (sign, mut signs) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |_, mut socket| {
        let sign = sign.clone();
        async move {
            closed(&mut socket).await;
            sign.send(()).unwrap();
        }
    })
    .await;
    let hangs = "hooks: { BeforeModel: [{ hooks: [{ command: \
         \"cat > /dev/null; grep -q SLOW && exit; sleep 600 & wait\" }] }] }";
    for (hooks, stuck) in [(hangs, 2), ("", 0)] {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"{}\" }} }}\ntimeouts: {{ drain: 200ms }}\n{hooks}",
            base(&upstream)
        );
        let (_folder, file) = folder("hookgate.yaml", &config);
        let mut command = hookgate(&["serve", "--config", &file]);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        let mut served = Served::start(command);
        let mut socket = TcpStream::connect(served.addr()).await.unwrap();
        let request = format!(
            "POST {GENERATE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mark = served.mark.clone();
        eventually("the call is under way", PATIENCE, || {
            processes(&mark).len() == 1 + stuck && (stuck > 0 || !upstream.seen().is_empty())
        })
        .await;

        served.terminate();
        let (code, log) = ended(served, PATIENCE).await;

        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("drain timeout exceeded"), "{log}");
        assert!(!log.contains("background tasks did not finish"), "{log}");
        assert_eq!(processes(&mark), [0; 0]);
    }
    signalled(&mut signs, "the end of the call to upstream").await;
}

#[tokio::test]
async fn no_key_is_ever_logged() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"{}\", api_key: {{ env: OWN }} }} }}\n\
         admin: {{ listen: 127.0.0.1:0, token: {{ env: TOKEN }} }}\n\
         log: {{ level: trace }}\n\
         hooks: {{ BeforeModel: [{{ hooks: [{{ command: cat > /dev/null, env: {{ K: HOOK-KEY }} }}] }}] }}",
        base(&upstream)
    );
    let (_folder, file) = folder("hookgate.yaml", &config);
    let mut command = hookgate(&["serve", "--config", &file, "--listen", "127.0.0.1:0"]);
    command.env("OWN", "OWN-KEY").env("TOKEN", "TOKEN-KEY");
    let mut served = Served::start(command);
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
    assert_eq!(upstream.seen()[0].header("x-goog-api-key"), "OWN-KEY");

    served.terminate();
    let (_, log) = ended(served, PATIENCE).await;
    assert!(log.contains("exchange finished"), "{log}");
    let leaks: Vec<&str> = log.lines().filter(|it| it.contains("-KEY")).collect();
    assert_eq!(leaks, [""; 0]);
}

#[test]
fn check_lists_every_mistake_with_its_place() {
    let config = "listen: nowhere
upstreams: { gemini: { url: ftp://x } }
denials: maybe
limits: { body: 12 parsecs }
hooks:
  BeforeModle: [{ hooks: [{ command: x }] }]
";
    let (folder, _) = folder("hookgate.yaml", config);

    let (code, stdout, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!((code, stdout.as_str()), (78, ""));
    let places: Vec<&str> = stderr
        .lines()
        .filter_map(|it| it.split_once(": "))
        .map(|it| it.0)
        .collect();
    let expected = ["1:9", "2:29", "3:10", "4:17", "6:3"];
    assert_eq!(
        places,
        expected.map(|it| format!("hookgate.yaml:{it}")),
        "{stderr}"
    );
    assert!(
        stderr.contains("BeforeModel"),
        "a guess at what was meant: {stderr}"
    );
    let (code, _, served) = run(&["serve", "--config", "hookgate.yaml"], folder.path());
    assert_eq!((code, served), (78, stderr));
}

#[test]
fn check_says_that_a_config_is_good() {
    let config = "upstreams: { gemini: { url: \"http://x\" } }\n\
         hooks: { BeforeModel: [{ hooks: [{ name: guard, command: x }] }],\n\
         BeforeTool: [{ hooks: [{ name: tools, command: x, on_failure: closed }] }] }\n\
         events: { derive: [AfterTool] }\n";
    let (folder, _) = folder("hookgate.yaml", config);

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
fn senseless_arguments_are_an_error_with_the_right_code() {
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
    for arguments in [
        &["serve", url, other, "--listen", &addr][..],
        &["mock", "--listen", &addr],
    ] {
        let (code, _, stderr) = run(arguments, folder.path());

        assert_eq!((code, stderr.lines().count()), (1, 1), "{stderr}");
        assert!(
            stderr.starts_with("hookgate: cannot listen on "),
            "{stderr}"
        );
        assert!(stderr.contains(&addr), "{stderr}");
    }
}

#[test]
fn the_documents_are_printed() {
    let folder = TempDir::new().unwrap();

    let (code, schema, _) = run(&["schema"], folder.path());
    assert_eq!(code, 0);
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["upstreams"].is_object());
    let (code, openapi, _) = run(&["openapi"], folder.path());
    assert_eq!(code, 0);
    assert!(openapi.starts_with("openapi: 3."), "{openapi}");
}

#[tokio::test]
async fn the_mock_answers_from_a_script() {
    let line = json!({ "method": "generateContent", "response": { "candidates": [{ "n": 1.0 }] } });
    let (folder, file) = folder("answers", &format!("{line}\n"));
    let mut command = hookgate(&["mock", "--listen", "127.0.0.1:0", "--responses", &file]);
    command.current_dir(folder.path());
    let mut served = Served::start(command);
    let agent = Agent::at(served.addr());

    let answer = agent.generate("m", &prompt("hello")).await;

    assert_eq!(answer.text(), line["response"].to_string());
    let seen = agent.get("/__requests").await.json();
    assert_eq!(seen[0]["body"], prompt("hello"));
    served.terminate();
    assert_eq!(ended(served, PATIENCE).await.0, Some(0));
}

/// Runs a line of the demo's greeting as a person would.
async fn pasted(line: &str, directory: &Path) -> Value {
    let mut bash = tokio::process::Command::new("bash");
    bash.args(["-c", line]).current_dir(directory);
    let output = bash.output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
}

/// Asks in the other APIs, at the address of a line for the Gemini API.
async fn each_api_is_masked(line: &str, directory: &Path) {
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
        let answer = pasted(&line, directory).await.to_string();
        assert!(answer.contains("You said: Write to [EMAIL]"), "{answer}");
    }
}

async fn the_console_shows_what_the_guards_did(address: &str) {
    let console = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let console = console.build().unwrap();
    let page = |path: &str| console.get(format!("{address}{path}")).send();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let denials = page("denials").await.unwrap().text().await.unwrap();
        if denials.contains("guard") && denials.contains("shell") {
            break;
        }
        assert!(Instant::now() < deadline, "{denials}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rules = page("rules").await.unwrap().text().await.unwrap();
    assert_eq!(rules.matches("</span> proven").count(), 3, "{rules}");
}

/// Calls of other APIs: five of the demo that nothing denies, and those of this test.
const NOT_OF_GEMINI: u64 = 5 + 3;

/// The steps of docs/changes.md with the demo.
async fn a_change_is_replayed_taken_into_use_and_taken_back(folder: &Path, admin: &str) {
    let mut config = fs::read_to_string(folder.join("demo.yaml")).unwrap();
    config.push_str("policies: [{ policy: model_allow, models: [\"gemini-*\"] }]\n");
    fs::write(folder.join("next.yaml"), &config).unwrap();
    let run = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::from(hookgate(arguments));
        let output = command.current_dir(folder).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    let replay = [
        "replay",
        "--config",
        "next.yaml",
        "--format",
        "json",
        "recordings/",
    ];
    let report = loop {
        // The writer of the recording may be a second behind.
        let report: Value = serde_json::from_str(&run(&replay).await).unwrap_or_default();
        if report["counts"]["newly_denied"] == NOT_OF_GEMINI {
            break report;
        }
        assert!(Instant::now() < deadline, "{report:#}");
    };
    assert_eq!(
        report["rules"]["model_allow"]["newly_denied"], NOT_OF_GEMINI,
        "{report:#}"
    );
    fs::write(folder.join("report.json"), report.to_string()).unwrap();

    fs::rename(folder.join("next.yaml"), folder.join("demo.yaml")).unwrap();
    let history = loop {
        let history = run(&["config", "history", "--url", admin]).await;
        if history.contains("previous") {
            break history;
        }
        assert!(Instant::now() < deadline, "{history}");
    };
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
async fn the_demo_prints_lines_that_work() {
    // If the port is taken, the demo finds another.
    let _taken = TcpListener::bind("127.0.0.1:8787");
    let folder = TempDir::new().unwrap();
    let mut command = hookgate(&["demo"]);
    command
        .env("TMPDIR", folder.path())
        .env("HOOKGATE_LOG", "warn");
    let mut served = Served::start(command);
    let greeting: Vec<String> = (0..12).map(|_| served.line()).collect();
    let lines: Vec<&String> = greeting
        .iter()
        .filter(|line| line.contains("http"))
        .filter(|line| !line.starts_with("hookgate is") && !line.starts_with("The console"))
        .collect();
    let [generate, cli, claude, event] = lines[..] else {
        panic!("four lines to paste: {greeting:#?}");
    };
    assert!(!generate.contains(":8787/"), "{generate}");
    assert!(cli.contains("gemini-cli"), "{cli}");
    assert!(claude.contains("claude-code"), "{claude}");

    let answer = pasted(generate, folder.path()).await;
    let text = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(text, "You said: Write to [EMAIL]");
    each_api_is_masked(generate, folder.path()).await;
    let output = pasted(event, folder.path()).await;
    assert_eq!(output["decision"], "deny");
    let console = greeting.iter().find(|line| line.starts_with("The console"));
    let address = console
        .unwrap()
        .split(' ')
        .find(|word| word.starts_with("http"));
    the_console_shows_what_the_guards_did(address.unwrap()).await;
    let folder_of_demo = greeting.iter().find_map(|line| {
        line.strip_prefix("Its config is ")?
            .split_once("/demo.yaml")
    });
    a_change_is_replayed_taken_into_use_and_taken_back(
        Path::new(folder_of_demo.unwrap().0),
        address.unwrap().trim_end_matches("/console/"),
    )
    .await;
    let mark = served.mark.clone();
    served.terminate();
    let (code, log) = ended(served, PATIENCE).await;

    assert_eq!(code, Some(0), "{log}");
    assert_eq!(processes(&mark), [0; 0]);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "it cleans up"
    );
}
