//! `prompt_guard`: denies prompts that match a pattern.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    definition::{Policy, PolicyContext, PolicyKind, PolicyRequest, PolicyResult},
    matchers::NonEmptyPattern,
};
use crate::event::{Event, EventName, HookOutput};

pub(super) const KIND: PolicyKind = PolicyKind::new::<PromptGuard>(
    "prompt_guard",
    &[EventName::BeforeModel, EventName::BeforeAgent],
)
.with_unseen("images, sound and files in prompts are not inspected");

/// Denies prompts that match a pattern.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PromptGuard {
    /// Regular expressions, searched in the new user prompt.
    #[schemars(length(min = 1))]
    deny: Vec<NonEmptyPattern>,
    /// Reason of a denial.
    #[serde(default = "default_reason")]
    reason: String,
}

fn default_reason() -> String {
    "This prompt is not allowed here.".to_owned()
}

impl PromptGuard {
    /// Denies if a pattern is found in a reading of the prompt.
    fn inspect(&self, readings: &[String]) -> HookOutput {
        let mut patterns = self.deny.iter().map(|pattern| &pattern.0);
        if patterns.any(|pattern| readings.iter().any(|text| pattern.is_match(text))) {
            return HookOutput::denial(&*self.reason);
        }
        HookOutput::default()
    }
}

impl Policy for PromptGuard {
    fn request(&self, _context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        let texts = request.prompt()?;
        // A model may read adjacent texts as separate or as one.
        Ok(self.inspect(&[texts.join("\n"), texts.concat()]))
    }

    fn event(&self, _context: &PolicyContext<'_>, event: Event<'_>) -> HookOutput {
        match event {
            Event::BeforeAgent(event) => self.inspect(&event.readings()),
            _ => HookOutput::default(),
        }
    }
}
