//! `AfterModel`: a model response, or one chunk of it.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart},
    verdict::FlowVerdict,
};
use crate::model::{CachedRequest, LlmRequest, LlmResponse, ResponseMutation};

/// Request and response of a model call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AfterModel {
    /// Request as sent upstream, shared by all chunks.
    pub llm_request: Arc<CachedRequest>,
    /// The complete response, or one chunk.
    #[serde(deserialize_with = "read_reported")]
    pub llm_response: LlmResponse,
}

fn read_reported<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LlmResponse, D::Error> {
    LlmResponse::deserialize(deserializer).map(LlmResponse::completed)
}

impl EventDefinition for AfterModel {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::ResponseEdit,
    ];
    /// Edit of the response, if any.
    type Verdict = FlowVerdict<Option<ResponseMutation>>;

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn with_system_message(&self) -> Option<Self> {
        Some(Self {
            llm_request: Arc::new(self.llm_request.with_system_message().into()),
            llm_response: self.llm_response.clone(),
        })
    }

    fn apply(&mut self, output: &HookOutput) {
        if let Some(edit) = output.response_edit() {
            self.llm_response.apply(&edit);
        }
    }

    fn evaluate(merged: &HookOutput) -> Self::Verdict {
        FlowVerdict::evaluate(merged, || {
            merged.response_edit().filter(|edit| !edit.is_empty())
        })
    }
}
