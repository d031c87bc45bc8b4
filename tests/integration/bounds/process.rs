//! Memory and file descriptors of the real binary.

use std::{fs, process::Command, time::Duration};

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::{GENERATE, SSE, flood, request};
use crate::harness::{
    Agent, Answer, ServerProcess, TEST_TIMEOUT, Upstream, eventually, hook, prompt, serve_command,
    wait_until_closed,
};

/// Makes a call that upstream does not answer.
async fn hanging_call(agent: Agent) -> Answer {
    agent.generate("m", &prompt("hang")).await
}

/// Makes a call of a session, whose history has a model message of 4 MiB.
async fn call_with_long_history(agent: &Agent, session: usize) {
    let text = "x".repeat(4 << 20);
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "hi" }] },
        { "role": "model", "parts": [{ "text": text }] },
    ] });
    let path = format!("/s/{session}{GENERATE}");
    agent.post(&path, body.to_string()).await;
}

/// Makes a call of a session, whose history has the result of a tool.
async fn call_with_result(agent: &Agent, session: usize) {
    let call = json!({ "functionCall": { "name": "f", "args": {} } });
    let result = json!({ "functionResponse": { "name": "f", "response": { "output": "a" } } });
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "hi" }] },
        { "role": "model", "parts": [call] },
        { "role": "user", "parts": [result] },
        { "role": "model", "parts": [{ "text": "done" }] },
        { "role": "user", "parts": [{ "text": "go on" }] },
    ] });
    let path = format!("/s/{session}{GENERATE}");
    agent.post(&path, body.to_string()).await;
}

/// Descriptors that pooled connections of the agent and the gateway may add.
const MAX_POOLED_DESCRIPTORS: usize = 4;

/// A gateway as a process.
struct Process {
    served: ServerProcess,
    agents: std::net::SocketAddr,
    agent: Agent,
    operator: Agent,
    folder: tempfile::TempDir,
}

impl Process {
    /// Starts a gateway with this config, and with this limit of open files if there is
    /// one.
    fn start(upstream: &Upstream, config: &str, files: Option<u64>) -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlog: {{ level: warn }}\n{config}",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut command = serve_command(folder.path());
        if let Some(files) = files {
            let mut bash = Command::new("bash");
            let limited = format!("ulimit -n {files}; exec \"$@\"");
            bash.args(["-c", &limited, "bash"])
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(folder.path())
                .env_remove("HOOKGATE_LOG");
            command = bash;
        }
        let mut served = ServerProcess::start(command);
        let agents = served.addr();
        Self {
            agents,
            agent: Agent::at(agents),
            operator: Agent::at(served.operators()),
            served,
            folder,
        }
    }

    /// Resident memory in MiB.
    fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.served.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }

    fn files(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.served.id());
        fs::read_dir(folder).unwrap().count()
    }

    async fn until_metric(&self, line: &str) {
        let deadline = Instant::now() + 3 * TEST_TIMEOUT;
        loop {
            let metrics = self.operator.get("/metrics").await;
            if metrics.text().lines().any(|metric| metric == line) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "no {line} in\n{}",
                metrics.text()
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Raises this process's limit of open files to its maximum, and returns it.
fn raise_open_files_limit() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let highest = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, highest).ok();
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(1 << 20, |limit| usize::try_from(limit).unwrap())
}

#[tokio::test]
async fn ten_thousand_idle_connections_use_bounded_memory_and_leak_no_file() {
    // The gateway accepts connections for half of the open files.
    let count = (raise_open_files_limit() / 2).min(10_000);
    let upstream = Upstream::mock().await;
    let process = Process::start(&upstream, "timeouts: { header: 5m }", None);
    assert_eq!(
        process.agent.generate("m", &prompt("hello")).await.status,
        200
    );
    let (memory, files) = (process.memory(), process.files());

    let mut sockets = Vec::with_capacity(count);
    // The agent has one more.
    while sockets.len() < count - 1 {
        sockets.push(TcpStream::connect(process.agents).await.unwrap());
    }
    process
        .until_metric(&format!("hookgate_connections {}", count + 1))
        .await;

    assert_eq!(
        process.agent.generate("m", &prompt("hello")).await.status,
        200
    );
    // Mostly hyper's buffers, of 8 KiB for each direction.
    let growth = process.memory() - memory;
    assert!(growth < 400, "{growth} MiB");
    drop(sockets);
    process.until_metric("hookgate_connections 2").await;
    eventually("descriptors are closed", TEST_TIMEOUT, || {
        process.files() <= files + MAX_POOLED_DESCRIPTORS
    })
    .await;
    process.served.terminate();
}

#[tokio::test]
async fn agents_that_do_not_read_use_bounded_memory_and_leak_no_file() {
    let (sign, _signs) = mpsc::unbounded_channel();
    let upstream = Upstream::raw(move |_, socket| flood(socket, sign.clone())).await;
    let process = Process::start(&upstream, "timeouts: { write: 4s }", None);
    process.operator.get("/metrics").await;
    let (memory, files) = (process.memory(), process.files());

    let mut sockets = Vec::new();
    for _ in 0..200 {
        let mut socket = TcpStream::connect(process.agents).await.unwrap();
        let request = request().replace(GENERATE, SSE);
        socket.write_all(request.as_bytes()).await.unwrap();
        sockets.push(socket);
    }
    sleep(Duration::from_millis(500)).await;

    // Hyper's read and write buffers, of up to 408 KiB each, and a chunk in transit.
    let growth = process.memory() - memory;
    assert!(growth < 240, "{growth} MiB");
    process
        .until_metric(r#"hookgate_connections_rejected_total{reason="write_timeout"} 200"#)
        .await;
    process.until_metric("hookgate_in_flight 0").await;
    eventually("descriptors are closed", TEST_TIMEOUT, || {
        process.files() <= files + MAX_POOLED_DESCRIPTORS
    })
    .await;
    process.served.terminate();
}

#[tokio::test]
async fn transcripts_of_long_messages_use_no_memory_for_their_text() {
    const SESSIONS: usize = 40;
    let upstream = Upstream::mock().await;
    let config = "sessions: { transcripts: . }\n\
         hooks: { SessionStart: [{ hooks: [{ command: cat > /dev/null }] }] }";
    let process = Process::start(&upstream, config, None);
    // A transcript has a request before it is sent.
    drop(upstream);
    call_with_long_history(&process.agent, SESSIONS).await;
    let memory = process.memory();

    for session in 0..SESSIONS {
        call_with_long_history(&process.agent, session).await;
    }

    let growth = process.memory().saturating_sub(memory);
    assert!(growth < 100, "{growth} MiB");
    let files = fs::read_dir(process.folder.path()).unwrap();
    let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
    assert_eq!(sizes.filter(|size| *size > 4 << 20).count(), SESSIONS + 1);
    process.served.terminate();
}

#[tokio::test]
async fn sessions_whose_end_hangs_use_no_memory_for_texts_of_hooks() {
    let upstream = Upstream::mock().await;
    let command = r#"cat > /dev/null; printf '{"hookSpecificOutput":{"additionalContext":"%s"}}' "$(head -c 900000 /dev/zero | tr '\0' x)""#;
    let hooks = hook::config(&[
        ("AfterTool", hook::command("long", command)),
        ("SessionEnd", hook::command("hang", "sleep 60")),
    ]);
    let process = Process::start(
        &upstream,
        &format!("sessions: {{ max: 20 }}\n{hooks}"),
        None,
    );
    // The sessions fill the store, and each later one ends the oldest.
    for session in 0..20 {
        call_with_result(&process.agent, session).await;
    }
    let memory = process.memory();

    for session in 20..90 {
        call_with_result(&process.agent, session).await;
    }

    let growth = process.memory().saturating_sub(memory);
    assert!(growth < 30, "{growth} MiB");
    process.served.terminate();
}

#[tokio::test]
async fn a_gateway_out_of_file_descriptors_recovers() {
    let upstream = Upstream::raw(|received, mut socket| async move {
        if received.body.contains("hang") {
            wait_until_closed(&mut socket).await;
        } else {
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n{}";
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let hooks = "hooks: { BeforeModel: [{ matcher: \"\", hooks: [{ \
         command: \"grep -qv hooked\", on_failure: open }] }] }";
    for config in ["", hooks] {
        let process = Process::start(&upstream, config, Some(64));
        assert_eq!(
            process.agent.generate("m", &prompt("hello")).await.status,
            200
        );
        let files = process.files();

        // Each call takes two descriptors, more than there are.
        let calls = (0..31).map(|_| tokio::spawn(hanging_call(Agent::at(process.agents))));
        let calls: Vec<_> = calls.collect();
        let mut refused = 0;
        let deadline = Instant::now() + TEST_TIMEOUT;
        while refused == 0 {
            assert!(Instant::now() < deadline, "nothing was refused");
            sleep(Duration::from_millis(20)).await;
            refused = calls.iter().filter(|call| call.is_finished()).count();
        }
        for call in calls.iter().filter(|call| !call.is_finished()) {
            call.abort();
        }
        for answer in join_all(calls).await.into_iter().flatten() {
            assert_eq!(answer.status, 503, "{}", answer.text());
        }

        process.until_metric("hookgate_in_flight 0").await;
        assert_eq!(
            process.agent.generate("m", &prompt("hello")).await.status,
            200
        );
        eventually("descriptors are closed", TEST_TIMEOUT, || {
            process.files() <= files + MAX_POOLED_DESCRIPTORS
        })
        .await;
        process.served.terminate();
    }
}

#[tokio::test]
async fn connections_use_at_most_half_of_the_file_descriptors() {
    let upstream = Upstream::mock().await;
    let process = Process::start(&upstream, "", Some(64));
    let mut sockets = Vec::new();
    for _ in 0..40 {
        sockets.push(TcpStream::connect(process.agents).await.unwrap());
    }

    process
        .until_metric(r#"hookgate_connections_rejected_total{reason="limit"} 8"#)
        .await;

    assert_eq!(process.operator.get("/healthz").await.status, 200);
    let mut last = sockets.pop().unwrap();
    timeout(TEST_TIMEOUT, wait_until_closed(&mut last))
        .await
        .unwrap();
    drop(sockets);
    process.until_metric("hookgate_connections 1").await;
    assert_eq!(
        process.agent.generate("m", &prompt("hello")).await.status,
        200
    );
    process.served.terminate();
}
