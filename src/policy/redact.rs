//! `redact`: masks, hashes or denies secrets in requests, responses and tool events,
//! including secrets that are split over chunks.

mod json_position;
mod redactor;
mod response;
mod tool_result;

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) use self::redactor::FORMAT;
use self::{
    redactor::{FoundDetectors, Redact, RedactionScope},
    response::ResponseRedactor,
    tool_result::redact_result,
};
use super::definition::{
    Policy, PolicyContext, PolicyKind, PolicyRequest, PolicyResult, ResponsePolicy,
};
use crate::{
    config::{Config, HookSpec},
    dialect::{self, ResponseFormat, TextEditor, TextKind},
    event::{ArgumentsMode, BeforeTool, Event, EventName, HookOutput},
};

pub(super) const KIND: PolicyKind = PolicyKind::new::<Redact>(
    "redact",
    &[
        EventName::BeforeModel,
        EventName::AfterModel,
        EventName::BeforeTool,
        EventName::AfterTool,
        EventName::BeforeAgent,
    ],
)
.with_unseen("images, sound and files in requests and responses are not inspected, nor are declarations of tools, thoughts in requests to Anthropic and OpenAI, and content that upstream has cached");

/// Returns the patterns of all `redact` policies of a config, by unique names.
pub fn redact_patterns(config: &Config) -> BTreeMap<String, String> {
    let hooks = config.enabled_hooks().filter_map(HookSpec::as_policy);
    let mut all = BTreeMap::new();
    for policy in config.policies.iter().cloned().chain(hooks) {
        let patterns = policy.settings.0.get("patterns").and_then(Value::as_object);
        let is_redact = policy.policy == KIND.name;
        for (name, pattern) in patterns.filter(|_| is_redact).into_iter().flatten() {
            let pattern = pattern.as_str().unwrap_or_default();
            let names = (2..).map(|number| format!("{name}-{number}"));
            let mut names = std::iter::once(name.clone()).chain(names);
            let is_free = |name: &String| all.get(name).is_none_or(|known| known == pattern);
            if let Some(name) = names.find(is_free) {
                all.insert(name, pattern.to_owned());
            }
        }
    }
    all
}

impl Policy for Redact {
    fn lint(&self, events: &[EventName]) -> Option<String> {
        let is_searched = |event: &EventName| {
            scopes_of(*event)
                .iter()
                .any(|scope| self.on.contains(scope))
        };
        let names: Vec<&str> = events.iter().map(|event| event.as_str()).collect();
        let is_unused = !events.iter().any(is_searched);
        is_unused.then(|| {
            format!(
                "has no effect: nothing in `on` is searched on {}",
                names.join(" and ")
            )
        })
    }

    fn request(&self, _context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        let mut editor = RequestEditor {
            redact: self,
            found: FoundDetectors::new(),
        };
        // A denied request is redacted as well, because hooks see it.
        dialect::edit_request_texts(&request.call, &mut request.document, &mut editor)?;
        request.edited |= !editor.found.is_empty();
        Ok(self.output(&editor.found))
    }

    fn response(&self, context: &PolicyContext<'_>) -> Option<Box<dyn ResponsePolicy>> {
        let mut scopes = self.on.iter();
        if scopes.all(|scope| *scope == RedactionScope::Request) {
            return None;
        }
        let request = context.request;
        // A request that cannot be read expects no format.
        let expected = request.and_then(|(_, document)| dialect::expected_response(document).ok());
        let format = match expected {
            Some(expected) if !expected.forces_call => expected.format,
            Some(_) | None => ResponseFormat::Text,
        };
        Some(Box::new(ResponseRedactor::new(self.clone(), format)))
    }

    fn event(&self, _context: &PolicyContext<'_>, event: Event<'_>) -> HookOutput {
        match event {
            Event::BeforeTool(event) => before_tool(self, event),
            Event::AfterTool(event) => redact_result(self, event),
            Event::BeforeAgent(event) => {
                // A prompt cannot be edited here; the request that carries it can.
                let mut found = FoundDetectors::new();
                for reading in event.readings() {
                    self.redact(RedactionScope::Request, &reading, &mut found);
                }
                self.output(&found)
            }
            _ => HookOutput::default(),
        }
    }

    fn mask_added(&self, event: EventName, text: &str) -> Option<String> {
        let scope = match event {
            EventName::AfterTool => RedactionScope::ToolResults,
            _ => RedactionScope::Request,
        };
        self.redact(scope, text, &mut FoundDetectors::new())
    }
}

/// Returns what is searched on an event, added texts included.
const fn scopes_of(event: EventName) -> &'static [RedactionScope] {
    use RedactionScope as Scope;
    match event {
        EventName::BeforeModel => &[Scope::Request, Scope::ToolCalls, Scope::ToolResults],
        EventName::AfterModel => &[Scope::Answer, Scope::ToolCalls, Scope::ToolResults],
        EventName::BeforeTool => &[Scope::ToolCalls],
        EventName::AfterTool => &[Scope::ToolResults],
        _ => &[Scope::Request],
    }
}

fn before_tool(redact: &Redact, event: &BeforeTool) -> HookOutput {
    let mut found = FoundDetectors::new();
    let mut arguments = Value::Object(event.tool_input.clone());
    let (kind, scope) = (TextKind::ToolCall, RedactionScope::ToolCalls);
    let mut edit = |text: &str| redact.redact_kind(kind, scope, text, &mut found);
    let edited = dialect::edit_json_strings(&mut arguments, &mut edit);
    let mut output = redact.output(&found);
    if edited {
        output.set_specific("tool_input", arguments);
        output.interpretation.arguments = ArgumentsMode::Replace;
    }
    output
}

/// Redacts the texts of a request.
struct RequestEditor<'a> {
    redact: &'a Redact,
    found: FoundDetectors,
}

impl TextEditor for RequestEditor<'_> {
    fn edit_joined(&mut self, kind: TextKind, texts: &mut [String]) -> bool {
        let scope = self.redact.scope_of(kind, RedactionScope::Request);
        self.redact.redact_joined(scope, texts, &mut self.found)
    }

    fn edit(&mut self, kind: TextKind, text: &str) -> Option<String> {
        let speech = RedactionScope::Request;
        self.redact.redact_kind(kind, speech, text, &mut self.found)
    }
}
