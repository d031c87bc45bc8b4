//! Cases that prove that a policy or hook works.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::{source_span::SourceSpan, units::DurationText};

/// The keys of [`ProofCases`].
pub(crate) const PROOF_KEYS: [&str; 3] = ["must_deny", "must_allow", "must_mask"];

/// Interval and timeouts of the proofs of guards: policies and hooks with cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Proof")]
pub struct ProofSettings {
    /// Time between two proofs of a guard.
    #[serde(with = "DurationText")]
    pub every: Duration,
    /// Maximum time for the proof of one guard, with all of its cases.
    #[serde(with = "DurationText")]
    pub timeout: Duration,
    /// Maximum time for all proofs at a start or reload together. `POST /reload` waits for at most
    /// a minute.
    #[serde(with = "DurationText")]
    pub total_timeout: Duration,
}

/// Cases that prove a policy or hook.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProofCases {
    /// Cases that it must deny, or files of test cases.
    pub must_deny: Vec<ProofEntry>,
    /// Cases that it must allow, or files of test cases.
    pub must_allow: Vec<ProofEntry>,
    /// Cases in which it must mask something, or files of test cases.
    pub must_mask: Vec<ProofEntry>,
}

/// One item of [`ProofCases`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProofEntry {
    /// A file of test cases.
    File {
        /// The path, resolved by the loader.
        path: PathBuf,
        /// Its text, unless it cannot be read. Set by the loader.
        text: Option<String>,
        /// The position in the config. Set by the loader.
        span: SourceSpan,
    },
    /// A case in the config itself.
    Case(Box<ProofCase>),
}

/// A case: one of `prompt`, `model`, `tool_call`, `tool_result`, `answer`, `event` and
/// `request`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofCase {
    /// The name of the case in messages.
    pub name: Option<String>,
    /// A prompt of the user.
    pub prompt: Option<String>,
    /// The requested model. May be given with a prompt, tool call, result or answer.
    pub model: Option<String>,
    /// A tool call of the model.
    pub tool_call: Option<ProofToolCall>,
    /// A tool's result, as the agent sends it to the model.
    pub tool_result: Option<ProofToolResult>,
    /// The model's answer: a text, a response, or the list of its chunks.
    #[schemars(
        with = "Option<AnswerSchema>",
        extend("errorMessage" = "must be a text, a response or a list of chunks")
    )]
    pub answer: Option<Value>,
    /// An event as an agent reports it: the input of a hook.
    pub event: Option<Map<String, Value>>,
    /// The body of a model call. May be given with an answer.
    pub request: Option<Map<String, Value>>,
    /// Path and query of the model call.
    #[schemars(extend("pattern" = "^/", "errorMessage" = "must be a path that begins with `/`"))]
    pub path: Option<String>,
    /// Headers of the model call. `user-agent` and `x-hookgate-session` have an effect.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The name of the caller. Default: none.
    pub caller: Option<String>,
    /// Of `must_mask`: a text that must not be left. Default: anything may be masked.
    #[schemars(length(min = 1))]
    pub secret: Option<String>,
    /// The position in the config. Set by the loader.
    #[schemars(skip)]
    pub span: SourceSpan,
}

/// A tool call of a case.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofToolCall {
    /// The tool's name as on the wire.
    pub name: String,
    /// The arguments of the call.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// A tool's result of a case.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofToolResult {
    /// The tool's name as on the wire.
    pub name: String,
    /// The arguments of the call.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// The result: a text, or the mapping that the tool returns.
    #[schemars(
        with = "AnswerSchema",
        extend("errorMessage" = "must be a text or a mapping")
    )]
    pub result: Value,
}

// The schema of texts and documents. A doc comment would be its description.
#[derive(JsonSchema)]
#[schemars(inline, extend("type" = ["string", "object", "array"]))]
#[expect(dead_code, reason = "only its schema is used")]
struct AnswerSchema(String);

impl ProofCases {
    /// Returns whether there are no cases.
    pub const fn is_empty(&self) -> bool {
        self.must_deny.is_empty() && self.must_allow.is_empty() && self.must_mask.is_empty()
    }

    /// Returns the position of the first case.
    pub fn first_span(&self) -> Option<&SourceSpan> {
        let lists = [&self.must_deny, &self.must_allow, &self.must_mask];
        lists.into_iter().flatten().map(ProofEntry::span).next()
    }
}

impl ProofEntry {
    /// Returns the position in the config.
    pub const fn span(&self) -> &SourceSpan {
        match self {
            Self::File { span, .. } => span,
            Self::Case(case) => &case.span,
        }
    }
}

impl Default for ProofSettings {
    fn default() -> Self {
        Self {
            every: Duration::from_mins(10),
            timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(45),
        }
    }
}

// Not derived: a problem inside of the mapping shall be reported there.
impl JsonSchema for ProofEntry {
    fn schema_name() -> Cow<'static, str> {
        "ProofCase".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ProofCase::json_schema(generator);
        schema.insert("type".to_owned(), json!(["object", "string"]));
        schema.insert("minLength".to_owned(), json!(1));
        let message = "must be a case such as `{ prompt: … }`, or the path of a file of cases";
        schema.insert("errorMessage".to_owned(), message.into());
        schema
    }
}
