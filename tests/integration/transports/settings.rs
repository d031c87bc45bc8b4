//! Hook settings have the same effect on every transport.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{assert_denied, worker::worker};
use crate::harness::{Answer, TestGateway, Upstream, prompt, respond, wait_until_closed};

/// The behaviour of a hook.
#[derive(Clone, Copy)]
enum Behaviour<'a> {
    Outputs(&'a str),
    Fails,
    Hangs,
}

const DENIES: Behaviour<'_> = Behaviour::Outputs(r#"{"decision":"deny","reason":"no"}"#);

/// Every transport, and the prewarmed variant of `command`.
const TRANSPORTS: [&str; 4] = ["command", "prewarmed", "worker", "http"];

/// A hook named `guard` on this transport, and its server if it has one.
async fn hook(transport: &str, behaviour: Behaviour<'_>) -> (Value, Option<Upstream>) {
    let mut server = None;
    let mut hook = match transport {
        "http" => {
            let started = start_server(behaviour).await;
            let url = format!("http://{}", started.addr);
            server = Some(started);
            json!({ "type": "http", "url": url })
        }
        "worker" => {
            let action = match behaviour {
                Behaviour::Outputs(output) => format!("answer '{output}'"),
                Behaviour::Fails => "exit 1".to_owned(),
                Behaviour::Hangs => "sleep 600".to_owned(),
            };
            let command = worker(&format!("echo \"$line\" > input; {action}"), "");
            json!({ "type": "worker", "command": command })
        }
        _ => {
            let action = match behaviour {
                Behaviour::Outputs(output) => format!("echo '{output}'"),
                Behaviour::Fails => "exit 1".to_owned(),
                Behaviour::Hangs => "exec sleep 600".to_owned(),
            };
            // A prewarmed process creates `input` only after it has read its event.
            json!({ "command": format!("event=$(cat); echo \"$event\" > input; {action}") })
        }
    };
    hook["name"] = json!("guard");
    if transport == "prewarmed" {
        hook["prewarm"] = json!(1);
    }
    (hook, server)
}

async fn start_server(behaviour: Behaviour<'_>) -> Upstream {
    let (status, text) = match behaviour {
        Behaviour::Outputs(output) => (200, output.to_owned()),
        Behaviour::Fails => (500, "{}".to_owned()),
        Behaviour::Hangs => {
            return Upstream::raw(
                |_, mut socket| async move { wait_until_closed(&mut socket).await },
            )
            .await;
        }
    };
    Upstream::with(move |_| respond(status, "application/json", text.clone())).await
}

/// A gateway with one hook, and the outcome of one call.
struct Outcome {
    answer: Answer,
    elapsed: Duration,
    upstream: Upstream,
    server: Option<Upstream>,
    gate: TestGateway,
}

impl Outcome {
    /// Makes one call. `settings` belong to the hook, `more` to the rest of the config.
    async fn call(transport: &str, behaviour: Behaviour<'_>, settings: &Value, more: &str) -> Self {
        let (mut hook, server) = hook(transport, behaviour).await;
        let settings = settings.as_object().unwrap().clone();
        hook.as_object_mut().unwrap().extend(settings);
        let hooks = json!({ "BeforeModel": [{ "hooks": [hook] }] });
        let upstream = Upstream::mock().await;
        let config = format!("denials: error\n{more}\nhooks: {hooks}");
        let gate = TestGateway::start(&upstream, &config).await;
        let started = Instant::now();
        let answer = gate.agent().generate("m", &prompt("hello")).await;
        Self {
            answer,
            elapsed: started.elapsed(),
            upstream,
            server,
            gate,
        }
    }

    /// The input that the hook received; null if it was not called.
    fn input(&self) -> Value {
        if let Some(server) = &self.server {
            return server
                .requests()
                .pop()
                .map_or(Value::Null, |request| request.json());
        }
        let text = self.gate.file("input");
        let mut read: Value = serde_json::from_str(&text).unwrap_or_default();
        // A worker receives the input in an envelope.
        let input = read.get_mut("input").map(Value::take);
        input.unwrap_or(read)
    }

    #[track_caller]
    fn assert_passed(&self, transport: &str) {
        assert_eq!(
            self.answer.header("x-hookgate-action"),
            "pass",
            "{transport}"
        );
        assert_eq!(
            self.upstream.only_request().json(),
            prompt("hello"),
            "{transport}"
        );
    }

    #[track_caller]
    fn assert_denied(&self, reason: &str) {
        assert_denied(&self.answer, reason);
        assert!(self.upstream.requests().is_empty());
    }
}

/// The reported cause of a failure.
fn failure_cause(transport: &str) -> &str {
    match transport {
        "http" => "unexpected status 500",
        "worker" => "process exited unexpectedly",
        _ => "exit code 1",
    }
}

#[tokio::test]
async fn on_failure_has_the_same_effect_on_every_transport() {
    let open = json!({ "on_failure": "open" });
    let closed = json!({ "on_failure": "closed" });
    let by_default = "hook_defaults: { on_failure: closed }";
    for transport in TRANSPORTS {
        let reason = format!("Hook guard failed: {}", failure_cause(transport));
        for (settings, more) in [(&closed, ""), (&json!({}), by_default)] {
            let outcome = Outcome::call(transport, Behaviour::Fails, settings, more).await;
            outcome.assert_denied(&reason);
        }
        for (settings, more) in [(&open, by_default), (&json!({}), "")] {
            let outcome = Outcome::call(transport, Behaviour::Fails, settings, more).await;
            outcome.assert_passed(transport);
        }
    }
}

#[tokio::test]
async fn observe_mode_has_the_same_effect_on_every_transport() {
    let observe = json!({ "mode": "observe", "on_failure": "closed" });
    for transport in TRANSPORTS {
        for behaviour in [DENIES, Behaviour::Fails] {
            let outcome = Outcome::call(transport, behaviour, &observe, "").await;

            outcome.assert_passed(transport);
            assert_eq!(
                outcome.input()["hook_event_name"],
                "BeforeModel",
                "{transport}"
            );
        }
        let outcome = Outcome::call(transport, DENIES, &json!({ "mode": "enforce" }), "").await;
        outcome.assert_denied("no");
    }
}

#[tokio::test]
async fn the_document_is_in_the_input_of_hooks_that_ask_for_it() {
    for transport in TRANSPORTS {
        for wants_document in [true, false] {
            let settings = json!({ "document": wants_document });
            let outcome = Outcome::call(transport, Behaviour::Outputs("{}"), &settings, "").await;

            outcome.assert_passed(transport);
            let expected = wants_document.then(|| prompt("hello"));
            assert_eq!(
                outcome.input().get("document").cloned(),
                expected,
                "{transport}"
            );
        }
    }
}

#[tokio::test]
async fn the_gateway_context_is_in_the_input_of_hooks_that_ask_for_it() {
    for transport in TRANSPORTS {
        for (settings, more, expected) in [
            (json!({ "context": true }), "", true),
            (json!({}), "hook_defaults: { context: true }", true),
            (
                json!({ "context": false }),
                "hook_defaults: { context: true }",
                false,
            ),
            (json!({}), "", false),
        ] {
            let outcome = Outcome::call(transport, Behaviour::Outputs("{}"), &settings, more).await;

            outcome.assert_passed(transport);
            let context = json!({
                "request_id": outcome.answer.header("x-hookgate-request-id"),
                "dialect": "gemini",
                "operation": "generateContent",
            });
            let expected = expected.then_some(context);
            assert_eq!(
                outcome.input().get("hookgate").cloned(),
                expected,
                "{transport}"
            );
        }
    }
}

#[tokio::test]
async fn a_name_labels_and_disables_a_hook_on_every_transport() {
    for transport in TRANSPORTS {
        let outcome = Outcome::call(transport, Behaviour::Outputs("{}"), &json!({}), "").await;
        outcome.assert_passed(transport);
        let hooks = outcome.answer.header("x-hookgate-hooks");
        assert!(hooks.starts_with("guard;"), "{transport}: {hooks}");
        let metrics = outcome.gate.operator().get("/metrics").await;
        let label =
            "hookgate_hook_runs_total{event=\"BeforeModel\",hook=\"guard\",status=\"ok\"} 1";
        assert!(metrics.text().contains(label), "{transport}");

        let disabled = "hooksConfig: { disabled: [guard] }";
        let outcome = Outcome::call(transport, DENIES, &json!({}), disabled).await;
        outcome.assert_passed(transport);
        assert_eq!(outcome.input(), Value::Null, "{transport}");
    }
}

#[tokio::test]
async fn a_timeout_has_the_same_effect_on_every_transport() {
    for transport in TRANSPORTS {
        for timeout in [json!(200), json!("200ms")] {
            let settings = json!({ "timeout": timeout, "on_failure": "closed" });
            let outcome = Outcome::call(transport, Behaviour::Hangs, &settings, "").await;

            outcome.assert_denied("Hook guard failed: timed out");
            let expected = Duration::from_millis(200)..Duration::from_secs(2);
            assert!(
                expected.contains(&outcome.elapsed),
                "{transport}: {:?}",
                outcome.elapsed
            );
            outcome.gate.stop().await;
        }
    }
}
