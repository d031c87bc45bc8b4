//! Callers authenticated by client certificates (mTLS).

use rcgen::{CertificateParams, DnType, SanType};

use super::auth;
use crate::{
    harness::{Agent, TestGateway, Upstream, assert_refused, prompt},
    tls::{Authority, MUTUAL, gate, of_an_agent},
};

/// Returns an agent with a certificate of `authority` for this DNS name.
fn agent(gate: &TestGateway, authority: &Authority, name: &str) -> Agent {
    let mut params: CertificateParams = of_an_agent();
    // The common name is not used; it may be that of another caller.
    params
        .distinguished_name
        .push(DnType::CommonName, "ann.example");
    params.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())];
    let (certificate, key) = authority.issue(&params);
    let identity = certificate + &key;
    gate.agent().over_tls(&authority.pem(), Some(&identity))
}

fn config(tls: &str) -> String {
    let keys = auth(&[("team-a", "")]);
    let mtls = "  mtls: { allow: [ann.example, bob.example], models: [\"small-*\"] }\n";
    format!("{tls}{keys}{mtls}denials: error\naudit: {{ path: audit.jsonl }}\n")
}

/// Returns the caller of each call and of each rejected request in the decision log.
fn logged_callers(log: &str) -> Vec<String> {
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let is_final =
        |line: &serde_json::Value| line["kind"] == "outcome" || line["kind"] == "rejected";
    let lines = lines.filter(is_final);
    lines
        .map(|line| line["caller"]["name"].as_str().unwrap_or("-").to_owned())
        .collect()
}

#[tokio::test]
async fn a_client_certificate_identifies_its_caller_and_its_grants() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, &config(MUTUAL)).await;
    let (ann, bob) = (
        agent(&gate, &authority, "ann.example"),
        agent(&gate, &authority, "bob.example"),
    );
    let eve = agent(&gate, &authority, "eve.example");

    // In turns, each on its own keep-alive connection.
    for agent in [&ann, &bob, &ann, &bob] {
        assert_eq!(agent.generate("small-1", &prompt("hi")).await.status, 200);
    }
    let refused = eve.generate("small-1", &prompt("hi")).await;
    assert_refused(&refused, 401, "UNAUTHENTICATED");
    let because = "the client certificate has no name that `auth.mtls` allows";
    assert!(refused.text().contains(because), "{}", refused.text());
    let denied = ann.generate("large", &prompt("hi")).await;
    assert_refused(&denied, 403, "POLICY_DENIED");
    // A key takes precedence over the certificate of the connection.
    let team = eve.sending("x-hookgate-key", "team-a-key");
    assert_eq!(team.generate("large", &prompt("hi")).await.status, 200);
    let anonymous = gate.agent().over_tls(&authority.pem(), None);
    let answer = anonymous.try_open("/v1beta/models", "").await;
    assert!(answer.is_err(), "no handshake without a certificate");

    assert_eq!(upstream.requests().len(), 5);
    let path = gate.path("audit.jsonl");
    let folder = gate.stop_and_keep_files().await;
    let names = logged_callers(&std::fs::read_to_string(path).unwrap());
    drop(folder);
    let (ann, bob) = ("mtls:ann.example", "mtls:bob.example");
    assert_eq!(names, [ann, bob, ann, bob, "-", ann, "team-a"]);
}

#[tokio::test]
async fn with_optional_certificates_an_agent_without_one_needs_a_key() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let optional = MUTUAL.replace(" }", ", client_certificates: optional }");
    let gate = gate(&upstream, &authority, &config(&optional)).await;
    let anonymous = gate.agent().over_tls(&authority.pem(), None);
    let other = Authority::new("theirs");
    let forged = {
        let mut params = of_an_agent();
        params.subject_alt_names = vec![SanType::DnsName("ann.example".try_into().unwrap())];
        let (certificate, key) = other.issue(&params);
        let identity = certificate + &key;
        gate.agent().over_tls(&authority.pem(), Some(&identity))
    };

    let without_key = anonymous.generate("m", &prompt("hi")).await;
    assert_refused(&without_key, 401, "UNAUTHENTICATED");
    let forged = forged.try_open("/v1beta/models", "").await;
    assert!(
        forged.is_err(),
        "the handshake fails with a certificate of another authority"
    );
    let with_key = anonymous.sending("x-hookgate-key", "team-a-key");
    assert_eq!(with_key.generate("m", &prompt("hi")).await.status, 200);
    let ann = agent(&gate, &authority, "ann.example");
    assert_eq!(ann.generate("small-1", &prompt("hi")).await.status, 200);
    assert_eq!(upstream.requests().len(), 2);
}
