//! The config as written: the one source of its schema, its defaults and its
//! reading. Nothing outside this room sees these types.
//!
//! `errorMessage` in a schema says in our words what was expected there; the
//! checks use it, and so do editors.

use std::{borrow::Cow, collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::{
    AfterModelMode, Denials, FailureMode, HookMode, LogFormat, LogLevel,
    check::is_base_url,
    quantity::{Count, Milliseconds, Period, Size},
};
use crate::event::EventName;

/// The config of hookgate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Config")]
pub(super) struct RawConfig {
    /// Where agents connect.
    #[serde(default = "default_listen")]
    pub(super) listen: RawAddress,
    /// The listener for operators: health, metrics, reload.
    #[serde(default)]
    pub(super) admin: RawAdmin,
    /// The model APIs that are called.
    pub(super) upstreams: RawUpstreams,
    /// Which hooks run on which event; the same block as in a settings.json.
    #[serde(default)]
    pub(super) hooks: RawHooks,
    /// settings.json files whose hooks run too, in this order, before `hooks`.
    #[serde(default)]
    #[expect(dead_code, reason = "read one by one, to read all that can be read")]
    pub(super) hook_files: Vec<RawHookFile>,
    /// Switches for all hooks.
    #[serde(default, rename = "hooksConfig")]
    pub(super) hooks_config: RawSwitches,
    /// What hooks get that do not say otherwise.
    #[serde(default)]
    pub(super) hook_defaults: RawHookDefaults,
    /// The working directory of hook processes; the config file's directory if
    /// absent.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) hook_directory: Option<RawPath>,
    /// How an agent is told that a hook said no.
    #[serde(default)]
    pub(super) denials: Denials,
    /// Whether `AfterModel` hooks see each chunk or the whole answer.
    #[serde(default)]
    pub(super) after_model: AfterModelMode,
    /// Bounds of size and number.
    #[serde(default)]
    pub(super) limits: RawLimits,
    /// Bounds of time.
    #[serde(default)]
    pub(super) timeouts: RawTimeouts,
    /// What is logged, and how.
    #[serde(default)]
    pub(super) log: RawLog,
}

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
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admin")]
pub(super) struct RawAdmin {
    /// Where operators connect.
    pub(super) listen: RawAddress,
    /// What operators must show as `Authorization: Bearer …`; nothing if absent.
    pub(super) token: Option<RawSecret>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upstreams")]
pub(super) struct RawUpstreams {
    /// The Gemini API.
    pub(super) gemini: RawUpstream,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upstream")]
pub(super) struct RawUpstream {
    /// Its base, before `/v1beta/…`.
    pub(super) url: RawUrl,
    /// The key to use; the agent's own credential goes through if absent.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) api_key: Option<RawSecret>,
}

/// A secret: never written in the config, only where it is found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Secret", extend("writeOnly" = true, "errorMessage" = "must be `{ env: NAME }` or `{ file: PATH }`; a secret never stands in the config itself"))]
pub(super) enum RawSecret {
    /// The environment variable that holds it.
    Env(String),
    /// The file that holds it and nothing else.
    File(String),
}

/// An IP address and a port.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Address", with = "String", extend("format" = "socket-address", "errorMessage" = "must be an IP address and a port such as `127.0.0.1:8787`"))]
pub(super) struct RawAddress(pub(super) SocketAddr);

/// The base of a model API.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "BaseUrl", with = "String", extend("format" = "base-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user, query or fragment"))]
pub(super) struct RawUrl(pub(super) Url);

/// A path; if relative, to the directory of the config file.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Path", with = "String", extend("minLength" = 1, "errorMessage" = "must be a path"))]
pub(super) struct RawPath(pub(super) PathBuf);

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
    /// Hooks that do not run: their names, or the commands of nameless hooks.
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

/// One hook.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Hook")]
pub(super) struct RawHook {
    /// How the hook is reached.
    #[serde(rename = "type", default = "default_transport")]
    #[schemars(extend("x-known" = "transports"))]
    pub(super) kind: String,
    /// What `bash -c` runs.
    #[schemars(regex(pattern = r"\S"), extend("errorMessage" = "must be a command"))]
    pub(super) command: String,
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
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "HookDefaults")]
pub(super) struct RawHookDefaults {
    /// What a hook's failure means.
    pub(super) on_failure: FailureMode,
    /// How long a hook may take, in milliseconds or as a duration.
    pub(super) timeout: Milliseconds,
}

/// Bounds of size and number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(super) struct RawLimits {
    /// The head of a request.
    pub(super) headers: Size,
    /// The body of a model call.
    pub(super) body: Size,
    /// An answer of the model API that is held as a whole.
    pub(super) response: Size,
    /// One SSE event of an answer, and the body of a reported event.
    pub(super) event: Size,
    /// What one hook may write on stdout, and on stderr.
    pub(super) hook_output: Size,
    /// Hook processes at the same time.
    pub(super) hook_processes: Count,
    /// Requests at the same time.
    pub(super) in_flight: Count,
    /// Connections at the same time.
    pub(super) connections: Count,
}

/// Bounds of time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub(super) struct RawTimeouts {
    /// For an agent to send the head of a request.
    pub(super) header: Period,
    /// For an agent to send the next piece of a body.
    pub(super) body: Period,
    /// For a connection without a request.
    pub(super) idle: Period,
    /// To connect to the model API.
    pub(super) upstream_connect: Period,
    /// For the head of the model API's answer.
    pub(super) first_byte: Period,
    /// Between two pieces of a streamed answer.
    pub(super) stream_idle: Period,
    /// For requests under way to end at shutdown.
    pub(super) drain: Period,
    /// Between two keep-alives while an agent waits for hooks.
    pub(super) keep_alive: Period,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Log")]
pub(super) struct RawLog {
    /// How a line is written.
    pub(super) format: LogFormat,
    /// From which level on.
    pub(super) level: LogLevel,
}

fn default_listen() -> RawAddress {
    RawAddress(SocketAddr::from(([127, 0, 0, 1], 8787)))
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

impl Default for RawAdmin {
    fn default() -> Self {
        Self {
            listen: RawAddress(SocketAddr::from(([127, 0, 0, 1], 8788))),
            token: None,
        }
    }
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            headers: Size::kib(64),
            body: Size::mib(32),
            response: Size::mib(256),
            event: Size::mib(16),
            hook_output: Size::mib(1),
            hook_processes: Count(64),
            in_flight: Count(10_000),
            connections: Count(20_000),
        }
    }
}

impl Default for RawTimeouts {
    fn default() -> Self {
        let seconds = |it| Period(Duration::from_secs(it));
        Self {
            header: seconds(30),
            body: seconds(60),
            idle: seconds(300),
            upstream_connect: seconds(5),
            first_byte: seconds(300),
            stream_idle: seconds(120),
            drain: seconds(30),
            keep_alive: seconds(10),
        }
    }
}

impl TryFrom<String> for RawUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = Url::parse(&text).ok().filter(is_base_url);
        url.map(Self).ok_or("not the base of a model API")
    }
}

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
