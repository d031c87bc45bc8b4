//! `tool_guard`: which tools are offered and called, and with which arguments.
//!
//! It acts on what a request declares, on calls in answers, and on `BeforeTool`
//! events alike.

mod command_line;
mod path;
mod rule;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::rule::Rule;
use super::{
    ChunkPosition, Occasion, Policy, PolicyEffects, PolicyKind, PolicyRequest, RefusedCall,
    ResponsePolicy, TextVerdict, matchers::Globs,
};
use crate::{
    dialect::{DialectError, FunctionCall, PartialCalls, ResponseDocument, Words},
    event::{Event, EventName, HookOutput},
};

pub(super) const KIND: PolicyKind = PolicyKind::of::<ToolGuard>(
    "tool_guard",
    &[
        EventName::BeforeModel,
        EventName::AfterModel,
        EventName::BeforeTool,
    ],
);

/// Which tools are offered and called, and with which arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "Settings")]
#[schemars(with = "Settings")]
struct ToolGuard(Arc<Settings>);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolGuard")]
struct Settings {
    /// Only these tools, as globs; all that are not denied if absent.
    allow: Option<Globs>,
    /// Never these tools, as globs. It outranks `allow`.
    #[serde(default)]
    deny: Globs,
    /// What arguments must be. Every rule for a tool must hold.
    #[serde(default)]
    rules: Vec<Rule>,
    /// What the agent is told; a sentence that names the tool if absent.
    reason: Option<String>,
}

impl TryFrom<Settings> for ToolGuard {
    type Error = &'static str;

    /// An empty `allow` is a setting: it lets no tool pass.
    fn try_from(settings: Settings) -> Result<Self, Self::Error> {
        let says_nothing =
            settings.allow.is_none() && settings.deny.is_empty() && settings.rules.is_empty();
        if says_nothing {
            return Err("it refuses nothing: it needs `allow`, `deny` or `rules`");
        }
        Ok(Self(Arc::new(settings)))
    }
}

impl ToolGuard {
    /// Whether a tool may be offered at all.
    fn offers(&self, name: &str) -> bool {
        let allowed = self.0.allow.as_ref().is_none_or(|it| it.matches(name));
        allowed && !self.0.deny.matches(name)
    }

    /// Why a call may not run, if it may not. `directory` is the agent's.
    fn refusal(&self, call: &FunctionCall, directory: Option<&str>) -> Option<String> {
        let name = &call.name;
        let why = if self.offers(name) {
            let mut rules = self.0.rules.iter().filter(|it| it.is_for(name));
            rules.find_map(|it| it.broken_by(call, directory))?
        } else {
            "is not allowed here".to_owned()
        };
        let said = self.0.reason.clone();
        Some(said.unwrap_or_else(|| format!("The tool `{name}` {why}.")))
    }
}

impl Policy for ToolGuard {
    fn request(
        &self,
        _occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        call.withhold_tools(&|it| self.offers(it))?;
        Ok(HookOutput::default())
    }

    fn answer(&self, _occasion: &Occasion<'_>) -> Option<Box<dyn ResponsePolicy>> {
        Some(Box::new(Guarding {
            guard: self.clone(),
            pieces: PartialCalls::default(),
            refused: Vec::new(),
        }))
    }

    fn event(&self, occasion: &Occasion<'_>, event: Event<'_>) -> HookOutput {
        let Event::BeforeTool(tool) = event else {
            return HookOutput::default();
        };
        let call = FunctionCall {
            name: tool.tool_name.clone(),
            arguments: Value::Object(tool.tool_input.clone()),
            in_pieces: false,
        };
        match self.refusal(&call, Some(&occasion.context.cwd)) {
            Some(reason) => HookOutput::denial(reason),
            None => HookOutput::default(),
        }
    }
}

/// Looks at the calls of one answer.
#[derive(Debug)]
struct Guarding {
    guard: ToolGuard,
    pieces: PartialCalls,
    /// What nobody has asked for yet.
    refused: Vec<RefusedCall>,
}

impl ResponsePolicy for Guarding {
    fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        _extent: ChunkPosition,
    ) -> Result<HookOutput, DialectError> {
        // Where the agent works, a model call does not tell.
        let (guard, refused) = (&self.guard, &mut self.refused);
        let mut refuse = |call: &FunctionCall| {
            let reason = guard.refusal(call, None)?;
            refused.push(RefusedCall {
                tool: call.name.clone(),
                reason: reason.clone(),
            });
            Some(reason)
        };
        chunk.withhold_calls(&mut self.pieces, &mut refuse)?;
        Ok(HookOutput::default())
    }

    /// Words call nothing.
    fn words(&mut self, _words: &mut Words) -> TextVerdict {
        TextVerdict::Silent
    }

    fn deeds(&mut self) -> PolicyEffects {
        let refused = std::mem::take(&mut self.refused);
        PolicyEffects {
            edited: !refused.is_empty(),
            refused,
        }
    }
}
