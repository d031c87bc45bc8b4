//! Responses, upstream requests, sessions, logs and metrics, which a shadow does not change.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

use super::{AMPLE_BUDGET, ShadowGateway};
use crate::{
    families::family::ALL,
    harness::{Agent, Answer},
    replay::{
        changes::base,
        conversations::{Call, Topic, sessions},
    },
};

/// Number of repetitions of all calls; `HOOKGATE_SHADOWS=60` makes more than 10,000 calls.
fn repetitions() -> usize {
    let number = std::env::var("HOOKGATE_SHADOWS").ok();
    number.map_or(1, |number| number.parse().unwrap())
}

/// Fields that differ from run to run.
const VOLATILE: &[&str] = &[
    "config",
    "duration_ms",
    "hash",
    "ms",
    "peer",
    "prev",
    "seq",
    "time",
    "timestamp",
];

/// The observable effects of calls to a gateway.
#[derive(Debug, Default, PartialEq)]
struct Observations {
    answers: Vec<String>,
    upstream: Vec<String>,
    sessions: Vec<String>,
    decisions: Vec<String>,
    logged: Vec<String>,
    metrics: Vec<String>,
}

/// Replaces ids by names in order of appearance.
#[derive(Default)]
struct IdNames(BTreeMap<String, String>);

impl IdNames {
    fn name(&mut self, text: &str) -> String {
        let next = format!("id-{}", self.0.len());
        self.0.entry(text.to_owned()).or_insert(next).clone()
    }

    /// Returns a JSON value without fields that differ from run to run, and with named ids.
    fn normalize(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut plain = Map::new();
                for (name, value) in fields {
                    let value = match value {
                        Value::String(id) if is_id(name) => Value::String(self.name(id)),
                        value => self.normalize(value),
                    };
                    if !VOLATILE.contains(&name.as_str()) {
                        plain.insert(name.clone(), value);
                    }
                }
                Value::Object(plain)
            }
            Value::Array(values) => values.iter().map(|value| self.normalize(value)).collect(),
            other => other.clone(),
        }
    }
}

fn is_id(name: &str) -> bool {
    matches!(name, "request" | "request_id" | "session" | "id")
}

fn normalized_answer(answer: &Answer, names: &mut IdNames) -> String {
    let mut headers = answer.headers.clone();
    for name in ["date", "x-hookgate-request-id"] {
        headers.remove(name);
    }
    // The header has the milliseconds of each hook.
    let hooks = headers.remove("x-hookgate-hooks");
    let hooks = hooks.map(|hooks| hooks.to_str().unwrap().replace(char::is_numeric, ""));
    let session = headers.remove("x-hookgate-session");
    let session = session.map(|session| names.name(session.to_str().unwrap()));
    let body = answer.text();
    format!(
        "{} {hooks:?} {session:?} {headers:?}\n{body}",
        answer.status
    )
}

async fn sessions_of(operator: &Agent) -> Vec<String> {
    let list = operator.get("/sessions?limit=1000").await.json();
    let list = list.as_array().or_else(|| list["sessions"].as_array());
    let mut sessions: Vec<String> = list.unwrap().iter().map(normalized_session).collect();
    sessions.sort();
    sessions
}

fn normalized_session(session: &Value) -> String {
    let mut session = session.as_object().unwrap().clone();
    session.retain(|name, _| !is_id(name));
    session.retain(|name, _| !matches!(name.as_str(), "started" | "last_seen"));
    Value::Object(session).to_string()
}

/// Returns the gateway's counters, except those of the shadow and those that depend on time.
async fn metrics_of(operator: &Agent) -> Vec<String> {
    let metrics = operator.get("/metrics").await;
    let lines = metrics.text().lines();
    let lines = lines.filter(|line| {
        let is_counter = line.contains("_total");
        is_counter
            && !line.contains("hookgate_shadow")
            && !line.contains("audit_lines")
            && !line.contains("hookgate_recording")
    });
    let lines = lines.filter(|line| !line.starts_with('#'));
    let mut metrics: Vec<String> = lines.map(str::to_owned).collect();
    metrics.sort();
    metrics
}

/// Makes calls to a new gateway and returns their observable effects.
async fn observe(calls: &[Call], next: &str, shadow: &str) -> Observations {
    let gateway = ShadowGateway::start(&base(), next, shadow).await;
    let (mut observed, mut names) = (Observations::default(), IdNames::default());
    for call in calls {
        let answer = call.send(&gateway.agent).await;
        observed
            .answers
            .push(normalized_answer(&answer, &mut names));
    }
    if !shadow.is_empty() {
        let minimum = if shadow.contains(AMPLE_BUDGET) {
            calls.len()
        } else {
            1
        };
        let is_met = |status: &Value| {
            super::evaluated_calls(status) + status["dropped"].as_u64().unwrap() >= minimum as u64
        };
        gateway
            .wait_until("evaluated or dropped calls", is_met)
            .await;
    }
    while gateway.operator.metric("hookgate_in_flight").await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked = gateway.upstream.requests();
    observed.upstream = asked
        .iter()
        .map(|asked| {
            format!(
                "{} {} {} {}",
                asked.method, asked.path, asked.query, asked.body
            )
        })
        .collect();
    observed.sessions = sessions_of(&gateway.operator).await;
    observed.metrics = metrics_of(&gateway.operator).await;
    let (_folder, lines, logged) = gateway.stop();
    let mut names = IdNames::default();
    let live = lines.iter().filter(|line| line["kind"] != "shadow");
    observed.decisions = live.map(|line| names.normalize(line).to_string()).collect();
    let lines_of_gateway = logged.lines().filter(|line| !line.contains("shadow "));
    observed.logged = lines_of_gateway.map(normalized_log_line).collect();
    // An agent can begin its next call before the end of the last one is logged.
    observed.logged.sort();
    observed
}

/// Returns a log line without time, ids and durations.
fn normalized_log_line(line: &str) -> String {
    let words = line.split_whitespace().skip(1);
    let words = words.filter(|word| {
        !word.contains("request.id")
            && !word.contains("elapsed")
            && !word.contains("session")
            && !word.contains("descriptors")
            && !word.contains(".ms")
            && !word.contains("duration")
    });
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_same(first: &Observations, second: &Observations) {
    let parts = [
        (&first.answers, &second.answers),
        (&first.upstream, &second.upstream),
        (&first.sessions, &second.sessions),
        (&first.decisions, &second.decisions),
        (&first.logged, &second.logged),
        (&first.metrics, &second.metrics),
    ];
    for (first, second) in parts {
        for (first, second) in first.iter().zip(second) {
            assert_eq!(first, second);
        }
        assert_eq!(first.len(), second.len(), "{first:#?}\n{second:#?}");
        assert!(!first.is_empty());
    }
}

/// Returns a config that changes the outcome of most calls, and inspects everything.
fn changed_config() -> String {
    base()
        .replace("deny: [rm]", "deny: [look]")
        .replace("detect: [aws_key]", "patterns: { word: 'aurora|w[a-z]+' }")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stdout,
    reason = "the number of calls, for `just shadows`"
)]
async fn a_shadow_has_no_observable_effect() {
    let mut calls = Vec::new();
    for number in 0..repetitions() {
        for mut call in Call::every().into_iter().chain(sessions()) {
            for (_, text) in &mut call.turns {
                text.insert_str(0, &format!("{number} "));
            }
            if !call.session.is_empty() {
                call.session = format!("{number}{}", call.session);
            }
            calls.push(call);
        }
    }

    let without = observe(&calls, &changed_config(), "").await;
    let with = observe(
        &calls,
        &changed_config(),
        &format!("sample: 1, {AMPLE_BUDGET}"),
    )
    .await;

    assert_same(&without, &with);
    println!(
        "{} calls are the same with and without a shadow",
        calls.len()
    );
}

/// Returns calls with large requests, which a config with many patterns inspects slowly.
fn large_calls() -> Vec<Call> {
    let text = "lorem ipsum dolor sit amet ".repeat(4000);
    let calls = ALL.iter().flat_map(|family| {
        [false, true].map(|is_stream| {
            let mut call = Call::single(*family, is_stream, Topic::Look, "ci");
            call.turns[0].1.insert_str(0, &text);
            call
        })
    });
    calls.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_shadow_config_has_no_observable_effect() {
    let patterns: Vec<String> = (0..200)
        .map(|number| format!("w{number}: '([a-z ]+,?)*x{number}y'"))
        .collect();
    let slow = format!(
        "{}  - {{ policy: redact, patterns: {{ {} }} }}\n",
        base(),
        patterns.join(", ")
    );
    let calls = large_calls();

    let without = observe(&calls, &slow, "").await;
    let with = observe(&calls, &slow, "sample: 1, budget: { queue: 1, cpu: 5% }").await;

    assert_same(&without, &with);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_memory_budget_has_no_observable_effect() {
    let calls = large_calls();

    let without = observe(&calls, &changed_config(), "").await;
    let shadow = "sample: 1, budget: { memory: 400KiB, cpu: 1% }";
    let with = observe(&calls, &changed_config(), shadow).await;

    assert_same(&without, &with);
}
