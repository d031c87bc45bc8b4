//! What agents send beside a call: keys, names of sessions, compressed bodies. And what their
//! callers get: errors, quotas.

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::family::{ALL, Family, Said, Turn, each};
use crate::harness::{Agent, Answer, Asked, TestGateway, Upstream, hook, respond};

const QUIET: &str = "hooks: { BeforeModel: [{ hooks: [{ command: cat > /dev/null }] }], \
     AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }\n";

fn name(family: Family) -> &'static str {
    match family {
        Family::Gemini => "gemini",
        Family::Anthropic => "anthropic",
        Family::Responses | Family::Chat => "openai",
    }
}

/// The credentials of a request that came upstream.
fn credentials(asked: &Asked) -> [String; 3] {
    ["x-goog-api-key", "x-api-key", "authorization"].map(|name| asked.header(name).to_owned())
}

fn credentials_of(family: Family, key: &str) -> [String; 3] {
    let bearer = format!("Bearer {key}");
    match family {
        Family::Gemini => [key, "", ""],
        Family::Anthropic => ["", key, ""],
        Family::Responses | Family::Chat => ["", "", &bearer],
    }
    .map(str::to_owned)
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

async fn model(family: Family) -> Upstream {
    family.upstream(vec![vec![Said::text(&["ok"])]]).await
}

fn body(family: Family) -> String {
    family.request(false, &[Turn::User("hi")]).to_string()
}

async fn post(family: Family, agent: &Agent) -> Answer {
    agent.post(family.path(false), body(family)).await
}

#[tokio::test]
async fn the_key_of_the_config_goes_upstream_alone_in_the_header_of_the_api() {
    for family in ALL.iter().copied() {
        for hooks in ["", QUIET] {
            let upstream = model(family).await;
            let config = format!(
                "upstreams: {{ {}: {{ url: \"{{upstream}}\", api_key: {{ file: key }} }} }}\n{hooks}",
                name(family)
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
            let asked = upstream.only();
            assert_eq!(credentials(&asked), credentials_of(family, "OWN-KEY-4711"));
            assert_eq!(asked.header("openai-organization"), "", "{family:?}");
        }
    }
}

#[tokio::test]
async fn a_subscription_of_claude_goes_upstream_without_a_key_beside_it() {
    let upstream = model(Family::Anthropic).await;
    for hooks in ["", QUIET] {
        let gateway = Family::Anthropic.gateway(&upstream, hooks).await;
        let agent = gateway
            .agent()
            .sending("x-api-key", "KEY")
            .sending("anthropic-beta", "oauth-2025-04-20,other")
            .sending("x-stainless-lang", "js")
            .sending("cookie", "c")
            .sending("authorization", "Bearer sk-ant-oat01-x");

        post(Family::Anthropic, &agent).await;

        let asked = upstream.seen().pop().unwrap();
        assert_eq!(credentials(&asked), ["", "", "Bearer sk-ant-oat01-x"]);
        assert_eq!(asked.header("anthropic-beta"), "oauth-2025-04-20,other");
        assert_eq!(asked.header("x-stainless-lang"), "js");
        assert_eq!(asked.header("cookie"), "");
    }
}

#[tokio::test]
async fn callers_are_known_by_a_key_in_the_header_of_their_api() {
    for family in ALL.iter().copied() {
        let upstream = model(family).await;
        let config = format!(
            "upstreams: {{ {}: {{ url: \"{{upstream}}\" }} }}
auth: {{ keys: [{{ name: a, sha256: {}, upstream_keys: {{ {}: {{ file: key }} }} }}] }}\n",
            name(family),
            sha256("a-key"),
            name(family)
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
            let asked = upstream.seen().pop().unwrap();
            assert_eq!(credentials(&asked), credentials_of(family, "FOR-A-4711"));
            assert_eq!(asked.header("x-hookgate-key"), "");
        }
        let before = upstream.seen().len();
        let answer = post(family, &gateway.agent().sending("x-api-key", "wrong")).await;
        assert_eq!(answer.status, 401);
        assert_eq!(upstream.seen().len(), before);
    }
}

/// Checks that an answer is an error in the form of the API.
#[track_caller]
fn assert_error(family: Family, answer: &Answer, status: u16, reason: &str) {
    assert_eq!(answer.status, status, "{family:?}: {}", answer.text());
    let error = answer.json();
    match family {
        Family::Gemini => assert_eq!(error["error"]["details"][0]["reason"], reason),
        Family::Anthropic => {
            assert_eq!(error["type"], "error", "{error}");
            assert_eq!(error["error"]["reason"], reason);
            let id = answer.header("x-hookgate-request-id");
            assert_eq!(error["request_id"], id);
        }
        Family::Responses | Family::Chat => {
            let code = match reason {
                "POLICY_DENIED" => "content_policy_violation",
                reason => reason,
            };
            assert_eq!(error["error"]["code"], code, "{error}");
            assert_eq!(error["error"]["param"], Value::Null);
        }
    }
}

#[tokio::test]
async fn errors_have_the_form_of_the_api_for_every_cause() {
    let keys = format!(
        "auth: {{ keys: [{{ name: a, sha256: {} }}] }}\n",
        sha256("a-key")
    );
    for family in ALL.iter().copied() {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, &keys).await;
        let known = gateway.agent().sending("x-hookgate-key", "a-key");
        let known = match family {
            Family::Gemini => known,
            Family::Anthropic => known.sending("anthropic-version", "2023-06-01"),
            Family::Responses | Family::Chat => known.sending("authorization", "Bearer theirs"),
        };
        let expected = if family == Family::Gemini {
            ""
        } else {
            "false"
        };
        for (answer, status, reason) in [
            (post(family, &gateway.agent()).await, 401, "UNAUTHENTICATED"),
            (
                gateway
                    .agent()
                    .post(&format!("/s/x{}", family.path(false)), "{}")
                    .await,
                401,
                "UNAUTHENTICATED",
            ),
            (known.post("/v1/nothing", "{}").await, 403, "UNKNOWN_PATH"),
            (
                known.get(family.path(false)).await,
                405,
                "METHOD_NOT_ALLOWED",
            ),
        ] {
            // `GET` of a conversation is another method of some APIs.
            if status == 405 && answer.status != 405 {
                continue;
            }
            assert_error(family, &answer, status, reason);
            assert_eq!(answer.header("x-should-retry"), expected, "{reason}");
        }
    }
}

/// Status of denials that are errors, which agents do not repeat.
const fn denied(family: Family) -> u16 {
    match family {
        Family::Gemini | Family::Anthropic => 403,
        Family::Responses | Family::Chat => 400,
    }
}

#[tokio::test]
async fn a_denial_as_an_error_has_the_status_that_agents_do_not_repeat() {
    let deny = "denials: error\n".to_owned()
        + &hook::config(&[("BeforeModel", hook::refusing("guard", "not today"))]);
    for (family, is_stream) in each() {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, &deny).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_error(family, &answer, denied(family), "POLICY_DENIED");
        assert!(answer.text().contains("not today"));
        let expected = if family == Family::Gemini {
            ""
        } else {
            "false"
        };
        assert_eq!(answer.header("x-should-retry"), expected);
        assert!(upstream.seen().is_empty());
    }
}

/// opencode repeats a call if the body of an error contains one of these anywhere.
const REPEATED_BY_OPENCODE: [&str; 6] = ["429", "500", "502", "503", "504", "524"];

#[tokio::test]
async fn no_denial_contains_a_number_that_agents_repeat_it_for() {
    let deny = "denials: error\npolicies: [{ policy: request_limits, max_input: 1B }]\n";
    for family in ALL.iter().copied() {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, deny).await;
        for _ in 0..300 {
            let answer = post(family, &gateway.agent()).await;
            assert_error(family, &answer, denied(family), "POLICY_DENIED");
            let text = answer.text();
            let found = |number: &&str| text.contains(*number);
            assert_eq!(
                REPEATED_BY_OPENCODE.iter().find(|it| found(it)),
                None,
                "{text}"
            );
        }
        assert!(upstream.seen().is_empty());
    }
}

#[tokio::test]
async fn log_trace_and_metrics_have_the_status_that_the_agent_received() {
    let answer = json!({ "candidates": [{ "content": { "parts": ["from a hook"] } }] });
    let answering = hook::saying("answer", &hook::response(&answer));
    for (family, path, hook) in [
        (
            Family::Responses,
            "/v1/responses",
            hook::refusing("guard", "no"),
        ),
        // Text cannot answer this call, so it is denied.
        (Family::Responses, "/v1/responses/input_tokens", answering),
        (
            Family::Chat,
            "/v1/chat/completions",
            hook::refusing("guard", "no"),
        ),
    ] {
        let upstream = model(family).await;
        let hooks = hook::config(&[("BeforeModel", hook)]);
        let config = format!("denials: error\naudit: {{ path: audit.jsonl }}\n{hooks}");
        let gateway = family.gateway(&upstream, &config).await;
        let answer = gateway.agent().post(path, body(family)).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());

        let operator = gateway.operator();
        let metrics = operator.get("/metrics").await;
        let mut lines = metrics.text().lines();
        let counted = lines.find(|line| line.starts_with("hookgate_requests_total{"));
        assert!(counted.unwrap().contains("status=\"400\""), "{counted:?}");
        let calls = operator.get("/calls").await;
        assert!(calls.text().contains("\"status\":400"), "{}", calls.text());
        // The last line of a call may be written after its response.
        let folder = gateway.stop_keeping().await;
        let log = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        assert!(log.contains("\"status\":400"), "{path}: {log}");
        assert!(!log.contains("\"status\":403"), "{path}: {log}");
    }
}

/// A hook that appends the session and the prompt to a file.
fn prompts() -> String {
    let script = "cat >> prompts; echo >> prompts";
    hook::config(&[("BeforeAgent", hook::running("see", script))])
}

/// The sessions and prompts that hooks saw so far.
fn seen(gateway: &TestGateway) -> Vec<(String, String)> {
    let lines = gateway.file("prompts");
    let lines = lines.lines().filter(|line| !line.is_empty());
    let parsed = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    parsed
        .map(|input| (text(&input["session_id"]), text(&input["prompt"])))
        .collect()
}

/// An API family, the headers of an agent, and the session that they name.
type Case<'a> = (Family, &'a [(&'static str, &'a str)], &'a str);

#[tokio::test]
async fn agents_name_their_sessions_in_their_own_headers_and_sub_agents_have_their_own() {
    let claude = ("x-claude-code-session-id", "c-1");
    let cases: [Case<'_>; 6] = [
        (Family::Anthropic, &[claude], "c-1"),
        (
            Family::Anthropic,
            &[claude, ("x-claude-code-agent-id", "sub")],
            "c-1:sub",
        ),
        (
            Family::Anthropic,
            &[claude, ("x-hookgate-session", "mine")],
            "mine",
        ),
        (
            Family::Responses,
            &[("session-id", "x-1"), ("thread-id", "x-1")],
            "x-1",
        ),
        (
            Family::Responses,
            &[("session-id", "x-1"), ("thread-id", "x-2")],
            "x-1:x-2",
        ),
        (Family::Responses, &[("x-session-id", "ses_1")], "ses_1"),
    ];
    for (family, headers, expected) in cases {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, &prompts()).await;
        let mut agent = gateway.agent();
        for (name, value) in headers {
            agent = agent.sending(name, value);
        }
        // The same prompt again is one turn of the same session.
        for _ in 0..2 {
            post(family, &agent).await;
        }
        let seen = seen(&gateway);
        assert_eq!(
            seen,
            [(expected.to_owned(), "hi".to_owned())],
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn a_session_in_the_body_is_taken_unless_it_may_be_that_of_every_user() {
    let uuid = "2e5bf39a-41ec-499f-9883-d64499ab6084";
    let user = json!({ "device_id": "d", "account_uuid": "", "session_id": "s-9" }).to_string();
    for (family, field, value, expected) in [
        (
            Family::Responses,
            "prompt_cache_key",
            json!(uuid),
            Some(uuid),
        ),
        (Family::Responses, "prompt_cache_key", json!("my-app"), None),
        (
            Family::Anthropic,
            "metadata",
            json!({ "user_id": user }),
            Some("s-9"),
        ),
        (
            Family::Anthropic,
            "metadata",
            json!({ "user_id": "someone" }),
            None,
        ),
    ] {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, &prompts()).await;
        let mut request = family.request(false, &[Turn::User("hi")]);
        request[field] = value.clone();
        let agent = gateway.agent();
        agent.post(family.path(false), request.to_string()).await;
        let (session, _) = seen(&gateway).remove(0);
        match expected {
            Some(expected) => assert_eq!(session, expected),
            None => assert!(!value.to_string().contains(&session), "{session}"),
        }
    }
}

#[tokio::test]
async fn helper_calls_of_agents_start_no_turn_and_get_errors_for_denials() {
    let agent_header = "claude-cli/2.1.330 (external, cli)";
    for tools in [
        json!([]),
        json!([{ "type": "web_search_20250305", "name": "web_search" }]),
    ] {
        let family = Family::Anthropic;
        let upstream = model(family).await;
        let deny = "  BeforeModel: [{ matcher: \"*\", hooks: [{ command: 'grep -q secret && { echo no >&2; exit 2; }; exit 0' }] }]\n";
        let config =
            "hooks:\n  BeforeAgent: [{ hooks: [{ command: 'cat >> prompts; echo >> prompts' }] }]\n"
                .to_owned() + deny;
        let gateway = family.gateway(&upstream, &config).await;
        let agent = gateway
            .agent()
            .sending("user-agent", agent_header)
            .sending("x-claude-code-session-id", "c-1");
        let mut helper = family.request(false, &[Turn::User("a title, please")]);
        helper["tools"] = tools;
        let answer = agent.post("/v1/messages", helper.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        post(family, &agent).await;

        let expected = ("c-1".to_owned(), "hi".to_owned());
        assert_eq!(seen(&gateway), [expected]);
        helper["messages"][0]["content"] = json!("a secret");
        let answer = agent.post("/v1/messages", helper.to_string()).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
        // Any other client's call without tools is a turn.
        let sdk = gateway
            .agent()
            .sending("user-agent", "Anthropic/Python 2.12.0");
        helper["messages"][0]["content"] = json!("from an SDK");
        sdk.post("/v1/messages", helper.to_string()).await;
        assert_eq!(seen(&gateway).len(), 2);
    }
}

#[tokio::test]
async fn what_agents_add_around_a_prompt_is_no_prompt() {
    let environment = "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>";
    let reminder = "<system-reminder>\nbe brief\n</system-reminder>\n";
    let item = |text: &str| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
    let block = |text: &str| json!({ "type": "text", "text": text });
    for (family, field, content) in [
        (
            Family::Responses,
            "input",
            json!([item(environment), item("read alpha")]),
        ),
        (
            Family::Anthropic,
            "messages",
            json!([
                { "role": "user", "content": [block(reminder), block(reminder), block("one")] },
                { "role": "assistant", "content": "ok" },
                { "role": "user", "content": [block(reminder), block("read alpha")] },
            ]),
        ),
    ] {
        let upstream = model(family).await;
        let gateway = family.gateway(&upstream, &prompts()).await;
        let mut request = family.request(false, &[]);
        request[field] = content;
        let agent = gateway.agent();
        let answer = agent.post(family.path(false), request.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let prompts: Vec<String> = seen(&gateway)
            .into_iter()
            .map(|(_, prompt)| prompt)
            .collect();
        assert_eq!(prompts.last().unwrap(), "read alpha", "{family:?}");
        assert!(
            prompts.iter().all(|prompt| !prompt.contains('<')),
            "{prompts:?}"
        );
    }
}

#[tokio::test]
async fn a_body_in_zstd_is_decoded_within_the_limit() {
    let family = Family::Responses;
    let upstream = model(family).await;
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
    let asked = upstream.only();
    assert!(asked.body.contains("[REDACTED"), "{}", asked.body);
    assert_eq!(asked.header("content-encoding"), "");

    let large = zstd(&" ".repeat(4 << 20));
    assert!(large.len() < 10_000);
    for (body, status) in [(large, 413), (b"{}".to_vec(), 400)] {
        let answer = agent.post(family.path(false), body).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(upstream.seen().len(), 1);
}

/// An answer that reports these numbers, or none.
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
