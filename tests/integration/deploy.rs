//! Gateways with the configs of `deploy/kubernetes`. `deploy/check` tests the manifests.

mod doctor;
mod rolling_restart;

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::harness::{
    Agent, End, ServerProcess, TEST_TIMEOUT, Upstream, chunked_head, eventually, next_chunk,
    prompt, read_to_end, run, send_and_read, wait_until_closed, write_chunk, write_last_chunk,
};

const CONFIGS: [&str; 3] = ["base", "overlays/replicas", "overlays/sidecar"];
const KEYS: &str = "/etc/hookgate-keys";
const AGENT_KEY: &str = "the-key-of-agents";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// The mounted folder of a pod: a config of `deploy/kubernetes` and the files of the Secret.
struct Mounted {
    folder: TempDir,
}

impl Mounted {
    /// Creates the folder from a config of `deploy/kubernetes`, with these text replacements.
    fn new(config: &str, redis: &str, replacements: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = format!("deploy/kubernetes/{config}/hookgate.yaml");
        let mut text = fs::read_to_string(path).unwrap();
        for (old, new) in replacements {
            assert!(text.contains(old), "{config} has no {old}");
            text = text.replace(old, new);
        }
        let keys = folder.path().join("keys");
        text = text.replace(KEYS, keys.to_str().unwrap());
        fs::write(folder.path().join("hookgate.yaml"), text).unwrap();
        fs::create_dir(&keys).unwrap();
        let files = [
            ("admin-token", "the-admin-token"),
            ("metrics-token", "the-metrics-token"),
            ("gemini", "the-key-of-gemini"),
            ("redis-url", redis),
        ];
        for (name, value) in files {
            fs::write(keys.join(name), value).unwrap();
        }
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn start(&self) -> Pod {
        let mut served = ServerProcess::folder(self.path());
        Pod {
            agents: served.addr(),
            admin: served.operators(),
            served,
        }
    }
}

/// A gateway that runs as in a pod.
struct Pod {
    served: ServerProcess,
    agents: SocketAddr,
    admin: SocketAddr,
}

impl Pod {
    fn agent(&self) -> Agent {
        Agent::at(self.agents).sending("x-goog-api-key", AGENT_KEY)
    }

    fn operator(&self, token: &str) -> Agent {
        Agent::at(self.admin).sending("authorization", format!("Bearer {token}"))
    }

    /// Returns whether the readiness probe succeeds.
    async fn is_ready(&self) -> bool {
        is_ready(self.admin).await
    }

    /// Returns whether a connection is accepted.
    fn accepts(&self) -> bool {
        std::net::TcpStream::connect(self.agents).is_ok()
    }

    /// Waits until the process ends. Returns its exit code and its log.
    async fn wait(self) -> (Option<i32>, String) {
        let ended = spawn_blocking(move || self.served.ended(TEST_TIMEOUT));
        let (status, log) = ended.await.unwrap();
        (status.code(), log)
    }
}

/// A readiness probe, which needs no token.
async fn is_ready(admin: SocketAddr) -> bool {
    let probe = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    send_and_read(admin, probe)
        .await
        .starts_with("HTTP/1.1 200")
}

/// Replacements for placeholders of the config: the hash of the agent key, and the URL of
/// the model API.
fn replacements(upstream: &Upstream) -> [(&'static str, String); 2] {
    let unknown = "0000000000000000000000000000000000000000000000000000000000000000";
    let hash = HEXLOWER.encode(&Sha256::digest(AGENT_KEY));
    [
        (unknown, hash),
        (
            "https://generativelanguage.googleapis.com",
            format!("http://{}", upstream.addr),
        ),
    ]
}

/// The base config, with further replacements.
fn base(upstream: &Upstream, more: &[(&str, &str)]) -> Mounted {
    let replacements = replacements(upstream);
    let replacements: Vec<(&str, &str)> = replacements
        .iter()
        .map(|(old, new)| (*old, new.as_str()))
        .collect();
    Mounted::new("base", "", &[replacements.as_slice(), more].concat())
}

#[test]
fn every_config_is_accepted_and_none_without_its_keys() {
    for config in CONFIGS {
        let mounted = Mounted::new(config, "redis://127.0.0.1:6379", &[]);
        let (code, out, err) = run(&["check", "hookgate.yaml"], mounted.path());
        assert_eq!(code, 0, "{config}: {out}{err}");

        fs::remove_file(mounted.path().join("keys/gemini")).unwrap();
        let (code, out, err) = run(&["check", "hookgate.yaml"], mounted.path());
        assert_eq!(code, 78, "{config}: {out}{err}");
    }
}

#[tokio::test]
async fn the_shipped_config_accepts_no_key() {
    let upstream = Upstream::mock().await;
    let mounted = Mounted::new("base", "", &[]);
    let pod = mounted.start();

    for agent in [Agent::at(pod.agents), pod.agent()] {
        let refused = agent.generate("m", &prompt("hello")).await;
        assert_eq!(refused.status, 401, "{}", refused.text());
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn the_metrics_token_reads_metrics_and_cannot_reload() {
    let upstream = Upstream::mock().await;
    let mounted = base(&upstream, &[]);
    let pod = mounted.start();
    let answer = pod.agent().generate("m", &prompt("hello")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        upstream.only_request().header("x-goog-api-key"),
        "the-key-of-gemini"
    );
    let prometheus = pod.operator("the-metrics-token");

    let metrics = prometheus.get("/metrics").await;
    let reload = prometheus.post("/reload", "").await;
    let without = Agent::at(pod.admin).get("/metrics").await;

    assert_eq!(
        (metrics.status, reload.status, without.status),
        (200, 403, 401)
    );
    assert!(metrics.text().contains("hookgate_requests_total"));
    assert_eq!(
        pod.operator("the-admin-token")
            .post("/reload", "")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn graceful_shutdown_fails_readiness_then_closes_the_port_then_drains() {
    const LAME_DUCK: Duration = Duration::from_secs(1);
    let (release, released) = watch::channel(false);
    let upstream = Upstream::raw(move |request, mut socket| {
        let mut released = released.clone();
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_event(&mut socket, "first").await;
            if request.body.contains("hang") {
                return wait_until_closed(&mut socket).await;
            }
            if request.body.contains("held") {
                released.wait_for(|is_released| *is_released).await.ok();
            }
            write_event(&mut socket, "last").await;
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    let short = [
        ("lame_duck: 10s", "lame_duck: 1s"),
        ("drain: 240s", "drain: 2s"),
    ];
    let mounted = base(&upstream, &short);
    let pod = mounted.start();
    let open = |text: &'static str| {
        let agent = pod.agent();
        async move {
            let mut answer = agent.open(SSE, prompt(text).to_string()).await;
            assert!(next_chunk(&mut answer).await.contains("first"));
            answer
        }
    };
    let (mut held, mut hanging) = (open("held").await, open("hang").await);
    assert!(pod.is_ready().await);

    let started = Instant::now();
    pod.served.terminate();
    while pod.is_ready().await {
        assert!(started.elapsed() < TEST_TIMEOUT, "the gateway stays ready");
        sleep(Duration::from_millis(5)).await;
    }
    // Proxies on other nodes still send calls. Each response closes its connection.
    let late = pod.agent().post(SSE, prompt("whole").to_string()).await;
    assert_eq!((late.status, late.header("connection")), (200, "close"));
    eventually("the port closes", TEST_TIMEOUT, || !pod.accepts()).await;
    assert!(started.elapsed() >= LAME_DUCK, "{:?}", started.elapsed());
    assert!(!pod.is_ready().await);
    release.send(true).unwrap();

    let (text, end) = read_to_end(&mut held).await;
    assert!(text.contains("last"), "{text}");
    assert_eq!(end, End::Clean);
    assert_eq!(read_to_end(&mut hanging).await.1, End::Broken);
    let (code, log) = pod.wait().await;
    assert_eq!(code, Some(0), "{log}");
}

async fn write_event(socket: &mut TcpStream, text: &str) {
    let event = serde_json::json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }],
    });
    write_chunk(socket, format!("data: {event}\r\n\r\n").as_bytes())
        .await
        .unwrap();
}
