//! Envelope of every hook input (hook protocol, section 1).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use super::{name::EventName, trace::Trace};
use crate::dialect::ComputerUse;

/// Base fields of an event, and its origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// Id of the request that caused the event, or its own if none did. Hidden from hooks.
    pub request_id: String,
    /// Session of the agent.
    pub session_id: String,
    /// True if the agent named the session. Hidden from hooks.
    pub session_named: bool,
    /// File with the conversation so far; empty if none is written.
    pub transcript_path: String,
    /// Working directory of the agent if it reports one, else the directory of the
    /// config. Processes are started in the latter, never in the former.
    pub cwd: String,
    /// True if the agent reported `cwd`. Hidden from hooks.
    pub cwd_reported: bool,
    /// RFC 3339 in UTC with milliseconds.
    pub timestamp: String,
    /// Caller of the request. Hidden from hooks.
    pub caller: Caller,
    /// Span of the request, if tracing is enabled. Hidden from hooks.
    pub trace: Trace,
    /// Model call that the event belongs to.
    pub call: Option<CallContext>,
    /// Id of the sub-agent, if the agent names one.
    pub sub_agent: Option<String>,
    /// Computer use, if the agent's request offers it. Hidden from hooks.
    pub computer_use: Option<ComputerUse>,
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
    /// Scope of the session ids that hooks see.
    pub session_scope: SessionScope,
}

/// Model call that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CallContext {
    /// Name of the model API.
    pub dialect: &'static str,
    /// Name of the method, such as `generateContent`.
    pub operation: &'static str,
}

/// Scope of session ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionScope {
    /// Callers are not identified, so they share all ids.
    #[default]
    Shared,
    /// Each caller has ids of its own.
    PerCaller,
}

/// Digits of the key by which a caller without a name is shown.
const SHORT_KEY_CHARS: usize = 16;

/// Length of the caller's key in the session ids that hooks see, in characters.
const SCOPE_CHARS: usize = 16;

/// Longest session id of a report, which is stored.
const MAX_SESSION_ID_CHARS: usize = 256;

/// Scope of callers without a credential, which have no key.
const ANONYMOUS_SCOPE: &str = "anonymous";

impl Caller {
    /// Returns the first digits of the key; empty without a credential.
    pub fn short_key(&self) -> &str {
        self.key.get(..SHORT_KEY_CHARS).unwrap_or(&self.key)
    }

    /// Returns the name; without one, the first digits of the key; empty without a credential.
    pub fn label(&self) -> &str {
        if self.name.is_empty() {
            self.short_key()
        } else {
            &self.name
        }
    }
}

impl Context {
    /// Replaces the base fields by those that an agent has reported. An empty session is absent.
    ///
    /// # Errors
    ///
    /// Returns the problem of the first field that is invalid.
    pub fn with_reported(self, fields: &Map<String, Value>) -> Result<Self, String> {
        let named = text_field(fields, "session_id")?.filter(|id| !id.is_empty());
        if named.is_some_and(|id| id.chars().count() > MAX_SESSION_ID_CHARS) {
            return Err(format!(
                "`session_id` longer than {MAX_SESSION_ID_CHARS} characters"
            ));
        }
        // One that is no text, or an empty one, is absent.
        let sub_agent = text_field(fields, "agent_id").unwrap_or_default();
        let or = |field: Option<&str>, default| field.map_or(default, str::to_owned);
        Ok(Self {
            session_named: named.is_some(),
            session_id: or(named, self.session_id),
            transcript_path: or(text_field(fields, "transcript_path")?, self.transcript_path),
            cwd: or(text_field(fields, "cwd")?, self.cwd),
            cwd_reported: fields.get("cwd").is_some_and(Value::is_string),
            timestamp: or(text_field(fields, "timestamp")?, self.timestamp),
            sub_agent: sub_agent.filter(|id| !id.is_empty()).map(str::to_owned),
            ..self
        })
    }

    /// Returns the facts of the request for hooks with `context: true`.
    pub fn gateway_context(&self) -> GatewayContext<'_> {
        GatewayContext {
            caller: &self.caller.name,
            request_id: &self.request_id,
            call: self.call,
        }
    }

    /// Returns the working directory of the agent, if it reports one.
    pub fn agent_directory(&self) -> Option<&str> {
        self.cwd_reported.then_some(self.cwd.as_str())
    }

    /// Returns the session id for hooks. Agents choose ids, so two callers may choose
    /// the same one: with [`SessionScope::PerCaller`] the caller's key is appended.
    pub fn hook_session_id(&self) -> Cow<'_, str> {
        match self.caller.session_scope {
            SessionScope::Shared => Cow::Borrowed(&self.session_id),
            SessionScope::PerCaller => {
                let scope = self.caller.key.get(..SCOPE_CHARS);
                let scope = scope.unwrap_or(ANONYMOUS_SCOPE);
                Cow::Owned(format!("{}-{scope}", self.session_id))
            }
        }
    }
}

/// Returns a text of a report; `None` if it is absent.
///
/// # Errors
///
/// Fails for other values than texts.
pub fn text_field<'a>(
    fields: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a str>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{key}` must be a string")),
    }
}

/// Facts of the request for hooks. Unknown facts are omitted.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct GatewayContext<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    caller: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: &'a str,
    #[serde(flatten)]
    call: Option<CallContext>,
}

/// Optional fields of a hook input.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputExtras<'a> {
    /// The request or chunk on the wire, for hooks with `document: true`.
    pub document: Option<&'a RawValue>,
    /// Facts of the request, for hooks with `context: true`.
    pub hookgate: Option<GatewayContext<'a>>,
}

/// JSON document that a hook reads.
#[derive(Debug, Serialize)]
pub struct HookInput<'a, E> {
    /// Session id for hooks.
    pub session_id: Cow<'a, str>,
    /// File with the conversation so far.
    pub transcript_path: &'a str,
    /// Working directory of the agent, or directory of the config.
    pub cwd: &'a str,
    /// RFC 3339 in UTC with milliseconds.
    pub timestamp: &'a str,
    /// Name of the event.
    pub hook_event_name: EventName,
    /// Fields of the event.
    #[serde(flatten)]
    pub event: E,
    /// Facts of the request, for hooks with `context: true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hookgate: Option<GatewayContext<'a>>,
    /// The request or chunk on the wire, for hooks with `document: true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<&'a RawValue>,
}
