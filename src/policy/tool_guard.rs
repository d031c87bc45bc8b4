//! `tool_guard`: restricts the tools that are offered and called, and their
//! arguments.
//!
//! Acts on the declarations of a request, on the calls of a response, and on
//! `BeforeTool` events.

mod command_line;
mod path;
mod rule;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::rule::ToolRule;
use super::{
    definition::{
        ChunkPosition, Policy, PolicyContext, PolicyEffects, PolicyKind, PolicyRequest,
        PolicyResult, ResponsePolicy,
    },
    matchers::Globs,
};
use crate::{
    dialect::{self, ComputerUse, FunctionCall, OfferedTool, PartialCalls, ResponseDocument},
    event::{Event, EventName, HookOutput, RefusedCall},
};

pub(super) const KIND: PolicyKind = PolicyKind::new::<ToolGuard>(
    "tool_guard",
    &[
        EventName::BeforeModel,
        EventName::AfterModel,
        EventName::BeforeTool,
    ],
);

/// Restricts the tools that are offered and called, and their arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "ToolGuardSettings")]
#[schemars(with = "ToolGuardSettings")]
struct ToolGuard(Arc<ToolGuardSettings>);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolGuard")]
struct ToolGuardSettings {
    /// Allowed tools, as globs; all that are not denied if absent.
    allow: Option<Globs>,
    /// Denied tools, as globs. Takes precedence over `allow`.
    #[serde(default)]
    deny: Globs,
    /// Rules for arguments. Every rule for a tool must hold.
    #[serde(default)]
    rules: Vec<ToolRule>,
    /// Reason of a denial; a sentence that names the tool if absent.
    reason: Option<String>,
}

impl TryFrom<ToolGuardSettings> for ToolGuard {
    type Error = &'static str;

    /// An empty `allow` is a valid setting: it denies every tool.
    fn try_from(settings: ToolGuardSettings) -> Result<Self, Self::Error> {
        if settings.allow.is_none() && settings.deny.is_empty() && settings.rules.is_empty() {
            return Err("has no effect: one of `allow`, `deny` and `rules` is required");
        }
        Ok(Self(Arc::new(settings)))
    }
}

impl ToolGuard {
    /// Returns whether a tool may be offered. A toolset may unless it is denied, because only its
    /// calls name the tools in it.
    fn offers(&self, tool: &OfferedTool) -> bool {
        if tool.is_toolset {
            return !self.0.deny.matches(&tool.name);
        }
        self.allows(&[&tool.name])
    }

    /// Returns whether a tool with these names is allowed: any is, and none is denied. MCP servers
    /// that the model API calls must be listed, because their calls do not pass hookgate.
    fn allows(&self, names: &[&str]) -> bool {
        let is_allowed = |name: &&str| match &self.0.allow {
            Some(globs) => globs.matches(name),
            None => !dialect::is_hosted_server(name),
        };
        names.iter().any(is_allowed) && !names.iter().any(|name| self.0.deny.matches(name))
    }

    /// Returns the reason why a call is denied, if it is. `directory` is the working
    /// directory of the agent.
    fn denial(
        &self,
        call: &FunctionCall,
        computer_use: Option<&ComputerUse>,
        directory: Option<&str>,
    ) -> Option<String> {
        let computer_use = computer_use.and_then(|tool| tool.name_for(call));
        let names: Vec<&str> = call.names().chain(computer_use).collect();
        let violation = if self.allows(&names) {
            let rules = self.0.rules.iter();
            let mut rules = rules.filter(|rule| names.iter().any(|name| rule.applies_to(name)));
            rules.find_map(|rule| rule.violation(call, directory))?
        } else {
            "is not allowed here".to_owned()
        };
        let reason = self.0.reason.clone();
        Some(reason.unwrap_or_else(|| format!("The tool `{}` {violation}.", call.name)))
    }
}

impl Policy for ToolGuard {
    fn lint(&self, _events: &[EventName]) -> Option<String> {
        let settings = &self.0;
        let allowed = settings.allow.iter().flat_map(Globs::texts);
        let listed = allowed.chain(settings.deny.texts()).map(String::as_str);
        let mut globs = listed.chain(settings.rules.iter().map(ToolRule::glob));
        if let Some(glob) = globs.find(|glob| !may_match(glob)) {
            return Some(format!("`{glob}` cannot be the name of a tool"));
        }
        let index = settings.rules.iter().position(ToolRule::permits_all)?;
        let message = "permits everything: it is `optional`, and has no constraint";
        Some(format!("`rules[{index}]` {message}"))
    }

    fn request(&self, _context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        let (call, document) = (&request.call, &mut request.document);
        let withheld = dialect::withhold_tools(call, document, &|tool| self.offers(tool))?;
        request.edited |= !withheld.is_empty();
        Ok(HookOutput::default())
    }

    fn response(&self, context: &PolicyContext<'_>) -> Option<Box<dyn ResponsePolicy>> {
        Some(Box::new(ToolCallFilter {
            guard: self.clone(),
            computer_use: context.context.computer_use.clone(),
            partial_calls: PartialCalls::default(),
            refused: Vec::new(),
        }))
    }

    fn event(&self, context: &PolicyContext<'_>, event: Event<'_>) -> HookOutput {
        let Event::BeforeTool(tool) = event else {
            return HookOutput::default();
        };
        let call = FunctionCall {
            name: tool.tool_name.clone(),
            toolset: tool.toolset_name.clone(),
            arguments: Value::Object(tool.tool_input.clone()),
            is_partial: false,
        };
        let context = context.context;
        match self.denial(
            &call,
            context.computer_use.as_ref(),
            context.agent_directory(),
        ) {
            Some(reason) => HookOutput::denial(reason),
            None => HookOutput::default(),
        }
    }

    fn allows_tool(&self, tool: &str) -> bool {
        self.0.allow.is_some() && self.allows(&[tool])
    }

    fn names_tool(&self, tool: &str) -> bool {
        let allow = self.0.allow.as_ref();
        allow.is_some_and(|globs| globs.matches(tool))
            || self.0.deny.matches(tool)
            || self.0.rules.iter().any(|rule| rule.applies_to(tool))
    }
}

/// Returns whether a glob may match the name of a tool. Labels of hosted servers are free texts.
fn may_match(glob: &str) -> bool {
    let is_separator = |letter: char| letter.is_whitespace() || "()".contains(letter);
    dialect::is_hosted_server(glob) || !(glob.is_empty() || glob.contains(is_separator))
}

/// Removes denied calls from one response.
#[derive(Debug)]
struct ToolCallFilter {
    guard: ToolGuard,
    computer_use: Option<ComputerUse>,
    partial_calls: PartialCalls,
    /// Calls removed since the effects were last taken.
    refused: Vec<RefusedCall>,
}

impl ResponsePolicy for ToolCallFilter {
    fn chunk(&mut self, chunk: &mut ResponseDocument, _position: ChunkPosition) -> PolicyResult {
        // A model call does not carry the agent's working directory.
        let (guard, refused) = (&self.guard, &mut self.refused);
        let mut deny = |call: &FunctionCall| {
            let reason = guard.denial(call, self.computer_use.as_ref(), None)?;
            refused.push(RefusedCall {
                tool: call.name.clone(),
                reason: reason.clone(),
            });
            Some(reason)
        };
        chunk.withhold_calls(&mut self.partial_calls, &mut deny)?;
        Ok(HookOutput::default())
    }

    fn withholds_calls(&self) -> bool {
        true
    }

    fn take_effects(&mut self) -> PolicyEffects {
        let refused = std::mem::take(&mut self.refused);
        PolicyEffects {
            edited: !refused.is_empty(),
            refused,
        }
    }
}
