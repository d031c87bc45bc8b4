//! Hooks as the operator described them.

use std::{fmt, time::Duration};

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

/// When a hook or policy runs, as written: an expression of [`crate::condition`].
#[derive(Debug, Clone, PartialEq)]
pub struct When {
    /// The text.
    pub text: String,
    /// Where it stands.
    pub place: Place,
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
    /// When it runs; always if absent.
    pub when: Option<When>,
    /// The rest.
    pub settings: HookSettings,
    /// Where it stands.
    pub place: Place,
}

/// One policy, on every event that it knows.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Which policy it is: one of the known ones.
    pub policy: String,
    /// Whether it decides.
    pub mode: HookMode,
    /// When it is asked; always if absent.
    pub when: Option<When>,
    /// The rest.
    pub settings: HookSettings,
    /// Where it stands.
    pub place: Place,
}

impl PolicySpec {
    /// What to call it: its name, else the policy's.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.policy)
    }
}

/// What only a hook's transport or policy understands, such as `command` or `url`, with
/// secrets in place. They may hold keys, so they show their names alone.
#[derive(Clone, PartialEq)]
pub struct HookSettings(pub Map<String, Value>);

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
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

/// When the answer of a command is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnswerBy {
    /// At its end: its exit code is part of the answer.
    #[default]
    Exit,
    /// As soon as its first line is a JSON object.
    Line,
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
    /// What to call it: its name, else its command. A URL is nobody's business,
    /// so a nameless hook that has one is called by its type.
    pub fn label(&self) -> &str {
        let name = self.name.as_deref();
        name.or_else(|| self.setting("command"))
            .or_else(|| self.setting("policy"))
            .unwrap_or(&self.kind)
    }

    /// Name (empty if it has none), and command or URL: hooks that agree in
    /// both are one hook.
    pub fn identity(&self) -> (&str, &str) {
        (self.name.as_deref().unwrap_or_default(), self.address())
    }

    /// The policy that a hook of type `builtin` is.
    pub fn as_policy(&self) -> Option<PolicySpec> {
        let mut settings = self.settings.clone();
        let Some(Value::String(policy)) = settings.0.shift_remove("policy") else {
            return None;
        };
        Some(PolicySpec {
            name: self.name.clone(),
            policy,
            mode: self.mode,
            when: self.when.clone(),
            settings,
            place: self.place.clone(),
        })
    }

    /// How many processes it keeps, whether there are events or not.
    pub fn processes(&self) -> usize {
        let number = |name: &str| self.settings.0.get(name).and_then(Value::as_u64);
        let unsaid = u64::from(self.kind == "worker");
        let number = number("prewarm").or_else(|| number("instances"));
        usize::try_from(number.unwrap_or(unsaid)).unwrap_or(usize::MAX)
    }

    /// What it is disabled by: its name, else its command or URL.
    pub(super) fn switch(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.address())
    }

    fn address(&self) -> &str {
        let address = self.setting("command").or_else(|| self.setting("url"));
        let address = address.or_else(|| self.setting("policy"));
        address.unwrap_or(&self.kind)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.0.get(name)?.as_str()
    }
}
