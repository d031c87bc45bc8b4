//! Credentials, compressed bodies and token counts on every API.

use serde_json::json;

use super::{
    family::{ALL, Family, Turn},
    model_api, post, sha256,
};
use crate::harness::{ReceivedRequest, TestGateway, Upstream, respond};

const NO_OP_HOOKS: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }], \
     AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }\n";

fn upstream_name(family: Family) -> &'static str {
    match family {
        Family::Gemini => "gemini",
        Family::Anthropic => "anthropic",
        Family::Responses | Family::Chat => "openai",
    }
}

/// The credentials of a request that upstream received.
fn sent_credentials(asked: &ReceivedRequest) -> [String; 3] {
    ["x-goog-api-key", "x-api-key", "authorization"].map(|name| asked.header(name).to_owned())
}

fn expected_credentials(family: Family, key: &str) -> [String; 3] {
    let bearer = format!("Bearer {key}");
    match family {
        Family::Gemini => [key, "", ""],
        Family::Anthropic => ["", key, ""],
        Family::Responses | Family::Chat => ["", "", &bearer],
    }
    .map(str::to_owned)
}

#[tokio::test]
async fn the_configured_api_key_replaces_all_credentials_of_the_agent() {
    for family in ALL.iter().copied() {
        for hooks in ["", NO_OP_HOOKS] {
            let upstream = model_api(family).await;
            let config = format!(
                "upstreams: {{ {}: {{ url: \"{{upstream}}\", api_key: {{ file: key }} }} }}\n{hooks}",
                upstream_name(family)
            );
            let files = [("key", "OWN-KEY-4711")];
            let gateway = TestGateway::with_files(&upstream, &config, &files).await;
            let agent = gateway
                .agent()
                .sending("x-api-key", "AGENT")
                .sending("x-goog-api-key", "AGENT")
                .sending("authorization", "Bearer AGENT")
                .sending("openai-organization", "theirs");

            let answer = post(family, &agent).await;

            assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
            let asked = upstream.only_request();
            assert_eq!(
                sent_credentials(&asked),
                expected_credentials(family, "OWN-KEY-4711")
            );
            assert_eq!(asked.header("openai-organization"), "", "{family:?}");
        }
    }
}

#[tokio::test]
async fn a_claude_oauth_token_is_forwarded_without_the_api_key() {
    let upstream = model_api(Family::Anthropic).await;
    for hooks in ["", NO_OP_HOOKS] {
        let gateway = Family::Anthropic.gateway(&upstream, hooks).await;
        let agent = gateway
            .agent()
            .sending("x-api-key", "KEY")
            .sending("anthropic-beta", "oauth-2025-04-20,other")
            .sending("x-stainless-lang", "js")
            .sending("cookie", "c")
            .sending("authorization", "Bearer sk-ant-oat01-x");

        post(Family::Anthropic, &agent).await;

        let asked = upstream.requests().pop().unwrap();
        assert_eq!(sent_credentials(&asked), ["", "", "Bearer sk-ant-oat01-x"]);
        assert_eq!(asked.header("anthropic-beta"), "oauth-2025-04-20,other");
        assert_eq!(asked.header("x-stainless-lang"), "js");
        assert_eq!(asked.header("cookie"), "");
    }
}

#[tokio::test]
async fn callers_authenticate_with_a_key_in_any_credential_header() {
    for family in ALL.iter().copied() {
        let upstream = model_api(family).await;
        let config = format!(
            "upstreams: {{ {}: {{ url: \"{{upstream}}\" }} }}
auth: {{ keys: [{{ name: a, sha256: {}, upstream_keys: {{ {}: {{ file: key }} }} }}] }}\n",
            upstream_name(family),
            sha256("a-key"),
            upstream_name(family)
        );
        let files = [("key", "FOR-A-4711")];
        let gateway = TestGateway::with_files(&upstream, &config, &files).await;
        for (header, value) in [
            ("x-api-key", "a-key"),
            ("x-goog-api-key", "a-key"),
            ("x-hookgate-key", "a-key"),
            ("authorization", "Bearer a-key"),
        ] {
            let answer = post(family, &gateway.agent().sending(header, value)).await;
            assert_eq!(answer.status, 200, "{family:?} {header}");
            let asked = upstream.requests().pop().unwrap();
            assert_eq!(
                sent_credentials(&asked),
                expected_credentials(family, "FOR-A-4711")
            );
            assert_eq!(asked.header("x-hookgate-key"), "");
        }
        let before = upstream.requests().len();
        let answer = post(family, &gateway.agent().sending("x-api-key", "wrong")).await;
        assert_eq!(answer.status, 401);
        assert_eq!(upstream.requests().len(), before);
    }
}

#[tokio::test]
async fn a_body_in_zstd_is_decoded_within_the_limit() {
    let family = Family::Responses;
    let upstream = model_api(family).await;
    let config = "limits: { body: 100000 }\npolicies: [{ policy: redact, detect: [aws_key] }]\n";
    let gateway = family.gateway(&upstream, config).await;
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let agent = gateway
        .agent()
        .sending("content-encoding", "zstd")
        .sending("content-type", "application/json");
    let request = family.request(false, &[Turn::User("AKIAIOSFODNN7EXAMPLQ")]);
    let answer = agent
        .post(family.path(false), zstd(&request.to_string()))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only_request();
    assert!(asked.body.contains("[REDACTED"), "{}", asked.body);
    assert_eq!(asked.header("content-encoding"), "");

    let large = zstd(&" ".repeat(4 << 20));
    assert!(large.len() < 10_000);
    for (body, status) in [(large, 413), (b"{}".to_vec(), 400)] {
        let answer = agent.post(family.path(false), body).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(upstream.requests().len(), 1);
}

/// An answer that reports a usage of 40 tokens, or none.
fn usage(family: Family, is_reported: bool) -> String {
    let text = "x".repeat(400);
    let usage = match family {
        Family::Gemini => json!({ "totalTokenCount": 40 }),
        Family::Anthropic => json!({
            "input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 10,
        }),
        Family::Responses => json!({ "input_tokens": 30, "output_tokens": 10, "total_tokens": 40 }),
        Family::Chat => json!({ "prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40 }),
    };
    let field = if family == Family::Gemini {
        "usageMetadata"
    } else {
        "usage"
    };
    let mut answer = json!({ "text": text });
    if is_reported {
        answer[field] = usage;
    }
    answer.to_string()
}

#[tokio::test]
async fn tokens_are_counted_as_each_api_reports_them_and_estimated_otherwise() {
    for family in ALL.iter().copied() {
        for (is_reported, least, most) in [(true, 40, 40), (false, 100, 1000)] {
            let upstream = Upstream::with(move |_| {
                respond(200, "application/json", usage(family, is_reported))
            })
            .await;
            let config = format!(
                "auth: {{ keys: [{{ name: a, sha256: {}, tokens_per_day: 100000 }}] }}\n",
                sha256("a-key")
            );
            let gateway = family.gateway(&upstream, &config).await;
            let agent = gateway.agent().sending("x-hookgate-key", "a-key");
            let answer = post(family, &agent).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let metrics = gateway.operator().get("/metrics").await;
            let start = "hookgate_caller_tokens_total{caller=\"a\"} ";
            let line = metrics
                .text()
                .lines()
                .find_map(|line| line.strip_prefix(start));
            let tokens: u64 = line.unwrap().parse().unwrap();
            assert!((least..=most).contains(&tokens), "{family:?}: {tokens}");
        }
    }
}
