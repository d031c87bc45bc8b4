//! Container files: the image, its health check and the services of `docker/compose.yaml`;
//! and the systemd unit.

use std::{collections::BTreeSet, fs, net::SocketAddr, process::Stdio};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::harness::{Agent, prompt};

/// A service of `docker/compose.yaml`, run by the binary under test.
struct Service {
    _process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    /// Starts it with the arguments of the compose file, but on free ports, with the
    /// repository's config, and with the address `mock` instead of the host `mock`.
    fn start(name: &str, mock: &str) -> Self {
        let compose: Value =
            serde_saphyr::from_str(&fs::read_to_string("docker/compose.yaml").unwrap()).unwrap();
        let arguments = compose["services"][name]["command"].as_array().unwrap();
        let arguments = arguments.iter().map(|argument| {
            let text = argument.as_str().unwrap();
            let text = text.replace("http://mock:9090", mock);
            let text = text.replace("/etc/hookgate/", "config/");
            let text = text.replace("127.0.0.1:8788", "0.0.0.0:8788");
            match text.split_once("0.0.0.0:") {
                Some((option, _port)) => format!("{option}127.0.0.1:0"),
                None => text,
            }
        });
        let mut process = Command::new(env!("CARGO_BIN_EXE_hookgate"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        Self {
            _process: process,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// Returns the next address that it prints.
    async fn addr(&mut self) -> SocketAddr {
        let line = self.lines.next_line().await.unwrap().expect("it started");
        let (_, addr) = line.split_once("http://").unwrap();
        addr.parse().unwrap()
    }
}

#[tokio::test]
async fn compose_starts_a_gateway_with_hooks_in_front_of_a_mock() {
    let mut mock = Service::start("mock", "");
    let mock_base = format!("http://{}", mock.addr().await);
    let mut gateway = Service::start("gateway", &mock_base);
    let agent = Agent::at(gateway.addr().await);

    let answer = agent
        .generate("m", &prompt("Write to ann@example.com"))
        .await;
    let seen = Agent::at(mock_base["http://".len()..].parse().unwrap());
    let seen = seen.get("/__requests").await;

    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("[EMAIL]"), "{}", answer.text());
    assert!(seen.text().contains("ann@example.com"), "{}", seen.text());
}

#[test]
fn the_build_of_the_image_has_every_package_of_the_workspace() {
    let ignored = fs::read_to_string(".dockerignore").unwrap();
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    let paths = manifest
        .lines()
        .filter_map(|line| line.split_once("path = \""));
    let folders: BTreeSet<&str> = paths
        .map(|(_, path)| path.split(['/', '"']).next().unwrap())
        .collect();

    assert!(folders.contains("crates"), "{folders:?}");
    for folder in folders {
        let included = format!("!{folder}");
        assert!(ignored.lines().any(|line| line == included), "{folder}");
    }
}

#[test]
fn the_systemd_unit_leaves_the_end_of_hooks_to_the_gateway() {
    let unit = fs::read_to_string("config/systemd/hookgate.service").unwrap();
    for line in ["KillMode=mixed", "OOMPolicy=continue"] {
        assert!(unit.lines().any(|setting| setting == line), "{line}");
    }
}

#[tokio::test]
async fn the_health_check_accepts_a_gateway_and_no_other_server() {
    let mut mock = Service::start("mock", "");
    let mock_addr = mock.addr().await;
    let mut gateway = Service::start("gateway", &format!("http://{mock_addr}"));
    let _agents = gateway.addr().await;
    let operators = gateway.addr().await;

    assert!(is_healthy(operators.port()).await);
    assert!(!is_healthy(mock_addr.port()).await);
    drop(gateway);
}

async fn is_healthy(port: u16) -> bool {
    let mut check = Command::new("docker/healthcheck.sh");
    let status = check.arg(port.to_string()).stderr(Stdio::null()).status();
    status.await.unwrap().success()
}

#[test]
fn the_image_exposes_the_ports_of_its_config_and_of_compose() {
    let read = |file: &str| fs::read_to_string(file).unwrap();
    let config: Value = serde_saphyr::from_str(&read("docker/hookgate.yaml")).unwrap();
    let compose: Value = serde_saphyr::from_str(&read("docker/compose.yaml")).unwrap();
    let ports = [&config["listen"], &config["admin"]["listen"]];
    let ports = ports.map(|address| address.as_str().unwrap().strip_prefix("0.0.0.0:").unwrap());
    let [agents, operators] = ports;

    let exposed = format!("EXPOSE {agents} {operators}\n");
    assert!(read("docker/Dockerfile").contains(&exposed), "{exposed}");
    assert!(read("docker/healthcheck.sh").contains(&format!(":-{operators}}}")));
    let mock = &compose["services"]["mock"]["command"][1];
    assert_eq!(mock, "--listen=0.0.0.0:9090", "the gateway's upstream");
    let published = compose["services"]["gateway"]["ports"][0].as_str();
    let expected = format!("127.0.0.1:{agents}:{agents}");
    assert_eq!(published, Some(expected.as_str()));
}
