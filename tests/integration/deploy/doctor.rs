//! `hookgate doctor`: the laptop kit, and routes that bypass the gateway. `deploy/check` runs
//! it in network namespaces.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

use agent_routes::{Machine, Report, Verdict};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    harness::{TestGateway, Upstream, hookgate, run},
    tls,
};

/// Runs the command with a home and these variables as its only environment. Returns its exit
/// code, stdout and stderr.
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

/// Installs the laptop kit below a root, with more options.
fn install<const N: usize>(root: &Path, options: [&str; N]) -> Output {
    Command::new("config/agents/laptop/install")
        .args(["--url", "https://hookgate.example:8787", "--root"])
        .arg(root)
        .args(options)
        .output()
        .unwrap()
}

/// A URL at which nothing listens.
fn unreachable_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_laptop_kit_leaves_no_route_that_bypasses_the_gateway() {
    let root = TempDir::new().unwrap();
    for login in ["api-key", "vertex", "code-assist"] {
        let installed = install(root.path(), ["--login", login]);
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

        let bypasses: Vec<_> = report
            .ways
            .iter()
            .filter(|way| way.verdict == Verdict::Out)
            .collect();
        assert!(bypasses.is_empty(), "{login}: {bypasses:#?}");
        assert_eq!(report.absent, ["LLxprt Code"], "{login}");
        let routed = report
            .ways
            .iter()
            .filter(|way| way.verdict == Verdict::Gateway);
        assert!(routed.count() >= 9, "{login}: {:#?}", report.ways);
    }
}

#[test]
fn the_laptop_kit_replaces_settings_of_others_only_if_asked() {
    let root = TempDir::new().unwrap();
    let settings = root.path().join("etc/claude-code/managed-settings.json");
    let own = r#"{"permissions":{"deny":["Bash(rm *)"]}}"#;
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, own).unwrap();
    let read = || fs::read_to_string(&settings).unwrap();

    let refused = install(root.path(), []);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(read(), own);
    let others = ["etc/gemini-cli", "etc/opencode"].map(|folder| root.path().join(folder));
    assert!(others.iter().all(|folder| !folder.exists()), "{refused:?}");
    let replaced = install(root.path(), ["--replace"]);
    assert!(replaced.status.success(), "{replaced:?}");
    let written = read();
    assert!(written.contains("hookgate.example"), "{written}");
    let copy = settings.with_file_name("managed-settings.json.before-hookgate");
    assert_eq!(fs::read_to_string(copy).unwrap(), own);
    assert!(install(root.path(), []).status.success());

    let merged = written.replacen('{', r#"{ "permissions": {},"#, 1);
    fs::write(&settings, &merged).unwrap();
    let kept = install(root.path(), []);
    assert!(kept.status.success(), "{kept:?}");
    assert_eq!(read(), merged);

    // These settings have no address.
    let gemini = root.path().join("etc/gemini-cli/settings.json");
    let merged = fs::read_to_string(&gemini).unwrap();
    let merged = merged.replacen('{', r#"{ "tools": {},"#, 1);
    fs::write(&gemini, &merged).unwrap();
    let kept = install(root.path(), []);
    assert!(kept.status.success(), "{kept:?}");
    assert_eq!(fs::read_to_string(&gemini).unwrap(), merged);
}

#[test]
fn links_do_not_lead_the_laptop_kit_out_of_its_root() {
    let root = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    let ca = outside.path().join("ca.pem");
    fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let option = ["--ca", ca.to_str().unwrap()];
    let authorities = root.path().join("etc/pki/tls/certs");
    fs::create_dir_all(&authorities).unwrap();
    fs::write(root.path().join("etc/pki/system.pem"), "the root's\n").unwrap();
    symlink("/etc/pki/system.pem", authorities.join("ca-bundle.crt")).unwrap();

    let installed = install(root.path(), option);
    assert!(installed.status.success(), "{installed:?}");
    let bundle = fs::read_to_string(root.path().join("etc/hookgate/ca-bundle.pem")).unwrap();
    assert!(bundle.starts_with("the root's\n"), "{bundle}");

    let folder = outside.path().join("ssl");
    fs::create_dir_all(folder.join("certs")).unwrap();
    fs::write(folder.join("certs/ca-certificates.crt"), "the host's\n").unwrap();
    symlink(&folder, root.path().join("etc/ssl")).unwrap();
    assert_eq!(install(root.path(), option).status.code(), Some(2));

    fs::remove_file(root.path().join("etc/ssl")).unwrap();
    fs::remove_dir_all(root.path().join("etc/profile.d")).unwrap();
    symlink(outside.path(), root.path().join("etc/profile.d")).unwrap();
    assert_eq!(install(root.path(), option).status.code(), Some(2));
    assert!(!outside.path().join("hookgate.sh").exists());
}

#[tokio::test]
async fn agents_configured_for_the_gateway_pass() {
    let gateway = TestGateway::start(&Upstream::mock().await, "").await;
    let home = TempDir::new().unwrap();
    let url = format!("http://{}", gateway.agents);
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

#[tokio::test]
async fn another_http_server_is_not_the_gateway() {
    let other = Upstream::mock().await;
    let home = TempDir::new().unwrap();
    let url = format!("http://{}", other.addr);
    let ran = tokio::task::spawn_blocking(move || doctor(home.path(), &[], &["--url", &url]));
    let (code, stdout, stderr) = ran.await.unwrap();

    assert_eq!(
        (code, stderr.as_str()),
        (1, "hookgate: the gateway does not answer\n")
    );
    let because = "the answer is not that of hookgate: it has no `x-hookgate-request-id`";
    assert!(stdout.contains(because), "{stdout}");
}

#[tokio::test]
async fn the_port_of_the_admin_api_is_not_that_of_agents() {
    let upstream = Upstream::mock().await;
    for console in [true, false] {
        let config = format!("admin: {{ listen: 127.0.0.1:0, console: {console} }}");
        let gate = TestGateway::start(&upstream, &config).await;
        let home = TempDir::new().unwrap();
        let url = format!("http://{}", gate.operators);
        let ran = tokio::task::spawn_blocking(move || doctor(home.path(), &[], &["--url", &url]));
        let (code, stdout, _) = ran.await.unwrap();

        assert_eq!(code, 1, "{stdout}");
        let because = "the port is that of the admin API, not that of agents";
        assert!(stdout.contains(because), "console: {console}: {stdout}");
    }
}

#[tokio::test]
async fn the_certificate_of_an_authority_is_named_as_the_cause() {
    let (certificate, key) = tls::self_signed_authority();
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("ca.pem"), &certificate).unwrap();
    let files = [("server.pem", certificate.as_str()), ("server.key", &key)];
    let gate = TestGateway::with_files(&Upstream::mock().await, tls::TLS, &files).await;
    let url = format!("https://{}", gate.agents);
    let ran = tokio::task::spawn_blocking(move || {
        let trusted = home.path().join("ca.pem");
        let variables = [("NODE_EXTRA_CA_CERTS", trusted.to_str().unwrap())];
        doctor(home.path(), &variables, &["--url", &url])
    });
    let (code, stdout, _) = ran.await.unwrap();

    assert_eq!(code, 1, "{stdout}");
    let because = "the certificate is that of an authority: issue one for the server";
    assert!(stdout.contains(because), "{stdout}");
}

#[test]
fn a_bypass_is_reported_with_its_setting_and_fails() {
    let home = TempDir::new().unwrap();
    let variables = [
        ("ANTHROPIC_BASE_URL", "http://user:pass@198.51.100.7:9"),
        ("ANTHROPIC_API_KEY", "sk-ant-1"),
    ];
    let (code, stdout, stderr) = doctor(home.path(), &variables, &["--url", &unreachable_url()]);

    assert_eq!(code, 1, "{stdout}");
    assert_eq!(stderr, "hookgate: 1 way past the gateway\n");
    let line = "WAY OUT        Anthropic SDKs, Anthropic API: 198.51.100.7:9, \
         ANTHROPIC_BASE_URL in the environment; credential: ANTHROPIC_API_KEY in the environment";
    assert!(stdout.contains(line), "{stdout}");
    assert!(
        !stdout.contains("pass") || !stdout.contains("user:"),
        "{stdout}"
    );
    assert!(!stdout.contains("sk-ant-1"), "{stdout}");
}

#[test]
fn a_gateway_that_does_not_answer_is_a_failure() {
    let home = TempDir::new().unwrap();
    let (code, stdout, stderr) = doctor(home.path(), &[], &["--url", &unreachable_url()]);

    assert_eq!(
        (code, stderr.as_str()),
        (1, "hookgate: the gateway does not answer\n")
    );
    assert!(stdout.contains("onnection refused"), "{stdout}");
}

#[test]
fn a_project_that_is_a_file_is_refused() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("file"), "").unwrap();

    let (code, stdout, stderr) = doctor(home.path(), &[], &["--project", "file"]);

    let expected = "hookgate: `file`: it is not a directory\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (1, "", expected));
}

#[test]
fn settings_that_cannot_be_read_are_a_failure() {
    let gateway = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gateway.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = gateway.accept().unwrap();
        stream
            .write_all(
                b"HTTP/1.1 404 Not Found\r\nx-hookgate-request-id: a\r\ncontent-length: 0\r\n\r\n",
            )
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

#[tokio::test]
async fn only_settings_that_claude_code_reads_lead_to_the_gateway() {
    let gateway = TestGateway::start(&Upstream::mock().await, "").await;
    let url = format!("http://{}", gateway.agents);
    let settings = json!({ "env": { "ANTHROPIC_BASE_URL": url } }).to_string();
    for (text, expected) in [
        (format!("\u{feff}{settings}"), 0),
        (settings.replace("}}", "},}"), 1),
    ] {
        let (home, url) = (TempDir::new().unwrap(), url.clone());
        fs::create_dir(home.path().join(".claude")).unwrap();
        fs::write(home.path().join(".claude/settings.json"), &text).unwrap();

        let ran = tokio::task::spawn_blocking(move || doctor(home.path(), &[], &["--url", &url]));
        let (code, stdout, _) = ran.await.unwrap();

        assert_eq!(code, expected, "{text}: {stdout}");
        let is_refused = stdout.contains(".claude/settings.json: not valid JSON at line 1");
        assert_eq!(is_refused, expected == 1, "{text}: {stdout}");
    }
}

#[tokio::test]
async fn a_base_url_with_the_version_that_its_agent_appends_is_a_failure() {
    let gateway = TestGateway::start(&Upstream::mock().await, "").await;
    let url = format!("http://{}", gateway.agents);
    let home = TempDir::new().unwrap();
    let ran = tokio::task::spawn_blocking(move || {
        let [anthropic, google] = [format!("{url}/v1/"), format!("{url}/s/a/v1beta")];
        let variables = [
            ("ANTHROPIC_BASE_URL", anthropic.as_str()),
            ("GOOGLE_GEMINI_BASE_URL", &google),
            ("OPENAI_BASE_URL", &anthropic),
        ];
        doctor(home.path(), &variables, &["--url", &url])
    });
    let (code, stdout, stderr) = ran.await.unwrap();

    assert_eq!(code, 1, "{stdout}");
    assert_eq!(
        stderr,
        "hookgate: the base URL of some agents ends in a version that they append\n"
    );
    let lines = stdout.lines();
    let broken: Vec<&str> = lines.filter(|line| line.starts_with("broken")).collect();
    let [google, anthropic] = broken.as_slice() else {
        panic!("{stdout}");
    };
    let google_end = "GOOGLE_GEMINI_BASE_URL in the environment, which must not end in `/v1beta`";
    assert!(google.ends_with(google_end), "{google}");
    let anthropic_end = "ANTHROPIC_BASE_URL in the environment, which must not end in `/v1`";
    assert!(anthropic.ends_with(anthropic_end), "{anthropic}");
}

#[test]
fn reachable_hosts_are_bypasses_and_closed_ones_are_not() {
    let home = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap().to_string();
    let closed_url = unreachable_url();
    let closed = closed_url.trim_start_matches("http://");
    let hosts = ["--host", &open, "--host", closed];
    let arguments = [["--url", "http://127.0.0.1:1", "--bypass", "--json"], hosts].concat();
    let (code, stdout, _) = doctor(home.path(), &[], &arguments);

    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let reached = |address: &str| {
        let mut hosts = report["hosts"].as_array().unwrap().iter();
        hosts.find(|host| host["address"] == address).unwrap()["reached"].clone()
    };
    assert_eq!(reached(&open), "directly");
    assert_eq!(reached(closed), "closed");
    assert!(report["ways_out"].as_u64().unwrap() >= 1, "{stdout}");
}

#[test]
fn a_way_to_an_unknown_address_is_a_failure_with_and_without_bypass() {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join(".codex")).unwrap();
    let config = "model_provider = \"mistral\"\n";
    fs::write(home.path().join(".codex/config.toml"), config).unwrap();
    for (bypass, verdict) in [
        (&[][..], "WAY OUT        Codex"),
        (&["--bypass"], "not tried      Codex"),
    ] {
        let url = unreachable_url();
        let arguments = [&["--url", &url], bypass].concat();
        let (code, stdout, _) = doctor(home.path(), &[], &arguments);

        assert_eq!(code, 1, "{stdout}");
        assert_eq!(stdout.matches(verdict).count(), 2, "{stdout}");
        assert!(
            !stdout.contains("no way past the gateway was found"),
            "{stdout}"
        );
    }
}

#[test]
fn names_in_settings_cannot_inject_terminal_escapes() {
    let home = TempDir::new().unwrap();
    fs::create_dir_all(home.path().join(".config/opencode")).unwrap();
    let provider =
        r#"{"provider": {"a\u001b[2Jb\r\nc": {"options": {"baseURL": "http://198.51.100.7"}}}}"#;
    fs::write(home.path().join("opencode.json"), provider).unwrap();
    let (code, stdout, _) = doctor(home.path(), &[], &["--url", &unreachable_url()]);

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

    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("`--url <URL>` must be an http or https URL"),
        "{stderr}"
    );
}
