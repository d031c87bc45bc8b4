//! Gateways with the configs of `deploy/kubernetes`, on which the manifests there rely.
//! `deploy/check` tests the manifests themselves.

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
    Agent, End, PATIENCE, Served, Upstream, chunked_head, closed, eventually, exchange, piece,
    prompt, rest, run, write_chunk, write_last_chunk,
};

const CONFIGS: [&str; 3] = ["base", "overlays/replicas", "overlays/sidecar"];
const KEYS: &str = "/etc/hookgate-keys";
const AGENT_KEY: &str = "the-key-of-agents";
const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// A folder as the pod has it: a config of `deploy/kubernetes` and the files of the Secret.
struct Mounted {
    folder: TempDir,
}

impl Mounted {
    /// Mounts the config of a folder of `deploy/kubernetes`, with these changes of its text.
    fn new(config: &str, redis: &str, changes: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = format!("deploy/kubernetes/{config}/hookgate.yaml");
        let mut text = fs::read_to_string(path).unwrap();
        for (old, new) in changes {
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
        let mut served = Served::folder(self.path());
        Pod {
            agents: served.addr(),
            admin: served.operators(),
            served,
        }
    }
}

/// A gateway as in a pod.
struct Pod {
    served: Served,
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

    /// Whether the readiness probe succeeds.
    async fn is_ready(&self) -> bool {
        is_ready(self.admin).await
    }

    /// Whether a connection is accepted.
    fn accepts(&self) -> bool {
        std::net::TcpStream::connect(self.agents).is_ok()
    }

    /// Waits for its end.
    async fn ended(self) -> (Option<i32>, String) {
        let ended = spawn_blocking(move || self.served.ended(PATIENCE));
        let (status, log) = ended.await.unwrap();
        (status.code(), log)
    }
}

/// A readiness probe, which needs no token.
async fn is_ready(admin: SocketAddr) -> bool {
    let probe = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    exchange(admin, probe).await.starts_with("HTTP/1.1 200")
}

/// The changes that let the config of agents in here: their key, and the model API.
fn changes(upstream: &Upstream) -> [(&'static str, String); 2] {
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

/// The base, with these further changes.
fn base(upstream: &Upstream, more: &[(&str, &str)]) -> Mounted {
    let changes = changes(upstream);
    let changes: Vec<(&str, &str)> = changes
        .iter()
        .map(|(old, new)| (*old, new.as_str()))
        .collect();
    Mounted::new("base", "", &[changes.as_slice(), more].concat())
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
async fn nobody_has_the_key_of_the_config_as_it_is_shipped() {
    let upstream = Upstream::mock().await;
    let mounted = Mounted::new("base", "", &[]);
    let pod = mounted.start();

    for agent in [Agent::at(pod.agents), pod.agent()] {
        let refused = agent.generate("m", &prompt("hello")).await;
        assert_eq!(refused.status, 401, "{}", refused.text());
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn prometheus_reads_metrics_and_changes_nothing() {
    let upstream = Upstream::mock().await;
    let mounted = base(&upstream, &[]);
    let pod = mounted.start();
    let answer = pod.agent().generate("m", &prompt("hello")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        upstream.only().header("x-goog-api-key"),
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
async fn readiness_fails_first_then_the_port_closes_then_streams_have_their_time() {
    const LAME_DUCK: Duration = Duration::from_secs(1);
    let (go_on, wait) = watch::channel(false);
    let upstream = Upstream::raw(move |asked, mut socket| {
        let mut wait = wait.clone();
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_event(&mut socket, "first").await;
            if asked.body.contains("hang") {
                return closed(&mut socket).await;
            }
            if asked.body.contains("held") {
                wait.wait_for(|it| *it).await.ok();
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
            assert!(piece(&mut answer).await.contains("first"));
            answer
        }
    };
    let (mut held, mut hanging) = (open("held").await, open("hang").await);
    assert!(pod.is_ready().await);

    let started = Instant::now();
    pod.served.terminate();
    while pod.is_ready().await {
        assert!(started.elapsed() < PATIENCE, "it stays ready");
        sleep(Duration::from_millis(5)).await;
    }
    // Proxies on other nodes still send calls; each is the last of its connection.
    let late = pod.agent().post(SSE, prompt("whole").to_string()).await;
    assert_eq!((late.status, late.header("connection")), (200, "close"));
    eventually("the port closes", PATIENCE, || !pod.accepts()).await;
    assert!(started.elapsed() >= LAME_DUCK, "{:?}", started.elapsed());
    assert!(!pod.is_ready().await);
    go_on.send(true).unwrap();

    let (text, end) = rest(&mut held).await;
    assert!(text.contains("last"), "{text}");
    assert_eq!(end, End::Clean);
    assert_eq!(rest(&mut hanging).await.1, End::Broken);
    let (code, log) = pod.ended().await;
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
