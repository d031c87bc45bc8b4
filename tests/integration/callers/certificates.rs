//! Callers known by the certificate of their connection.

use rcgen::{CertificateParams, DnType, SanType};

use super::auth;
use crate::{
    harness::{Agent, TestGateway, Upstream, assert_refused, prompt},
    tls::{Authority, MUTUAL, gate, of_an_agent},
};

/// Who shows a certificate of `authority` with this name.
fn agent(gate: &TestGateway, authority: &Authority, name: &str) -> Agent {
    let mut params: CertificateParams = of_an_agent();
    // A common name is not asked for here, and says something else.
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

/// The callers' names in the decision log, of each call and refusal.
fn callers(log: &str) -> Vec<String> {
    let lines = log.lines().map(|it| serde_json::from_str(it).unwrap());
    let ends = |it: &serde_json::Value| it["kind"] == "outcome" || it["kind"] == "rejected";
    let lines = lines.filter(ends);
    lines
        .map(|it| it["caller"]["name"].as_str().unwrap_or("-").to_owned())
        .collect()
}

#[tokio::test]
async fn a_certificate_names_its_caller_and_what_it_may_use() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, &config(MUTUAL)).await;
    let (ann, bob) = (
        agent(&gate, &authority, "ann.example"),
        agent(&gate, &authority, "bob.example"),
    );
    let eve = agent(&gate, &authority, "eve.example");

    // In turns, each on a connection that it keeps.
    for agent in [&ann, &bob, &ann, &bob] {
        assert_eq!(agent.generate("small-1", &prompt("hi")).await.status, 200);
    }
    let refused = eve.generate("small-1", &prompt("hi")).await;
    assert_refused(&refused, 401, "UNAUTHENTICATED");
    let denied = ann.generate("large", &prompt("hi")).await;
    assert_refused(&denied, 403, "POLICY_DENIED");
    // A key says more than the connection that it comes by.
    let team = eve.sending("x-hookgate-key", "team-a-key");
    assert_eq!(team.generate("large", &prompt("hi")).await.status, 200);
    let nobody = gate.agent().over_tls(&authority.pem(), None);
    let answer = nobody.try_to_open("/v1beta/models", "").await;
    assert!(answer.is_err(), "no handshake without a certificate");

    assert_eq!(upstream.seen().len(), 5);
    let path = gate.path("audit.jsonl");
    let folder = gate.stop_keeping().await;
    let names = callers(&std::fs::read_to_string(path).unwrap());
    drop(folder);
    let (ann, bob) = ("mtls:ann.example", "mtls:bob.example");
    assert_eq!(names, [ann, bob, ann, bob, "-", ann, "team-a"]);
}

#[tokio::test]
async fn who_need_not_show_a_certificate_is_asked_for_a_key() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let optional = MUTUAL.replace(" }", ", client_certificates: optional }");
    let gate = gate(&upstream, &authority, &config(&optional)).await;
    let nobody = gate.agent().over_tls(&authority.pem(), None);
    let other = Authority::new("theirs");
    let forged = {
        let mut params = of_an_agent();
        params.subject_alt_names = vec![SanType::DnsName("ann.example".try_into().unwrap())];
        let (certificate, key) = other.issue(&params);
        let identity = certificate + &key;
        gate.agent().over_tls(&authority.pem(), Some(&identity))
    };

    let silent = nobody.generate("m", &prompt("hi")).await;
    assert_refused(&silent, 401, "UNAUTHENTICATED");
    let forged = forged.try_to_open("/v1beta/models", "").await;
    assert!(forged.is_err(), "a wrong certificate is no certificate");
    let known = nobody.sending("x-hookgate-key", "team-a-key");
    assert_eq!(known.generate("m", &prompt("hi")).await.status, 200);
    let ann = agent(&gate, &authority, "ann.example");
    assert_eq!(ann.generate("small-1", &prompt("hi")).await.status, 200);
    assert_eq!(upstream.seen().len(), 2);
}
