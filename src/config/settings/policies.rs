//! Policies, in `policies` and as hooks of type `builtin`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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
    /// The callers for which the policy runs; all if `None`. Set by the loader.
    #[serde(skip)]
    pub callers: Option<CallerPattern>,
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

/// Names of callers for which a policy runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerPattern {
    /// Name of one caller.
    Name(String),
    /// Beginning of all the names.
    Prefix(&'static str),
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

    /// Returns the condition for running, as an expression.
    pub fn condition(&self) -> Option<String> {
        let when = self.when.as_ref().map(|when| when.text.clone());
        when.or_else(|| self.callers.as_ref().map(ToString::to_string))
    }
}

impl CallerPattern {
    /// Returns whether a caller has such a name.
    pub fn matches(&self, caller: &str) -> bool {
        match self {
            Self::Name(name) => caller == name,
            Self::Prefix(prefix) => caller.starts_with(prefix),
        }
    }
}

/// Formats the pattern as a condition.
impl fmt::Display for CallerPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "caller.name == {}", json!(name)),
            Self::Prefix(prefix) => write!(f, "caller.name.startsWith({})", json!(prefix)),
        }
    }
}

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
