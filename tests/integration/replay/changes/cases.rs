//! Tables of config changes, each with the calls that it affects.

#![expect(clippy::too_many_lines, reason = "tables of changes")]

use super::{CALLERS, MASK, base, config, guard};
use crate::replay::conversations::{Call, REASON, Topic};

const DENIED: Option<&str> = Some("newly_denied");
const ALLOWED: Option<&str> = Some("newly_allowed");
const EDITED: Option<&str> = Some("edited");

/// Name, changed config, and the expected kind of difference of a call.
pub type SeededChange = (&'static str, String, fn(&Call) -> Option<&'static str>);

fn kind_if(condition: bool, kind: Option<&'static str>) -> Option<&'static str> {
    kind.filter(|_| condition)
}

fn is_secret(call: &Call) -> bool {
    matches!(call.topic, Topic::SecretAnswer | Topic::SecretPrompt)
}

/// The base config with an additional policy.
fn with_policy(policy: &str) -> String {
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

pub fn models_and_prompts() -> Vec<SeededChange> {
    use Topic::{Aurora, BigModel, Text};
    let allow = "policy: model_allow, models: [m]";
    vec![
        ("nothing", base(), |_| None),
        (
            "all models",
            with_policy("{ policy: model_allow, models: ['*'] }"),
            |_| None,
        ),
        (
            "both models",
            with_policy("{ policy: model_allow, models: [m, 'b?g'] }"),
            |_| None,
        ),
        (
            "one model",
            with_policy(&format!("{{ {allow} }}")),
            |call| kind_if(call.topic == BigModel, DENIED),
        ),
        (
            "one model, observed",
            with_policy(&format!("{{ {allow}, mode: observe }}")),
            |_| None,
        ),
        (
            "one model for ci",
            with_policy(&format!("{{ {allow}, when: 'caller.name == \"ci\"' }}")),
            |call| kind_if(call.topic == BigModel && call.caller == "ci", DENIED),
        ),
        (
            "one model for a stranger",
            with_policy(&format!("{{ {allow}, when: 'caller.name == \"eve\"' }}")),
            |_| None,
        ),
        (
            "a swap",
            with_policy("{ policy: model_swap, swap: { big: m } }"),
            |call| kind_if(call.topic == BigModel, EDITED),
        ),
        (
            "a swap of nothing",
            with_policy("{ policy: model_swap, swap: { other: m } }"),
            |_| None,
        ),
        (
            "a prompt",
            with_policy("{ policy: prompt_guard, deny: [aurora] }"),
            |call| kind_if(call.topic == Aurora, DENIED),
        ),
        (
            "another prompt",
            with_policy("{ policy: prompt_guard, deny: ['^hello [A-Za-z]*Text'] }"),
            |call| kind_if(call.topic == Text, DENIED),
        ),
        (
            "no prompt",
            with_policy("{ policy: prompt_guard, deny: [borealis] }"),
            |_| None,
        ),
        (
            "a prompt, observed",
            with_policy("{ policy: prompt_guard, deny: [aurora], mode: observe }"),
            |_| None,
        ),
        (
            "a prompt of dev",
            with_policy("{ policy: prompt_guard, deny: [aurora], when: 'caller.name == \"dev\"' }"),
            |call| kind_if(call.topic == Aurora && call.caller == "dev", DENIED),
        ),
        (
            "an answer",
            with_policy("{ policy: respond, match: aurora, text: later }"),
            |call| kind_if(call.topic == Aurora, EDITED),
        ),
        (
            "fewer tokens",
            with_policy("{ policy: request_limits, max_output_tokens: 5 }"),
            |_| EDITED,
        ),
        (
            "no input",
            with_policy("{ policy: request_limits, max_input: 1B }"),
            |_| DENIED,
        ),
        (
            "much input",
            with_policy("{ policy: request_limits, max_input: 1MiB }"),
            |_| None,
        ),
        (
            "one call",
            with_policy("{ policy: request_limits, max_calls: 1 }"),
            |call| kind_if(call.topic == Topic::Remove, DENIED),
        ),
        (
            "two calls",
            with_policy("{ policy: request_limits, max_calls: 2 }"),
            |_| None,
        ),
    ]
}

pub fn tools() -> Vec<SeededChange> {
    use Topic::{Look, Remove, Tools};
    fn kind_by_topic(
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
        ("no guard", config(CALLERS, &[MASK]), |call| {
            kind_by_topic(call, None, ALLOWED)
        }),
        ("both tools", with_guard("deny: [look, rm]"), |call| {
            kind_by_topic(call, DENIED, None)
        }),
        ("the other tool", with_guard("deny: [look]"), |call| {
            kind_by_topic(call, DENIED, ALLOWED)
        }),
        ("the same by a list", with_guard("allow: [look]"), |_| None),
        ("the same by a glob", with_guard("deny: ['r?']"), |_| None),
        (
            "observed",
            with_guard("deny: [rm], mode: observe"),
            |call| kind_by_topic(call, None, ALLOWED),
        ),
        (
            "another name",
            config(
                CALLERS,
                &[
                    MASK,
                    &guard("deny: [rm]").replace("name: guard", "name: other"),
                ],
            ),
            |call| kind_if(call.topic == Remove, EDITED),
        ),
        (
            "another reason",
            config(
                CALLERS,
                &[MASK, &guard("deny: [rm]").replace(REASON, "never")],
            ),
            |call| kind_if(call.topic == Remove, EDITED),
        ),
        (
            "an argument",
            with_guard(&format!("{rule} '^b' }}]")),
            |call| kind_if(call.topic == Look, DENIED),
        ),
        (
            "the argument",
            with_guard(&format!("{rule} '^a' }}]")),
            |_| None,
        ),
        (
            "for ci",
            with_guard("deny: [rm], when: 'caller.name == \"ci\"'"),
            |call| {
                if call.caller == "dev" {
                    kind_by_topic(call, None, ALLOWED)
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

pub fn content_and_callers() -> Vec<SeededChange> {
    use Topic::{Aurora, BigModel, Look, SecretAnswer, SecretPrompt, Tools};
    vec![
        (
            "no mask",
            config(CALLERS, &[&guard("deny: [rm]")]),
            |call| kind_if(is_secret(call), EDITED),
        ),
        ("answers only", with_mask("on: [answer]"), |call| {
            kind_if(call.topic == SecretPrompt, EDITED)
        }),
        ("requests only", with_mask("on: [request]"), |call| {
            kind_if(call.topic == SecretAnswer, EDITED)
        }),
        ("denied", with_mask("action: deny"), |call| {
            kind_if(is_secret(call), DENIED)
        }),
        (
            "hashed",
            with_mask("action: hash, key: { env: REPLAY_KEY }"),
            |call| kind_if(is_secret(call), EDITED),
        ),
        ("mask observed", with_mask("mode: observe"), |call| {
            kind_if(is_secret(call), EDITED)
        }),
        ("a word", with_mask("patterns: { word: aurora }"), |call| {
            kind_if(call.topic == Aurora, EDITED)
        }),
        (
            "another word",
            with_mask("patterns: { word: borealis }"),
            |_| None,
        ),
        (
            "models of ci",
            with_callers(&[("ci", "models: [m]"), ("dev", "")]),
            |call| kind_if(call.topic == BigModel && call.caller == "ci", DENIED),
        ),
        (
            "tools of ci",
            with_callers(&[("ci", "tools: [rm]"), ("dev", "")]),
            |call| match (call.caller, call.topic) {
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
        ("without dev", with_callers(&[("ci", "")]), |call| {
            kind_if(call.caller == "dev", DENIED)
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
            |call| kind_if(call.topic == BigModel, DENIED).or(kind_if(is_secret(call), EDITED)),
        ),
    ]
}
