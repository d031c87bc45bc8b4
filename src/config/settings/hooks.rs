//! Hooks: groups by event, each hook with its transport, and the switches.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    policies::{HookMode, HookSettings, PolicySpec, When},
    proofs::ProofCases,
    system_messages::SystemMessages,
};
use crate::{
    config::{
        matcher::Matcher,
        schema::scalars::{CountSchema, FilePathSchema, HookUrlSchema},
        secret::Secret,
        source_span::SourceSpan,
        units::Milliseconds,
    },
    event::{AgentScope, EventName},
};

/// The `type` of hooks that are policies.
pub const BUILTIN: &str = "builtin";

/// The protocol of hooks in the config itself, and the default for settings files.
pub(crate) const DEFAULT_PROTOCOL: &str = "gemini";

/// The fields of each type of hook, besides those that all types have: name of the
/// type, required fields, optional fields.
const FIELDS: &[(&str, &[&str], &[&str])] = &[
    (BUILTIN, &["policy"], &[]),
    ("command", &["command"], &["env", "prewarm", "answer"]),
    ("http", &["url"], &["bearer"]),
    ("worker", &["command"], &["env", "instances"]),
];

/// Hooks that share a matcher.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookGroup {
    /// Selects the tools (by a regular expression) or the words on which the hooks
    /// run. Default: all.
    #[serde(default)]
    #[schemars(with = "String")]
    pub matcher: Matcher,
    /// Run each hook after the one before it, with its edits applied.
    #[serde(default)]
    pub sequential: bool,
    /// The hooks, in order.
    pub hooks: Vec<HookSpec>,
}

/// One hook. Its type decides which other keys it may have.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Hook", transform = fields_by_type)]
pub struct HookSpec {
    /// The transport of the hook.
    #[serde(rename = "type", default = "default_transport")]
    #[schemars(extend("x-known" = "transports"))]
    pub kind: String,
    /// The name in logs, reasons and `disabled`.
    pub name: Option<String>,
    /// The hook protocol. Set by the loader.
    #[schemars(skip)]
    pub protocol: String,
    /// The agents for which the hook runs. Set by the loader.
    #[schemars(skip)]
    #[serde(default)]
    pub agents: AgentScope,
    /// Timeout in milliseconds or as a duration.
    #[serde(with = "Milliseconds")]
    #[schemars(with = "Option<Milliseconds>")]
    pub timeout: Duration,
    /// The effect of a failure of the hook.
    #[schemars(with = "Option<FailureMode>")]
    pub on_failure: FailureMode,
    /// Enforcement of the hook's decision: `enforce` applies it, `observe` only records it.
    #[serde(default)]
    pub mode: HookMode,
    /// Add the whole document as on the wire to the hook's input.
    #[serde(default)]
    pub document: bool,
    /// Add facts of the request to the hook's input: caller, request id, model API
    /// and method.
    #[schemars(with = "Option<bool>")]
    pub context: bool,
    /// Run the hook on live calls in a shadow, too, with all its effects.
    #[serde(default)]
    pub shadow: bool,
    /// Set by the loader for all hooks of a file.
    #[schemars(skip)]
    pub system_messages: SystemMessages,
    /// A CEL expression over the event's facts. The hook runs only if it is true.
    #[schemars(with = "Option<String>", extend("format" = "condition"))]
    pub when: Option<When>,
    /// The position in the config. Set by the loader.
    #[schemars(skip)]
    pub span: SourceSpan,
    /// Cases that prove the hook.
    #[serde(flatten)]
    pub proof: ProofCases,
    /// The fields of the transport or policy.
    #[serde(flatten)]
    #[schemars(with = "TransportFields")]
    pub settings: HookSettings,
}

/// The schema of the fields that depend on the type of a hook.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct TransportFields {
    /// The command for `bash -c`: run for each event, or once for a worker.
    #[schemars(regex(pattern = r"\S"), extend("errorMessage" = "must be a command"))]
    command: Option<String>,
    /// The URL to which events are posted.
    url: Option<HookUrlSchema>,
    /// The token that is sent to the hook's server as `Authorization: Bearer …`.
    bearer: Option<Secret>,
    /// The policy of a `builtin` hook.
    #[schemars(extend("x-known" = "policies"))]
    policy: Option<String>,
    /// Maximum number of processes of a worker.
    instances: Option<CountSchema>,
    /// Number of processes of a command that are started before events arrive.
    prewarm: Option<CountSchema>,
    /// Point at which the output of a command is complete: its exit, or a first line that is a JSON
    /// object.
    answer: Option<AnswerBy>,
    /// Environment variables of the process.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true, "propertyNames" = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "errorMessage": "must be named like an environment variable"}))]
    env: BTreeMap<String, String>,
    /// A description for readers of the config.
    description: Option<String>,
}

/// The effect of a hook's failure.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FailureMode {
    /// Continue as without the hook.
    #[default]
    Open,
    /// Deny the event or call.
    Closed,
}

/// Point at which the output of a command is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnswerBy {
    /// At its exit. The exit code is part of the output.
    #[default]
    Exit,
    /// With the first line, if that is a JSON object.
    Line,
}

/// A settings.json; it has many other keys. Also the part of a config with hooks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Settings")]
pub(crate) struct SettingsFile {
    pub(crate) hooks: HooksBlock,
    #[serde(rename = "hooksConfig")]
    pub(crate) hooks_config: Switches,
    pub(crate) tools: Tools,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Tools {
    #[serde(rename = "enableHooks")]
    pub(crate) enable_hooks: Option<bool>,
}

/// The `hooks` block: switches, and groups of hooks by event.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct HooksBlock {
    pub(crate) switches: Switches,
    pub(crate) events: BTreeMap<EventName, Vec<HookGroup>>,
}

/// Switches for hooks. `false` takes precedence over `true`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Switches {
    /// True if hooks run.
    #[schemars(extend("default" = true))]
    pub(crate) enabled: Option<bool>,
    /// Disabled hooks: their names, or the commands or URLs of hooks without a name.
    pub(crate) disabled: Vec<String>,
    /// Accepted for compatibility with gemini-cli, without effect.
    notifications: Option<bool>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookFile {
    /// Path of the settings.json.
    #[schemars(with = "FilePathSchema")]
    pub(crate) path: PathBuf,
    /// The protocol of its hooks. Default: that of the file's folder, such as `.llxprt`, else by
    /// the names of its events `claude` or `gemini`.
    #[schemars(with = "Option<String>", extend("x-known" = "protocols"))]
    pub(crate) protocol: Option<String>,
    /// Send the system instruction as a first message to its hooks.
    #[serde(default)]
    #[schemars(with = "bool")]
    pub(crate) system_messages: SystemMessages,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HookDefaults {
    /// The effect of a hook's failure.
    on_failure: FailureMode,
    /// Timeout in milliseconds or as a duration.
    #[serde(with = "Milliseconds")]
    timeout: Duration,
    /// Add facts of the request to the inputs of hooks.
    context: bool,
}

impl Default for HookDefaults {
    fn default() -> Self {
        Self {
            on_failure: FailureMode::Open,
            timeout: Duration::from_mins(1),
            context: false,
        }
    }
}

impl HookSpec {
    /// Returns the name, else the command, policy or type. URLs may contain secrets
    /// and are not used.
    pub fn label(&self) -> &str {
        let name = self.name.as_deref();
        name.or_else(|| self.setting("command"))
            .or_else(|| self.setting("policy"))
            .unwrap_or(&self.kind)
    }

    /// Returns the name (empty without one), the command or URL, and the protocol. Of hooks with
    /// equal identities the strictest runs, once.
    pub fn identity(&self) -> (&str, &str, &str) {
        let name = self.name.as_deref().unwrap_or_default();
        (name, self.address(), &self.protocol)
    }

    /// Returns the effect of a failure, or `None` if the hook only observes. `Ord` is the
    /// precedence of hooks with equal identities.
    pub fn strictness(&self) -> Option<FailureMode> {
        (self.mode == HookMode::Enforce).then_some(self.on_failure)
    }

    /// Returns the policy of a hook of type `builtin`.
    pub fn as_policy(&self) -> Option<PolicySpec> {
        if self.kind != BUILTIN {
            return None;
        }
        let mut settings = self.settings.clone();
        let Some(Value::String(policy)) = settings.0.shift_remove("policy") else {
            return None;
        };
        Some(PolicySpec {
            name: self.name.clone(),
            policy,
            mode: self.mode,
            when: self.when.clone(),
            callers: None,
            settings,
            proof: self.proof.clone(),
            span: self.span.clone(),
        })
    }

    /// Returns the number of processes that are kept running between events.
    pub fn processes(&self) -> usize {
        let number = |name: &str| self.settings.0.get(name).and_then(Value::as_u64);
        let default = u64::from(self.kind == "worker");
        let number = number("prewarm").or_else(|| number("instances"));
        usize::try_from(number.unwrap_or(default)).unwrap_or(usize::MAX)
    }

    /// Returns the key for `disabled`: the name, else the command or URL.
    pub(crate) fn switch(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.address())
    }

    /// Returns the command of a hook that is a process.
    pub(crate) fn command(&self) -> Option<&str> {
        self.setting("command")
    }

    /// Returns whether the process has this environment variable of its own.
    pub(crate) fn sets_variable(&self, name: &str) -> bool {
        let variables = self.settings.0.get("env");
        variables.is_some_and(|variables| variables.get(name).is_some())
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

/// Requires and refuses fields by the type of a hook, `command` by default.
fn fields_by_type(schema: &mut Schema) {
    let all = schema.get("properties").and_then(Value::as_object);
    let all: Map<String, Value> = all
        .into_iter()
        .flat_map(Map::keys)
        .map(|name| (name.clone(), true.into()))
        .collect();
    let rules = FIELDS.iter().map(|(kind, required, optional)| {
        let is_own = |name: &&&str| required.contains(name) || optional.contains(name);
        let of_any_type = FIELDS.iter().flat_map(|(_, a, b)| a.iter().chain(*b));
        let foreign = of_any_type.filter(|name| !is_own(name));
        let mut properties = all.clone();
        properties.extend(foreign.map(|name| ((*name).to_owned(), false.into())));
        let is_default = *kind == default_transport();
        let named: &[&str] = if is_default { &[] } else { &["type"] };
        let mut then = json!({ "required": required, "properties": properties });
        let (key, value) = if *kind == BUILTIN {
            ("x-settings", json!("policy"))
        } else {
            ("additionalProperties", json!(false))
        };
        if let Some(then) = then.as_object_mut() {
            then.insert(key.to_owned(), value);
        }
        json!({
            "if": { "properties": { "type": { "const": kind } }, "required": named },
            "then": then,
        })
    });
    schema.insert("allOf".to_owned(), rules.collect());
}

fn default_transport() -> String {
    "command".to_owned()
}

impl TryFrom<Map<String, Value>> for HooksBlock {
    type Error = serde_json::Error;

    fn try_from(mut block: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let mut events = BTreeMap::new();
        for event in EventName::ALL {
            if let Some(groups) = block.remove(event.as_str()) {
                events.insert(*event, serde_json::from_value(groups)?);
            }
        }
        let switches = serde_json::from_value(Value::Object(block))?;
        Ok(Self { switches, events })
    }
}

impl JsonSchema for HooksBlock {
    fn schema_name() -> Cow<'static, str> {
        "Hooks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Switches::json_schema(generator);
        schema.insert(
            "description".to_owned(),
            "Groups of hooks by event, and the switches of older settings files.".into(),
        );
        schema.insert("x-keys".to_owned(), "event".into());
        let groups = generator.subschema_for::<Vec<HookGroup>>();
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let Some(properties) = properties {
            let named = |event: &EventName| (event.as_str().to_owned(), groups.clone().to_value());
            properties.extend(EventName::ALL.iter().map(named));
        }
        schema
    }
}
