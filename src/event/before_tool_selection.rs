//! `BeforeToolSelection`: the tools of a model request.

use serde::{Deserialize, Serialize};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart},
};
use crate::model::{LlmRequest, ToolConfig};

/// Model request to be sent, after the edits of `BeforeModel`.
#[derive(Debug, Serialize, Deserialize)]
pub struct BeforeToolSelection {
    /// Request in the stable form.
    pub llm_request: LlmRequest,
}

impl EventDefinition for BeforeToolSelection {
    const HONOURS: &'static [OutputPart] = &[OutputPart::ToolSelection];
    /// Selection of tools; `None` leaves the request unchanged.
    type Verdict = Option<ToolConfig>;

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn with_system_message(&self) -> Option<Self> {
        let llm_request = self.llm_request.with_system_message();
        Some(Self { llm_request })
    }

    fn evaluate(merged: &HookOutput) -> Option<ToolConfig> {
        merged.specific("toolConfig").and_then(ToolConfig::read)
    }
}
