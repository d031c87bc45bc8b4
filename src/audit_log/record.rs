//! What lines hold.
//!
//! Content, that is words of people, models and hooks, is in them as a hash; as
//! itself only where the operator wants it. Names of tools, models, sessions and
//! hooks are no content.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Sample;
use crate::{
    config::AuditMode,
    event::{Action, Caller, EventName, Trace},
    observe::ReloadOutcome,
};

/// The longest name that is told, in bytes; agents and models make them up.
const LONGEST: usize = 256;

/// The most of a reason that is told, in bytes.
const LONGEST_REASON: usize = 16 * 1024;

/// One line, but for its place in the chain.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// Writing begins.
    Start {
        /// Of hookgate.
        version: &'static str,
        /// How lines are written.
        mode: AuditMode,
        /// Whether they hold content.
        content: bool,
    },
    /// Writing ends in order.
    Stop,
    /// The config was read anew.
    Reload {
        /// Whether the new config is in force.
        outcome: ReloadOutcome,
    },
    /// The file did not end with a whole line. What was cut off lies beside it.
    Repaired {
        /// How many bytes.
        bytes: u64,
        /// The name of the file that they are in now.
        file: String,
    },
    /// The file was gone, so this is a new one.
    Lost,
    /// So many lines are missing here: there was no room for them.
    Dropped {
        /// How many.
        lines: u64,
    },
    /// A model call is about to go upstream, or has ended without.
    Request(Box<RequestRecord>),
    /// An event was fired.
    Event(Box<EventRecord>),
    /// A model call is over.
    Outcome(Box<OutcomeRecord>),
    /// A request got no further than the door.
    Refused(Box<RefusedRecord>),
    /// So many more did not, which have no lines of their own.
    LeftOut {
        /// How many.
        requests: u64,
    },
}

/// Who called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallerRecord {
    /// Who it is by the config; absent if nobody is asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What its sessions are kept apart by: the SHA-256 of its credential, or of
    /// its name; absent without either.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The `User-Agent`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

impl From<&Caller> for CallerRecord {
    fn from(caller: &Caller) -> Self {
        Self {
            name: short(&caller.name),
            key: caller.key.clone(),
            agent: short(&caller.agent),
        }
    }
}

/// A model call, before upstream is called.
#[derive(Debug, Default, Serialize)]
pub struct RequestRecord {
    /// The id in `x-hookgate-request-id`.
    pub request: String,
    /// Its span. No line holds it.
    #[serde(skip)]
    pub trace: Trace,
    /// How often the model is asked for this call, this time included; 0 if it is
    /// not.
    pub round: u32,
    /// The agent's session; empty if none is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Who called.
    pub caller: CallerRecord,
    /// The way the call is written.
    pub dialect: &'static str,
    /// What is asked for, such as `generateContent`.
    pub method: &'static str,
    /// The model that the agent asked for.
    pub asked: String,
    /// The model that is called.
    pub called: String,
    /// The body as it came; absent as long as it is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Sample>,
    /// The body as it goes out; absent if it goes nowhere, or unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sample>,
}

/// An event and what came of it. The chunks of one answer are one event.
#[derive(Debug, Serialize)]
pub struct EventRecord {
    /// The request that brought it about or reported it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The agent's session; empty if none is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Who called.
    pub caller: CallerRecord,
    /// The span of that request. No line holds it.
    #[serde(skip)]
    pub trace: Trace,
    /// How long its hooks took together. No line holds it.
    #[serde(skip)]
    pub time: Period,
    /// Which event.
    pub event: EventName,
    /// `call`, `derived` or `reported`.
    pub origin: &'static str,
    /// The tool it is about, or the word that matchers see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Chunks that hooks judged, where chunks are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Who was asked, in order.
    pub hooks: Vec<HookRecord>,
    /// What it came to.
    pub verdict: Action,
    /// Why, if that is no or stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DigestRecord>,
    /// What the agent reported, or what was read off its call; only where the log
    /// holds content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Sample>,
}

/// What one hook did; in all its runs, if there were many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookRecord {
    /// Its name.
    pub name: String,
    /// `ok`, `block` or `failed`; the worst of many.
    pub status: &'static str,
    /// When it ran. No line holds it.
    #[serde(skip)]
    pub time: Period,
    /// How long it took.
    pub ms: u64,
    /// What it would have done, if it only observes, such as `would_deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'static str>,
    /// How often it ran, if that is not once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// Whether it is a policy that changed what it was shown, or would have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// How many calls it took out of the answer, or would have.
    #[serde(skip_serializing_if = "is_none")]
    pub refused: usize,
}

/// Words of a hook, or of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DigestRecord {
    /// The SHA-256 of all of them.
    pub sha256: String,
    /// The words; only where the log holds content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl DigestRecord {
    /// Of this text; with it, if the log holds content.
    pub fn new(text: &str, with_text: bool) -> Self {
        Self {
            sha256: HEXLOWER.encode(&Sha256::digest(text)),
            text: with_text.then(|| cut(text, LONGEST_REASON).to_owned()),
        }
    }
}

/// A model call that is over.
#[derive(Debug, Default, Serialize)]
pub struct OutcomeRecord {
    /// The id in `x-hookgate-request-id`.
    pub request: String,
    /// The agent's session; empty if none is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Who called.
    pub caller: CallerRecord,
    /// What its span is made of. No line holds it.
    #[serde(skip)]
    pub call: CallRecord,
    /// What became of it, in one word.
    pub action: &'static str,
    /// The reason of an error of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// The HTTP status told to the agent; 0 if it left before.
    pub status: u16,
    /// How the answer ended.
    pub ended: &'static str,
    /// Which address of the model API was asked last, `first` or `fallback`; empty
    /// if none was.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub upstream: &'static str,
    /// How often the model was asked.
    pub rounds: u32,
    /// The model called in the end.
    pub called: String,
    /// The body as it came, if no request line holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Sample>,
    /// The answer's body as it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Sample>,
    /// Chunks handed to hooks.
    pub chunks: u64,
    /// What upstream counted; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// From the request's head to the answer's end.
    pub duration_ms: u64,
}

/// What the span of a call holds, beside what its outcome does.
#[derive(Debug, Default)]
pub struct CallRecord {
    /// Its place in its trace.
    pub trace: Trace,
    /// The way the call is written.
    pub dialect: &'static str,
    /// What is asked for, such as `generateContent`.
    pub method: &'static str,
    /// The model that the agent asked for.
    pub asked: String,
    /// The model that says it has answered; empty if none does.
    pub answered: String,
    /// How long it took.
    pub elapsed: Duration,
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Its start.
    pub started: SystemTime,
    /// Its end, not before its start.
    pub ended: SystemTime,
}

/// Tokens, as upstream counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// Of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u64>,
    /// Together, thoughts and tools included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A request that was turned away.
#[derive(Debug, Default, Serialize)]
pub struct RefusedRecord {
    /// The id in `x-hookgate-request-id`.
    pub request: String,
    /// `agents` or `operators`.
    pub door: &'static str,
    /// What it would have been, such as `files.list`; empty if nobody knows.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub operation: &'static str,
    /// The HTTP method.
    pub method: String,
    /// The path, without its query. Agents make it up, so it is content.
    pub path: DigestRecord,
    /// The reason of the error.
    pub error: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The address that the connection came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// Who called, as far as somebody asked.
    pub caller: CallerRecord,
}

impl Record {
    /// The span that it belongs to, if anything is traced.
    pub(super) fn trace(&self) -> Trace {
        match self {
            Self::Request(it) => it.trace,
            Self::Event(it) => it.trace,
            Self::Outcome(it) => it.call.trace,
            Self::Start { .. }
            | Self::Stop
            | Self::Reload { .. }
            | Self::Repaired { .. }
            | Self::Lost
            | Self::Dropped { .. }
            | Self::Refused(_)
            | Self::LeftOut { .. } => Trace::default(),
        }
    }
}

/// A name, cut where it becomes too long to be one.
pub fn short(name: &str) -> String {
    cut(name, LONGEST).to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over")]
const fn is_none(number: &usize) -> bool {
    *number == 0
}

/// At most `most` bytes of a text.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The fields of a line, without the braces around them. `config` is the version
/// of the config in force; empty if it does not matter.
pub(super) fn write(record: &Record, config: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        time: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        config: &'a str,
        #[serde(flatten)]
        record: &'a Record,
    }

    let time = format!("{:.3}", jiff::Timestamp::now());
    let line = Line {
        time,
        config,
        record,
    };
    // Structs of names and numbers always become JSON.
    let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
    bytes.pop();
    if !bytes.is_empty() {
        bytes.remove(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_time_its_config_and_its_kind() {
        let fields = write(&Record::Dropped { lines: 3 }, "0badcafe");

        let line = format!("{{{}}}", String::from_utf8(fields).unwrap());
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["kind"], "dropped");
        assert_eq!(line["lines"], 3);
        assert_eq!(line["config"], "0badcafe");
        let time = line["time"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok() && time.len() == 24);
    }

    #[test]
    fn reasons_are_content_and_names_are_short() {
        let without = DigestRecord::new("no", false);
        let with = DigestRecord::new("no", true);

        assert_eq!((without.text, with.text.as_deref()), (None, Some("no")));
        assert_eq!(short(&"ä".repeat(1000)).len(), LONGEST);
    }
}
