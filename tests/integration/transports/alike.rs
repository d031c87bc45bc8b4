//! What an operator says of a hook means the same however it is reached.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{assert_denied, worker::worker};
use crate::harness::{Answer, TestGateway, Upstream, closed, prompt, respond};

/// What a hook does.
#[derive(Clone, Copy)]
enum Act<'a> {
    Says(&'a str),
    Fails,
    Hangs,
}

const DENIES: Act<'_> = Act::Says(r#"{"decision":"deny","reason":"no"}"#);

/// Every way to reach a hook.
const WAYS: [&str; 4] = ["command", "prewarmed", "worker", "http"];

/// A hook reached in one way, called `guard`, and its server if it has one.
async fn hook(way: &str, act: Act<'_>) -> (Value, Option<Upstream>) {
    let mut server = None;
    let mut hook = match way {
        "http" => {
            let serving = serving(act).await;
            let url = format!("http://{}", serving.addr);
            server = Some(serving);
            json!({ "type": "http", "url": url })
        }
        "worker" => {
            let act = match act {
                Act::Says(output) => format!("answer '{output}'"),
                Act::Fails => "exit 1".to_owned(),
                Act::Hangs => "sleep 600".to_owned(),
            };
            let command = worker(&format!("echo \"$line\" > input; {act}"), "");
            json!({ "type": "worker", "command": command })
        }
        _ => {
            let act = match act {
                Act::Says(output) => format!("echo '{output}'"),
                Act::Fails => "exit 1".to_owned(),
                Act::Hangs => "exec sleep 600".to_owned(),
            };
            // The next spare must not make an empty file of it.
            json!({ "command": format!("event=$(cat); echo \"$event\" > input; {act}") })
        }
    };
    hook["name"] = json!("guard");
    if way == "prewarmed" {
        hook["prewarm"] = json!(1);
    }
    (hook, server)
}

async fn serving(act: Act<'_>) -> Upstream {
    let (status, text) = match act {
        Act::Says(output) => (200, output.to_owned()),
        Act::Fails => (500, "{}".to_owned()),
        Act::Hangs => {
            return Upstream::raw(|_, mut socket| async move { closed(&mut socket).await }).await;
        }
    };
    Upstream::with(move |_| respond(status, "application/json", text.clone())).await
}

/// A gateway with this hook, and what came of one call.
struct Bench {
    answer: Answer,
    took: Duration,
    upstream: Upstream,
    server: Option<Upstream>,
    gate: TestGateway,
}

impl Bench {
    /// `settings` are what the operator says of the hook; `more` is what the
    /// config says beside.
    async fn call(way: &str, act: Act<'_>, settings: &Value, more: &str) -> Self {
        let (mut hook, server) = hook(way, act).await;
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
            took: started.elapsed(),
            upstream,
            server,
            gate,
        }
    }

    /// What the hook read; nothing if it was not called.
    fn input(&self) -> Value {
        if let Some(server) = &self.server {
            return server.seen().pop().map_or(Value::Null, |it| it.json());
        }
        let text = self.gate.file("input");
        let mut read: Value = serde_json::from_str(&text).unwrap_or_default();
        // A worker reads it in an envelope.
        let input = read.get_mut("input").map(Value::take);
        input.unwrap_or(read)
    }

    #[track_caller]
    fn assert_passed(&self, way: &str) {
        assert_eq!(self.answer.header("x-hookgate-action"), "pass", "{way}");
        assert_eq!(self.upstream.only().json(), prompt("hello"), "{way}");
    }

    #[track_caller]
    fn assert_denied(&self, reason: &str) {
        assert_denied(&self.answer, reason);
        assert!(self.upstream.seen().is_empty());
    }
}

/// How a failure is reported.
fn cause(way: &str) -> &str {
    match way {
        "http" => "unexpected status 500",
        "worker" => "process exited unexpectedly",
        _ => "exit code 1",
    }
}

#[tokio::test]
async fn on_failure_means_the_same() {
    let open = json!({ "on_failure": "open" });
    let closed = json!({ "on_failure": "closed" });
    let by_default = "hook_defaults: { on_failure: closed }";
    for way in WAYS {
        let reason = format!("Hook guard failed: {}", cause(way));
        for (settings, more) in [(&closed, ""), (&json!({}), by_default)] {
            let bench = Bench::call(way, Act::Fails, settings, more).await;
            bench.assert_denied(&reason);
        }
        for (settings, more) in [(&open, by_default), (&json!({}), "")] {
            let bench = Bench::call(way, Act::Fails, settings, more).await;
            bench.assert_passed(way);
        }
    }
}

#[tokio::test]
async fn observing_means_the_same() {
    let observe = json!({ "mode": "observe", "on_failure": "closed" });
    for way in WAYS {
        for act in [DENIES, Act::Fails] {
            let bench = Bench::call(way, act, &observe, "").await;

            bench.assert_passed(way);
            assert_eq!(bench.input()["hook_event_name"], "BeforeModel", "{way}");
        }
        let bench = Bench::call(way, DENIES, &json!({ "mode": "enforce" }), "").await;
        bench.assert_denied("no");
    }
}

#[tokio::test]
async fn a_document_is_shown_to_those_that_ask() {
    for way in WAYS {
        for asks in [true, false] {
            let settings = json!({ "document": asks });
            let bench = Bench::call(way, Act::Says("{}"), &settings, "").await;

            bench.assert_passed(way);
            let expected = asks.then(|| prompt("hello"));
            assert_eq!(bench.input().get("document").cloned(), expected, "{way}");
        }
    }
}

#[tokio::test]
async fn the_gateway_context_is_in_the_input_of_hooks_that_ask_for_it() {
    for way in WAYS {
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
            let bench = Bench::call(way, Act::Says("{}"), &settings, more).await;

            bench.assert_passed(way);
            let context = json!({
                "request_id": bench.answer.header("x-hookgate-request-id"),
                "dialect": "gemini",
                "operation": "generateContent",
            });
            let expected = expected.then_some(context);
            assert_eq!(bench.input().get("hookgate").cloned(), expected, "{way}");
        }
    }
}

#[tokio::test]
async fn a_name_means_the_same() {
    for way in WAYS {
        let bench = Bench::call(way, Act::Says("{}"), &json!({}), "").await;
        bench.assert_passed(way);
        let hooks = bench.answer.header("x-hookgate-hooks");
        assert!(hooks.starts_with("guard;"), "{way}: {hooks}");
        let metrics = bench.gate.operator().get("/metrics").await;
        let label =
            "hookgate_hook_runs_total{event=\"BeforeModel\",hook=\"guard\",status=\"ok\"} 1";
        assert!(metrics.text().contains(label), "{way}");

        let disabled = "hooksConfig: { disabled: [guard] }";
        let bench = Bench::call(way, DENIES, &json!({}), disabled).await;
        bench.assert_passed(way);
        assert_eq!(bench.input(), Value::Null, "{way}");
    }
}

#[tokio::test]
async fn a_timeout_means_the_same() {
    for way in WAYS {
        for timeout in [json!(200), json!("200ms")] {
            let settings = json!({ "timeout": timeout, "on_failure": "closed" });
            let bench = Bench::call(way, Act::Hangs, &settings, "").await;

            bench.assert_denied("Hook guard failed: timed out");
            let expected = Duration::from_millis(200)..Duration::from_secs(2);
            assert!(expected.contains(&bench.took), "{way}: {:?}", bench.took);
            bench.gate.stop().await;
        }
    }
}
