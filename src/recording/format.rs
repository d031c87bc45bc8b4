//! One exchange as a line of JSON. Pure.

use std::borrow::Cow;

use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call of an agent, with everything that it caused.
///
/// All `ms` are milliseconds since `time`. Texts are masked, and credentials are never part of
/// a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedExchange {
    /// Version of the format: 1.
    pub v: u32,
    /// Request id, as in `x-hookgate-request-id` and the decision log.
    pub id: String,
    /// Arrival of the request, in UTC (RFC 3339).
    pub time: String,
    /// Revision of the config that decided.
    pub revision: String,
    /// Name of the caller.
    pub caller: String,
    /// Key by which sessions of callers without a name are kept apart, as `caller.key` of
    /// conditions has it; empty for others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caller_key: String,
    /// Session of the call; absent if nothing needed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<RecordedSession>,
    /// Name of the API's dialect.
    pub dialect: String,
    /// Name of the method in logs and metrics.
    pub operation: String,
    /// HTTP method of the request.
    pub method: String,
    /// Path and query, without credentials.
    pub target: String,
    /// Headers of the request that have an effect on hookgate or the model API.
    pub headers: Vec<(String, String)>,
    /// Body of the request, without content encoding.
    pub request: RecordedBody,
    /// Calls of the model API, in order.
    pub rounds: Vec<RecordedRound>,
    /// Hook events, in order.
    pub events: Vec<RecordedEvent>,
    /// Response that the agent received; absent if it disconnected before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RecordedAnswer>,
    /// End of the exchange.
    pub outcome: RecordedOutcome,
    /// Names of the detectors and patterns that masked something, and `logprobs` if tokens with
    /// their probabilities were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// The session of an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedSession {
    /// Id of the session.
    pub id: String,
    /// Number of the call in its session since the gateway started, from 0. Calls that are not
    /// recorded count, too.
    pub place: u64,
    /// Method of session identification, such as `history` or `header`.
    pub source: String,
    /// Relation of the request to the session, such as `new` or `continued`.
    #[serde(rename = "match")]
    pub match_kind: String,
    /// Id of the session whose conversation a `forked` one continues; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Names of the events that the agent had reported itself before the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<String>,
}

/// A body, or a piece of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedBody {
    /// Equal to the request of the agent.
    #[default]
    Same,
    /// Bytes that are text in UTF-8.
    Text(String),
    /// Bytes that are no text, in base64.
    Base64(String),
    /// Number of bytes that are not recorded, because they cannot be masked.
    Omitted(u64),
}

/// One call of the model API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedRound {
    /// Time at which the request was sent.
    pub ms: u64,
    /// Path and query, without credentials.
    pub target: String,
    /// Body of the request.
    pub sent: RecordedBody,
    /// Response of the model API; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
}

/// The response of the model API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedResponse {
    /// Time at which the head arrived.
    pub ms: u64,
    /// HTTP status of the response.
    pub status: u16,
    /// Headers that describe the body.
    pub head: Vec<(String, String)>,
    /// Pieces of the body, cut where they arrived.
    pub chunks: Vec<RecordedChunk>,
    /// True if the body was read to its end.
    pub complete: bool,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedChunk {
    /// Time at which it passed.
    pub ms: u64,
    /// Bytes of the piece.
    pub bytes: RecordedBody,
}

/// A hook event of the exchange.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedEvent {
    /// Name of the event, such as `BeforeModel`.
    pub name: String,
    /// Time at which it was decided.
    pub ms: u64,
    /// Number of calls of the model API before it.
    pub round: u32,
    /// `reported`, `derived` or `call`.
    pub origin: String,
    /// Text that matchers compare, such as the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Runs of policies and hooks, in order.
    pub hooks: Vec<RecordedRun>,
    /// `proceed`, `ask`, `respond`, `deny` or `stop`.
    pub verdict: String,
    /// Reason of a verdict that denies, stops or asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A run of a policy or hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedRun {
    /// Name of the policy or hook.
    pub name: String,
    /// Type of the hook; `builtin` for policies.
    pub kind: String,
    /// SHA-256 of the definition in the config, in hex: equal definitions have equal hashes.
    pub definition: String,
    /// SHA-256 of the input that the hook received, in hex, from `hook_event_name` on: session,
    /// folder and time are not part of it. Absent for policies, and if the input has a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// `ok`, `block` or `failed`.
    pub status: String,
    /// Output as hooks write it, in the fields of the hook protocol.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Duration of the run in milliseconds.
    pub ms: u64,
    /// Action that the output alone causes.
    pub action: String,
    /// Action that a hook in `mode: observe` would have caused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would: Option<String>,
    /// True if a policy edited the document, or would have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Function calls that a policy removed from a response, or would have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RecordedRefusal>,
}

/// A function call that a policy removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedRefusal {
    /// Name of the tool.
    pub tool: String,
    /// Reason that the model receives.
    pub reason: String,
}

/// The response that the agent received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedAnswer {
    /// Time at which its status was known.
    pub ms: u64,
    /// HTTP status of the response.
    pub status: u16,
    /// Body of the response.
    pub body: AnswerBody,
}

/// The body of a response to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBody {
    /// The bytes of the last response of the model API, however they are cut.
    Same,
    /// Pieces of the body, cut where they were sent.
    Chunks(Vec<RecordedChunk>),
}

/// The end of an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedOutcome {
    /// `pass`, `edit`, `respond`, `deny`, `stop` or `error`.
    pub action: String,
    /// Reason code of an error of hookgate's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `complete`, `truncated`, `client_disconnected` or `aborted`.
    pub end: String,
    /// True if a tool call was withheld from the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tool_denied: bool,
    /// Duration of the exchange.
    pub ms: u64,
}

impl RecordedExchange {
    /// Version of the format.
    pub const VERSION: u32 = 1;

    /// Returns the bytes that went upstream in a round; `None` if they are not recorded.
    pub fn sent_bytes<'a>(&'a self, round: &'a RecordedRound) -> Option<Cow<'a, [u8]>> {
        match &round.sent {
            RecordedBody::Same => self.request.bytes(),
            other => other.bytes(),
        }
    }

    /// Returns the body that the agent received; `None` if it is not recorded.
    pub fn answer_bytes(&self) -> Option<Vec<u8>> {
        match &self.answer.as_ref()?.body {
            AnswerBody::Same => joined(&self.rounds.last()?.response.as_ref()?.chunks),
            AnswerBody::Chunks(chunks) => joined(chunks),
        }
    }
}

impl RecordedBody {
    /// Makes a body of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64.encode(bytes)),
        }
    }

    /// Returns the bytes; `None` if they are not recorded here.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Same | Self::Omitted(_) => None,
            Self::Text(text) => Some(Cow::Borrowed(text.as_bytes())),
            Self::Base64(text) => BASE64.decode(text.as_bytes()).ok().map(Cow::Owned),
        }
    }
}

impl RecordedResponse {
    /// Returns the whole body; `None` if a part of it is not recorded.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        joined(&self.chunks)
    }
}

fn joined(chunks: &[RecordedChunk]) -> Option<Vec<u8>> {
    let pieces = chunks.iter().map(|chunk| chunk.bytes.bytes());
    Some(pieces.collect::<Option<Vec<_>>>()?.concat())
}
