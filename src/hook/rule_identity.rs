//! Policies and hooks as the trace names them, with their place in the config.

use serde_json::{Map, Value, json};

use crate::{
    config::{BUILTIN, HookSpec, PolicySpec, SourceSpan},
    event::EventName,
    observe::trace::{RuleIdentity, RulePosition},
    recording::RuleDefinition,
    sha256::sha256_hex,
};

/// Settings that hold secrets.
const SECRET_SETTINGS: [&str; 2] = ["bearer", "key"];

/// Returns the identity of a hook on an event.
pub(super) fn hook_rule(event: EventName, spec: &HookSpec) -> RuleIdentity {
    if let Some(policy) = spec.as_policy() {
        return policy_rule(&[event], &policy);
    }
    RuleIdentity {
        name: spec.label().to_owned(),
        kind: spec.kind.clone(),
        policy: None,
        at: position(&spec.span),
        events: vec![event],
        mode: spec.mode,
        on_failure: Some(spec.on_failure),
        when: spec.when.as_ref().map(|when| when.text.clone()),
        disabled: false,
    }
}

/// Returns the identity of a policy on its events.
pub(super) fn policy_rule(events: &[EventName], spec: &PolicySpec) -> RuleIdentity {
    RuleIdentity {
        name: spec.label().to_owned(),
        kind: BUILTIN.to_owned(),
        policy: Some(spec.policy.clone()),
        at: position(&spec.span),
        events: events.to_vec(),
        mode: spec.mode,
        on_failure: None,
        when: spec.condition(),
        disabled: false,
    }
}

/// Returns the definition of a hook: everything that decides its output on an input, without
/// secrets.
pub(super) fn hook_definition(spec: &HookSpec) -> RuleDefinition {
    if let Some(policy) = spec.as_policy() {
        return policy_definition(&policy);
    }
    // Recordings hold these words.
    let form = if spec.document {
        "Document"
    } else {
        "StableForm"
    };
    let transport = json!([
        spec.protocol,
        spec.timeout.as_millis().to_string(),
        spec.on_failure,
        format!("{form} {:?}", spec.system_messages),
        spec.context,
    ]);
    definition(&spec.kind, &transport, &spec.settings.0)
}

/// Returns the definition of a policy, without secrets.
pub(super) fn policy_definition(spec: &PolicySpec) -> RuleDefinition {
    definition(BUILTIN, &json!(spec.policy), &spec.settings.0)
}

fn definition(kind: &str, fixed: &Value, settings: &Map<String, Value>) -> RuleDefinition {
    let mut settings: Vec<(&String, Value)> = settings
        .iter()
        .filter(|(name, _)| !SECRET_SETTINGS.contains(&name.as_str()))
        .map(|(name, value)| match (name.as_str(), value) {
            ("env", Value::Object(env)) => (name, env.keys().cloned().collect()),
            _ => (name, value.clone()),
        })
        .collect();
    settings.sort_by_key(|(name, _)| *name);
    let text = json!([kind, fixed, settings]).to_string();
    RuleDefinition {
        kind: kind.to_owned(),
        definition: sha256_hex(text),
    }
}

fn position(span: &SourceSpan) -> RulePosition {
    RulePosition {
        file: span.file.display().to_string(),
        line: span.line,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn definition_of(hook: &str) -> String {
        let text = format!(
            "upstreams: {{ gemini: {{ url: 'http://127.0.0.1:1' }} }}\n\
             hooks: {{ BeforeModel: [{{ hooks: [{hook}] }}] }}\n"
        );
        let file = Path::new("hookgate.yaml");
        let config = Config::parse(&text, file, &crate::hook::registry()).unwrap();
        let groups = &config.hooks[&EventName::BeforeModel];
        hook_definition(&groups[0].hooks[0]).definition
    }

    #[test]
    fn a_definition_is_what_decides_the_output_without_secrets() {
        let one = definition_of("{ command: cat, name: a, env: { A: x } }");

        let same = "{ env: { A: y }, command: cat, name: b, mode: observe }";
        assert_eq!(definition_of(same), one);
        for other in [
            "{ command: cat }",
            "{ command: tac, env: { A: x } }",
            "{ command: cat, env: { A: x }, on_failure: closed }",
        ] {
            assert_ne!(definition_of(other), one, "{other}");
        }
    }
}
