//! Envelope of every hook input (hook protocol, section 1).

use serde::Serialize;
use serde_json::value::RawValue;

use super::{name::EventName, trace::Trace};

/// Base fields of an event, and its origin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Context {
    /// Id of the request that caused the event; empty if none did. Hidden from
    /// hooks.
    #[serde(skip)]
    pub request_id: String,
    /// Session of the agent.
    pub session_id: String,
    /// Whether the agent named the session. Hidden from hooks.
    #[serde(skip)]
    pub session_named: bool,
    /// File with the conversation so far; empty if none is written.
    pub transcript_path: String,
    /// Working directory of the agent. Processes are started in the directory of
    /// the config, never in this one.
    pub cwd: String,
    /// RFC 3339 in UTC with milliseconds.
    pub timestamp: String,
    /// Caller of the request. Hidden from hooks.
    #[serde(skip)]
    pub caller: Caller,
    /// Span of the request, if tracing is enabled. Hidden from hooks.
    #[serde(skip)]
    pub trace: Trace,
}

/// Caller of a request, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Key of the caller's sessions and counters, in lower-case hex: derived from
    /// the name of an authenticated caller, else the SHA-256 of its credential;
    /// empty without one.
    pub key: String,
    /// Name in the config; empty without authentication.
    pub name: String,
    /// `User-Agent` header; empty without one.
    pub agent: String,
}

/// JSON document that a hook reads.
#[derive(Debug, Serialize)]
pub struct HookInput<'a, E> {
    /// Base fields of all events.
    #[serde(flatten)]
    pub context: &'a Context,
    /// Name of the event.
    pub hook_event_name: EventName,
    /// Fields of the event.
    #[serde(flatten)]
    pub event: E,
    /// The request or chunk on the wire, for hooks with `document: true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<&'a RawValue>,
}
