//! Sessions and derived events as written.

use std::{borrow::Cow, path::PathBuf, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    EventSettings, Format, RedisUrl, SessionSettings, StoreSettings,
    raw::{RawPath, RawSecret},
    schema_errors::did_you_mean,
    units::{Count, Period, Rounds},
};
use crate::event::EventName;

/// What is read off model calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Events")]
pub(super) struct RawEvents {
    /// The events that are fired for agents that do not report them.
    pub(super) derive: Vec<RawDerived>,
    /// How often in a turn the model is told that a call was denied, before the
    /// turn ends.
    pub(super) max_denied_rounds: Rounds,
    /// How often in a turn an answer that was denied is tried again.
    pub(super) max_answer_retries: Rounds,
    /// How often in a turn one and the same call is denied, before the turn
    /// ends.
    pub(super) max_same_denials: Rounds,
}

/// The name of an event that model calls show.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DerivedEvent", with = "String", extend("format" = DERIVED_EVENT.name, "examples" = derivable(), "errorMessage" = "must be the name of an event"))]
pub(super) struct RawDerived(EventName);

/// How such a name is written.
pub(super) const DERIVED_EVENT: Format = Format {
    name: "derived-event",
    check: check_derived,
};

/// What is remembered of agents' sessions, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Sessions")]
pub(super) struct RawSessions {
    /// How long a session lasts of which nothing is heard.
    idle: Period,
    /// How many sessions are remembered.
    max: Count,
    /// Where they are remembered.
    store: RawStore,
    /// The folder of transcripts, which must exist; none are written if absent.
    transcripts: Option<RawPath>,
}

/// Where sessions are kept: `memory`, or `redis` with its URL.
#[derive(Debug, Serialize, Deserialize)]
struct RawStore(Value);

/// A Redis.
#[derive(JsonSchema)]
#[schemars(rename = "Redis", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is of use")]
struct RawRedis {
    /// Its URL: `redis://[USER:PASSWORD@]HOST[:PORT][/NUMBER]`, or `rediss://`
    /// for TLS.
    url: RawSecret,
}

impl Default for RawEvents {
    fn default() -> Self {
        Self {
            derive: derivable().into_iter().map(RawDerived).collect(),
            max_denied_rounds: Rounds(3),
            max_answer_retries: Rounds(3),
            max_same_denials: Rounds(3),
        }
    }
}

impl Default for RawSessions {
    fn default() -> Self {
        Self {
            idle: Period(Duration::from_mins(30)),
            max: Count(100_000),
            store: RawStore("memory".into()),
            transcripts: None,
        }
    }
}

impl From<RawEvents> for EventSettings {
    fn from(raw: RawEvents) -> Self {
        Self {
            derive: raw.derive.into_iter().map(|it| it.0).collect(),
            max_denied_rounds: raw.max_denied_rounds.0,
            max_answer_retries: raw.max_answer_retries.0,
            max_same_denials: raw.max_same_denials.0,
        }
    }
}

impl RawSessions {
    /// With what was found where it points to.
    pub(super) fn checked(
        self,
        redis: Option<RedisUrl>,
        transcripts: Option<PathBuf>,
    ) -> SessionSettings {
        SessionSettings {
            idle: self.idle.0,
            max: self.max.0,
            store: redis.map_or(StoreSettings::Memory, StoreSettings::Redis),
            transcripts,
        }
    }
}

// Written out, so that what is wrong inside the mapping is said of the inside.
impl JsonSchema for RawStore {
    fn schema_name() -> Cow<'static, str> {
        "Store".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "object"],
            "pattern": "^memory$",
            "properties": { "redis": generator.subschema_for::<RawRedis>() },
            "required": ["redis"],
            "additionalProperties": false,
            "writeOnly": true,
            "errorMessage": "must be `memory` or `{ redis: { url: … } }`",
        })
    }
}

/// The events that model calls show, in the order of a turn.
fn derivable() -> Vec<EventName> {
    let all = EventName::ALL.iter().copied();
    all.filter(|it| it.is_derivable()).collect()
}

/// What is wrong with `text` as the name of an event to derive.
fn check_derived(text: &str) -> Result<(), String> {
    match EventName::parse(text) {
        Some(event) if event.is_derivable() => Ok(()),
        Some(event) if event.is_model_call() => Err(format!(
            "cannot be `{event}`: each model call is one, so there is nothing to derive"
        )),
        Some(event) => Err(format!(
            "cannot be `{event}`: no model call shows it, only agents can report it"
        )),
        None => {
            let hint = did_you_mean(text, EventName::ALL.iter().map(|it| it.as_str()));
            Err(format!("must be the name of an event, not `{text}`{hint}"))
        }
    }
}
