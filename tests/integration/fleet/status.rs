//! Fleet status: config revisions of replicas, and truncated decision logs.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{
    Agent, Browser, Redis, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, decision_log,
    prompt, run,
};
use crate::trace::until;

/// A replica in a process of its own, with its own folder.
struct Replica {
    folder: TempDir,
    served: ServerProcess,
    operators: Agent,
    agents: Agent,
    admin: SocketAddr,
}

impl Replica {
    fn start(upstream: &Upstream, redis: &Redis, more: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("url"), redis.url()).unwrap();
        write_config(folder.path(), upstream, more);
        Self::serve(folder)
    }

    fn serve(folder: TempDir) -> Self {
        let mut served = ServerProcess::folder(folder.path());
        let (agents, admin) = (served.addr(), served.operators());
        Self {
            agents: Agent::at(agents),
            operators: Agent::at(admin),
            admin,
            served,
            folder,
        }
    }

    async fn fleet(&self) -> Value {
        self.operators.get("/fleet").await.json()
    }

    /// Waits until the fleet fulfils a condition, and returns it.
    async fn until(&self, condition: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let fleet = self.fleet().await;
            if holds(&fleet) {
                return fleet;
            }
            assert!(Instant::now() < deadline, "{condition}: {fleet}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs `hookgate fleet status` against this replica.
    async fn cli(&self, more: &[&str]) -> (i32, String, String) {
        fleet_status(&self.operators, more).await
    }
}

/// Runs `hookgate fleet status` with more arguments.
async fn fleet_status(operators: &Agent, more: &[&str]) -> (i32, String, String) {
    let mut arguments = vec!["fleet", "status", "--url", &operators.base];
    arguments.extend(more);
    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let ran = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&arguments, Path::new("."))
    });
    ran.await.unwrap()
}

fn write_config(folder: &Path, upstream: &Upstream, more: &str) {
    let text = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         sessions: {{ store: {{ redis: {{ url: {{ file: url }} }} }} }}\n{more}",
        upstream.addr
    );
    fs::write(folder.join("hookgate.yaml"), text).unwrap();
}

fn replicas(fleet: &Value) -> &Vec<Value> {
    fleet["replicas"].as_array().unwrap()
}

#[tokio::test]
async fn a_replica_with_an_older_config_lags_until_it_has_the_new_one() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let one = Replica::start(&upstream, &redis, "");
    let other = Replica::start(&upstream, &redis, "");
    let fleet = one
        .until("two replicas", |fleet| replicas(fleet).len() == 2)
        .await;
    let old = fleet["revision"].as_str().unwrap().to_owned();
    assert!(
        replicas(&fleet)
            .iter()
            .all(|view| view["is_lagging"] == false)
    );
    assert_eq!(one.cli(&[]).await.0, 0);
    until(&one.operators, "/overview", |overview| {
        overview["replicas"] == 2
    })
    .await;
    let overview = Browser::at_address(one.admin).get("/console/").await.html;
    assert!(overview.contains(">2 replicas</a>"), "{overview}");

    write_config(one.folder.path(), &upstream, "denials: error\n");
    one.served.signal(Signal::HUP);
    let fleet = other
        .until("a new revision", |fleet| fleet["revision"] != old)
        .await;
    let new = fleet["revision"].as_str().unwrap().to_owned();

    let metrics = one.operators.get("/metrics").await;
    let line = format!("hookgate_config_info{{revision=\"{new}\"}} 1");
    assert!(metrics.text().contains(&line), "{}", metrics.text());
    let lagging = replicas(&fleet)
        .iter()
        .filter(|view| view["is_lagging"] == true);
    assert_eq!(lagging.count(), 1);
    // One of these is the revision of the first replica, the other is not.
    for digits in [&old[..8], &new[..8]] {
        let wait = ["--wait-for", digits, "--timeout", "1s"];
        let (code, out, error) = other.cli(&wait).await;
        let lagging = out.matches("LAGGING").count();
        assert_eq!((code, lagging), (1, 1), "{out}{error}");
        let expected = format!("1 of 2 replicas do not have revision {digits}\n");
        assert!(error.ends_with(&expected), "{error}");
    }
    let page = Browser::at_address(other.admin).get("/console/fleet").await;
    assert!(
        page.html.contains("1 of 2 replicas lag behind"),
        "{}",
        page.html
    );
    assert_eq!(page.html.matches("<tr class=\"bad\">").count(), 1);

    write_config(other.folder.path(), &upstream, "denials: error\n");
    other.served.signal(Signal::HUP);
    let first_digits = &new[..8];
    let args = ["--wait-for", first_digits, "--replicas", "2"];
    let waited = one.cli(&args).await;
    assert_eq!(waited.0, 0, "{}{}", waited.1, waited.2);
}

#[tokio::test]
async fn a_refused_reload_is_in_the_fleet_status_of_other_replicas() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let one = Replica::start(&upstream, &redis, "");
    let other = Replica::start(&upstream, &redis, "");

    write_config(one.folder.path(), &upstream, "denails: error\n");
    one.served.signal(Signal::HUP);

    let refused = |fleet: &Value| {
        let mut replicas = replicas(fleet).iter();
        replicas.any(|view| view["last_reload_error"].to_string().contains("denails"))
    };
    other.until("a refused reload", refused).await;
}

#[tokio::test]
async fn a_replica_that_shuts_down_leaves_the_fleet() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let one = Replica::start(&upstream, &redis, "");
    let other = Replica::start(&upstream, &redis, "");
    one.until("two replicas", |fleet| replicas(fleet).len() == 2)
        .await;

    other.served.terminate();
    let (ended, _log) = other.served.ended(TEST_TIMEOUT);

    assert!(ended.success());
    one.until("one replica", |fleet| replicas(fleet).len() == 1)
        .await;
}

#[tokio::test]
async fn a_truncated_decision_log_is_reported() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let audit = "audit: { path: decisions.jsonl, mode: durable }\n";
    let one = Replica::start(&upstream, &redis, "");
    let other = Replica::start(&upstream, &redis, audit);
    for _ in 0..3 {
        assert_eq!(other.agents.generate("m", &prompt("hi")).await.status, 200);
    }
    let log = other.folder.path().join("decisions.jsonl");
    let lines = decision_log(&log);
    let written = lines.len() as u64;
    one.until("the last line", |fleet| {
        fleet["decision_logs"][0]["seq"].as_u64() >= Some(written)
    })
    .await;
    let Replica { folder, served, .. } = other;
    drop(served);
    let text = fs::read_to_string(&log).unwrap();
    let kept: Vec<&str> = text.lines().take(1).collect();
    fs::write(&log, kept.join("\n") + "\n").unwrap();

    let other = Replica::serve(folder);

    let fleet = one
        .until("a shorter log", |fleet| {
            fleet["decision_logs"][0]["lost"].is_object()
        })
        .await;
    let lost = &fleet["decision_logs"][0]["lost"];
    let hash = lost["hash"].as_str().unwrap();
    assert!(text.contains(hash), "{lost}");
    let (code, _out, error) = one.cli(&[]).await;
    assert_eq!(code, 1);
    assert!(error.contains("became shorter or was replaced"), "{error}");
    other.served.terminate();
    let fleet = one
        .until("one replica", |fleet| replicas(fleet).len() == 1)
        .await;
    let revision = fleet["revision"].as_str().unwrap();
    let (code, _out, error) = one.cli(&["--wait-for", revision]).await;
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("became shorter or was replaced"), "{error}");
    let log = log.to_str().unwrap();
    let verified = run(
        &["audit", "verify", log, "--contains", hash],
        Path::new("."),
    );
    assert_eq!(verified.0, 1, "{}", verified.1);
}

#[tokio::test]
async fn a_decision_log_that_is_replaced_by_a_longer_one_is_reported() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let audit = "audit: { path: decisions.jsonl, mode: durable }\n";
    let one = Replica::start(&upstream, &redis, "");
    let [replaced, donor] = [(); 2].map(|()| Replica::start(&upstream, &redis, audit));
    let mut texts = Vec::new();
    let mut folders = Vec::new();
    for (replica, calls) in [(replaced, 1), (donor, 5)] {
        for _ in 0..calls {
            let answer = replica.agents.generate("m", &prompt("hi")).await;
            assert_eq!(answer.status, 200);
        }
        let log = replica.folder.path().join("decisions.jsonl");
        let written = decision_log(&log).len() as u64;
        let name = log.display().to_string();
        one.until("the last line", |fleet| {
            let mut logs = fleet["decision_logs"].as_array().unwrap().iter();
            let log = logs.find(|log| log["log"].to_string().contains(&name));
            log.is_some_and(|log| log["seq"].as_u64() >= Some(written))
        })
        .await;
        drop(replica.served);
        texts.push(fs::read_to_string(&log).unwrap());
        folders.push(replica.folder);
    }
    let log = folders[0].path().join("decisions.jsonl");
    fs::write(&log, &texts[1]).unwrap();

    let _replaced = Replica::serve(folders.remove(0));

    let name = log.display().to_string();
    let view = |fleet: &Value| {
        let mut logs = fleet["decision_logs"].as_array().unwrap().iter();
        let log = logs.find(|log| log["log"].to_string().contains(&name));
        log.unwrap().clone()
    };
    let fleet = one
        .until("a replaced log", |fleet| view(fleet)["lost"].is_object())
        .await;
    let hash = view(&fleet)["lost"]["hash"].as_str().unwrap().to_owned();
    assert!(texts[0].contains(&hash), "{fleet}");
    assert!(!texts[1].contains(&hash), "{fleet}");
    let (code, _out, error) = one.cli(&[]).await;
    assert_eq!(code, 1);
    assert!(error.contains("became shorter or was replaced"), "{error}");
}

#[tokio::test]
async fn a_decision_log_that_grows_across_a_restart_is_not_marked() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let audit = "audit: { path: decisions.jsonl, mode: durable }\n";
    let one = Replica::start(&upstream, &redis, audit);
    assert_eq!(one.agents.generate("m", &prompt("hi")).await.status, 200);
    let has_lines = |fleet: &Value| fleet["decision_logs"][0]["seq"].as_u64() >= Some(3);
    let before = one.until("lines", has_lines).await;
    let Replica { folder, served, .. } = one;
    drop(served);

    let one = Replica::serve(folder);

    let before = before["decision_logs"][0]["seq"].as_u64();
    let fleet = one
        .until("more lines", |fleet| {
            fleet["decision_logs"][0]["seq"].as_u64() > before
        })
        .await;
    assert_eq!(fleet["decision_logs"][0]["lost"], Value::Null);
}

#[tokio::test]
async fn a_replica_that_is_rolled_back_has_the_newest_revision() {
    let (upstream, redis) = (Upstream::mock().await, Redis::start());
    let one = Replica::start(&upstream, &redis, "");
    let other = Replica::start(&upstream, &redis, "");
    let fleet = one
        .until("two replicas", |fleet| replicas(fleet).len() == 2)
        .await;
    let first = fleet["revision"].clone();
    for replica in [&one, &other] {
        write_config(replica.folder.path(), &upstream, "denials: error\n");
        replica.served.signal(Signal::HUP);
    }
    let has_first = |fleet: &Value| {
        let mut replicas = replicas(fleet).iter();
        replicas.any(|view| view["revision"] == first)
    };
    one.until("the second revision", |fleet| !has_first(fleet))
        .await;

    write_config(one.folder.path(), &upstream, "");
    one.served.signal(Signal::HUP);

    let fleet = one.until("the first revision", has_first).await;
    assert_eq!(fleet["revision"], first);
    for view in replicas(&fleet) {
        assert_eq!(view["is_lagging"], view["revision"] != first, "{fleet}");
    }
}

#[tokio::test]
async fn the_fleet_status_is_an_error_without_redis() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let answer = gate.operator().get("/fleet").await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json()["error"]["details"][0]["reason"], "NO_FLEET");
    // It is not waited for.
    let wait = ["--wait-for", "5f1d3c0a", "--timeout", "60s"];
    let started = Instant::now();
    let (code, _, error) = fleet_status(&gate.operator(), &wait).await;
    assert_eq!(code, 1, "{error}");
    assert!(started.elapsed() < Duration::from_secs(30), "{error}");

    let mut redis = Redis::start();
    let config = "sessions: { store: { redis: { url: { file: url } } } }\n";
    let gate = TestGateway::with_files(&upstream, config, &[("url", &redis.url())]).await;
    redis.kill();
    let answer = gate.operator().get("/fleet").await;
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.json()["error"]["details"][0]["reason"],
        "FLEET_UNAVAILABLE"
    );
}

#[tokio::test]
async fn waiting_for_a_revision_outlasts_an_outage() {
    let (upstream, mut redis) = (Upstream::mock().await, Redis::start());
    let replica = Replica::start(&upstream, &redis, "");
    let fleet = replica
        .until("a replica", |fleet| replicas(fleet).len() == 1)
        .await;
    let revision = fleet["revision"].as_str().unwrap().to_owned();
    redis.kill();

    let wait = ["--wait-for", &revision, "--timeout", "2s"];
    let (code, _, error) = replica.cli(&wait).await;
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("Redis does not answer"), "{error}");
    let wait = ["--wait-for", &revision, "--timeout", "60s"];
    let restart = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        redis.restart();
    };
    let ((code, out, error), ()) = tokio::join!(replica.cli(&wait), restart);

    assert_eq!(code, 0, "{out}{error}");
}
