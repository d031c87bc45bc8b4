//! What is remembered of one session. Pure.
//!
//! It is a memo of what hooks said of the items of a conversation. A request
//! brings its history along, and that alone decides what of the memo applies; so
//! what is lost is only asked again. Two states of one session are merged by
//! union, and of two notes on one item the one revised later stands: whoever saves
//! last takes nothing away.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::Print;
use crate::event::EventName;

/// How a session was told apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// By the history that its requests bring along.
    #[default]
    History,
    /// By the prefix `/s/{session}`.
    Path,
    /// By `x-hookgate-session`.
    Header,
    /// By Code Assist's `session_id`.
    CodeAssist,
    /// By the id that the agent reports events with.
    Reported,
}

/// What is remembered of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// How it was told apart.
    pub source: Source,
    /// SHA-256 of its caller's credential; empty without one.
    pub caller: String,
    /// The agent, as it calls itself.
    pub agent: String,
    /// Milliseconds since 1970.
    pub first_seen: u64,
    /// Milliseconds since 1970.
    pub last_seen: u64,
    /// Model calls.
    pub requests: u64,
    /// Prompts.
    pub turns: u64,
    /// Whether `SessionStart` was fired, or need not be.
    pub started: bool,
    /// What `SessionStart` hooks added to the session, as it stands there.
    pub context: Option<String>,
    /// The states of its latest conversation, from the first item to the last.
    pub line: Vec<Print>,
    /// Items that hooks were asked about: states, and items by themselves.
    pub known: HashSet<u64>,
    /// What hooks said of items, if it was more than nothing.
    pub notes: HashMap<u64, Note>,
    /// How often calls were denied, by turn and call.
    pub denied_calls: HashMap<u64, u32>,
    /// Events that the agent reports itself.
    pub reported: BTreeSet<EventName>,
}

/// What hooks said of one item.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Note {
    /// When it was written last, in milliseconds since 1970.
    pub revised: u64,
    /// What the agent is told whenever this prompt is asked: `BeforeAgent` hooks
    /// refused it or stopped its turn.
    pub told: Option<String>,
    /// The request that ended with this item was denied; what the agent was told.
    pub denied: Option<String>,
    /// The turn of this prompt was stopped; why.
    pub stopped: Option<String>,
    /// What hooks added to this prompt, or to this tool's result, as it stands
    /// there. A prompt's is of no use after its turn.
    pub context: Option<String>,
    /// Why this tool's result is not shown to the model.
    pub replaced: Option<String>,
    /// Contents that the agent does not know of and that stand behind this item:
    /// calls that were denied, and what the model was told. JSON.
    pub hidden: Vec<String>,
}

impl Note {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
