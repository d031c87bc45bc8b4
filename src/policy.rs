//! Policies: hooks inside the house, without a process.
//!
//! A policy reads and changes documents, not the stable form, so it also sees
//! what hooks are not shown: declarations, calls, results. It looks before any
//! hook runs, and again at what hooks changed. Pure, but for what [`Ledger`]
//! counts. To add a policy: one file here, one line in [`ALL`], one page in
//! `docs/policies/`, one example in `config/examples/policies/` and its cases in
//! `config/examples/tests/policies/`. A test holds them together.

mod matchers;
mod model_allow;
mod model_swap;
mod policy_request;
mod prompt_guard;
mod redact;
mod request_limits;
mod respond;
mod session_counters;
mod tool_guard;

use std::{fmt, sync::Arc};

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

pub use self::{policy_request::PolicyRequest, session_counters::SessionCounters};
use crate::{
    config::{Format, PolicyShape},
    dialect::{DialectError, ResponseDocument, Words},
    event::{Context, Event, EventName, HookOutput},
};

/// Every policy.
pub const ALL: &[PolicyKind] = &[
    model_allow::KIND,
    model_swap::KIND,
    tool_guard::KIND,
    prompt_guard::KIND,
    redact::KIND,
    request_limits::KIND,
    respond::KIND,
];

/// How what policies take is written.
pub const FORMATS: &[Format] = &[
    matchers::GLOB,
    matchers::PATTERN,
    matchers::FIND,
    redact::FORMAT,
];

/// A rule that answers as a hook does.
pub trait Policy: fmt::Debug + Send + Sync {
    /// A request before it is sent. What the policy wants changed, it changes;
    /// what it says is folded with what hooks say.
    fn request(
        &self,
        _occasion: &Occasion<'_>,
        _call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        Ok(HookOutput::default())
    }

    /// What looks at the answer that is about to come; none if nothing does.
    fn answer(&self, _occasion: &Occasion<'_>) -> Option<Box<dyn ResponsePolicy>> {
        None
    }

    /// An event of a tool or of the agent, as an agent reports it.
    fn event(&self, _occasion: &Occasion<'_>, _event: Event<'_>) -> HookOutput {
        HookOutput::default()
    }
}

/// What a policy does with one answer, chunk by chunk.
pub trait ResponsePolicy: fmt::Debug + Send + Sync {
    /// The whole answer, or its next chunk.
    fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<HookOutput, DialectError>;

    /// The next chunk, if that says texts and nothing else: no document is made of
    /// it then, unless somebody wants one.
    fn words(&mut self, _words: &mut Words) -> TextVerdict {
        TextVerdict::WantsDocument
    }

    /// What it did to the answer itself since it was last asked.
    fn deeds(&mut self) -> PolicyEffects {
        PolicyEffects::default()
    }

    /// What it held back of chunks and must still be said, after the last one;
    /// and what it says of that.
    fn end(&mut self) -> Result<Option<(ResponseDocument, HookOutput)>, DialectError> {
        Ok(None)
    }
}

/// What a policy says of a chunk that says texts and nothing else.
#[derive(Debug)]
pub enum TextVerdict {
    /// Nothing. It may have edited the texts.
    Silent,
    /// This. It has seen the chunk.
    Said(Box<HookOutput>),
    /// It must see the document. It has taken in nothing of the words.
    WantsDocument,
}

/// What a policy did to an answer itself, beside what it says of it.
#[derive(Debug, Default)]
pub struct PolicyEffects {
    /// Whether it changed what the answer says.
    pub edited: bool,
    /// The calls that it took out, in the model's order.
    pub refused: Vec<RefusedCall>,
}

/// A call that a policy took out of an answer.
#[derive(Debug)]
pub struct RefusedCall {
    /// The tool.
    pub tool: String,
    /// What the model is told.
    pub reason: String,
}

/// What a policy knows besides the document.
#[derive(Debug, Clone, Copy)]
pub struct Occasion<'a> {
    /// What the config calls the policy.
    pub policy: &'a str,
    /// Where, when and by whom.
    pub context: &'a Context,
    /// The model asked for; empty if the event has none.
    pub model: &'a str,
    /// When this is.
    pub look: Look,
    /// What was counted so far.
    pub ledger: &'a Arc<SessionCounters>,
}

/// When a policy looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Before any hook: what it sees is the agent's, or upstream's.
    First,
    /// At what hooks changed.
    Again,
}

/// How much of an answer a policy is shown at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkPosition {
    /// The next chunk; more may come.
    Chunk,
    /// All of it, or its last chunk.
    Last,
}

/// How a policy is named and built.
#[derive(Debug, Clone, Copy)]
pub struct PolicyKind {
    /// Its name in config.
    pub name: &'static str,
    /// The events that it knows.
    pub events: &'static [EventName],
    /// What it cannot see, as a sentence; empty if it sees all that it is for.
    pub unseen: &'static str,
    build: fn(Value) -> Result<Arc<dyn Policy>, serde_json::Error>,
    schema: fn(&mut SchemaGenerator) -> Value,
}

impl PolicyKind {
    /// A policy whose settings become `P`.
    const fn of<P: Policy + DeserializeOwned + JsonSchema + 'static>(
        name: &'static str,
        events: &'static [EventName],
    ) -> Self {
        Self {
            name,
            events,
            unseen: "",
            build: |settings| Ok(Arc::new(serde_json::from_value::<P>(settings)?)),
            schema: |generator| P::json_schema(generator).to_value(),
        }
    }

    /// The same, where something escapes it.
    const fn blind(self, unseen: &'static str) -> Self {
        Self { unseen, ..self }
    }
}

/// Why a policy could not be built.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// No policy has this name.
    #[error("no policy is named `{0}`")]
    Unknown(String),
    /// Its settings are wrong.
    #[error("{0}")]
    Settings(#[from] serde_json::Error),
}

/// The policy named `name`.
pub fn find(name: &str) -> Option<&'static PolicyKind> {
    ALL.iter().find(|it| it.name == name)
}

/// Builds the policy named `name`.
pub fn build(
    name: &str,
    settings: Map<String, Value>,
) -> Result<(&'static PolicyKind, Arc<dyn Policy>), PolicyError> {
    let kind = find(name).ok_or_else(|| PolicyError::Unknown(name.to_owned()))?;
    Ok((kind, (kind.build)(Value::Object(settings))?))
}

/// What a config may say of each policy.
pub fn shapes() -> Vec<PolicyShape> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut generator = settings.into_generator();
    let shape = |it: &PolicyKind| PolicyShape {
        name: it.name,
        schema: (it.schema)(&mut generator),
    };
    ALL.iter().map(shape).collect()
}
