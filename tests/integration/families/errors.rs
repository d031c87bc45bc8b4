//! Errors and denials in the form of each API, with statuses that agents do not retry.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    body,
    family::{ALL, Family, Turn, each},
    model_api, post, sha256,
};
use crate::harness::{Answer, TEST_TIMEOUT, Upstream, eventually, hook, wait_until_closed};

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
async fn gateway_errors_have_the_form_of_the_api() {
    let keys = format!(
        "auth: {{ keys: [{{ name: a, sha256: {} }}] }}\n",
        sha256("a-key")
    );
    for family in ALL.iter().copied() {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, &keys).await;
        let authenticated = gateway.agent().sending("x-hookgate-key", "a-key");
        let authenticated = match family {
            Family::Gemini => authenticated,
            Family::Anthropic => authenticated.sending("anthropic-version", "2023-06-01"),
            Family::Responses | Family::Chat => {
                authenticated.sending("authorization", "Bearer theirs")
            }
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
            (
                authenticated.post("/v1/nothing", "{}").await,
                403,
                "UNKNOWN_PATH",
            ),
            (
                authenticated.get(family.path(false)).await,
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

#[tokio::test]
async fn agents_may_retry_a_call_whose_tokens_are_reserved_and_none_whose_tokens_are_spent() {
    let keys = format!(
        "auth: {{ keys: [{{ name: a, sha256: {}, tokens_per_day: 1 }}] }}\n",
        sha256("a-key")
    );
    for family in ALL.iter().copied() {
        // Answers no call.
        let upstream = Upstream::raw(async |_, mut socket| {
            wait_until_closed(&mut socket).await;
        })
        .await;
        let gateway = family.gateway(&upstream, &keys).await;
        let agent = gateway.agent().sending("x-hookgate-key", "a-key");
        let first = agent.clone();
        let first = tokio::spawn(async move { post(family, &first).await });
        let is_sent = || !upstream.requests().is_empty();
        eventually("the call is sent", TEST_TIMEOUT, is_sent).await;

        let reserved = post(family, &agent).await;
        assert_error(family, &reserved, 429, "TOKEN_QUOTA_EXCEEDED");
        assert_eq!(reserved.header("retry-after"), "1");
        assert_eq!(reserved.header("x-should-retry"), "", "{family:?}");

        // The gateway charges an estimate for it.
        first.abort();
        let mut spent = post(family, &agent).await;
        while spent.header("retry-after") == "1" {
            tokio::time::sleep(Duration::from_millis(10)).await;
            spent = post(family, &agent).await;
        }
        assert_error(family, &spent, 429, "TOKEN_QUOTA_EXCEEDED");
        let expected = if family == Family::Gemini {
            ""
        } else {
            "false"
        };
        assert_eq!(spent.header("x-should-retry"), expected, "{family:?}");
    }
}

/// Status of a denial that is an error, chosen so that agents do not retry the call.
const fn denial_status(family: Family) -> u16 {
    match family {
        Family::Gemini | Family::Anthropic => 403,
        Family::Responses | Family::Chat => 400,
    }
}

#[tokio::test]
async fn a_denial_as_an_error_has_a_status_that_agents_do_not_retry() {
    let deny = "denials: error\n".to_owned()
        + &hook::config(&[("BeforeModel", hook::denying("guard", "not today"))]);
    for (family, is_stream) in each() {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, &deny).await;
        let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
        assert_error(family, &answer, denial_status(family), "POLICY_DENIED");
        assert!(answer.text().contains("not today"));
        let expected = if family == Family::Gemini {
            ""
        } else {
            "false"
        };
        assert_eq!(answer.header("x-should-retry"), expected);
        assert!(upstream.requests().is_empty());
    }
}

/// opencode retries a call if the body of an error contains one of these anywhere.
const NUMBERS_RETRIED_BY_OPENCODE: [&str; 6] = ["429", "500", "502", "503", "504", "524"];

#[tokio::test]
async fn no_denial_contains_a_number_that_makes_agents_retry() {
    let deny = "denials: error\npolicies: [{ policy: request_limits, max_input: 1B }]\n";
    for family in ALL.iter().copied() {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, deny).await;
        for _ in 0..300 {
            let answer = post(family, &gateway.agent()).await;
            assert_error(family, &answer, denial_status(family), "POLICY_DENIED");
            let text = answer.text();
            let found = |number: &&str| text.contains(*number);
            assert_eq!(
                NUMBERS_RETRIED_BY_OPENCODE
                    .iter()
                    .find(|number| found(number)),
                None,
                "{text}"
            );
        }
        assert!(upstream.requests().is_empty());
    }
}

#[tokio::test]
async fn log_trace_and_metrics_have_the_status_that_the_agent_received() {
    let answer = json!({ "candidates": [{ "content": { "parts": ["from a hook"] } }] });
    let answering = hook::printing("answer", &hook::response(&answer));
    for (family, path, hook) in [
        (
            Family::Responses,
            "/v1/responses",
            hook::denying("guard", "no"),
        ),
        // Text cannot answer this call, so it is denied.
        (Family::Responses, "/v1/responses/input_tokens", answering),
        (
            Family::Chat,
            "/v1/chat/completions",
            hook::denying("guard", "no"),
        ),
    ] {
        let upstream = model_api(family).await;
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
        let folder = gateway.stop_and_keep_files().await;
        let log = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        assert!(log.contains("\"status\":400"), "{path}: {log}");
        assert!(!log.contains("\"status\":403"), "{path}: {log}");
    }
}
