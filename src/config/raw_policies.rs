//! Policies as written, in `policies` and as hooks of type `builtin`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{HookMode, PolicyShape};

/// One policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Policy", extend("x-settings" = "policy"))]
pub(super) struct RawPolicy {
    /// Which policy it is.
    #[schemars(extend("x-known" = "policies"))]
    pub(super) policy: String,
    /// Its name in logs, headers and counts; the policy's if absent.
    pub(super) name: Option<String>,
    /// For people.
    #[expect(dead_code, reason = "only its type is checked")]
    pub(super) description: Option<String>,
    /// Whether it decides or only looks.
    #[serde(default)]
    pub(super) mode: HookMode,
    /// A CEL expression over the event's facts: it runs only if that holds.
    #[schemars(extend("format" = "condition"))]
    pub(super) when: Option<String>,
    /// What only this policy understands.
    #[serde(flatten)]
    #[schemars(skip)]
    pub(super) settings: Map<String, Value>,
}

/// The rules by which a mapping may have the settings of the policy that it
/// names, and no other keys than these and `common` ones.
pub(super) fn settings_by_policy(common: &Map<String, Value>, policies: &[PolicyShape]) -> Value {
    let rules = policies.iter().map(|shape| {
        let own = shape.schema.get("properties").and_then(Value::as_object);
        let mut properties: Map<String, Value> =
            common.keys().map(|it| (it.clone(), true.into())).collect();
        properties.extend(own.cloned().unwrap_or_default());
        let required = shape.schema.get("required").cloned();
        json!({
            "if": { "properties": { "policy": { "const": shape.name } }, "required": ["policy"] },
            "then": {
                "description": shape.schema.get("description"),
                "properties": properties,
                "required": required.unwrap_or_else(|| json!([])),
                "additionalProperties": false,
            },
        })
    });
    rules.collect()
}
