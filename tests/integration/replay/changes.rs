//! Changes of a config, and the calls that each of them decides otherwise: these and no others.

#![expect(clippy::too_many_lines, reason = "tables of changes")]

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    conversations::{Call, REASON, Topic},
    recorded::Recorded,
};

const MASK: &str = "{ policy: redact, name: mask, detect: [aws_key] }";

fn guard(settings: &str) -> String {
    format!("{{ policy: tool_guard, name: guard, reason: {REASON}, {settings} }}")
}

/// A config with these callers and policies.
fn config(callers: &[(&str, &str)], policies: &[&str]) -> String {
    let callers = callers.iter().map(|(name, grant)| {
        let hash = HEXLOWER.encode(&Sha256::digest(name));
        format!("    - {{ name: {name}, sha256: \"{hash}\", {grant} }}\n")
    });
    let policies = policies.iter().map(|policy| format!("  - {policy}\n"));
    let lines: Vec<String> = ["auth:\n  keys:\n".to_owned()]
        .into_iter()
        .chain(callers)
        .chain(["policies:\n".to_owned()])
        .chain(policies)
        .collect();
    lines.concat()
}

const CALLERS: &[(&str, &str)] = &[("ci", ""), ("dev", "")];

/// The config by which everything is recorded.
pub fn base() -> String {
    config(CALLERS, &[MASK, &guard("deny: [rm]")])
}

/// The base with a policy more.
fn with(policy: &str) -> String {
    config(CALLERS, &[MASK, &guard("deny: [rm]"), policy])
}

fn with_guard(settings: &str) -> String {
    config(CALLERS, &[MASK, &guard(settings)])
}

fn with_mask(settings: &str) -> String {
    let mask = format!("{{ policy: redact, name: mask, detect: [aws_key], {settings} }}");
    config(CALLERS, &[&mask, &guard("deny: [rm]")])
}

fn with_callers(callers: &[(&str, &str)]) -> String {
    config(callers, &[MASK, &guard("deny: [rm]")])
}

/// Kinds of differences.
const KINDS: &[&str] = &["newly_denied", "newly_allowed", "edited"];

const DENIED: Option<&str> = Some("newly_denied");
const ALLOWED: Option<&str> = Some("newly_allowed");
const EDITED: Option<&str> = Some("edited");

/// A name, the changed config, and what becomes of a call.
type SeededChange = (&'static str, String, fn(&Call) -> Option<&'static str>);

fn if_is(holds: bool, kind: Option<&'static str>) -> Option<&'static str> {
    kind.filter(|_| holds)
}

fn is_secret(call: &Call) -> bool {
    matches!(call.topic, Topic::SecretAnswer | Topic::SecretPrompt)
}

fn models_and_prompts() -> Vec<SeededChange> {
    use Topic::{Aurora, BigModel, Text};
    let allow = "policy: model_allow, models: [m]";
    vec![
        ("nothing", base(), |_| None),
        (
            "all models",
            with("{ policy: model_allow, models: ['*'] }"),
            |_| None,
        ),
        (
            "both models",
            with("{ policy: model_allow, models: [m, 'b?g'] }"),
            |_| None,
        ),
        ("one model", with(&format!("{{ {allow} }}")), |it| {
            if_is(it.topic == BigModel, DENIED)
        }),
        (
            "one model, observed",
            with(&format!("{{ {allow}, mode: observe }}")),
            |_| None,
        ),
        (
            "one model for ci",
            with(&format!("{{ {allow}, when: 'caller.name == \"ci\"' }}")),
            |it| if_is(it.topic == BigModel && it.caller == "ci", DENIED),
        ),
        (
            "one model for a stranger",
            with(&format!("{{ {allow}, when: 'caller.name == \"eve\"' }}")),
            |_| None,
        ),
        (
            "a swap",
            with("{ policy: model_swap, swap: { big: m } }"),
            |it| if_is(it.topic == BigModel, EDITED),
        ),
        (
            "a swap of nothing",
            with("{ policy: model_swap, swap: { other: m } }"),
            |_| None,
        ),
        (
            "a prompt",
            with("{ policy: prompt_guard, deny: [aurora] }"),
            |it| if_is(it.topic == Aurora, DENIED),
        ),
        (
            "another prompt",
            with("{ policy: prompt_guard, deny: ['^hello [A-Za-z]*Text'] }"),
            |it| if_is(it.topic == Text, DENIED),
        ),
        (
            "no prompt",
            with("{ policy: prompt_guard, deny: [borealis] }"),
            |_| None,
        ),
        (
            "a prompt, observed",
            with("{ policy: prompt_guard, deny: [aurora], mode: observe }"),
            |_| None,
        ),
        (
            "a prompt of dev",
            with("{ policy: prompt_guard, deny: [aurora], when: 'caller.name == \"dev\"' }"),
            |it| if_is(it.topic == Aurora && it.caller == "dev", DENIED),
        ),
        (
            "an answer",
            with("{ policy: respond, match: aurora, text: later }"),
            |it| if_is(it.topic == Aurora, EDITED),
        ),
        (
            "fewer tokens",
            with("{ policy: request_limits, max_output_tokens: 5 }"),
            |_| EDITED,
        ),
        (
            "no input",
            with("{ policy: request_limits, max_input: 1B }"),
            |_| DENIED,
        ),
        (
            "much input",
            with("{ policy: request_limits, max_input: 1MiB }"),
            |_| None,
        ),
        (
            "one call",
            with("{ policy: request_limits, max_calls: 1 }"),
            |it| if_is(it.topic == Topic::Remove, DENIED),
        ),
        (
            "two calls",
            with("{ policy: request_limits, max_calls: 2 }"),
            |_| None,
        ),
    ]
}

fn tools() -> Vec<SeededChange> {
    use Topic::{Look, Remove, Tools};
    fn of(
        call: &Call,
        look: Option<&'static str>,
        rm: Option<&'static str>,
    ) -> Option<&'static str> {
        match call.topic {
            Look => look,
            Remove => rm,
            Tools => EDITED,
            _ => None,
        }
    }
    let rule = "deny: [rm], rules: [{ tool: look, argument: /x, matches: ";
    vec![
        ("no guard", config(CALLERS, &[MASK]), |it| {
            of(it, None, ALLOWED)
        }),
        ("both tools", with_guard("deny: [look, rm]"), |it| {
            of(it, DENIED, None)
        }),
        ("the other tool", with_guard("deny: [look]"), |it| {
            of(it, DENIED, ALLOWED)
        }),
        ("the same by a list", with_guard("allow: [look]"), |_| None),
        ("the same by a glob", with_guard("deny: ['r?']"), |_| None),
        ("observed", with_guard("deny: [rm], mode: observe"), |it| {
            of(it, None, ALLOWED)
        }),
        (
            "another name",
            config(
                CALLERS,
                &[
                    MASK,
                    &guard("deny: [rm]").replace("name: guard", "name: other"),
                ],
            ),
            |it| if_is(it.topic == Remove, EDITED),
        ),
        (
            "another reason",
            config(
                CALLERS,
                &[MASK, &guard("deny: [rm]").replace(REASON, "never")],
            ),
            |it| if_is(it.topic == Remove, EDITED),
        ),
        (
            "an argument",
            with_guard(&format!("{rule} '^b' }}]")),
            |it| if_is(it.topic == Look, DENIED),
        ),
        (
            "the argument",
            with_guard(&format!("{rule} '^a' }}]")),
            |_| None,
        ),
        (
            "for ci",
            with_guard("deny: [rm], when: 'caller.name == \"ci\"'"),
            |it| {
                if it.caller == "dev" {
                    of(it, None, ALLOWED)
                } else {
                    None
                }
            },
        ),
        (
            "order",
            config(CALLERS, &[&guard("deny: [rm]"), MASK]),
            |_| None,
        ),
    ]
}

fn content_and_callers() -> Vec<SeededChange> {
    use Topic::{Aurora, BigModel, Look, SecretAnswer, SecretPrompt, Tools};
    vec![
        ("no mask", config(CALLERS, &[&guard("deny: [rm]")]), |it| {
            if_is(is_secret(it), EDITED)
        }),
        ("answers only", with_mask("on: [answer]"), |it| {
            if_is(it.topic == SecretPrompt, EDITED)
        }),
        ("requests only", with_mask("on: [request]"), |it| {
            if_is(it.topic == SecretAnswer, EDITED)
        }),
        ("denied", with_mask("action: deny"), |it| {
            if_is(is_secret(it), DENIED)
        }),
        (
            "hashed",
            with_mask("action: hash, key: { env: REPLAY_KEY }"),
            |it| if_is(is_secret(it), EDITED),
        ),
        ("mask observed", with_mask("mode: observe"), |it| {
            if_is(is_secret(it), EDITED)
        }),
        ("a word", with_mask("patterns: { word: aurora }"), |it| {
            if_is(it.topic == Aurora, EDITED)
        }),
        (
            "another word",
            with_mask("patterns: { word: borealis }"),
            |_| None,
        ),
        (
            "models of ci",
            with_callers(&[("ci", "models: [m]"), ("dev", "")]),
            |it| if_is(it.topic == BigModel && it.caller == "ci", DENIED),
        ),
        (
            "tools of ci",
            with_callers(&[("ci", "tools: [rm]"), ("dev", "")]),
            |it| match (it.caller, it.topic) {
                ("ci", Look) => DENIED,
                ("ci", Tools) => EDITED,
                _ => None,
            },
        ),
        (
            "all tools of ci",
            with_callers(&[("ci", "tools: ['*']"), ("dev", "")]),
            |_| None,
        ),
        ("without dev", with_callers(&[("ci", "")]), |it| {
            if_is(it.caller == "dev", DENIED)
        }),
        (
            "a caller more",
            with_callers(&[("ci", ""), ("dev", ""), ("eve", "")]),
            |_| None,
        ),
        (
            "two at once",
            config(
                CALLERS,
                &[&guard("deny: [rm]"), "{ policy: model_allow, models: [m] }"],
            ),
            |it| if_is(it.topic == BigModel, DENIED).or(if_is(is_secret(it), EDITED)),
        ),
    ]
}

/// The changed calls of a report, as far as its samples show them.
fn found(report: &Value) -> BTreeMap<String, String> {
    let samples = report["samples"].as_object().unwrap();
    let calls = samples.iter().flat_map(|(kind, samples)| {
        let samples = samples.as_array().unwrap().iter();
        samples.map(move |sample| (sample["request"].as_str().unwrap().to_owned(), kind.clone()))
    });
    calls.collect()
}

/// Samples of one kind that a report has at most.
const MAX_SAMPLES: usize = 20;

/// Checks that the report names each of these calls and no others. Where more have one kind than
/// it has samples, they are all calls of some callers, and the counts of the callers show them.
#[track_caller]
fn assert_found(name: &str, report: &Value, expected: &BTreeMap<&str, &str>, all: &Recorded) {
    let found = found(report);
    for kind in KINDS {
        let is_kind = |id: &&str| expected.get(id).is_some_and(|it| *it == *kind);
        let ids = all.calls.keys().map(String::as_str);
        let expected: BTreeSet<&str> = ids.filter(is_kind).collect();
        let found = found.iter().filter(|(_, it)| *it == *kind);
        let found: BTreeSet<&str> = found.map(|(id, _)| id.as_str()).collect();
        if expected.len() <= MAX_SAMPLES {
            assert_eq!(found, expected, "{name}: {kind}: {report:#}");
            continue;
        }
        for caller in ["ci", "dev"] {
            let of_caller = all.calls.iter().filter(|(_, call)| call.caller == caller);
            let (flipped, kept): (Vec<_>, Vec<_>) =
                of_caller.partition(|(id, _)| expected.contains(id.as_str()));
            assert!(flipped.is_empty() || kept.is_empty(), "{name}: {caller}");
            let count = report["callers"][caller][*kind]
                .as_u64()
                .unwrap_or_default();
            assert_eq!(count, flipped.len() as u64, "{name}: {caller}: {report:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_flips_the_calls_that_it_is_about_and_no_others() {
    let recorded = Recorded::of(&base(), Call::every()).await;
    let changes = [models_and_prompts(), tools(), content_and_callers()].concat();
    assert!(changes.len() >= 40, "{}", changes.len());
    for (number, (name, config, expected)) in changes.into_iter().enumerate() {
        recorded.config("next.yaml", &config);
        let report = recorded.report("next.yaml", &[]);
        let calls = recorded.calls.iter();
        let expected: BTreeMap<&str, &str> = calls
            .filter_map(|(id, call)| Some((id.as_str(), expected(call)?)))
            .collect();
        let count = |kind: &str| expected.values().filter(|it| **it == kind).count();
        for kind in KINDS {
            assert_eq!(
                report["counts"][*kind],
                count(kind),
                "{name}: {kind}: {report:#}"
            );
        }
        assert_eq!(report["counts"]["unknown"], 0, "{name}: {report:#}");
        assert_found(name, &report, &expected, &recorded);
        if number.is_multiple_of(4) {
            // Compared with a replay of the recorded config, it is the same.
            let against = recorded.report("next.yaml", &["--against", "base.yaml"]);
            assert_eq!(against["counts"], report["counts"], "{name}");
        }
    }
}
