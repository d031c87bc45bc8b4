//! Hooks as the operator described them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Matcher, Place};

/// Hooks that share a matcher.
#[derive(Debug, Clone)]
pub struct HookGroup {
    /// Which subjects these hooks run on.
    pub matcher: Matcher,
    /// Whether each hook waits for the one before it.
    pub sequential: bool,
    /// The hooks, in order. Never empty.
    pub hooks: Vec<HookSpec>,
}

/// One hook.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSpec {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Which transport carries it: one of the known ones.
    pub kind: String,
    /// Which hook protocol it speaks: one of the known ones.
    pub protocol: String,
    /// How long it may take.
    pub timeout: Duration,
    /// What its failure means.
    pub on_failure: FailureMode,
    /// Whether it decides.
    pub mode: HookMode,
    /// What it sees.
    pub sees: HookView,
    /// Whether it sees system messages.
    pub system_messages: SystemMessages,
    /// The rest, parsed by the transport: `command`, and `env` if given.
    pub settings: Map<String, Value>,
    /// Where it stands.
    pub place: Place,
}

/// What a hook's failure means for what it guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailureMode {
    /// Go on as if the hook had said nothing.
    #[default]
    Open,
    /// Refuse, as if the hook had said no.
    Closed,
}

/// Whether a hook decides or only looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookMode {
    /// What it says counts.
    #[default]
    Enforce,
    /// It runs and is recorded, and changes nothing.
    Observe,
}

/// What a hook on a model call sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookView {
    /// The stable form alone.
    StableForm,
    /// And the document: the whole request or chunk as it is on the wire.
    Document,
}

/// Whether a hook sees the system instruction as a first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemMessages {
    /// It does not.
    Hidden,
    /// It does.
    Shown,
}

impl HookSpec {
    /// What to call it: its name, else its command.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.command())
    }

    /// Name (empty if it has none) and command: hooks that agree in both are
    /// one hook.
    pub fn identity(&self) -> (&str, &str) {
        (self.name.as_deref().unwrap_or_default(), self.command())
    }

    fn command(&self) -> &str {
        let command = self.settings.get("command").and_then(Value::as_str);
        command.unwrap_or(&self.kind)
    }
}
