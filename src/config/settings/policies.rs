//! Policies, in `policies` and as hooks of type `builtin`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::proofs::ProofCases;
use crate::config::source_span::SourceSpan;

/// One policy, on every event that it supports.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Policy", extend("x-settings" = "policy"))]
pub struct PolicySpec {
    /// The name of the policy.
    #[schemars(extend("x-known" = "policies"))]
    pub policy: String,
    /// The name in logs, headers and metrics. Default: that of the policy.
    pub name: Option<String>,
    /// Enforcement of the policy's decision: `enforce` applies it, `observe` only records it.
    #[serde(default)]
    pub mode: HookMode,
    /// A CEL expression over the event's facts. The policy runs only if it is true.
    #[schemars(with = "Option<String>", extend("format" = "condition"))]
    pub when: Option<When>,
    /// The position in the config. Set by the loader.
    #[schemars(skip)]
    pub span: SourceSpan,
    /// Cases that prove the policy.
    #[serde(flatten)]
    pub proof: ProofCases,
    /// The fields of this policy.
    #[serde(flatten)]
    #[schemars(with = "Description")]
    pub settings: HookSettings,
}

/// The schema of a field that is not kept.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Description {
    /// A description for readers of the config.
    description: Option<String>,
}

/// The condition of a hook or policy, an expression of [`crate::condition`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct When {
    /// The expression as written.
    pub text: String,
    /// The position in the config. Set by the loader.
    pub span: SourceSpan,
}

/// Fields of a hook that depend on its transport or policy, such as `command` or
/// `url`, with secrets resolved. `Debug` shows only their names.
#[derive(Clone, PartialEq, Deserialize)]
pub struct HookSettings(pub Map<String, Value>);

/// Enforcement of the decision of a hook or policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookMode {
    /// The decision is applied.
    #[default]
    Enforce,
    /// The decision is recorded and has no effect.
    Observe,
}

impl PolicySpec {
    /// Returns the name, else that of the policy.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.policy)
    }
}

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
