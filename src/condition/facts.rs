//! The facts of one event that conditions can refer to.

use serde_json::{Map, Value as Json};

use crate::event::EventName;

/// The facts of one event.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Name of the event.
    pub event: EventName,
    /// The model call, if the event is about one.
    pub request: Option<RequestFacts>,
    /// The tool call, if the event is about one.
    pub tool: Option<ToolFacts<'a>>,
    /// The user's prompt, if the event is about one.
    pub prompt: Option<&'a str>,
    /// Session of the agent.
    pub session: SessionFacts<'a>,
    /// The caller that sent the request.
    pub caller: CallerFacts<'a>,
}

/// Facts of a model call.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// Name of the requested model.
    pub model: String,
    /// Name of the API method, such as `generateContent`.
    pub operation: &'static str,
    /// Whether the response is streamed.
    pub stream: bool,
    /// Length of the body, in bytes.
    pub bytes: usize,
    /// Number of contents in the conversation.
    pub contents: usize,
    /// Names of the declared functions.
    pub tools: Vec<String>,
    /// Requested maximum length of the response, in tokens.
    pub max_output_tokens: Option<i64>,
}

/// Facts of a tool call.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Name of the tool as on the wire.
    pub name: &'a str,
    /// Arguments of the call.
    pub input: &'a Map<String, Json>,
}

/// Facts of a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFacts<'a> {
    /// Id that the agent chose, or a random one.
    pub id: &'a str,
    /// Whether the agent named the session.
    pub named: bool,
}

/// Facts of a caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerFacts<'a> {
    /// The key of [`crate::event::Caller`].
    pub key: &'a str,
    /// Name in the config; empty without `auth`.
    pub name: &'a str,
    /// `User-Agent` header of the request.
    pub agent: &'a str,
}

/// The value of one fact.
#[derive(Debug, Clone, Copy)]
pub(super) enum FactValue<'a> {
    Bool(bool),
    Int(i64),
    String(&'a str),
    Strings(&'a [String]),
    Object(&'a Map<String, Json>),
}
