//! `respond`: a fixed answer for a prompt that matches; no model is asked.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Look, Occasion, Policy, PolicyKind, PolicyRequest, matchers::Pattern};
use crate::{
    dialect::DialectError,
    event::{EventName, HookOutput},
};

pub(super) const KIND: PolicyKind = PolicyKind::of::<Respond>("respond", &[EventName::BeforeModel]);

/// A fixed answer for a prompt that matches; no model is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Respond {
    /// What is looked for in what the user says anew.
    r#match: Pattern,
    /// The answer.
    #[schemars(length(min = 1))]
    text: String,
}

impl Policy for Respond {
    fn request(
        &self,
        occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        let mut output = HookOutput::default();
        let answers = occasion.look == Look::First && call.call.operation.generates();
        if answers && self.r#match.is_in(call.prompt()?.join("\n").trim()) {
            let answer = json!({ "text": self.text });
            let specific = &mut output.hook_specific_output;
            specific.insert("llm_response".to_owned(), answer);
        }
        Ok(output)
    }
}
