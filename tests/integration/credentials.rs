//! Credentials of agents and of the config, and where each is sent.

mod echoes;
mod headers;

use crate::harness::{TestGateway, Upstream, assert_refused, prompt};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const HOOK: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > seen; env >> seen }] }] }";

/// Returns the credentials that upstream receives when an agent sends all kinds of them.
async fn credentials_at_upstream(config: &str, files: &[(&str, &str)]) -> (String, String, String) {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::with_files(&upstream, config, files).await;
    let agent = gate
        .agent()
        .sending("x-goog-api-key", "AGENT-KEY")
        .sending("authorization", "Bearer AGENT-TOKEN");
    let path = format!("{GENERATE}?key=AGENT-QUERY");

    let answer = agent.post(&path, prompt("hi").to_string()).await;

    assert_eq!(answer.status, 200);
    let hook = gate.file("seen");
    for key in ["AGENT-KEY", "AGENT-TOKEN", "AGENT-QUERY", "OWN-KEY"] {
        assert!(!hook.contains(key), "{hook}");
    }
    let asked = upstream.only_request();
    let (key, bearer) = (
        asked.header("x-goog-api-key"),
        asked.header("authorization"),
    );
    (key.to_owned(), bearer.to_owned(), asked.query)
}

#[tokio::test]
async fn without_a_configured_key_credentials_of_the_agent_are_forwarded() {
    for hooks in ["", HOOK] {
        let (key, bearer, query) = credentials_at_upstream(hooks, &[]).await;

        assert_eq!(key, "AGENT-KEY");
        assert_eq!(bearer, "Bearer AGENT-TOKEN");
        assert_eq!(query, "");
    }
}

#[tokio::test]
async fn a_configured_key_replaces_every_credential() {
    for hooks in ["", HOOK] {
        let upstreams =
            "upstreams: { gemini: { url: \"{upstream}\", api_key: { file: key } } }".to_owned();
        let files = [("key", "OWN-KEY\n")];
        let (key, bearer, query) =
            credentials_at_upstream(&(upstreams + "\n" + hooks), &files).await;

        assert_eq!(key, "OWN-KEY");
        assert_eq!((bearer.as_str(), query.as_str()), ("", ""));
    }
}

#[tokio::test]
async fn a_configured_token_replaces_every_credential() {
    for hooks in ["", HOOK] {
        let upstreams =
            "upstreams: { gemini: { url: \"{upstream}\", bearer: { file: key } } }".to_owned();
        let files = [("key", "OWN-KEY\n")];
        let (key, bearer, query) =
            credentials_at_upstream(&(upstreams + "\n" + hooks), &files).await;

        assert_eq!(bearer, "Bearer OWN-KEY");
        assert_eq!((key.as_str(), query.as_str()), ("", ""));
    }
}

#[tokio::test]
async fn calls_of_an_api_that_is_not_configured_are_refused() {
    let upstream = Upstream::mock().await;
    let config = "upstreams: { vertex: { url: \"{upstream}\" } }\n".to_owned();
    for hooks in ["", HOOK] {
        let gate = TestGateway::start(&upstream, &(config.clone() + hooks)).await;
        let answer = gate.agent().post(GENERATE, prompt("hi").to_string()).await;
        assert_refused(&answer, 403, "UPSTREAM_NOT_CONFIGURED");
        assert_eq!(gate.file("seen"), "");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_key_in_the_query_is_forwarded_as_a_header() {
    for (hooks, header) in [("", None), ("", Some("")), (HOOK, None), (HOOK, Some(""))] {
        let upstream = Upstream::mock().await;
        let gate = TestGateway::start(&upstream, hooks).await;
        let agent = match header {
            Some(empty) => gate.agent().sending("x-goog-api-key", empty),
            None => gate.agent(),
        };

        let path = format!("{GENERATE}?key=A%2BB");
        agent.post(&path, prompt("hi").to_string()).await;

        let asked = upstream.only_request();
        assert_eq!((asked.header("x-goog-api-key"), &*asked.query), ("A+B", ""));
    }
}
