//! `hookgate doctor`: the laptop kit, and ways past a gateway. `deploy/check` tries it in
//! network namespaces.

use std::{collections::BTreeMap, fs, net::TcpListener, path::Path, process::Command};

use agent_routes::{Machine, Report, Verdict};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Upstream, hookgate, run};

/// Runs the command with nothing in its environment but a home, these variables and what the
/// harness needs. Returns its exit code, output and errors.
fn doctor(home: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let mut command = hookgate(&[&["doctor"], arguments].concat());
    command
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// An address at which nothing listens.
fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_laptop_kit_leaves_no_way_past_the_gateway() {
    let root = TempDir::new().unwrap();
    for login in ["api-key", "vertex", "code-assist"] {
        let installed = Command::new("config/agents/laptop/install")
            .args([
                "--url",
                "https://hookgate.example:8787",
                "--login",
                login,
                "--root",
            ])
            .arg(root.path())
            .output()
            .unwrap();
        assert!(installed.status.success(), "{installed:?}");
        let exports = fs::read_to_string(root.path().join("etc/profile.d/hookgate.sh")).unwrap();
        let exports = exports
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        let mut environment: BTreeMap<String, String> = exports
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let programs = root.path().join("bin");
        fs::create_dir_all(&programs).unwrap();
        for program in ["gemini", "claude", "codex", "opencode", "aider"] {
            fs::write(programs.join(program), "").unwrap();
        }
        environment.insert("PATH".to_owned(), "/bin".to_owned());
        let machine = Machine {
            root: root.path().to_owned(),
            home: root.path().join("home"),
            project: root.path().join("home/project"),
            environment,
        };

        let report = Report::read(&machine, "hookgate.example:8787".parse().unwrap());

        let out: Vec<_> = report
            .ways
            .iter()
            .filter(|way| way.verdict == Verdict::Out)
            .collect();
        assert!(out.is_empty(), "{login}: {out:#?}");
        assert_eq!(report.absent, ["LLxprt Code"], "{login}");
        let through = report
            .ways
            .iter()
            .filter(|way| way.verdict == Verdict::Gateway);
        assert!(through.count() >= 9, "{login}: {:#?}", report.ways);
    }
}

#[tokio::test]
async fn agents_that_are_pointed_here_are_fine() {
    let gateway = Upstream::mock().await;
    let home = TempDir::new().unwrap();
    let url = format!("http://{}", gateway.addr);
    let base = format!("{url}/v1");
    let (code, stdout, stderr) = tokio::task::spawn_blocking(move || {
        let variables = [
            ("OPENAI_BASE_URL", base.as_str()),
            ("OPENAI_API_KEY", "sk-secret"),
        ];
        doctor(home.path(), &variables, &["--url", &url])
    })
    .await
    .unwrap();

    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("OpenAI SDKs, OpenAI API"), "{stdout}");
    assert!(
        stdout.contains("no way past the gateway was found"),
        "{stdout}"
    );
    assert!(!stdout.contains("sk-secret"), "{stdout}");
}

#[test]
fn a_way_out_is_named_with_its_setting_and_fails() {
    let home = TempDir::new().unwrap();
    let variables = [
        ("ANTHROPIC_BASE_URL", "http://user:pass@198.51.100.7:9"),
        ("ANTHROPIC_API_KEY", "sk-ant-1"),
    ];
    let (code, stdout, stderr) = doctor(home.path(), &variables, &["--url", &closed()]);

    assert_eq!(code, 1, "{stdout}");
    assert_eq!(stderr, "hookgate: 1 way past the gateway\n");
    let way = "WAY OUT        Anthropic SDKs, Anthropic API: 198.51.100.7:9, ANTHROPIC_BASE_URL in the environment; credential: ANTHROPIC_API_KEY in the environment";
    assert!(stdout.contains(way), "{stdout}");
    assert!(
        !stdout.contains("pass") || !stdout.contains("user:"),
        "{stdout}"
    );
    assert!(!stdout.contains("sk-ant-1"), "{stdout}");
}

#[test]
fn a_gateway_that_does_not_answer_is_a_failure() {
    let home = TempDir::new().unwrap();
    let (code, stdout, stderr) = doctor(home.path(), &[], &["--url", &closed()]);

    assert_eq!(
        (code, stderr.as_str()),
        (1, "hookgate: the gateway does not answer\n")
    );
    assert!(stdout.contains("onnection refused"), "{stdout}");
}

#[test]
fn settings_that_cannot_be_read_are_a_failure() {
    let gateway = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gateway.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = gateway.accept().unwrap();
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
    });
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join(".codex")).unwrap();
    fs::write(
        home.path().join(".codex/config.toml"),
        "model = \"m\"\nmodel_provider = ",
    )
    .unwrap();
    let base = format!("{url}/v1");
    let (code, stdout, _) = doctor(home.path(), &[("OPENAI_BASE_URL", &base)], &["--url", &url]);

    assert_eq!(code, 1);
    assert!(
        stdout.contains(".codex/config.toml: not valid TOML at line 2, column 18"),
        "{stdout}"
    );
}

#[test]
fn open_hosts_are_ways_out_and_closed_ones_are_not() {
    let home = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap().to_string();
    let closed_url = closed();
    let closed = closed_url.trim_start_matches("http://");
    let hosts = ["--host", &open, "--host", closed];
    let arguments = [["--url", "http://127.0.0.1:1", "--bypass", "--json"], hosts].concat();
    let (code, stdout, _) = doctor(home.path(), &[], &arguments);

    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let reached = |address: &str| {
        let mut hosts = report["hosts"].as_array().unwrap().iter();
        hosts.find(|it| it["address"] == address).unwrap()["reached"].clone()
    };
    assert_eq!(reached(&open), "directly");
    assert_eq!(reached(closed), "closed");
    assert!(report["ways_out"].as_u64().unwrap() >= 1, "{stdout}");
}

#[test]
fn names_in_settings_do_not_control_the_terminal() {
    let home = TempDir::new().unwrap();
    fs::create_dir_all(home.path().join(".config/opencode")).unwrap();
    let provider =
        r#"{"provider": {"a\u001b[2Jb\r\nc": {"options": {"baseURL": "http://198.51.100.7"}}}}"#;
    fs::write(home.path().join("opencode.json"), provider).unwrap();
    let (code, stdout, _) = doctor(home.path(), &[], &["--url", &closed()]);

    assert_eq!(code, 1);
    assert!(
        stdout.contains(r"provider a\u{1b}[2Jb\r\nc: 198.51.100.7:80"),
        "{stdout}"
    );
    assert!(!stdout.contains(['\u{1b}', '\r']), "{stdout}");
}

#[test]
fn a_url_without_a_host_is_refused() {
    let home = TempDir::new().unwrap();
    let (code, _, stderr) = run(&["doctor", "--url", "unix:/run/hookgate"], home.path());

    assert_eq!(
        (code, stderr.as_str()),
        (1, "hookgate: --url has no host\n")
    );
}
