//! A rolling restart of three gateways while agents work.

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

use super::{AGENT_KEY, Mounted, Pod, is_ready, replacements};
use crate::harness::{
    Agent, Coder, ReceivedRequest, Redis, TEST_TIMEOUT, Upstream, write_chunk, write_last_chunk,
};

const REPLICAS: usize = 3;
const AGENTS: usize = 4;
/// Pause between two readiness probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// The added rules: a prompt is denied by a policy, a tool call by a hook.
const RULES: &str = r#"hooks:
  BeforeTool:
    - matcher: run_shell_command
      hooks: [{ name: no-shell, command: "echo not here >&2; exit 2", on_failure: closed }]
policies:
  - { policy: prompt_guard, deny: [aurora], reason: "not outside the company" }
"#;

/// The head of a response that closes its connection.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    connection: close\r\ntransfer-encoding: chunked\r\n\r\n";

/// Load balancer like a Kubernetes Service: new connections go to gateways whose readiness
/// probe succeeds.
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
                let target = next_ready(&endpoints.lock().unwrap(), turn);
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
                sleep(PROBE_INTERVAL).await;
            }
        });
        self.pods.lock().unwrap().push(Endpoint {
            agents: pod.agents,
            ready: Arc::clone(&ready),
            probing,
        });
        until("the gateway is ready", || ready.load(Ordering::SeqCst)).await;
    }

    /// Waits until the readiness probe of a gateway has failed, and removes it.
    async fn remove(&self, agents: SocketAddr) {
        let is_ready = || {
            let pods = self.pods.lock().unwrap();
            pods.iter()
                .any(|pod| pod.agents == agents && pod.ready.load(Ordering::SeqCst))
        };
        until("the gateway is no longer ready", || !is_ready()).await;
        let mut pods = self.pods.lock().unwrap();
        let at = pods.iter().position(|pod| pod.agents == agents).unwrap();
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
fn next_ready(pods: &[Endpoint], turn: usize) -> SocketAddr {
    let ready: Vec<_> = pods
        .iter()
        .filter(|pod| pod.ready.load(Ordering::SeqCst))
        .collect();
    assert!(!ready.is_empty(), "no gateway is ready");
    ready[turn % ready.len()].agents
}

async fn until(condition: &str, holds: impl FnMut() -> bool) {
    crate::harness::eventually(condition, TEST_TIMEOUT, holds).await;
}

/// A model that answers in chunks, and calls a shell tool if the prompt asks to delete.
async fn model() -> Upstream {
    Upstream::raw(|request, mut socket| async move {
        let contents = request.json()["contents"].clone();
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
            // Chunks come at the pace of a model.
            sleep(PROBE_INTERVAL).await;
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

/// An agent's conversation, with a denied prompt and a denied tool call. Panics if a call
/// fails.
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
        let text = self.coder.ask(&format!("hello, I am {name}")).await;
        assert_eq!(text, "Here it is.");
        let text = self.coder.ask(&format!("{name}: tell of aurora")).await;
        assert!(text.contains("not outside the company"), "{text}");
        let text = self.coder.ask(&format!("{name}: delete all")).await;
        assert_eq!(text, "I may not.");
    }

    async fn next_turn(&mut self) {
        let text = self.coder.ask(&format!("{}: go on", self.name)).await;
        assert_eq!(text, "Here it is.");
    }

    /// The session ids of its calls, without repetitions.
    fn sessions(&self) -> Vec<&str> {
        let mut sessions: Vec<&str> = self
            .coder
            .answers
            .iter()
            .map(|answer| answer.header("x-hookgate-session"))
            .collect();
        sessions.dedup();
        sessions
    }
}

/// The conversations of the agents, and the requests that the model received.
struct Outcome {
    conversations: Vec<Conversation>,
    requests: Vec<Value>,
    /// Requests to Redis that failed, because the machine was too busy for their deadline.
    store_failures: u64,
}

/// Replaces each gateway while agents work.
async fn rolling_restart() -> Outcome {
    let (redis, upstream, balancer) = (Redis::start(), model().await, Balancer::start().await);
    let replacements = replacements(&upstream);
    let mut replacements: Vec<(&str, &str)> = replacements
        .iter()
        .map(|(old, new)| (*old, new.as_str()))
        .collect();
    replacements.extend([("lame_duck: 10s", "lame_duck: 1s"), ("policies:\n", RULES)]);
    let mounted = Mounted::new("overlays/replicas", &redis.url(), &replacements);
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
        agents.spawn(hold_conversations(
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
        store_failures += session_store_failures(&old).await;
        old.served.terminate();
        balancer.remove(old.agents).await;
        let (code, log) = old.wait().await;
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
        store_failures += session_store_failures(pod).await;
    }
    Outcome {
        conversations,
        requests: upstream
            .requests()
            .iter()
            .map(ReceivedRequest::json)
            .collect(),
        store_failures,
    }
}

async fn session_store_failures(pod: &Pod) -> u64 {
    pod.operator("the-admin-token")
        .metric("hookgate_session_store_failures_total")
        .await
}

/// Holds one conversation from before the first restart until after the last, and short ones
/// meanwhile. All use one connection that is never idle: with HTTP/1.1 a call can race with the
/// server's close of an idle connection.
async fn hold_conversations(
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
        short.next_turn().await;
        long.next_turn().await;
        done.push(short);
        finished.fetch_add(1, Ordering::SeqCst);
    }
    done.push(long);
    done
}

#[tokio::test]
async fn a_rolling_restart_fails_no_call_and_loses_no_session_and_no_denial() {
    let deadline = Instant::now() + 12 * TEST_TIMEOUT;
    let mut outcome = rolling_restart().await;
    // A gateway that cannot reach Redis in time continues alone, which another test covers.
    while outcome.store_failures > 0 {
        assert!(
            Instant::now() < deadline,
            "Redis is too slow on this machine"
        );
        outcome = rolling_restart().await;
    }

    assert!(outcome.conversations.len() > 2 * AGENTS);
    for conversation in &outcome.conversations {
        let sessions = conversation.sessions();
        assert_eq!(sessions.len(), 1, "{}: {sessions:?}", conversation.name);
        assert_ne!(sessions, [""], "{}", conversation.name);
        assert!(
            conversation.coder.ran.is_empty(),
            "{}: {:?}",
            conversation.name,
            conversation.coder.ran
        );
    }
    let mut continued = 0;
    for request in &outcome.requests {
        let text = request.to_string();
        assert!(
            !text.contains("aurora"),
            "a denied prompt reached the model: {text}"
        );
        if text.contains(": go on") {
            assert!(
                text.contains("Tool execution blocked: not here"),
                "a denied tool call is missing in the history: {text}"
            );
            continued += 1;
        }
    }
    assert!(continued >= outcome.conversations.len(), "{continued}");
}
