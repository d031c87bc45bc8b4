//! Callers authenticated by keys: credentials, throttling and generated keys.

use std::net::Ipv4Addr;

use serde_json::json;

use super::{auth, sha256};
use crate::harness::{Agent, TestGateway, Upstream, assert_refused, prompt, run};

const GENERATE: &str = "/v1beta/models/m:generateContent";
const HOOK: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > seen; env >> seen }] }] }\n";

/// Returns agents that send `key`, one for each place of a key, each with the path to call.
fn agents_with_key(gate: &TestGateway, key: &str) -> Vec<(Agent, String)> {
    let agent = || gate.agent();
    let headers = [
        ("x-hookgate-key", key.to_owned()),
        ("x-goog-api-key", key.to_owned()),
        ("authorization", format!("Bearer {key}")),
        ("authorization", format!("bearer {key}")),
    ];
    let mut agents: Vec<(Agent, String)> = headers
        .into_iter()
        .map(|(name, value)| (agent().sending(name, value), GENERATE.to_owned()))
        .collect();
    agents.push((agent(), format!("{GENERATE}?key={key}")));
    // gemini-cli sends its key twice if it is configured to use a bearer token.
    let twice = agent().sending("x-goog-api-key", key);
    let twice = twice.sending("authorization", format!("Bearer {key}"));
    agents.push((twice, GENERATE.to_owned()));
    // An empty key is ignored.
    let empty = agent().sending("x-goog-api-key", "");
    agents.push((empty.sending("x-hookgate-key", key), GENERATE.to_owned()));
    agents
}

#[tokio::test]
async fn a_key_authenticates_its_caller_and_reaches_no_upstream_and_no_hook() {
    for hook in ["", HOOK] {
        let upstream = Upstream::mock().await;
        let config = auth(&[("team-a", ""), ("team-b", "")]) + hook;
        let gate = TestGateway::start(&upstream, &config).await;
        for (agent, path) in agents_with_key(&gate, "team-a-key") {
            let answer = agent.post(&path, prompt("hi").to_string()).await;

            assert_eq!(answer.status, 200, "{}", answer.text());
            let asked = upstream.requests().pop().unwrap();
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
async fn a_key_as_bearer_token_names_the_api_of_a_path_that_several_have() {
    let (gemini, openai) = (Upstream::mock().await, Upstream::mock().await);
    for google in [
        format!("gemini: {{ url: \"http://{}\" }},", gemini.addr),
        String::new(),
    ] {
        let config = format!(
            "upstreams: {{ {google} openai: {{ url: \"http://{}\" }} }}\n\
             coverage: {{ allow: [openai_api.files.*, files.*] }}\n{}",
            openai.addr,
            auth(&[("team-a", "")])
        );
        let gate = TestGateway::start(&openai, &config).await;
        let agent = gate.agent().sending("authorization", "Bearer team-a-key");
        for path in ["/v1/models", "/v1/models/gpt-5", "/v1/files"] {
            agent.get(path).await;
            let asked = openai.requests().pop();
            assert_eq!(asked.map(|asked| asked.path).as_deref(), Some(path));
        }
    }
    assert_eq!(gemini.requests().len(), 0);
}

#[tokio::test]
async fn requests_without_a_valid_key_are_refused_on_every_path() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &auth(&[("team-a", "")])).await;
    let unauthenticated = [
        gate.agent(),
        gate.agent().sending("x-goog-api-key", ""),
        gate.agent().sending("authorization", "Bearer"),
        gate.agent().sending("x-hookgate-key", "team-a"),
        gate.agent().sending("x-goog-api-key", sha256("team-a-key")),
        gate.agent().sending("authorization", "Basic team-a-key"),
        gate.agent().sending("cookie", "key=team-a-key"),
    ];

    for agent in unauthenticated {
        let paths = [
            GENERATE,
            "/hookgate/v1/events",
            "/s/x/v1beta/models/m:countTokens",
            "/",
        ];
        for path in paths {
            let answer = agent.post(path, prompt("hi").to_string()).await;
            assert_refused(&answer, 401, "UNAUTHENTICATED");
            assert_eq!(
                answer.header("www-authenticate"),
                "Bearer realm=\"hookgate\""
            );
        }
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn the_hookgate_key_header_takes_precedence_and_ambiguity_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, &auth(&[("team-a", ""), ("team-b", "")])).await;
    let ask = async |agent: Agent, path: &str| agent.post(path, prompt("hi").to_string()).await;

    // Either credential could be meant.
    let with_google_key = || gate.agent().sending("x-goog-api-key", "team-a-key");
    for (agent, path) in [
        (
            with_google_key().sending("authorization", "Bearer other"),
            GENERATE,
        ),
        (
            with_google_key(),
            "/v1beta/models/m:generateContent?key=other",
        ),
        (
            gate.agent(),
            "/v1beta/models/m:generateContent?key=team-a-key&key=x",
        ),
    ] {
        let answer = ask(agent, path).await;
        assert_refused(&answer, 400, "AMBIGUOUS");
    }
    assert!(upstream.requests().is_empty());

    // The agent's own credentials are forwarded.
    let with_hookgate_key = || gate.agent().sending("x-hookgate-key", "team-a-key");
    let agent = with_hookgate_key().sending("x-goog-api-key", "GOOGLE");
    let agent = agent.sending("authorization", "Bearer TOKEN");
    assert_eq!(ask(agent, GENERATE).await.status, 200);
    let asked = upstream.only_request();
    assert_eq!(asked.header("x-goog-api-key"), "GOOGLE");
    assert_eq!(asked.header("authorization"), "Bearer TOKEN");
    assert_eq!(asked.header("x-hookgate-key"), "");
    let answer = ask(
        with_hookgate_key(),
        "/v1beta/models/m:generateContent?key=QUERY",
    )
    .await;
    assert_eq!(answer.status, 200);
    let asked = upstream.requests().pop().unwrap();
    assert_eq!(asked.header("x-goog-api-key"), "QUERY");

    // A hookgate key of any caller is not forwarded.
    for key in ["team-a-key", "team-b-key"] {
        let agent = with_hookgate_key().sending("x-goog-api-key", key);
        let agent = agent.sending("authorization", format!("Bearer {key}"));
        let path = format!("{GENERATE}?key={key}");
        assert_eq!(ask(agent, &path).await.status, 200);
        let asked = upstream.requests().pop().unwrap();
        let all = format!("{:?}{}", asked.headers, asked.query);
        assert!(!all.contains("-key\""), "{all}");
    }

    // A wrong `x-hookgate-key` is refused even if another header has a valid key.
    let agent = with_google_key().sending("x-hookgate-key", "wrong");
    assert_refused(&ask(agent, GENERATE).await, 401, "UNAUTHENTICATED");
}

#[tokio::test]
async fn the_upstream_key_of_a_caller_replaces_the_configured_one() {
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

            let asked = upstream.requests().pop().unwrap();
            assert_eq!(asked.header("x-goog-api-key"), expected);
            assert_eq!(asked.header("authorization"), "");
        }
    }
}

#[tokio::test]
async fn failed_authentication_is_throttled_per_address() {
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
    // A valid key is throttled too, except for callers that were authenticated before.
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
async fn conditions_see_the_caller_of_calls_and_of_reported_events() {
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
fn a_generated_key_matches_the_hash_of_its_config_entry() {
    let folder = tempfile::tempdir().unwrap();
    // Without quotes, some of these names are no strings in YAML.
    for name in ["team-x", "true", "12", "1e3", &"a".repeat(64)] {
        let (code, stdout, _) = run(&["key", name], folder.path());

        assert_eq!(code, 0);
        let lines: Vec<&str> = stdout.lines().collect();
        let line = format!("- {{ name: \"{name}\", sha256: \"{}\" }}", sha256(lines[1]));
        assert_eq!(lines[4], line);
        let config = format!(
            "upstreams: {{ gemini: {{ url: https://a, api_key: {{ file: key }} }} }}\nauth:\n\
             \x20 keys:\n    {line}\n"
        );
        std::fs::write(folder.path().join("key"), "k").unwrap();
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
    }
    let (_, stdout, _) = run(&["key"], folder.path());
    let lines: Vec<&str> = stdout.lines().collect();
    let (_, other, _) = run(&["key"], folder.path());
    assert_ne!(other.lines().nth(1), Some(lines[1]));
}

#[test]
fn no_key_is_generated_for_an_invalid_caller_name() {
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
        let (code, stdout, stderr) = run(&["key", name], folder.path());

        assert_ne!(code, 0, "{name:?}");
        assert_eq!(stdout, "", "{name:?}");
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
