//! Three gateways are replaced one after the other while agents work.

use std::{
    mem,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};

use super::{AGENT_KEY, Mounted, Pod, changes, is_ready};
use crate::harness::{
    Agent, Asked, Coder, PATIENCE, Redis, Upstream, write_chunk, write_last_chunk,
};

const REPLICAS: usize = 3;
const AGENTS: usize = 4;
/// Pause between two readiness probes.
const PROBE: Duration = Duration::from_millis(20);
/// The added rules: a prompt is denied by a policy, a tool call by a hook.
const RULES: &str = r#"hooks:
  BeforeTool:
    - matcher: run_shell_command
      hooks: [{ name: no-shell, command: "echo not here >&2; exit 2", on_failure: closed }]
policies:
  - { policy: prompt_guard, deny: [aurora], reason: "not outside the company" }
"#;

/// The head of an answer; each is the only one of its connection.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    connection: close\r\ntransfer-encoding: chunked\r\n\r\n";

/// What a Service does: new connections go to gateways whose readiness probe succeeds.
struct Balancer {
    addr: SocketAddr,
    pods: Arc<Mutex<Vec<Endpoint>>>,
    accepting: JoinHandle<()>,
}

struct Endpoint {
    agents: SocketAddr,
    ready: Arc<AtomicBool>,
    probing: JoinHandle<()>,
}

impl Balancer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let pods: Arc<Mutex<Vec<Endpoint>>> = Arc::default();
        let endpoints = Arc::clone(&pods);
        let accepting = tokio::spawn(async move {
            for turn in 0.. {
                let (mut agent, _) = listener.accept().await.unwrap();
                let target = ready(&endpoints.lock().unwrap(), turn);
                tokio::spawn(async move {
                    let mut gateway = TcpStream::connect(target).await.unwrap();
                    // An error is an agent or a gateway that has closed its connection.
                    copy_bidirectional(&mut agent, &mut gateway).await.ok();
                });
            }
        });
        Self {
            addr,
            pods,
            accepting,
        }
    }

    /// Adds a gateway, and waits until its readiness probe succeeds.
    async fn add(&self, pod: &Pod) {
        let ready = Arc::new(AtomicBool::new(false));
        let (admin, seen) = (pod.admin, Arc::clone(&ready));
        let probing = tokio::spawn(async move {
            loop {
                seen.store(is_ready(admin).await, Ordering::SeqCst);
                sleep(PROBE).await;
            }
        });
        self.pods.lock().unwrap().push(Endpoint {
            agents: pod.agents,
            ready: Arc::clone(&ready),
            probing,
        });
        until("it is ready", || ready.load(Ordering::SeqCst)).await;
    }

    /// Waits until the readiness probe of a gateway has failed, and forgets it.
    async fn remove(&self, agents: SocketAddr) {
        let is_ready = || {
            let pods = self.pods.lock().unwrap();
            pods.iter()
                .any(|it| it.agents == agents && it.ready.load(Ordering::SeqCst))
        };
        until("it is not ready any more", || !is_ready()).await;
        let mut pods = self.pods.lock().unwrap();
        let at = pods.iter().position(|it| it.agents == agents).unwrap();
        pods.remove(at).probing.abort();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
        for pod in self.pods.lock().unwrap().iter() {
            pod.probing.abort();
        }
    }
}

/// The next ready gateway.
fn ready(pods: &[Endpoint], turn: usize) -> SocketAddr {
    let ready: Vec<_> = pods
        .iter()
        .filter(|it| it.ready.load(Ordering::SeqCst))
        .collect();
    assert!(!ready.is_empty(), "no gateway is ready");
    ready[turn % ready.len()].agents
}

async fn until(what: &str, holds: impl FnMut() -> bool) {
    crate::harness::eventually(what, PATIENCE, holds).await;
}

/// A model that answers in pieces, and deletes by a shell command if it is asked to.
async fn model() -> Upstream {
    Upstream::raw(|asked, mut socket| async move {
        let contents = asked.json()["contents"].clone();
        let last = contents.as_array().unwrap().last().unwrap()["parts"].clone();
        let last = last.as_array().unwrap().last().unwrap();
        let parts = if last.get("functionResponse").is_some() {
            vec![json!({ "text": "I may " }), json!({ "text": "not." })]
        } else if last["text"].as_str().unwrap().contains("delete") {
            let call = json!({ "name": "run_shell_command", "args": { "command": "rm -r ." } });
            vec![json!({ "functionCall": call })]
        } else {
            vec![
                json!({ "text": "Here " }),
                json!({ "text": "it " }),
                json!({ "text": "is." }),
            ]
        };
        socket.write_all(HEAD).await.unwrap();
        for (at, part) in parts.iter().enumerate() {
            // The pace of a model.
            sleep(PROBE).await;
            let mut chunk =
                json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] });
            if at + 1 == parts.len() {
                chunk["candidates"][0]["finishReason"] = "STOP".into();
            }
            write_chunk(&mut socket, format!("data: {chunk}\r\n\r\n").as_bytes())
                .await
                .unwrap();
        }
        write_last_chunk(&mut socket).await;
    })
    .await
}

/// An agent in a conversation, of which some is denied. A call that fails ends the test.
struct Conversation {
    coder: Coder,
    name: String,
}

impl Conversation {
    fn new(agent: &Agent, name: String) -> Self {
        Self {
            coder: Coder::new(agent.clone()),
            name,
        }
    }

    async fn begin(&mut self) {
        let name = self.name.clone();
        let said = self.coder.ask(&format!("hello, I am {name}")).await;
        assert_eq!(said, "Here it is.");
        let said = self.coder.ask(&format!("{name}: tell of aurora")).await;
        assert!(said.contains("not outside the company"), "{said}");
        let said = self.coder.ask(&format!("{name}: delete all")).await;
        assert_eq!(said, "I may not.");
    }

    async fn go_on(&mut self) {
        let said = self.coder.ask(&format!("{}: go on", self.name)).await;
        assert_eq!(said, "Here it is.");
    }

    /// The sessions of its calls.
    fn sessions(&self) -> Vec<&str> {
        let mut sessions: Vec<&str> = self
            .coder
            .answers
            .iter()
            .map(|it| it.header("x-hookgate-session"))
            .collect();
        sessions.dedup();
        sessions
    }
}

/// What the agents saw, and what the model was asked.
struct Outcome {
    conversations: Vec<Conversation>,
    asked: Vec<Value>,
    /// Requests to Redis that failed, because the machine was too busy for their deadline.
    store_failures: u64,
}

/// Replaces each gateway while agents work.
async fn roll() -> Outcome {
    let (redis, upstream, balancer) = (Redis::start(), model().await, Balancer::start().await);
    let changes = changes(&upstream);
    let mut changes: Vec<(&str, &str)> = changes
        .iter()
        .map(|(old, new)| (*old, new.as_str()))
        .collect();
    changes.extend([("lame_duck: 10s", "lame_duck: 1s"), ("policies:\n", RULES)]);
    let mounted = Mounted::new("overlays/replicas", &redis.url(), &changes);
    let mut pods = Vec::new();
    for _ in 0..REPLICAS {
        pods.push(mounted.start());
        balancer.add(pods.last().unwrap()).await;
    }
    let (stop, finished) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut agents = JoinSet::new();
    for agent in 0..AGENTS {
        agents.spawn(work(
            balancer.addr,
            agent,
            Arc::clone(&stop),
            Arc::clone(&finished),
        ));
    }

    let mut store_failures = 0;
    for old in mem::take(&mut pods) {
        let before = finished.load(Ordering::SeqCst);
        until("agents work", || finished.load(Ordering::SeqCst) > before).await;
        let new = mounted.start();
        balancer.add(&new).await;
        pods.push(new);
        store_failures += failures(&old).await;
        old.served.terminate();
        balancer.remove(old.agents).await;
        let (code, log) = old.ended().await;
        assert_eq!(code, Some(0), "{log}");
    }
    let before = finished.load(Ordering::SeqCst);
    until("agents work", || {
        finished.load(Ordering::SeqCst) > before + AGENTS
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    let conversations = agents.join_all().await.into_iter().flatten().collect();
    for pod in &pods {
        store_failures += failures(pod).await;
    }
    Outcome {
        conversations,
        asked: upstream.seen().iter().map(Asked::json).collect(),
        store_failures,
    }
}

async fn failures(pod: &Pod) -> u64 {
    pod.operator("the-admin-token")
        .metric("hookgate_session_store_failures_total")
        .await
}

/// Has one conversation from before the first restart until after the last, and others meanwhile.
/// All are on one connection, which is used all the time: HTTP/1.1 has no way to keep a call from
/// a connection that the server closes in that moment because it has been idle.
async fn work(
    balancer: SocketAddr,
    agent: usize,
    stop: Arc<AtomicBool>,
    finished: Arc<AtomicUsize>,
) -> Vec<Conversation> {
    let client = Agent::at(balancer).sending("x-goog-api-key", AGENT_KEY);
    let mut long = Conversation::new(&client, format!("agent {agent}"));
    long.begin().await;
    let mut done = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let mut short = Conversation::new(&client, format!("agent {agent}, {}", done.len()));
        short.begin().await;
        short.go_on().await;
        long.go_on().await;
        done.push(short);
        finished.fetch_add(1, Ordering::SeqCst);
    }
    done.push(long);
    done
}

#[tokio::test]
async fn a_rolling_restart_fails_no_call_and_loses_no_session_and_no_denial() {
    let deadline = Instant::now() + 12 * PATIENCE;
    let mut outcome = roll().await;
    // A gateway that cannot reach Redis in time continues by itself, which is another test's.
    while outcome.store_failures > 0 {
        assert!(
            Instant::now() < deadline,
            "Redis is too slow on this machine"
        );
        outcome = roll().await;
    }

    assert!(outcome.conversations.len() > 2 * AGENTS);
    for it in &outcome.conversations {
        let sessions = it.sessions();
        assert_eq!(sessions.len(), 1, "{}: {sessions:?}", it.name);
        assert_ne!(sessions, [""], "{}", it.name);
        assert!(it.coder.ran.is_empty(), "{}: {:?}", it.name, it.coder.ran);
    }
    let mut reminded = 0;
    for request in &outcome.asked {
        let text = request.to_string();
        assert!(!text.contains("aurora"), "a denied prompt went out: {text}");
        if text.contains(": go on") {
            assert!(
                text.contains("Tool execution blocked: not here"),
                "a denied call is forgotten: {text}"
            );
            reminded += 1;
        }
    }
    assert!(reminded >= outcome.conversations.len(), "{reminded}");
}
