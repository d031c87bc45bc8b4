//! Callers that show a key.

use std::net::Ipv4Addr;

use serde_json::json;

use super::{auth, sha256};
use crate::harness::{Agent, TestGateway, Upstream, assert_refused, prompt, run};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const HOOK: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > seen; env >> seen }] }] }\n";

/// Every way to show `key`, and the path to ask.
fn ways(gate: &TestGateway, key: &str) -> Vec<(Agent, String)> {
    let agent = || gate.agent();
    let headers = [
        ("x-hookgate-key", key.to_owned()),
        ("x-goog-api-key", key.to_owned()),
        ("authorization", format!("Bearer {key}")),
        ("authorization", format!("bearer {key}")),
    ];
    let mut ways: Vec<(Agent, String)> = headers
        .into_iter()
        .map(|(name, value)| (agent().sending(name, value), GENERATE.to_owned()))
        .collect();
    ways.push((agent(), format!("{GENERATE}?key={key}")));
    // gemini-cli shows its key twice if it is set to use a bearer.
    let twice = agent().sending("x-goog-api-key", key);
    let twice = twice.sending("authorization", format!("Bearer {key}"));
    ways.push((twice, GENERATE.to_owned()));
    // An empty key is none.
    let empty = agent().sending("x-goog-api-key", "");
    ways.push((empty.sending("x-hookgate-key", key), GENERATE.to_owned()));
    ways
}

#[tokio::test]
async fn a_caller_is_known_by_its_key_which_goes_nowhere() {
    for hook in ["", HOOK] {
        let upstream = Upstream::mock().await;
        let config = auth(&[("team-a", ""), ("team-b", "")]) + hook;
        let gate = TestGateway::start(&upstream, &config).await;
        for (agent, path) in ways(&gate, "team-a-key") {
            let answer = agent.post(&path, prompt("hi").to_string()).await;

            assert_eq!(answer.status, 200, "{}", answer.text());
            let asked = upstream.seen().pop().unwrap();
            let all = format!("{:?}{}{}", asked.headers, asked.query, asked.body);
            assert!(!all.contains("team-a"), "{all}");
            assert!(
                !gate.file("seen").contains("team-a"),
                "{}",
                gate.file("seen")
            );
        }
    }
}

#[tokio::test]
async fn who_is_not_known_is_refused_on_every_path() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &auth(&[("team-a", "")])).await;
    let strangers = [
        gate.agent(),
        gate.agent().sending("x-goog-api-key", ""),
        gate.agent().sending("authorization", "Bearer"),
        gate.agent().sending("x-hookgate-key", "team-a"),
        gate.agent().sending("x-goog-api-key", sha256("team-a-key")),
        gate.agent().sending("authorization", "Basic team-a-key"),
        gate.agent().sending("cookie", "key=team-a-key"),
    ];

    for stranger in strangers {
        let paths = [
            GENERATE,
            "/hookgate/v1/events",
            "/s/x/v1beta/models/m:countTokens",
            "/",
        ];
        for path in paths {
            let answer = stranger.post(path, prompt("hi").to_string()).await;
            assert_refused(&answer, 401, "UNAUTHENTICATED");
            assert_eq!(
                answer.header("www-authenticate"),
                "Bearer realm=\"hookgate\""
            );
        }
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn of_two_keys_only_that_for_hookgate_counts() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &auth(&[("team-a", ""), ("team-b", "")])).await;
    let ask = async |agent: Agent, path: &str| agent.post(path, prompt("hi").to_string()).await;

    // Either could count.
    let own = || gate.agent().sending("x-goog-api-key", "team-a-key");
    for (agent, path) in [
        (own().sending("authorization", "Bearer other"), GENERATE),
        (own(), "/v1beta/models/m:generateContent?key=other"),
        (
            gate.agent(),
            "/v1beta/models/m:generateContent?key=team-a-key&key=x",
        ),
    ] {
        let answer = ask(agent, path).await;
        assert_refused(&answer, 400, "AMBIGUOUS");
    }
    assert!(upstream.seen().is_empty());

    // The agent's own credentials go through.
    let both = || gate.agent().sending("x-hookgate-key", "team-a-key");
    let agent = both().sending("x-goog-api-key", "GOOGLE");
    let agent = agent.sending("authorization", "Bearer TOKEN");
    assert_eq!(ask(agent, GENERATE).await.status, 200);
    let asked = upstream.only();
    assert_eq!(asked.header("x-goog-api-key"), "GOOGLE");
    assert_eq!(asked.header("authorization"), "Bearer TOKEN");
    assert_eq!(asked.header("x-hookgate-key"), "");
    let answer = ask(both(), "/v1beta/models/m:generateContent?key=QUERY").await;
    assert_eq!(answer.status, 200);
    let asked = upstream.seen().pop().unwrap();
    assert_eq!(asked.header("x-goog-api-key"), "QUERY");

    // But not a key of hookgate of any caller.
    for key in ["team-a-key", "team-b-key"] {
        let agent = both().sending("x-goog-api-key", key);
        let agent = agent.sending("authorization", format!("Bearer {key}"));
        let path = format!("{GENERATE}?key={key}");
        assert_eq!(ask(agent, &path).await.status, 200);
        let asked = upstream.seen().pop().unwrap();
        let all = format!("{:?}{}", asked.headers, asked.query);
        assert!(!all.contains("-key\""), "{all}");
    }

    // A wrong one for hookgate is not mended by a right one elsewhere.
    let agent = own().sending("x-hookgate-key", "wrong");
    assert_refused(&ask(agent, GENERATE).await, 401, "UNAUTHENTICATED");
}

#[tokio::test]
async fn each_caller_has_a_key_of_its_own_upstream() {
    let config = "upstreams: { gemini: { url: \"{upstream}\", api_key: { file: own } } }\n"
        .to_owned()
        + &auth(&[("team-a", ", upstream_key: { file: a }"), ("team-b", "")]);
    for hook in ["", HOOK] {
        let upstream = Upstream::mock().await;
        let files = [("own", "OWN"), ("a", "FOR-A")];
        let gate = TestGateway::with_files(&upstream, &(config.clone() + hook), &files).await;

        for (caller, expected) in [("team-a", "FOR-A"), ("team-b", "OWN")] {
            let agent = gate
                .agent()
                .sending("x-hookgate-key", format!("{caller}-key"));
            let agent = agent.sending("authorization", "Bearer AGENT");
            agent.generate("m", &prompt("hi")).await;

            let asked = upstream.seen().pop().unwrap();
            assert_eq!(asked.header("x-goog-api-key"), expected);
            assert_eq!(asked.header("authorization"), "");
        }
    }
}

#[tokio::test]
async fn who_guesses_is_not_asked_any_more() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &auth(&[("team-a", ""), ("team-b", "")])).await;
    let agent = |name: &str| {
        gate.agent()
            .sending("x-goog-api-key", format!("{name}-key"))
    };
    assert_eq!(
        agent("team-a").generate("m", &prompt("hi")).await.status,
        200
    );

    for _ in 0..20 {
        let answer = agent("guess").generate("m", &prompt("hi")).await;
        assert_refused(&answer, 401, "UNAUTHENTICATED");
    }
    let answer = agent("guess").generate("m", &prompt("hi")).await;

    assert_refused(&answer, 429, "TOO_MANY_ATTEMPTS");
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // Nor does a right guess show; callers that were authenticated before go on.
    let answer = agent("team-b").generate("m", &prompt("hi")).await;
    assert_refused(&answer, 429, "TOO_MANY_ATTEMPTS");
    assert_eq!(
        agent("team-a").generate("m", &prompt("hi")).await.status,
        200
    );
    let elsewhere = agent("team-b").from(Ipv4Addr::new(127, 0, 0, 2).into());
    assert_eq!(elsewhere.generate("m", &prompt("hi")).await.status, 200);
    let metrics = gate.operator().get("/metrics").await;
    for line in [
        "hookgate_auth_failures_total{reason=\"unknown\"} 20",
        "hookgate_auth_failures_total{reason=\"throttled\"} 2",
        "hookgate_caller_requests_total{caller=\"team-a\",outcome=\"accepted\"} 2",
    ] {
        assert!(metrics.text().contains(line), "{}", metrics.text());
    }
}

#[tokio::test]
async fn conditions_and_hooks_know_who_calls() {
    let upstream = Upstream::mock().await;
    let deny =
        r#"policies: [{ policy: prompt_guard, deny: ["."], when: caller.name == "team-b" }]"#;
    let config = auth(&[("team-a", ""), ("team-b", "")]) + "denials: error\n" + deny;
    let gate = TestGateway::start(&upstream, &config).await;

    for (name, status) in [("team-a", 200), ("team-b", 403)] {
        let agent = gate
            .agent()
            .sending("x-goog-api-key", format!("{name}-key"));
        assert_eq!(agent.generate("m", &prompt("hi")).await.status, status);
        let event = json!({ "hook_event_name": "BeforeAgent", "prompt": "hi" });
        let decision = agent.report(&event, "").await.json()["decision"].clone();
        assert_eq!(decision == "deny", status == 403, "{decision}");
    }
}

#[test]
fn a_made_key_fits_its_line_of_the_config() {
    let folder = tempfile::tempdir().unwrap();
    // As YAML, some of these are no text.
    for name in ["team-x", "true", "12", "1e3", &"a".repeat(64)] {
        let (code, said, _) = run(&["key", name], folder.path());

        assert_eq!(code, 0);
        let lines: Vec<&str> = said.lines().collect();
        let line = format!("- {{ name: \"{name}\", sha256: \"{}\" }}", sha256(lines[1]));
        assert_eq!(lines[4], line);
        let config = format!(
            "upstreams: {{ gemini: {{ url: https://a, api_key: {{ file: key }} }} }}\nauth:\n  keys:\n    {line}\n"
        );
        std::fs::write(folder.path().join("key"), "k").unwrap();
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
    }
    let (_, said, _) = run(&["key"], folder.path());
    let lines: Vec<&str> = said.lines().collect();
    let (_, other, _) = run(&["key"], folder.path());
    assert_ne!(other.lines().nth(1), Some(lines[1]));
}

#[test]
fn no_key_is_made_for_a_name_that_the_config_refuses() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "bad name",
        "",
        ".a",
        "jwt:a",
        "a\n",
        "\u{e4}",
        &"a".repeat(65),
    ] {
        let (code, said, stderr) = run(&["key", name], folder.path());

        assert_ne!(code, 0, "{name:?}");
        assert_eq!(said, "", "{name:?}");
        assert!(stderr.contains("must be 1 to 64 of"), "{name:?}: {stderr}");
        let keys = format!(
            "keys: [{{ name: {}, sha256: {} }}]",
            json!(name),
            "a".repeat(64)
        );
        let config = format!("upstreams: {{ gemini: {{ url: https://a }} }}\nauth: {{ {keys} }}\n");
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!(code, 78, "{name:?}: {stderr}");
    }
}
