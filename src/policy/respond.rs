//! `respond`: answers matching prompts with a fixed text, without a model call.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    definition::{InspectionPass, Policy, PolicyContext, PolicyKind, PolicyRequest, PolicyResult},
    matchers::Pattern,
};
use crate::event::{EventName, HookOutput};

pub(super) const KIND: PolicyKind =
    PolicyKind::new::<Respond>("respond", &[EventName::BeforeModel]);

/// Answers matching prompts with a fixed text, without a model call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Respond {
    /// A regular expression, searched in the new user prompt.
    r#match: Pattern,
    /// Text of the response.
    #[schemars(length(min = 1))]
    text: String,
}

impl Policy for Respond {
    fn lint(&self, _events: &[EventName]) -> Option<String> {
        let pattern = &self.r#match.0;
        // Not only the empty text, as `^$` does.
        let is_every = pattern.is_match("") && pattern.is_match("any");
        is_every.then(|| "`match` matches every prompt".to_owned())
    }

    fn request(&self, context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        let mut output = HookOutput::default();
        let applies = context.pass == InspectionPass::First && request.call.operation.generates();
        if applies && self.r#match.0.is_match(request.prompt()?.join("\n").trim()) {
            let response = json!({ "text": self.text });
            output.set_specific("llm_response", response);
        }
        Ok(output)
    }
}
