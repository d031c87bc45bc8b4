//! How a gateway ends: calls that can end in time do, and none is cut silently.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

use crate::{
    harness::{
        Agent, Asked, End, PATIENCE, Served, Upstream, chunked_head, closed, eventually, piece,
        processes, prompt, rest, write_chunk, write_last_chunk,
    },
    tls::{self, Authority},
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const STREAMS: usize = 200;

/// A model API whose streams end when notified.
struct Held {
    upstream: Upstream,
    go_on: watch::Sender<bool>,
    begun: Arc<AtomicUsize>,
}

impl Held {
    async fn start() -> Self {
        let (go_on, told) = watch::channel(false);
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let upstream = Upstream::raw(move |asked, socket| {
            count.fetch_add(1, Ordering::SeqCst);
            stream(asked, socket, told.clone())
        })
        .await;
        Self {
            upstream,
            go_on,
            begun,
        }
    }
}

async fn stream(asked: Asked, mut socket: TcpStream, mut told: watch::Receiver<bool>) {
    let head = chunked_head("text/event-stream");
    let late = asked.body.contains("late");
    if late {
        told.wait_for(|it| *it).await.ok();
    }
    socket.write_all(head.as_bytes()).await.unwrap();
    write_chunk(&mut socket, b"data: {\"n\":1}\n\n")
        .await
        .unwrap();
    if asked.body.contains("hang") {
        return closed(&mut socket).await;
    }
    told.wait_for(|it| *it).await.ok();
    for _ in 0..10 {
        write_chunk(&mut socket, b"data: {\"n\":2}\n\n")
            .await
            .unwrap();
    }
    write_last_chunk(&mut socket).await;
}

struct Process {
    served: Served,
    agents: SocketAddr,
    operator: Agent,
    _folder: TempDir,
}

impl Process {
    fn start(upstream: &Upstream, config: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{config}",
            upstream.addr
        );
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = Served::folder(folder.path());
        Self {
            agents: served.addr(),
            operator: Agent::at(served.operators()),
            served,
            _folder: folder,
        }
    }

    /// An agent with a connection of its own, and its open stream.
    async fn open(&self, text: &str) -> reqwest::Response {
        let agent = Agent::at(self.agents);
        let mut answer = agent.open(SSE, prompt(text).to_string()).await;
        assert!(piece(&mut answer).await.contains("\"n\":1"));
        answer
    }

    async fn closed_to_agents(&self) {
        let agents = self.agents;
        eventually("no connection is accepted", PATIENCE, || {
            std::net::TcpStream::connect(agents).is_err()
        })
        .await;
    }

    async fn ended(self) -> (Option<i32>, String) {
        let ended = spawn_blocking(move || self.served.ended(PATIENCE));
        let (status, log) = ended.await.unwrap();
        (status.code(), log)
    }
}

/// Reads all of these to their ends.
async fn ends(answers: Vec<reqwest::Response>) -> Vec<(String, End)> {
    let mut reading = JoinSet::new();
    for mut answer in answers {
        reading.spawn(async move { rest(&mut answer).await });
    }
    reading.join_all().await
}

#[tokio::test]
async fn two_hundred_streams_end_whole_and_the_rest_breaks() {
    let held = Held::start().await;
    let hooks = "hooks: { AfterModel: [{ matcher: \"\", hooks: [{ \
         type: builtin, policy: redact, detect: [email] }] }] }";
    for more in ["", hooks] {
        held.go_on.send(false).unwrap();
        let process = Process::start(
            &held.upstream,
            &format!("timeouts: {{ drain: 8s }}\n{more}"),
        );
        let (mut whole, mut hanging) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            whole.push(process.open("whole").await);
        }
        for _ in 0..5 {
            hanging.push(process.open("hang").await);
        }

        process.served.terminate();
        process.closed_to_agents().await;
        let ready = process.operator.get("/readyz").await;
        assert_eq!(ready.status, 503, "{}", ready.text());
        held.go_on.send(true).unwrap();
        let (whole, hanging) = tokio::join!(ends(whole), ends(hanging));

        for (text, end) in &whole {
            assert_eq!((text.matches("\"n\":2").count(), *end), (10, End::Clean));
        }
        assert_eq!(whole.len(), STREAMS);
        assert!(hanging.iter().all(|it| it.1 == End::Broken));
        let (code, log) = process.ended().await;
        assert_eq!(code, Some(0), "{log}");
    }
}

#[tokio::test]
async fn readiness_says_no_before_the_door_is_closed() {
    let held = Held::start().await;
    held.go_on.send(true).unwrap();
    let process = Process::start(&held.upstream, "timeouts: { lame_duck: 1s }");
    let agent = Agent::at(process.agents);
    let answer = agent.post(SSE, prompt("whole").to_string()).await;
    assert_eq!(answer.header("connection"), "");

    process.served.terminate();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while process.operator.get("/readyz").await.status != 503 {
        assert!(tokio::time::Instant::now() < deadline, "it is ready");
        sleep(Duration::from_millis(5)).await;
    }
    let answer = agent.post(SSE, prompt("whole").to_string()).await;

    assert_eq!((answer.status, answer.is_last()), (200, true));
    process.closed_to_agents().await;
    assert_eq!(process.ended().await.0, Some(0));
}

#[tokio::test]
async fn an_answer_that_begins_late_says_that_it_is_the_last() {
    let held = Held::start().await;
    let process = Process::start(&held.upstream, "");
    let agent = Agent::at(process.agents);
    let late = tokio::spawn(async move { agent.post(SSE, prompt("late").to_string()).await });
    eventually("it is under way", PATIENCE, || {
        held.begun.load(Ordering::SeqCst) == 1
    })
    .await;

    process.served.terminate();
    process.closed_to_agents().await;
    held.go_on.send(true).unwrap();
    let answer = late.await.unwrap();

    assert_eq!((answer.status, answer.is_last()), (200, true));
    assert_eq!(process.ended().await.0, Some(0));
}

#[tokio::test]
async fn who_asks_twice_does_not_want_to_wait() {
    let held = Held::start().await;
    let hooks = "hooks: { BeforeModel: [{ hooks: [{ command: \
         \"if grep -q SLOW; then sleep 600 & wait; fi\" }] }] }";
    let config = format!("timeouts: {{ drain: 1h, lame_duck: 1h }}\n{hooks}");
    let process = Process::start(&held.upstream, &config);
    let mut stream = process.open("hang").await;
    let agent = Agent::at(process.agents);
    let slow =
        tokio::spawn(async move { agent.try_to_open(SSE, prompt("SLOW").to_string()).await });
    let mark = process.served.mark.clone();
    eventually("a hook runs", PATIENCE, || processes(&mark).len() > 1).await;

    process.served.terminate();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while process.operator.get("/readyz").await.status != 503 {
        assert!(tokio::time::Instant::now() < deadline, "it is ready");
    }
    process.served.terminate();

    assert_eq!(rest(&mut stream).await.1, End::Broken);
    assert!(slow.await.unwrap().is_err());
    let (code, log) = process.ended().await;
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(processes(&mark), [0; 0]);
}

#[tokio::test]
async fn operators_get_through_in_tls_until_the_end() {
    let held = Held::start().await;
    let authority = Authority::new("ours");
    let admin = "admin: { listen: \"127.0.0.1:0\", \
         tls: { certificate: server.pem, key: server.key } }\n";
    let gate = tls::gate(&held.upstream, &authority, admin).await;
    let mut stream = gate.agent().open(SSE, prompt("whole").to_string()).await;
    piece(&mut stream).await;
    let (agents, operators) = (gate.agents, gate.operator());

    let stopped = tokio::spawn(gate.stop());
    eventually("no connection is accepted", PATIENCE, || {
        std::net::TcpStream::connect(agents).is_err()
    })
    .await;

    // Each with a handshake of its own.
    for _ in 0..3 {
        let operator = operators.clone().over_tls(&authority.pem(), None);
        let ready = operator.get("/readyz").await;
        assert_eq!(ready.status, 503, "{}", ready.text());
    }
    held.go_on.send(true).unwrap();
    assert_eq!(rest(&mut stream).await.1, End::Clean);
    stopped.await.unwrap();
}
