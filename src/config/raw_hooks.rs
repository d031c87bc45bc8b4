//! Hooks as written, in the config and in settings.json files.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    AnswerBy, FailureMode, HookMode,
    raw::{RawPath, RawSecret},
    units::{Count, Milliseconds},
};
use crate::event::EventName;

/// The part of a settings.json that is read; it has many other keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Settings")]
pub(super) struct RawSettings {
    pub(super) hooks: RawHooks,
    #[serde(rename = "hooksConfig")]
    pub(super) hooks_config: RawSwitches,
    pub(super) tools: RawTools,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Tools")]
pub(super) struct RawTools {
    #[serde(rename = "enableHooks")]
    pub(super) enable_hooks: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HookFile")]
pub(super) struct RawHookFile {
    /// The settings.json.
    pub(super) path: RawPath,
    /// The hook protocol its hooks speak.
    #[serde(default = "default_protocol")]
    #[schemars(extend("x-known" = "protocols"))]
    pub(super) protocol: String,
    /// Whether its hooks see the system instruction as a first message.
    #[serde(default)]
    pub(super) system_messages: bool,
}

/// Switches for hooks. A `false` always wins.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Switches")]
pub(super) struct RawSwitches {
    /// Whether hooks run at all; yes if absent.
    pub(super) enabled: Option<bool>,
    /// Hooks that do not run: their names, or the commands or URLs of nameless
    /// ones.
    pub(super) disabled: Vec<String>,
    /// Accepted because gemini-cli has it; a gateway has nobody to notify.
    pub(super) notifications: Option<bool>,
}

/// The `hooks` block: switches, and groups of hooks by event.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(super) struct RawHooks {
    pub(super) switches: RawSwitches,
    pub(super) events: BTreeMap<EventName, Vec<RawGroup>>,
}

/// Hooks that share a matcher.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HookGroup")]
pub(super) struct RawGroup {
    /// Which tools (a regular expression) or words the hooks run on; all if
    /// absent.
    #[serde(default)]
    pub(super) matcher: String,
    /// Whether each hook waits for the one before it and sees its edits.
    #[serde(default)]
    pub(super) sequential: bool,
    /// The hooks, in order.
    pub(super) hooks: Vec<RawHook>,
}

/// What each type of hook must have, and what it may have, beside what all may
/// have.
const FIELDS: &[(&str, &[&str], &[&str])] = &[
    (BUILTIN, &["policy"], &[]),
    ("command", &["command"], &["env", "prewarm", "answer"]),
    ("http", &["url"], &["bearer"]),
    ("worker", &["command"], &["env", "instances"]),
];

/// The type of hooks that are policies.
pub const BUILTIN: &str = "builtin";

/// One hook. Which other keys it may have, its type decides.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Hook", transform = fields_by_type)]
pub(super) struct RawHook {
    /// How the hook is reached.
    #[serde(rename = "type", default = "default_transport")]
    #[schemars(extend("x-known" = "transports"))]
    pub(super) kind: String,
    /// What `bash -c` runs: for each event, or once for a worker.
    #[schemars(regex(pattern = r"\S"), extend("errorMessage" = "must be a command"))]
    pub(super) command: Option<String>,
    /// Where events are posted to.
    pub(super) url: Option<RawHookUrl>,
    /// What the hook's server is shown as `Authorization: Bearer …`.
    #[schemars(with = "Option<RawSecret>")]
    pub(super) bearer: Option<Value>,
    /// Which policy a `builtin` hook is.
    #[schemars(extend("x-known" = "policies"))]
    pub(super) policy: Option<String>,
    /// How many processes of a worker run at most.
    pub(super) instances: Option<Count>,
    /// How many processes of a command wait ahead of time for events.
    pub(super) prewarm: Option<Count>,
    /// When a command's answer is complete: at its end, or with a first line that
    /// is a JSON object.
    pub(super) answer: Option<AnswerBy>,
    /// Its name in logs, reasons and `disabled`.
    pub(super) name: Option<String>,
    /// For people.
    #[expect(dead_code, reason = "only its type is checked")]
    pub(super) description: Option<String>,
    /// How long it may take, in milliseconds or as a duration.
    pub(super) timeout: Option<Milliseconds>,
    /// Environment variables for its process.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true, "propertyNames" = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "errorMessage": "must be named like an environment variable"}))]
    pub(super) env: BTreeMap<String, String>,
    /// What its failure means.
    pub(super) on_failure: Option<FailureMode>,
    /// Whether it decides or only looks.
    #[serde(default)]
    pub(super) mode: HookMode,
    /// Whether its input also carries the whole document as on the wire.
    #[serde(default)]
    pub(super) document: bool,
    /// A CEL expression over the event's facts: it runs only if that holds.
    #[schemars(extend("format" = "condition"))]
    pub(super) when: Option<String>,
    /// What only the policy of a `builtin` hook understands.
    #[serde(flatten)]
    #[schemars(skip)]
    pub(super) rest: Map<String, Value>,
}

/// Where a hook's server listens.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HookUrl", with = "String", extend("format" = "hook-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user or fragment"))]
pub(super) struct RawHookUrl(pub(super) String);

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "HookDefaults")]
pub(super) struct RawHookDefaults {
    /// What a hook's failure means.
    pub(super) on_failure: FailureMode,
    /// How long a hook may take, in milliseconds or as a duration.
    pub(super) timeout: Milliseconds,
}

/// Requires and refuses fields by the hook's type; absent, it is the default.
fn fields_by_type(schema: &mut Schema) {
    let all = schema.get("properties").and_then(Value::as_object);
    let all: Map<String, Value> = all
        .into_iter()
        .flat_map(Map::keys)
        .map(|it| (it.clone(), true.into()))
        .collect();
    let rules = FIELDS.iter().map(|(kind, required, optional)| {
        let own = |it: &&&str| required.contains(it) || optional.contains(it);
        let of_any = FIELDS.iter().flat_map(|(_, a, b)| a.iter().chain(*b));
        let foreign = of_any.filter(|it| !own(it));
        let refused = foreign.map(|it| ((*it).to_owned(), Value::from(false)));
        let mut properties = all.clone();
        properties.extend(refused);
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

fn default_protocol() -> String {
    DEFAULT_PROTOCOL.to_owned()
}

fn default_transport() -> String {
    "command".to_owned()
}

/// The protocol of hooks that stand in the config itself, and of settings files
/// that do not say.
pub(super) const DEFAULT_PROTOCOL: &str = "gemini";

impl TryFrom<Map<String, Value>> for RawHooks {
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

impl JsonSchema for RawHooks {
    fn schema_name() -> Cow<'static, str> {
        "Hooks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = RawSwitches::json_schema(generator);
        schema.insert(
            "description".to_owned(),
            "Groups of hooks by event; and the old place of the switches.".into(),
        );
        schema.insert("x-keys".to_owned(), "event".into());
        let groups = generator.subschema_for::<Vec<RawGroup>>();
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let Some(properties) = properties {
            let named = |it: &EventName| (it.as_str().to_owned(), groups.clone().to_value());
            properties.extend(EventName::ALL.iter().map(named));
        }
        schema
    }
}
