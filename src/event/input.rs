//! The envelope every hook receives (hook protocol, section 1).

use serde::Serialize;
use serde_json::value::RawValue;

use super::{EventName, Trace};

/// Where and when an event happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The id of the request that brought the event about; empty if none did.
    /// Hooks are not told.
    #[serde(skip)]
    pub request_id: String,
    /// The agent's session.
    pub session_id: String,
    /// Whether the agent named it. Hooks are not told.
    #[serde(skip)]
    pub session_named: bool,
    /// The conversation so far as a file; empty if none is kept.
    pub transcript_path: String,
    /// The working directory the event speaks of. Processes are started in the
    /// directory of the config, never in this one.
    pub cwd: String,
    /// RFC 3339 in UTC with milliseconds.
    pub timestamp: String,
    /// Who called. Hooks are not told.
    #[serde(skip)]
    pub caller: Caller,
    /// The span of the request, if anything is traced. Hooks are not told.
    #[serde(skip)]
    pub trace: Trace,
}

/// Who called, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// What its sessions and counts are kept apart by, in lower-case hex: for a
    /// caller that the gateway knows, made of its name; else the SHA-256 of its
    /// credential, empty without one.
    pub key: String,
    /// Who it is by the config; empty if nobody is asked.
    pub name: String,
    /// The `User-Agent`; empty without one.
    pub agent: String,
}

/// The JSON document a hook reads.
#[derive(Debug, Serialize)]
pub struct HookInput<'a, E> {
    #[serde(flatten)]
    context: &'a Context,
    hook_event_name: EventName,
    #[serde(flatten)]
    event: E,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<&'a RawValue>,
}

impl<'a, E: Serialize> HookInput<'a, E> {
    /// Puts the fields of an event into their envelope, beside the document it
    /// was read from if the hook asked for that.
    pub const fn new(
        context: &'a Context,
        hook_event_name: EventName,
        event: E,
        document: Option<&'a RawValue>,
    ) -> Self {
        Self {
            context,
            hook_event_name,
            event,
            document,
        }
    }
}
