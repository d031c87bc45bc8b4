//! The traits that policies implement, and the types that they share with the hook
//! engine.

use std::{fmt, sync::Arc};

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;
use stream_redact::NextText;

use super::session_counters::{SessionCounters, SessionUsage};
use crate::{
    dialect::{self, AllowedFunctions, Call, DialectError, Document, ResponseDocument},
    event::{Context, Event, EventName, HookOutput, RefusedCall},
    model::RequestMutation,
};

/// The output of a policy, or why it cannot read or edit the document.
pub type PolicyResult = Result<HookOutput, DialectError>;

/// A built-in rule whose output is merged with the output of hooks.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Inspects a request before it is sent, and edits it in place.
    ///
    /// # Errors
    ///
    /// Fails if the request cannot be read.
    fn request(&self, _context: &PolicyContext<'_>, _request: &mut PolicyRequest) -> PolicyResult {
        Ok(HookOutput::default())
    }

    /// Returns the inspector of the response to come; `None` if the policy does not
    /// inspect responses.
    fn response(&self, _context: &PolicyContext<'_>) -> Option<Box<dyn ResponsePolicy>> {
        None
    }

    /// Inspects an event of a tool, agent or session.
    fn event(&self, _context: &PolicyContext<'_>, _event: Event<'_>) -> HookOutput {
        HookOutput::default()
    }

    /// Masks a text that hooks add to the conversation on an event. Returns `None` if it stays as
    /// it is.
    fn mask_added(&self, _event: EventName, _text: &str) -> Option<String> {
        None
    }

    /// Returns the reason why its settings, or a part of them, are probably not as intended, if it
    /// runs on these events only.
    fn lint(&self, _events: &[EventName]) -> Option<String> {
        None
    }

    /// Returns whether its settings allow a tool by its name.
    fn allows_tool(&self, _tool: &str) -> bool {
        false
    }

    /// Returns whether its settings list a tool.
    fn names_tool(&self, _tool: &str) -> bool {
        false
    }
}

/// A request before it is sent.
#[derive(Debug, Clone)]
pub struct PolicyRequest {
    /// Method and model of the request.
    pub call: Call,
    /// Body of the request.
    pub document: Document,
    /// True if a policy changed anything.
    pub edited: bool,
}

impl PolicyRequest {
    /// A request that is not edited.
    pub const fn new(call: Call, document: Document) -> Self {
        Self {
            call,
            document,
            edited: false,
        }
    }

    /// The texts of the new user prompt; empty if the request only has new tool
    /// results.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read.
    pub fn prompt(&self) -> Result<Vec<String>, DialectError> {
        dialect::new_prompt(&self.call, &self.document)
    }

    /// Length of the body, in bytes.
    pub fn bytes(&self) -> usize {
        self.call.body_bytes(&self.document)
    }

    /// Replaces a field of the stable form.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be edited.
    pub fn set_field(&mut self, name: &str, value: Value) -> Result<(), DialectError> {
        let mutation = RequestMutation {
            fields: [(name.to_owned(), value)].into_iter().collect(),
            ..RequestMutation::default()
        };
        let (document, allowed) = (self.document.clone(), AllowedFunctions::default());
        let edited = dialect::write_request(&self.call, document, &mutation, &allowed)?;
        self.document = edited.document;
        if let Some(model) = edited.model {
            self.call.model = Some(model);
        }
        self.edited = true;
        Ok(())
    }
}

/// Inspects one response, chunk by chunk.
pub trait ResponsePolicy: fmt::Debug + Send + Sync {
    /// Inspects the whole response or its next chunk, and edits it in place.
    ///
    /// # Errors
    ///
    /// Fails if the chunk cannot be read.
    fn chunk(&mut self, chunk: &mut ResponseDocument, position: ChunkPosition) -> PolicyResult;

    /// Returns whether it may withhold calls.
    fn withholds_calls(&self) -> bool {
        false
    }

    /// Returns the effects on the response since the last call.
    fn take_effects(&mut self) -> PolicyEffects {
        PolicyEffects::default()
    }

    /// Returns the number of bytes that are withheld until a later chunk.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Returns whether the text so far, with `rest` behind it, and the text behind that have a
    /// secret together that neither has by itself; `None` if text to come decides it.
    fn joins_text(&self, _rest: &str, _next: NextText<'_>) -> Option<bool> {
        Some(false)
    }

    /// Returns text that was withheld and is due after the last chunk, with the
    /// output for it.
    ///
    /// # Errors
    ///
    /// Fails if the withheld text cannot be written as a chunk.
    fn end(&mut self) -> Result<Option<(ResponseDocument, HookOutput)>, DialectError> {
        Ok(None)
    }
}

/// Effects of a policy on a response, beside its output.
#[derive(Debug, Default)]
pub struct PolicyEffects {
    /// True if content was changed.
    pub edited: bool,
    /// Calls that were removed, in the order of the response.
    pub refused: Vec<RefusedCall>,
}

/// Facts for policies beside the document.
#[derive(Debug, Clone, Copy)]
pub struct PolicyContext<'a> {
    /// Name of the policy's counters.
    pub counter: &'a str,
    /// Context of the event.
    pub context: &'a Context,
    /// Name of the requested model; empty if the event has none.
    pub model: &'a str,
    /// Pass of the inspection.
    pub pass: InspectionPass,
    /// The request that the inspected response answers; `None` for other events.
    pub request: Option<(&'a Call, &'a Document)>,
    /// Counters of all policies.
    pub counters: &'a Arc<SessionCounters>,
}

impl PolicyContext<'_> {
    /// Usage of the event's session, counted by this policy.
    pub(super) fn session_usage(&self) -> Arc<SessionUsage> {
        let caller = &self.context.caller.key;
        let session_id = &self.context.session_id;
        self.counters.usage(self.counter, caller, session_id)
    }
}

/// Pass of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InspectionPass {
    /// Inspection before hooks run.
    First,
    /// Inspection of what hooks have changed, by a policy that has inspected the event before.
    Second,
    /// Inspection of what hooks have changed, by a policy whose condition did not hold before.
    SecondOnly,
}

/// Position of a chunk in its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkPosition {
    /// More chunks may follow.
    Chunk,
    /// The last chunk, or the whole response.
    Last,
}

/// A kind of policy.
#[derive(Debug, Clone, Copy)]
pub struct PolicyKind {
    /// Name in the config.
    pub name: &'static str,
    /// Events on which it runs.
    pub events: &'static [EventName],
    /// Content that it cannot inspect, as a sentence; empty if there is none.
    pub unseen: &'static str,
    pub(super) build: fn(Value) -> Result<Arc<dyn Policy>, serde_json::Error>,
    pub(super) schema: fn(&mut SchemaGenerator) -> Value,
}

impl PolicyKind {
    /// A policy with settings of type `P`.
    pub(super) const fn new<P: Policy + DeserializeOwned + JsonSchema + 'static>(
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

    /// Names the content that the policy cannot inspect.
    pub(super) const fn with_unseen(self, unseen: &'static str) -> Self {
        Self { unseen, ..self }
    }
}
