//! The `redact` policies of the configs of a replay: their hash keys, and their differences.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{
    config::{Config, HookMode, HookSpec, PLACEHOLDER_SECRET, PolicySpec},
    recording::RecordedExchange,
};

/// Name of the policy.
const REDACT: &str = "redact";

/// Digits of the hash in a label.
const HASH_DIGITS: usize = 12;

/// Gives each `redact` policy without a key of its own the same one, so that replays of equal
/// configs are equal. Returns the names of the policies whose key is not that of a live gateway.
pub(super) fn fix_hash_keys(config: &mut Config) -> BTreeSet<String> {
    let mut other_keys = BTreeSet::new();
    for policy in &mut config.policies {
        if policy.policy == REDACT && has_placeholder(&mut policy.settings.0) {
            other_keys.insert(policy.label().to_owned());
        }
    }
    for hook in config.enabled_hooks_mut() {
        let policy = hook.as_policy().filter(|policy| policy.policy == REDACT);
        if let Some(policy) = policy
            && has_placeholder(&mut hook.settings.0)
        {
            other_keys.insert(policy.label().to_owned());
        }
    }
    other_keys
}

/// Returns whether two configs redact the same.
pub(super) fn is_same_redaction(one: &Config, other: &Config) -> bool {
    redactions(one) == redactions(other)
}

/// Returns whether a request or an answer of an exchange has a hash.
pub(super) fn has_hashes(exchange: &RecordedExchange) -> bool {
    let rounds = exchange.rounds.iter();
    let mut sent = rounds.filter_map(|round| exchange.sent_bytes(round));
    let answer = exchange.answer_bytes();
    sent.any(|body| is_hashed(&body)) || answer.is_some_and(|body| is_hashed(&body))
}

/// Returns whether a text has a label such as `[REDACTED:email:0123456789ab]`.
fn is_hashed(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut labels = text.split("[REDACTED:").skip(1);
    labels.any(|rest| {
        let label = rest.split_once(']').map(|(label, _)| label);
        let digits = label.and_then(|label| label.rsplit_once(':'));
        digits.is_some_and(|(_, digits)| {
            digits.len() == HASH_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    })
}

/// Returns mode, condition and settings of each `redact` policy.
fn redactions(config: &Config) -> Vec<(HookMode, Option<String>, Map<String, Value>)> {
    let hooks = config.enabled_hooks().filter_map(HookSpec::as_policy);
    let policies = config.policies.iter().cloned().chain(hooks);
    let redact = policies.filter(|policy| policy.policy == REDACT);
    let settings = redact.map(|policy: PolicySpec| {
        let when = policy.when.map(|when| when.text);
        (policy.mode, when, policy.settings.0)
    });
    settings.collect()
}

/// Returns whether hashes have the key of secrets that cannot be read, or none of its own.
fn has_placeholder(settings: &mut Map<String, Value>) -> bool {
    if settings.get("action").and_then(Value::as_str) != Some("hash") {
        return false;
    }
    let key = settings.entry("key").or_insert(PLACEHOLDER_SECRET.into());
    key.as_str() == Some(PLACEHOLDER_SECRET)
}
