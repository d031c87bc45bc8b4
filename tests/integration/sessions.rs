//! Sessions in the admin API and in metrics, and shared between gateways.

use std::{sync::Arc, time::Duration};

use axum::Router;
use data_encoding::HEXLOWER;
use futures_util::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::harness::{
    Agent, Redis, TEST_TIMEOUT, TestGateway, Upstream, eventually, hook, prompt, respond,
};

const MODEL: &str = "gemini-2.5-pro";

/// A hook that denies the first prompt `bad`, and allows it from then on.
const DENIES_ONCE: &str =
    r#"grep -q '"prompt": *"bad"' && mkdir denied 2>/dev/null && { echo no >&2; exit 2; }; exit 0"#;

fn denying_config() -> String {
    hook::config(&[("BeforeAgent", hook::command("guard", DENIES_ONCE))])
}

fn conversation(texts: &[&str]) -> Value {
    let contents = texts.iter().enumerate().map(|(at, text)| {
        let role = if at % 2 == 0 { "user" } else { "model" };
        json!({ "role": role, "parts": [{ "text": text }] })
    });
    json!({ "contents": contents.collect::<Vec<_>>() })
}

/// Returns the contents of every request to upstream, as text.
fn upstream_contents(upstream: &Upstream) -> Vec<String> {
    let body = |request: Value| request["contents"].to_string();
    upstream
        .requests()
        .iter()
        .map(|request| body(request.json()))
        .collect()
}

/// Sends a request, and returns its session.
async fn session_id(agent: &Agent, body: &Value) -> String {
    let answer = agent.generate(MODEL, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-hookgate-session").to_owned()
}

#[tokio::test]
async fn sessions_are_listed_newest_first_without_their_content() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying_config()).await;
    let named = gate
        .agent()
        .sending("x-goog-api-key", "k")
        .sending("x-hookgate-session", "s")
        .sending("user-agent", "tester/1.0");
    let unnamed = session_id(&gate.agent(), &prompt("hello there")).await;
    session_id(&named, &prompt("bad")).await;
    named
        .generate(MODEL, &conversation(&["bad", "no", "again"]))
        .await;

    let listed = gate.operator().get("/sessions").await;
    let one = gate.operator().get("/sessions?limit=1").await.json();
    let details = gate.operator().get("/sessions/s").await.json();

    let sessions = listed.json()["sessions"].as_array().unwrap().clone();
    let ids: Vec<&str> = sessions
        .iter()
        .map(|session| session["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["s", &unnamed]);
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
        // Not `bad`, which a hexadecimal id may contain.
        assert!(!text.contains("hello") && !text.contains("again"), "{text}");
    }
}

#[tokio::test]
async fn parallel_calls_of_a_session_are_all_counted() {
    let upstream = Upstream::mock().await;
    let slow = hook::command("slow", "cat > /dev/null; sleep 0.5");
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeAgent", slow)])).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let prompts: Vec<Value> = (0..10).map(|at| prompt(&format!("number {at}"))).collect();

    join_all(prompts.iter().map(|body| session_id(&agent, body))).await;

    let details = gate.operator().get("/sessions/s").await.json();
    assert_eq!(details["requests"], 10);
    assert_eq!(details["turns"], 10);
}

#[tokio::test]
async fn a_session_that_an_event_creates_has_the_agent_of_its_first_call() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying_config()).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let agent = agent.sending("user-agent", "tester/1.0");
    let event = json!({
        "hook_event_name": "BeforeTool", "session_id": "s", "tool_name": "t", "tool_input": {},
    });

    agent.report(&event, "").await;
    let created = gate.operator().get("/sessions/s").await.json();
    session_id(&agent, &prompt("hi")).await;
    let used = gate.operator().get("/sessions/s").await.json();

    assert_eq!(created["source"], "reported");
    assert_eq!(used["source"], "header");
    assert_eq!(used["agent"], "tester/1.0");
}

#[tokio::test]
async fn each_prompt_that_hooks_have_decided_counts_as_one_item() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying_config()).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");

    let texts = ["one", "A", "two", "B", "three"];
    for end in [1, 3, 5] {
        session_id(&agent, &conversation(&texts[..end])).await;
    }

    let details = gate.operator().get("/sessions/s").await.json();
    assert_eq!(details["items"], 3);
}

#[tokio::test]
async fn each_result_that_is_hidden_for_one_reason_is_counted() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("AfterTool", hook::denying("dlp", "hidden"))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let agent = gate.agent().sending("x-hookgate-session", "s");
    let ids = ["call-0", "call-1", "call-2", "call-3", "call-4"];
    let calls = ids.map(|id| json!({ "functionCall": { "id": id, "name": "f", "args": {} } }));
    let results = ids.map(
        |id| json!({ "functionResponse": { "id": id, "name": "f", "response": { "output": id } } }),
    );
    let body = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
        { "role": "model", "parts": calls },
        { "role": "user", "parts": results },
    ] });

    session_id(&agent, &body).await;

    let details = gate.operator().get("/sessions/s").await.json();
    assert_eq!(details["replaced"], 5);
}

#[tokio::test]
async fn sessions_of_one_name_are_separate_for_each_caller() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying_config()).await;
    for key in ["k1", "k2"] {
        let agent = gate.agent().sending("x-goog-api-key", key);
        let agent = agent.sending("x-hookgate-session", "s");
        session_id(&agent, &prompt("hi")).await;
    }
    let caller = HEXLOWER.encode(&Sha256::digest("k1"));

    let newest = gate.operator().get("/sessions/s").await.json();
    let path = format!("/sessions/s?caller={caller}");
    let asked = gate.operator().get(&path).await.json();

    assert_eq!(newest["caller"], HEXLOWER.encode(&Sha256::digest("k2")));
    assert_eq!(asked["caller"], caller);
}

#[tokio::test]
async fn a_session_of_a_caller_without_a_credential_has_its_own_calls_only() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &denying_config()).await;
    let unnamed = gate.agent().sending("x-hookgate-session", "s");
    let named = unnamed.clone().sending("x-goog-api-key", "k");
    for agent in [&named, &named, &unnamed] {
        session_id(agent, &prompt("hi")).await;
    }

    let details = gate.operator().get("/sessions/s?caller=").await.json();

    assert_eq!(details["caller"], "");
    assert_eq!(details["kept"]["records"], 1, "{details}");
}

#[tokio::test]
async fn an_unknown_session_and_an_invalid_query_are_errors() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let cases = [
        ("/sessions/nobody", 404, "UNKNOWN_SESSION"),
        ("/sessions?limit=0", 400, "BAD_QUERY"),
        ("/sessions?limit=many", 400, "BAD_QUERY"),
        ("/sessions?limit=1&limit=2", 400, "BAD_QUERY"),
        ("/calls?limit=1&limit=2", 400, "BAD_QUERY"),
        ("/calls?q=rule:%22a", 400, "BAD_QUERY"),
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
    let gate = TestGateway::start(&upstream, &denying_config()).await;
    let agent = gate.agent();
    session_id(&agent, &conversation(&["one"])).await;
    session_id(&agent, &conversation(&["one", "A", "two"])).await;
    session_id(&agent, &conversation(&["one", "B", "three"])).await;
    session_id(&agent, &conversation(&["one", "A", "two", "C", "four"])).await;

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

/// Starts a gateway that stores its sessions in this Redis.
async fn replica(upstream: &Upstream, redis: &Redis) -> TestGateway {
    replica_with(upstream, redis, &denying_config()).await
}

/// The same with these hooks.
async fn replica_with(upstream: &Upstream, redis: &Redis, hooks: &str) -> TestGateway {
    let config = format!("sessions: {{ store: {{ redis: {{ url: {{ file: url }} }} }} }}\n{hooks}");
    TestGateway::with_files(upstream, &config, &[("url", &redis.url())]).await
}

#[tokio::test]
async fn gateways_with_one_redis_share_their_sessions() {
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
        ids.push(session_id(&gates[at % 2].agent(), &conversation(turn)).await);
    }

    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let asked = upstream_contents(&upstream);
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|text| !text.contains("bad")), "{asked:?}");
    let [first, second] = &gates;
    let path = format!("/sessions/{}", ids[0]);
    for gate in [first, second] {
        let details = gate.operator().get(&path).await.json();
        assert_eq!(details["requests"], 4);
        assert_eq!(details["turns"], 4);
    }
}

#[tokio::test]
async fn a_call_in_flight_does_not_restore_an_ended_session() {
    let answer = Arc::new(Notify::new());
    let released = Arc::clone(&answer);
    let upstream = Upstream::with_router(Router::new().fallback(move || async move {
        released.notified().await;
        let text = json!({ "candidates": [{ "content": { "parts": [{ "text": "late" }] } }] });
        respond(200, "application/json", text.to_string())
    }))
    .await;
    let redis = Redis::start();
    // A response that hooks inspect is recorded in its session.
    let hooks = hook::config(&[
        ("BeforeAgent", hook::command("prompts", "echo '{}'")),
        ("AfterModel", hook::command("answers", "echo '{}'")),
    ]);
    let gates = [
        replica_with(&upstream, &redis, &hooks).await,
        replica_with(&upstream, &redis, &hooks).await,
    ];
    for (calls, ended_at) in [(1, &gates[0]), (2, &gates[1])] {
        let agent = gates[0].agent().sending("x-hookgate-session", "s");
        let call = tokio::spawn(async move { agent.generate(MODEL, &prompt("hi")).await });
        eventually("the call is in flight", TEST_TIMEOUT, || {
            upstream.requests().len() == calls
        })
        .await;
        let end = json!({ "hook_event_name": "SessionEnd", "session_id": "s", "reason": "exit" });
        assert_eq!(ended_at.agent().report(&end, "wait=1").await.status, 200);

        answer.notify_one();
        assert_eq!(call.await.unwrap().status, 200);

        for gate in &gates {
            let listed = gate.operator().get("/sessions").await.json();
            assert_eq!(listed, json!({ "sessions": [] }));
        }
    }
}

#[tokio::test]
async fn a_call_whose_hooks_run_does_not_restore_an_ended_session() {
    let upstream = Upstream::mock().await;
    let waiting = "echo run >>runs; [ $(wc -l <runs) = 1 ] || sleep 2; echo '{}'";
    let hooks = hook::config(&[("BeforeAgent", hook::command("waiting", waiting))]);
    let gate = TestGateway::start(&upstream, &hooks).await;
    let agent = || gate.agent().sending("x-hookgate-session", "s");
    agent().generate(MODEL, &conversation(&["one"])).await;

    let second = agent();
    let call = tokio::spawn(async move {
        let body = conversation(&["one", "yes", "two"]);
        second.generate(MODEL, &body).await
    });
    eventually("the hook runs again", TEST_TIMEOUT, || {
        gate.file("runs").lines().count() == 2
    })
    .await;
    let end = json!({ "hook_event_name": "SessionEnd", "session_id": "s", "reason": "exit" });
    assert_eq!(gate.agent().report(&end, "wait=1").await.status, 200);
    assert_eq!(call.await.unwrap().status, 200);

    let listed = gate.operator().get("/sessions").await.json();
    assert_eq!(listed, json!({ "sessions": [] }));
}

#[tokio::test]
async fn sessions_survive_a_restart_of_the_gateway() {
    let upstream = Upstream::mock().await;
    let redis = Redis::start();
    let gate = replica(&upstream, &redis).await;
    let id = session_id(&gate.agent(), &conversation(&["bad"])).await;
    gate.stop().await;

    let gate = replica(&upstream, &redis).await;
    let again = session_id(&gate.agent(), &conversation(&["bad", "no", "two"])).await;

    assert_eq!(id, again);
    assert_eq!(upstream_contents(&upstream).len(), 1);
    assert!(!upstream_contents(&upstream)[0].contains("bad"));
}

#[tokio::test]
async fn requests_succeed_and_denials_are_kept_during_an_outage_of_redis() {
    let upstream = Upstream::mock().await;
    let mut redis = Redis::start();
    let (gate, other) = (
        replica(&upstream, &redis).await,
        replica(&upstream, &redis).await,
    );
    let id = session_id(&gate.agent(), &conversation(&["one"])).await;

    redis.kill();
    let denied = session_id(&gate.agent(), &conversation(&["one", "A", "bad"])).await;
    let during_outage = session_id(
        &gate.agent(),
        &conversation(&["one", "A", "bad", "no", "two"]),
    )
    .await;
    redis.restart();
    let key = format!("EXISTS hookgate:4:session::{id}");
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !redis.ask(&key).starts_with(":1") {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the session is not written"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let turn = ["one", "A", "bad", "no", "two", "B", "three"];
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    let elsewhere = loop {
        let elsewhere = session_id(&other.agent(), &conversation(&turn)).await;
        // After an error, the gateway does not call Redis for a second.
        if elsewhere == id || tokio::time::Instant::now() > deadline {
            break elsewhere;
        }
    };

    assert_eq!([&denied, &during_outage, &elsewhere], [&id; 3]);
    assert!(
        upstream_contents(&upstream)
            .iter()
            .all(|text| !text.contains("bad"))
    );
    let metrics = gate.operator().get("/metrics").await;
    let prefix = "hookgate_session_store_failures_total ";
    let line = metrics.text().lines().find(|line| line.starts_with(prefix));
    assert!(line.is_some_and(|line| !line.ends_with(" 0")), "{line:?}");
}
