//! What recordings never hold.

use serde_json::json;

use super::{RECORD, plain_text};
use crate::{
    families::family::{Family, Said, Turn, each},
    harness::{TestGateway, Upstream, prompt},
};

/// A key in the form of AWS's, which all detectors mask.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLQ";

async fn text_of(gateway: TestGateway) -> String {
    let folder = gateway.stop_keeping().await;
    plain_text(&folder.path().join("recordings"))
}

#[tokio::test]
async fn a_secret_is_masked_at_every_cut_of_every_api() {
    for family in [
        Family::Gemini,
        Family::Anthropic,
        Family::Responses,
        Family::Chat,
    ] {
        let cuts = (0..=SECRET.len()).step_by(3).map(|cut| {
            let (one, two) = SECRET.split_at(cut);
            vec![Said::text(&["see ", one, two, " now"])]
        });
        let cuts: Vec<Vec<Said>> = cuts.collect();
        let upstream = family.upstream(cuts.clone()).await;
        let gateway = family.gateway(&upstream, RECORD).await;
        for _ in 0..cuts.len() {
            let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
            assert_eq!(answer.status, 200);
        }

        let text = text_of(gateway).await;

        assert_eq!(text.lines().count(), cuts.len());
        assert!(!text.contains(SECRET), "{family:?}");
        // Without their escapes, the texts of a line give the secret nowhere.
        for line in text.lines() {
            assert!(line.contains("[REDACTED:aws_key]"), "{family:?}: {line}");
        }
    }
}

#[tokio::test]
async fn secrets_of_requests_tools_and_hooks_are_masked() {
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![vec![Said::call("look", SECRET)]])
            .await;
        let hooks = format!(
            "hooks: {{ BeforeTool: [{{ hooks: [{{ command: 'echo {SECRET} >&2; exit 2' }}] }}] }}\n"
        );
        let gateway = family.gateway(&upstream, &format!("{RECORD}{hooks}")).await;
        let turns = [
            Turn::User(SECRET),
            Turn::Call("look", SECRET),
            Turn::Result("look", SECRET),
        ];
        family.ask(&gateway, is_stream, &turns).await;

        let text = text_of(gateway).await;

        assert!(
            text.contains("REDACTED") && !text.contains(SECRET),
            "{family:?}"
        );
    }
}

#[tokio::test]
async fn patterns_of_redact_policies_are_masked() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: redact, detect: [], patterns: { ticket: 'TICKET-[0-9]{4}' }, on: [answer] }]\n";
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{policy}")).await;
    gateway
        .agent()
        .generate("m", &prompt("about TICKET-0042"))
        .await;

    let text = text_of(gateway).await;

    assert!(
        text.contains("[REDACTED:ticket]") && !text.contains("TICKET-0042"),
        "{text}"
    );
}

#[tokio::test]
async fn nothing_is_masked_only_if_that_is_said() {
    let upstream = Upstream::mock().await;
    let config = "record: { path: recordings, redact: none }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    gateway.agent().generate("m", &prompt(SECRET)).await;

    assert!(text_of(gateway).await.contains(SECRET));
}

#[tokio::test]
async fn credentials_are_never_recorded() {
    const CANARIES: [&str; 5] = ["CANARY-1", "CANARY-2", "CANARY-3", "CANARY-4", "CANARY-5"];
    let upstream = Upstream::with(|_| {
        let answer = json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] } }] });
        let mut response = crate::harness::respond(200, "application/json", answer.to_string());
        let cookie = http::HeaderValue::from_static("CANARY-4");
        response.headers_mut().insert("set-cookie", cookie);
        response
    })
    .await;
    for hooks in ["", "policies: [{ policy: model_allow, models: ['*'] }]\n"] {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"{{upstream}}\", headers: {{ x-own: {{ file: own }} }} }} }}\n\
             record: {{ path: recordings, redact: none }}\n{hooks}"
        );
        let gateway = TestGateway::with_files(&upstream, &config, &[("own", "CANARY-5")]).await;
        let agent = gateway.agent().sending("cookie", CANARIES[0]);
        let agent = agent.sending("x-other", CANARIES[1]);
        let path = "/v1beta/models/m:generateContent?key=CANARY-3";
        let answer = agent.post(path, prompt("hi").to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let agent = gateway.agent().sending("x-goog-api-key", CANARIES[1]);
        agent.generate("m", &prompt("hi")).await;

        let text = text_of(gateway).await;

        assert_eq!(text.lines().count(), 2);
        for canary in CANARIES {
            assert!(!text.contains(canary), "{canary}");
        }
    }
}
