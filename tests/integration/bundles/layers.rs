//! Layers: bundles of an organisation and of a team on one replica.

use super::{
    replicas::Replica,
    server::{PolicyServer, Polling, Publisher},
};
use crate::harness::prompt;

/// Returns the entry of a layer in the config of a replica.
fn layer(server: &PolicyServer, name: &str, publisher: &Publisher) -> String {
    let (url, key) = (server.url(name), publisher.public_key());
    format!("    - {{ name: {name}, url: \"{url}\", keys: [\"{key}\"] }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_cannot_weaken_the_organisation_on_a_replica() {
    let (org, team) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Polling::Long).await;
    let publish_team = |revision: &str, config: &str| {
        let manifest = team.manifest(revision);
        server.publish("team", team.signed(manifest, &[("hookgate.yaml", config)]));
    };
    let models = "policies: [{ name: org, policy: model_allow, models: [\"gemini-*\", m] }]\n";
    server.publish(
        "org",
        org.signed(org.manifest("1"), &[("hookgate.yaml", models)]),
    );
    publish_team(
        "1",
        "policies: [{ name: team, policy: model_allow, models: [m, other] }]\n",
    );
    let layers = layer(&server, "org", &org) + &layer(&server, "team", &team);
    let replica = Replica::start(&format!("  layers:\n{layers}")).await;
    let is_denied = async |model: &str| {
        let answer = replica.agent.generate(model, &prompt("hello")).await;
        !answer.text().contains("You said")
    };
    // Only models on both allow lists pass.
    assert!(!is_denied("m").await);
    assert!(is_denied("gemini-2.5-pro").await && is_denied("other").await);

    publish_team(
        "2",
        "policies: [{ name: org, policy: model_allow, models: [\"*\"], mode: observe }]\n",
    );
    let error = replica
        .wait_for_error("`org` is the name of a policy or hook of the bundle `org`")
        .await;
    assert!(error.contains("hookgate.yaml:1:12: "), "{error}");
    publish_team("3", "ask: allow\n");
    replica
        .wait_for_error("hookgate.yaml:1:1: `ask` applies to all layers")
        .await;
    // The team's key is not valid for the bundle of the organisation.
    server.publish(
        "org",
        team.signed(team.manifest("9"), &[("hookgate.yaml", "policies: []\n")]),
    );
    replica
        .wait_for_error("the signature of `manifest.json`")
        .await;
    assert!(is_denied("gemini-2.5-pro").await && !is_denied("m").await);

    // The organisation's policies inspect what a policy of the team has changed.
    server.publish(
        "org",
        org.signed(org.manifest("2"), &[("hookgate.yaml", models)]),
    );
    publish_team(
        "4",
        "policies: [{ name: swap, policy: model_swap, swap: { m: other } }]\n",
    );
    replica
        .wait_until(|bundles| bundles[1]["revision"] == "4")
        .await;
    assert!(
        is_denied("m").await,
        "`other` is no model of the organisation"
    );
    assert!(!is_denied("gemini-2.5-pro").await);
}
