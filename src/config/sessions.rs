//! What is remembered of sessions, and what is read off them.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::event::EventName;

/// What is read off model calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSettings {
    /// The events that model calls bring about by what they show.
    pub derive: BTreeSet<EventName>,
    /// How often in a turn the model is told that a call was denied, before the
    /// turn ends. Not zero.
    pub max_denied_rounds: u32,
    /// How often in a turn an answer that was denied is tried again. Not zero.
    pub max_answer_retries: u32,
    /// How often in a turn one and the same call is denied, before the turn
    /// ends. Not zero.
    pub max_same_denials: u32,
}

/// What is remembered of agents' sessions, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// How long a session lasts of which nothing is heard.
    pub idle: Duration,
    /// How many sessions are remembered. Not zero.
    pub max: usize,
    /// Where.
    pub store: StoreSettings,
    /// The folder of transcripts, absolute; none are written if absent.
    pub transcripts: Option<PathBuf>,
}

/// Where sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreSettings {
    /// In this process.
    Memory,
    /// In Redis, so that several gateways share them.
    Redis(RedisUrl),
}

/// Where a Redis is: `redis://` or `rediss://`. It may hold a password.
#[derive(Debug, Clone)]
pub struct RedisUrl(pub SecretString);

impl EventSettings {
    /// Whether model calls bring `event` about by what they show.
    pub fn derives(&self, event: EventName) -> bool {
        self.derive.contains(&event)
    }
}

impl RedisUrl {
    /// What is wrong with it is said as a sentence that holds nothing of it.
    pub(super) fn parse(text: SecretString) -> Result<Self, &'static str> {
        let is_one = |url: Url| {
            matches!(url.scheme(), "redis" | "rediss")
                && url.host_str().is_some_and(|it| !it.is_empty())
                && url.fragment().is_none()
        };
        let parsed = Url::parse(text.expose_secret());
        if parsed.is_ok_and(is_one) {
            return Ok(Self(text));
        }
        Err("what is found there is no URL such as `redis://HOST:PORT` or `rediss://HOST:PORT`")
    }
}

impl PartialEq for RedisUrl {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Eq for RedisUrl {}
