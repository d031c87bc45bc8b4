//! What agents, the model API, sessions and logs see is the same with and without a shadow.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

use super::{AMPLE, Shadowed};
use crate::{
    families::family::ALL,
    harness::{Agent, Answer},
    replay::{
        changes::base,
        conversations::{Call, Topic, sessions},
    },
};

/// How often everything is asked; `HOOKGATE_SHADOWS=60` makes more than 10,000 calls.
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

/// Everything that can be seen of a gateway.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    answers: Vec<String>,
    upstream: Vec<String>,
    sessions: Vec<String>,
    decisions: Vec<String>,
    logged: Vec<String>,
    metrics: Vec<String>,
}

/// Names ids in the order in which they come.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn name(&mut self, text: &str) -> String {
        let next = format!("id-{}", self.0.len());
        self.0.entry(text.to_owned()).or_insert(next).clone()
    }

    /// A JSON value without what is new in each run.
    fn plain(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut plain = Map::new();
                for (name, value) in fields {
                    let value = match value {
                        Value::String(id) if is_id(name) => Value::String(self.name(id)),
                        value => self.plain(value),
                    };
                    if !VOLATILE.contains(&name.as_str()) {
                        plain.insert(name.clone(), value);
                    }
                }
                Value::Object(plain)
            }
            Value::Array(values) => values.iter().map(|value| self.plain(value)).collect(),
            other => other.clone(),
        }
    }
}

fn is_id(name: &str) -> bool {
    matches!(name, "request" | "request_id" | "session" | "id")
}

fn answered(answer: &Answer, names: &mut Names) -> String {
    let mut headers = answer.headers.clone();
    for name in ["date", "x-hookgate-request-id"] {
        headers.remove(name);
    }
    // The milliseconds of each hook.
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
    let mut sessions: Vec<String> = list.unwrap().iter().map(session).collect();
    sessions.sort();
    sessions
}

fn session(session: &Value) -> String {
    let mut session = session.as_object().unwrap().clone();
    session.retain(|name, _| !is_id(name));
    session.retain(|name, _| !matches!(name.as_str(), "started" | "last_seen"));
    Value::Object(session).to_string()
}

/// Counters of the gateway, but for those of the shadow and what depends on time.
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

/// Makes calls at a new gateway.
async fn seen(calls: &[Call], next: &str, shadow: &str) -> Seen {
    let gateway = Shadowed::start(&base(), next, shadow).await;
    let (mut seen, mut names) = (Seen::default(), Names::default());
    for call in calls {
        let answer = call.send(&gateway.agent).await;
        seen.answers.push(answered(&answer, &mut names));
    }
    if !shadow.is_empty() {
        let least = if shadow.contains(AMPLE) {
            calls.len()
        } else {
            1
        };
        let is_met = |status: &Value| {
            super::judged(status) + status["dropped"].as_u64().unwrap() >= least as u64
        };
        gateway.until("judged or dropped calls", is_met).await;
    }
    while gateway.operator.metric("hookgate_in_flight").await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked = gateway.upstream.seen();
    seen.upstream = asked
        .iter()
        .map(|asked| {
            format!(
                "{} {} {} {}",
                asked.method, asked.path, asked.query, asked.body
            )
        })
        .collect();
    seen.sessions = sessions_of(&gateway.operator).await;
    seen.metrics = metrics_of(&gateway.operator).await;
    let (_folder, lines, logged) = gateway.stop();
    let mut names = Names::default();
    let live = lines.iter().filter(|line| line["kind"] != "shadow");
    seen.decisions = live.map(|line| names.plain(line).to_string()).collect();
    let words = logged.lines().filter(|line| !line.contains("shadow "));
    seen.logged = words.map(message).collect();
    // An agent can begin its next call before the end of the last one is logged.
    seen.logged.sort();
    seen
}

/// The words of a log line, without time, ids and durations.
fn message(line: &str) -> String {
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
fn assert_same(one: &Seen, other: &Seen) {
    let parts = [
        (&one.answers, &other.answers),
        (&one.upstream, &other.upstream),
        (&one.sessions, &other.sessions),
        (&one.decisions, &other.decisions),
        (&one.logged, &other.logged),
        (&one.metrics, &other.metrics),
    ];
    for (one, other) in parts {
        for (one, other) in one.iter().zip(other) {
            assert_eq!(one, other);
        }
        assert_eq!(one.len(), other.len(), "{one:#?}\n{other:#?}");
        assert!(!one.is_empty());
    }
}

/// A config that decides otherwise about most calls, and inspects everything.
fn otherwise() -> String {
    base()
        .replace("deny: [rm]", "deny: [look]")
        .replace("detect: [aws_key]", "patterns: { word: 'aurora|w[a-z]+' }")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stdout,
    reason = "the number of calls, for `just shadows`"
)]
async fn a_shadow_changes_nothing_that_can_be_seen() {
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

    let without = seen(&calls, &otherwise(), "").await;
    let with = seen(&calls, &otherwise(), &format!("sample: 1, {AMPLE}")).await;

    assert_same(&without, &with);
    println!(
        "{} calls are the same with and without a shadow",
        calls.len()
    );
}

/// Large requests, on which a config of many patterns computes for long.
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
async fn a_config_that_computes_for_long_delays_no_call_and_changes_nothing() {
    let patterns: Vec<String> = (0..200)
        .map(|number| format!("w{number}: '([a-z ]+,?)*x{number}y'"))
        .collect();
    let slow = format!(
        "{}  - {{ policy: redact, patterns: {{ {} }} }}\n",
        base(),
        patterns.join(", ")
    );
    let calls = large_calls();

    let without = seen(&calls, &slow, "").await;
    let with = seen(&calls, &slow, "sample: 1, budget: { queue: 1, cpu: 5% }").await;

    assert_same(&without, &with);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_that_do_not_fit_into_the_memory_change_nothing() {
    let calls = large_calls();

    let without = seen(&calls, &otherwise(), "").await;
    let shadow = "sample: 1, budget: { memory: 400KiB, cpu: 1% }";
    let with = seen(&calls, &otherwise(), shadow).await;

    assert_same(&without, &with);
}
