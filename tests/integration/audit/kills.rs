//! Repeated kills of a gateway under load, and the decision log that they leave.

use std::{
    collections::HashSet,
    env, fs,
    io::Write,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::{hash, kinds};
use crate::harness::{Agent, ServerProcess, Upstream, decision_log, hookgate, prompt};

/// Number of kills, unless `HOOKGATE_KILLS` sets another.
const ROUNDS: u64 = 12;

/// Number of agents that call concurrently.
const AGENTS: u64 = 6;

/// Random numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % limit
    }
}

fn serve(config: &Path) -> ServerProcess {
    ServerProcess::start(hookgate(&["serve", "--config", config.to_str().unwrap()]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_upstream_received_is_logged_despite_kills() {
    let rounds = env::var("HOOKGATE_KILLS").unwrap_or_default();
    let rounds: u64 = rounds.parse().unwrap_or(ROUNDS);
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("hookgate.yaml");
    let text = format!(
        "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         policies: [{{ policy: model_allow, models: [\"*\"] }}]\n\
         audit: {{ path: audit.jsonl, rotate: {{ size: 256KiB, keep: 100000 }} }}\n",
        upstream.addr
    );
    fs::write(&config, text).unwrap();
    let log = folder.path().join("audit.jsonl");
    let mut random = Random(7);
    let number = Arc::new(AtomicU64::new(0));

    for round in 0..rounds {
        let started = Instant::now();
        let mut served = serve(&config);
        let agent = Agent::at(served.addr());
        let ready = Agent::at(served.operators()).get("/readyz").await;
        assert_eq!(ready.status, 200);
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "{:?}",
            started.elapsed()
        );
        let agents: Vec<_> = (0..AGENTS)
            .map(|_| tokio::spawn(call_until_failure(agent.base.clone(), Arc::clone(&number))))
            .collect();
        tokio::time::sleep(Duration::from_millis(5 + random.below(120))).await;
        served.signal(Signal::KILL);
        for task in agents {
            task.await.unwrap();
        }
        drop(served);
        if round % 3 == 0 {
            append_torn_line(&log, &mut random);
        }
    }

    start_and_stop(&config);
    let verified = chained_log::verify(&log).unwrap_or_else(|error| panic!("{error}"));
    // A gateway that starts later cannot add the lines that a killed one did not write.
    let (logged, seen) = (logged_hashes(&log), upstream.requests());
    let hashes = seen.iter().map(|request| hash(&request.body));
    let missing = hashes.filter(|hash| !logged.contains(hash));
    assert_eq!(missing.count(), 0, "of {}", seen.len());
    let seen = seen.len() as u64;
    assert!(
        seen > rounds && verified.lines > 2 * seen,
        "{seen}, {verified:?}"
    );
    let mut report = std::io::stderr().lock();
    let lines = verified.lines;
    writeln!(report, "{rounds} kills, {seen} calls, {lines} lines").unwrap();
}

#[tokio::test]
async fn a_start_that_fails_leaves_an_incomplete_line_to_the_next_start() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (config, log) = (path("hookgate.yaml"), path("audit.jsonl"));
    let text = "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\n\
                upstreams: { gemini: { url: \"http://127.0.0.1:9\" } }\n\
                audit: { path: audit.jsonl }\n";
    fs::write(&config, text).unwrap();
    start_and_stop(&config);
    let torn = "{\"seq\":3,\"prev\":\"0123";
    let before = fs::read_to_string(&log).unwrap() + torn;
    fs::write(&log, &before).unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listen = taken.local_addr().unwrap().to_string();

    let serve = ["serve", "--listen", &listen, "--config"];
    let failed = hookgate(&serve).arg(&config).output().unwrap();

    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(fs::read_to_string(&log).unwrap(), before);
    start_and_stop(&config);
    let lines = decision_log(&log);
    assert_eq!(
        kinds(&lines),
        ["start", "stop", "repaired", "start", "stop"]
    );
    assert_eq!(lines[2]["file"], "audit.jsonl.torn-3");
    let aside = fs::read_to_string(path("audit.jsonl.torn-3")).unwrap();
    assert_eq!(aside, torn);
}

/// Starts a gateway and shuts it down.
fn start_and_stop(config: &Path) {
    let mut served = serve(config);
    served.addr();
    served.terminate();
    served.ended(Duration::from_secs(10));
}

/// Appends the beginning of a line that no call waited for. A crash of the machine may leave one;
/// a killed process rarely does.
fn append_torn_line(log: &Path, random: &mut Random) {
    // There is no file if the gateway was killed during a rotation.
    let Ok(mut text) = fs::read(log) else {
        return;
    };
    let line = b"{\"seq\":77,\"prev\":\"0123456789abcdef";
    let cut = usize::try_from(random.below(line.len() as u64)).unwrap();
    text.extend_from_slice(&line[..cut]);
    fs::write(log, text).unwrap();
}

/// Sends calls until one fails.
async fn call_until_failure(base: String, number: Arc<AtomicU64>) {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    loop {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let body = prompt(&format!("call {number}")).to_string();
        let sent = client
            .post(format!("{base}/v1beta/models/m:generateContent"))
            .header("content-type", "application/json")
            .body(body)
            .send();
        let Ok(answer) = sent.await else {
            return;
        };
        if answer.bytes().await.is_err() {
            return;
        }
    }
}

/// Returns the hashes of all bodies that were sent according to the log.
fn logged_hashes(log: &Path) -> HashSet<String> {
    let lines = chained_log::lines(log).unwrap().map(Result::unwrap);
    // The last line may be incomplete.
    let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(&line.bytes).ok());
    let sent = lines.filter_map(|line| line["sent"]["sha256"].as_str().map(str::to_owned));
    sent.collect()
}
