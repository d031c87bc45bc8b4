//! Selection of recorded exchanges: sampling, callers and outcomes.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{only_exchange, recorded};
use crate::harness::{TestGateway, Upstream, prompt, respond};

const GUARD: &str = "policies: [{ policy: prompt_guard, deny: [secret] }]\n";

#[tokio::test]
async fn sampling_records_whole_sessions() {
    let upstream = Upstream::mock().await;
    for hooks in ["", "policies: [{ policy: model_allow, models: ['*'] }]\n"] {
        let config = format!("record: {{ path: recordings, what: {{ sample: 0.5 }} }}\n{hooks}");
        let gateway = TestGateway::start(&upstream, &config).await;
        for number in 0..90 {
            let session = format!("session-{}", number % 30);
            let agent = gateway.agent().sending("x-hookgate-session", session);
            agent.generate("m", &prompt("hi")).await;
        }

        let mut calls: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for exchange in recorded(gateway).await {
            let session = exchange.session.unwrap();
            calls.entry(session.id).or_default().push(session.place);
        }

        assert!((5..26).contains(&calls.len()), "{}", calls.len());
        assert!(
            calls.values().all(|places| *places == [0, 1, 2]),
            "{calls:?}"
        );
    }
}

#[tokio::test]
async fn trials_are_not_recorded() {
    let upstream = Upstream::mock().await;
    let config = format!("record: {{ path: recordings }}\n{GUARD}");
    let gateway = TestGateway::start(&upstream, &config).await;
    let call = gateway.agent().generate("m", &prompt("hi")).await;
    let input = json!({ "contents": [{ "parts": [{ "text": "a secret" }] }] });

    for mode in ["run", "plan"] {
        let trial = json!({ "input": input, "mode": mode }).to_string();
        let trial = gateway.operator().post("/try", trial).await;
        assert_eq!(trial.status, 200, "{}", trial.text());
    }

    let exchange = only_exchange(recorded(gateway).await);
    assert_eq!(exchange.id, call.header("x-hookgate-request-id"));
}

#[tokio::test]
async fn only_the_named_callers_are_recorded() {
    let upstream = Upstream::mock().await;
    let sha256 = |key: &str| HEXLOWER.encode(&Sha256::digest(key));
    let (recorded_key, other_key) = (
        "key-of-team-a-0123456789abcdef",
        "key-of-team-b-0123456789abcdef",
    );
    let config = format!(
        "record: {{ path: recordings, what: {{ callers: [team-a] }} }}\n\
         auth: {{ keys: [{{ name: team-a, sha256: {} }}, {{ name: team-b, sha256: {} }}] }}\n",
        sha256(recorded_key),
        sha256(other_key)
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    for key in [recorded_key, other_key, recorded_key] {
        let agent = gateway.agent().sending("x-hookgate-key", key);
        assert_eq!(agent.generate("m", &prompt("hi")).await.status, 200);
    }

    let callers: Vec<String> = recorded(gateway)
        .await
        .into_iter()
        .map(|exchange| exchange.caller)
        .collect();

    assert_eq!(callers, ["team-a", "team-a"]);
}

#[tokio::test]
async fn recording_can_be_limited_to_denied_exchanges() {
    let upstream = Upstream::mock().await;
    let config = format!("record: {{ path: recordings, what: {{ only: [denied] }} }}\n{GUARD}");
    let gateway = TestGateway::start(&upstream, &config).await;
    for text in ["hi", "a secret", "ho"] {
        gateway.agent().generate("m", &prompt(text)).await;
    }

    let actions: Vec<String> = recorded(gateway)
        .await
        .into_iter()
        .map(|exchange| exchange.outcome.action)
        .collect();

    assert_eq!(actions, ["deny"]);
}

#[tokio::test]
async fn an_edited_request_is_recorded_however_its_call_ends() {
    let policies = "policies:\n\
        - { policy: redact, detect: [email] }\n\
        - { policy: prompt_guard, deny: [secret] }\n";
    for (only, text, action) in [
        ("edited", "a secret of bob@example.com", "deny"),
        ("denied, edited", "mail bob@example.com", "error"),
    ] {
        let upstream = Upstream::with(|_| respond(502, "text/html", "<html>bad</html>")).await;
        let config =
            format!("record: {{ path: recordings, what: {{ only: [{only}] }} }}\n{policies}");
        let gateway = TestGateway::start(&upstream, &config).await;
        gateway.agent().generate("m", &prompt(text)).await;
        gateway.agent().generate("m", &prompt("hi")).await;

        let exchange = only_exchange(recorded(gateway).await);

        assert_eq!(exchange.outcome.action, action);
    }
}

#[tokio::test]
async fn calls_outside_of_the_sample_have_their_places_in_the_session() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "record: {{ path: recordings, what: {{ sample: 0.5, sessions: calls }} }}\n{GUARD}"
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-session", "s");
    let mut calls = Vec::new();
    for _ in 0..40 {
        let answer = agent.generate("m", &prompt("hi")).await;
        calls.push(answer.header("x-hookgate-request-id").to_owned());
    }

    let recorded = recorded(gateway).await;

    assert!((5..36).contains(&recorded.len()), "{}", recorded.len());
    for exchange in recorded {
        let place = calls.iter().position(|id| *id == exchange.id).unwrap();
        assert_eq!(exchange.session.unwrap().place, place as u64);
    }
}
