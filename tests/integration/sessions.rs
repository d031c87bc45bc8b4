//! Sessions, as operators see them, and as several gateways share them.

use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Agent, PATIENCE, Redis, TestGateway, Upstream, hook, prompt};

const MODEL: &str = "gemini-2.5-pro";

/// A hook that denies the prompt `bad` when it is asked about it, and then never
/// again.
const DENIES_ONCE: &str =
    r#"grep -q '"prompt": *"bad"' && mkdir denied 2>/dev/null && { echo no >&2; exit 2; }; exit 0"#;

fn denying() -> String {
    hook::config(&[("BeforeAgent", hook::running("guard", DENIES_ONCE))])
}

fn conversation(texts: &[&str]) -> Value {
    let contents = texts.iter().enumerate().map(|(at, text)| {
        let role = if at % 2 == 0 { "user" } else { "model" };
        json!({ "role": role, "parts": [{ "text": text }] })
    });
    json!({ "contents": contents.collect::<Vec<_>>() })
}

/// What the model API is asked, all its texts in a row.
fn asked(upstream: &Upstream) -> Vec<String> {
    let body = |it: Value| it["contents"].to_string();
    upstream.seen().iter().map(|it| body(it.json())).collect()
}

async fn session(agent: &Agent, body: &Value) -> String {
    let answer = agent.generate(MODEL, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-hookgate-session").to_owned()
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_say_nothing_of_what_was_said() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying()).await;
    let named = gate
        .agent()
        .sending("x-goog-api-key", "k")
        .sending("x-hookgate-session", "s")
        .sending("user-agent", "tester/1.0");
    let known = session(&gate.agent(), &prompt("hello there")).await;
    session(&named, &prompt("bad")).await;
    named
        .generate(MODEL, &conversation(&["bad", "no", "again"]))
        .await;

    let listed = gate.operator().get("/sessions").await;
    let one = gate.operator().get("/sessions?limit=1").await.json();
    let details = gate.operator().get("/sessions/s").await.json();

    let sessions = listed.json()["sessions"].as_array().unwrap().clone();
    let ids: Vec<&str> = sessions
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["s", &known]);
    assert_eq!(one["sessions"], json!([sessions[0]]));
    assert_eq!(sessions[0]["source"], "header");
    assert_eq!(sessions[0]["agent"], "tester/1.0");
    assert_eq!(sessions[0]["caller"], HEXLOWER.encode(&Sha256::digest("k")));
    assert_eq!(sessions[0]["turns"], 2);
    assert_eq!(sessions[0]["requests"], 2);
    assert_eq!(sessions[1]["source"], "history");
    assert!(sessions[0]["last_seen"].as_str() >= sessions[1]["last_seen"].as_str());
    let year = jiff::Timestamp::now().to_string();
    let started = sessions[0]["started"].as_str().unwrap();
    assert!(
        started.starts_with(&year[..5]) && started.ends_with('Z'),
        "{started}"
    );
    assert_eq!(details["id"], "s");
    assert_eq!(details["denied"], 1);
    assert_eq!(details["stopped"], false);
    for text in [listed.text(), &details.to_string()] {
        // Not "bad", which an id in hex may hold.
        assert!(!text.contains("hello") && !text.contains("again"), "{text}");
    }
}

#[tokio::test]
async fn sessions_of_one_name_are_separate_for_each_caller() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying()).await;
    for key in ["k1", "k2"] {
        let agent = gate.agent().sending("x-goog-api-key", key);
        let agent = agent.sending("x-hookgate-session", "s");
        session(&agent, &prompt("hi")).await;
    }
    let caller = HEXLOWER.encode(&Sha256::digest("k1"));

    let newest = gate.operator().get("/sessions/s").await.json();
    let path = format!("/sessions/s?caller={caller}");
    let asked = gate.operator().get(&path).await.json();

    assert_eq!(newest["caller"], HEXLOWER.encode(&Sha256::digest("k2")));
    assert_eq!(asked["caller"], caller);
}

#[tokio::test]
async fn what_is_no_session_is_an_error() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let cases = [
        ("/sessions/nobody", 404, "UNKNOWN_SESSION"),
        ("/sessions?limit=0", 400, "BAD_QUERY"),
        ("/sessions?limit=many", 400, "BAD_QUERY"),
    ];
    for (path, status, reason) in cases {
        let answer = gate.operator().get(path).await;

        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.json()["error"]["details"][0]["reason"], reason);
    }
    let none = gate.operator().get("/sessions").await.json();
    assert_eq!(none, json!({ "sessions": [] }));
}

#[tokio::test]
async fn sessions_are_counted() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying()).await;
    let agent = gate.agent();
    session(&agent, &conversation(&["one"])).await;
    session(&agent, &conversation(&["one", "A", "two"])).await;
    session(&agent, &conversation(&["one", "B", "three"])).await;
    session(&agent, &conversation(&["one", "A", "two", "C", "four"])).await;

    let metrics = gate.operator().get("/metrics").await;
    for line in [
        "hookgate_sessions 2",
        "hookgate_session_lookups_total{result=\"new\",source=\"history\"} 1",
        "hookgate_session_lookups_total{result=\"continued\",source=\"history\"} 1",
        "hookgate_session_lookups_total{result=\"rolled_back\",source=\"history\"} 1",
        "hookgate_session_lookups_total{result=\"forked\",source=\"history\"} 1",
        "hookgate_session_store_failures_total 0",
    ] {
        assert!(metrics.text().contains(line), "{line}: {}", metrics.text());
    }
}

/// A gate that keeps its sessions in this Redis, with these files beside it.
async fn replica(upstream: &Upstream, redis: &Redis) -> TestGateway {
    let config = format!(
        "sessions: {{ store: {{ redis: {{ url: {{ file: url }} }} }} }}\n{}",
        denying()
    );
    TestGateway::with_files(upstream, &config, &[("url", &redis.url())]).await
}

#[tokio::test]
async fn gateways_with_one_redis_have_one_memory() {
    let upstream = Upstream::mock().await;
    let redis = Redis::start();
    let gates = [
        replica(&upstream, &redis).await,
        replica(&upstream, &redis).await,
    ];
    let mut ids = Vec::new();
    let turns: [&[&str]; 4] = [
        &["one"],
        &["one", "A", "bad"],
        &["one", "A", "bad", "no", "two"],
        &["one", "A", "bad", "no", "two", "B", "three"],
    ];
    for (at, turn) in turns.into_iter().enumerate() {
        ids.push(session(&gates[at % 2].agent(), &conversation(turn)).await);
    }

    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let asked = asked(&upstream);
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|it| !it.contains("bad")), "{asked:?}");
    let [first, second] = &gates;
    let path = format!("/sessions/{}", ids[0]);
    for gate in [first, second] {
        let details = gate.operator().get(&path).await.json();
        assert_eq!(details["requests"], 4);
        assert_eq!(details["turns"], 4);
    }
}

#[tokio::test]
async fn a_gateway_that_is_started_again_remembers() {
    let upstream = Upstream::mock().await;
    let redis = Redis::start();
    let gate = replica(&upstream, &redis).await;
    let id = session(&gate.agent(), &conversation(&["bad"])).await;
    gate.stop().await;

    let gate = replica(&upstream, &redis).await;
    let again = session(&gate.agent(), &conversation(&["bad", "no", "two"])).await;

    assert_eq!(id, again);
    assert_eq!(asked(&upstream).len(), 1);
    assert!(!asked(&upstream)[0].contains("bad"));
}

#[tokio::test]
async fn no_request_is_lost_and_no_denial_forgotten_while_redis_is_away() {
    let upstream = Upstream::mock().await;
    let mut redis = Redis::start();
    let (gate, other) = (
        replica(&upstream, &redis).await,
        replica(&upstream, &redis).await,
    );
    let id = session(&gate.agent(), &conversation(&["one"])).await;

    redis.kill();
    let denied = session(&gate.agent(), &conversation(&["one", "A", "bad"])).await;
    let away = session(
        &gate.agent(),
        &conversation(&["one", "A", "bad", "no", "two"]),
    )
    .await;
    redis.start_again();
    let key = format!("EXISTS hookgate:3:session::{id}");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !redis.ask(&key).starts_with(":1") {
        assert!(tokio::time::Instant::now() < deadline, "it is not written");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let turn = ["one", "A", "bad", "no", "two", "B", "three"];
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let elsewhere = loop {
        let elsewhere = session(&other.agent(), &conversation(&turn)).await;
        // It leaves Redis alone for a second after it was away.
        if elsewhere == id || tokio::time::Instant::now() > deadline {
            break elsewhere;
        }
    };

    assert_eq!([&denied, &away, &elsewhere], [&id; 3]);
    assert!(asked(&upstream).iter().all(|it| !it.contains("bad")));
    let metrics = gate.operator().get("/metrics").await;
    let line = "hookgate_session_store_failures_total ";
    let line = metrics.text().lines().find(|it| it.starts_with(line));
    assert!(line.is_some_and(|it| !it.ends_with(" 0")), "{line:?}");
}
