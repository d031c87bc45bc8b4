//! Derived events and session tracking.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    config::{
        schema::{
            formats::derivable_events,
            scalars::{CountSchema, DerivedEventSchema, FilePathSchema, RoundsSchema},
        },
        secret::Secret,
        units::DurationText,
    },
    event::EventName,
};

/// Events that are derived from model calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Events")]
pub struct EventSettings {
    /// The events that are fired for agents that do not report them.
    #[schemars(with = "Vec<DerivedEventSchema>")]
    pub derive: BTreeSet<EventName>,
    /// Maximum number of times per turn that the model is called again after tool
    /// calls were denied. Then the turn ends.
    #[schemars(with = "RoundsSchema")]
    pub max_denied_rounds: u32,
    /// Maximum number of times per turn that a denied response is retried.
    #[schemars(with = "RoundsSchema")]
    pub max_answer_retries: u32,
    /// Maximum number of times per turn that the same tool call is denied. Then the
    /// turn ends.
    #[schemars(with = "RoundsSchema")]
    pub max_same_denials: u32,
}

/// Tracking of agents' sessions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Sessions")]
pub struct SessionSettings {
    /// Idle time after which a session ends.
    #[serde(with = "DurationText")]
    pub idle: Duration,
    /// Maximum number of sessions.
    #[schemars(with = "CountSchema")]
    pub max: usize,
    /// The store of sessions.
    #[schemars(with = "StoreSchema")]
    pub store: StoreSettings,
    /// Directory for transcripts, which must exist. Default: no transcripts are
    /// written.
    #[schemars(with = "Option<FilePathSchema>")]
    pub transcripts: Option<PathBuf>,
}

/// The store of sessions or limits: `memory`, or `redis` with its URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreSettings {
    /// The memory of this process.
    Memory,
    /// A Redis server, which several gateways share.
    #[serde(skip_serializing)]
    Redis {
        /// The URL: `redis://` or `rediss://`. It may contain a password.
        url: Secret,
    },
}

/// The schema of [`StoreSettings`], which may also be a string. Not derived from it, so that
/// a problem inside of the mapping is reported there.
#[derive(JsonSchema)]
#[schemars(rename = "Store", deny_unknown_fields, description = "A store: `memory`, or `redis` with its URL.", extend("type" = ["string", "object"], "pattern" = "^memory$", "writeOnly" = true, "errorMessage" = "must be `memory` or `{ redis: { url: … } }`"))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct StoreSchema {
    redis: Redis,
}

/// The schema of [`StoreSettings::Redis`].
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Redis {
    /// The URL: `redis://[USER:PASSWORD@]HOST[:PORT][/NUMBER]`, or `rediss://` for
    /// TLS.
    url: Secret,
}

impl StoreSettings {
    /// Returns the URL of Redis, if that is the store.
    pub const fn redis(&self) -> Option<&Secret> {
        match self {
            Self::Memory => None,
            Self::Redis { url } => Some(url),
        }
    }
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            derive: derivable_events().into_iter().collect(),
            max_denied_rounds: 3,
            max_answer_retries: 3,
            max_same_denials: 3,
        }
    }
}

impl EventSettings {
    /// Checks whether `event` is derived from model calls.
    pub fn derives(&self, event: EventName) -> bool {
        self.derive.contains(&event)
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(30),
            max: 100_000,
            store: StoreSettings::Memory,
            transcripts: None,
        }
    }
}
