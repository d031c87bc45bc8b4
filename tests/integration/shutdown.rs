//! Graceful shutdown: lame-duck period, drain timeout, readiness and a second signal.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
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
        Agent, End, ReceivedRequest, ServerProcess, TEST_TIMEOUT, Upstream, chunked_head,
        decision_log, eventually, next_chunk, processes, prompt, read_to_end, wait_until_closed,
        write_chunk, write_last_chunk,
    },
    tls::{self, Authority},
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const GENERATE: &str = "/v1beta/models/m:generateContent";
const STREAMS: usize = 200;

/// A model API whose streams pause until they are released.
struct PausedUpstream {
    upstream: Upstream,
    release: watch::Sender<bool>,
    started_streams: Arc<AtomicUsize>,
}

impl PausedUpstream {
    async fn start() -> Self {
        let (release, released) = watch::channel(false);
        let started_streams = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started_streams);
        let upstream = Upstream::raw(move |asked, socket| {
            count.fetch_add(1, Ordering::SeqCst);
            respond_with_stream(asked, socket, released.clone())
        })
        .await;
        Self {
            upstream,
            release,
            started_streams,
        }
    }
}

/// Sends a stream as the prompt requests: `late` has its head after the release, and `hang` never
/// ends.
async fn respond_with_stream(
    asked: ReceivedRequest,
    mut socket: TcpStream,
    mut released: watch::Receiver<bool>,
) {
    let head = chunked_head("text/event-stream");
    let late = asked.body.contains("late");
    if late {
        released.wait_for(|value| *value).await.ok();
    }
    socket.write_all(head.as_bytes()).await.unwrap();
    write_chunk(&mut socket, b"data: {\"n\":1}\n\n")
        .await
        .unwrap();
    if asked.body.contains("hang") {
        return wait_until_closed(&mut socket).await;
    }
    released.wait_for(|value| *value).await.ok();
    for _ in 0..10 {
        write_chunk(&mut socket, b"data: {\"n\":2}\n\n")
            .await
            .unwrap();
    }
    write_last_chunk(&mut socket).await;
}

struct Process {
    served: ServerProcess,
    agents: SocketAddr,
    operator: Agent,
    folder: TempDir,
}

impl Process {
    fn start(upstream: &Upstream, config: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n{config}",
            upstream.addr
        );
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agents: served.addr(),
            operator: Agent::at(served.operators()),
            served,
            folder,
        }
    }

    /// Opens a stream on a connection of its own.
    async fn open(&self, text: &str) -> reqwest::Response {
        let agent = Agent::at(self.agents);
        let mut answer = agent.open(SSE, prompt(text).to_string()).await;
        assert!(next_chunk(&mut answer).await.contains("\"n\":1"));
        answer
    }

    async fn wait_until_listener_is_closed(&self) {
        let agents = self.agents;
        eventually("no connection is accepted", TEST_TIMEOUT, || {
            std::net::TcpStream::connect(agents).is_err()
        })
        .await;
    }

    async fn wait_for_exit(self) -> (Option<i32>, String) {
        self.wait_for_exit_and_keep_files().await.1
    }

    async fn wait_for_exit_and_keep_files(self) -> (TempDir, (Option<i32>, String)) {
        let Self { served, folder, .. } = self;
        let ended = spawn_blocking(move || served.ended(TEST_TIMEOUT));
        let (status, log) = ended.await.unwrap();
        (folder, (status.code(), log))
    }
}

/// Reads these responses to their ends.
async fn read_all(answers: Vec<reqwest::Response>) -> Vec<(String, End)> {
    let mut reading = JoinSet::new();
    for mut answer in answers {
        reading.spawn(async move { read_to_end(&mut answer).await });
    }
    reading.join_all().await
}

#[tokio::test]
async fn graceful_shutdown_completes_open_streams_and_cuts_off_the_rest() {
    let paused = PausedUpstream::start().await;
    let hooks = "hooks: { AfterModel: [{ matcher: \"\", hooks: [{ \
         type: builtin, policy: redact, detect: [email] }] }] }";
    for more_config in ["", hooks] {
        paused.release.send(false).unwrap();
        let process = Process::start(
            &paused.upstream,
            &format!("timeouts: {{ drain: 8s }}\n{more_config}"),
        );
        let (mut whole, mut hanging) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            whole.push(process.open("whole").await);
        }
        for _ in 0..5 {
            hanging.push(process.open("hang").await);
        }

        process.served.terminate();
        process.wait_until_listener_is_closed().await;
        let ready = process.operator.get("/readyz").await;
        assert_eq!(ready.status, 503, "{}", ready.text());
        paused.release.send(true).unwrap();
        let (whole, hanging) = tokio::join!(read_all(whole), read_all(hanging));

        for (text, end) in &whole {
            assert_eq!((text.matches("\"n\":2").count(), *end), (10, End::Clean));
        }
        assert_eq!(whole.len(), STREAMS);
        assert!(hanging.iter().all(|stream| stream.1 == End::Broken));
        let (code, log) = process.wait_for_exit().await;
        assert_eq!(code, Some(0), "{log}");
    }
}

#[tokio::test]
async fn readiness_fails_before_the_listener_is_closed() {
    let paused = PausedUpstream::start().await;
    paused.release.send(true).unwrap();
    let process = Process::start(&paused.upstream, "timeouts: { lame_duck: 1s }");
    let agent = Agent::at(process.agents);
    let answer = agent.post(SSE, prompt("whole").to_string()).await;
    assert_eq!(answer.header("connection"), "");

    process.served.terminate();
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while process.operator.get("/readyz").await.status != 503 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the gateway is still ready"
        );
        sleep(Duration::from_millis(5)).await;
    }
    let answer = agent.post(SSE, prompt("whole").to_string()).await;

    assert_eq!((answer.status, answer.is_last()), (200, true));
    process.wait_until_listener_is_closed().await;
    assert_eq!(process.wait_for_exit().await.0, Some(0));
}

#[tokio::test]
async fn a_response_that_begins_during_shutdown_closes_its_connection() {
    let paused = PausedUpstream::start().await;
    let process = Process::start(&paused.upstream, "");
    let agent = Agent::at(process.agents);
    let late = tokio::spawn(async move { agent.post(SSE, prompt("late").to_string()).await });
    eventually("the call is in flight", TEST_TIMEOUT, || {
        paused.started_streams.load(Ordering::SeqCst) == 1
    })
    .await;

    process.served.terminate();
    process.wait_until_listener_is_closed().await;
    paused.release.send(true).unwrap();
    let answer = late.await.unwrap();

    assert_eq!((answer.status, answer.is_last()), (200, true));
    assert_eq!(process.wait_for_exit().await.0, Some(0));
}

#[tokio::test]
async fn the_drain_waits_for_the_hooks_of_events_that_are_answered() {
    let upstream = Upstream::mock().await;
    // Longer than hooks have after the drain timeout.
    let config = "audit: { path: log }\nhooks: { SessionEnd: [{ hooks: [{ command: \
         \"cat > /dev/null; sleep 6; touch ended\" }] }] }";
    let process = Process::start(&upstream, config);
    let event = json!({ "hook_event_name": "SessionEnd", "reason": "exit" });
    let answer = Agent::at(process.agents).report(&event, "").await;

    process.served.terminate();
    let folder = process.folder.path().to_owned();
    let (_folder, (code, log)) = process.wait_for_exit_and_keep_files().await;

    assert_eq!((answer.status, code), (202, Some(0)), "{log}");
    assert!(folder.join("ended").exists(), "{log}");
    let records = decision_log(&folder.join("log"));
    let is_event = |record: &Value| record.to_string().contains("SessionEnd");
    assert!(records.iter().any(is_event), "{records:?}");
}

#[tokio::test]
async fn the_hooks_of_ended_sessions_that_run_at_shutdown_finish_and_no_others_begin() {
    let upstream = Upstream::mock().await;
    let config = "sessions: { idle: 300ms }\nhooks: { SessionEnd: [{ hooks: [{ command: \
         \"cat > /dev/null; echo . >> begun; until [ -e release ]; do sleep 0.05; done; \
         echo . >> ended\" }] }] }";
    let process = Process::start(&upstream, config);
    let folder = process.folder.path().to_owned();
    let count = |file: &str| {
        let lines = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        lines.lines().count()
    };
    for number in 0..12 {
        let session = format!("session-{number}");
        let agent = Agent::at(process.agents).sending("x-hookgate-session", &session);
        let answer = agent.post(GENERATE, prompt("go").to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    // Of twelve ended sessions, four wait in the queue.
    eventually("eight hooks run", TEST_TIMEOUT, || count("begun") == 8).await;

    process.served.terminate();
    process.wait_until_listener_is_closed().await;
    std::fs::write(folder.join("release"), "").unwrap();
    let (_folder, (code, log)) = process.wait_for_exit_and_keep_files().await;

    assert_eq!(code, Some(0), "{log}");
    assert_eq!((count("begun"), count("ended")), (8, 8), "{log}");
}

#[tokio::test]
async fn a_second_sigterm_ends_the_drain_at_once() {
    let paused = PausedUpstream::start().await;
    let hooks = "hooks: { BeforeModel: [{ hooks: [{ command: \
         \"if grep -q SLOW; then sleep 600 & wait; fi\" }] }] }";
    let config = format!("timeouts: {{ drain: 1h, lame_duck: 1h }}\n{hooks}");
    let process = Process::start(&paused.upstream, &config);
    let mut stream = process.open("hang").await;
    let agent = Agent::at(process.agents);
    let slow = tokio::spawn(async move { agent.try_open(SSE, prompt("SLOW").to_string()).await });
    let mark = process.served.mark.clone();
    eventually("a hook runs", TEST_TIMEOUT, || processes(&mark).len() > 1).await;

    process.served.terminate();
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while process.operator.get("/readyz").await.status != 503 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the gateway is still ready"
        );
    }
    process.served.terminate();

    assert_eq!(read_to_end(&mut stream).await.1, End::Broken);
    assert!(slow.await.unwrap().is_err());
    let (code, log) = process.wait_for_exit().await;
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(processes(&mark), [0; 0]);
}

#[tokio::test]
async fn the_admin_listener_accepts_tls_during_graceful_shutdown() {
    let paused = PausedUpstream::start().await;
    let authority = Authority::new("ours");
    let admin = "admin: { listen: \"127.0.0.1:0\", \
         tls: { certificate: server.pem, key: server.key } }\n";
    let gate = tls::gate(&paused.upstream, &authority, admin).await;
    let mut stream = gate.agent().open(SSE, prompt("whole").to_string()).await;
    next_chunk(&mut stream).await;
    let (agents, operators) = (gate.agents, gate.operator());

    let stopped = tokio::spawn(gate.stop());
    eventually("no connection is accepted", TEST_TIMEOUT, || {
        std::net::TcpStream::connect(agents).is_err()
    })
    .await;

    // Each with a handshake of its own.
    for _ in 0..3 {
        let operator = operators.clone().over_tls(&authority.pem(), None);
        let ready = operator.get("/readyz").await;
        assert_eq!(ready.status, 503, "{}", ready.text());
    }
    paused.release.send(true).unwrap();
    assert_eq!(read_to_end(&mut stream).await.1, End::Clean);
    stopped.await.unwrap();
}
