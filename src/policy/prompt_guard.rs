//! `prompt_guard`: what users must not send to a model.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Occasion, Policy, PolicyKind, PolicyRequest, matchers::Find};
use crate::{
    dialect::DialectError,
    event::{Event, EventName, HookOutput},
};

pub(super) const KIND: PolicyKind = PolicyKind::of::<PromptGuard>(
    "prompt_guard",
    &[EventName::BeforeModel, EventName::BeforeAgent],
)
.blind("images, sound and files in prompts are not looked into");

/// Refuses prompts in which a pattern is found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PromptGuard {
    /// Regular expressions, looked for in what the user says anew.
    #[schemars(length(min = 1))]
    deny: Vec<Find>,
    /// What the user is told.
    #[serde(default = "default_reason")]
    reason: String,
}

fn default_reason() -> String {
    "This prompt is not allowed here.".to_owned()
}

impl PromptGuard {
    fn judge(&self, prompt: &str) -> HookOutput {
        if self.deny.iter().any(|it| it.is_in(prompt)) {
            return HookOutput::denial(&*self.reason);
        }
        HookOutput::default()
    }
}

impl Policy for PromptGuard {
    fn request(
        &self,
        _occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        let texts = call.prompt()?;
        // A model may read two texts as one.
        Ok(match self.judge(&texts.join("\n")) {
            allowed if allowed == HookOutput::default() => self.judge(&texts.concat()),
            denial => denial,
        })
    }

    fn event(&self, _occasion: &Occasion<'_>, event: Event<'_>) -> HookOutput {
        match event {
            Event::BeforeAgent(it) => self.judge(&it.prompt),
            _ => HookOutput::default(),
        }
    }
}
