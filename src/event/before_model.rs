//! `BeforeModel`: a model request, before it is sent.

use serde::{Deserialize, Serialize};

use super::{
    definition::EventDefinition,
    output::{HookOutput, OutputPart, Reason},
};
use crate::model::{LlmRequest, RequestMutation, ResponseMutation};

/// Model request to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeforeModel {
    /// Request in the stable form.
    pub llm_request: LlmRequest,
}

/// Verdict on a model request.
#[derive(Debug, PartialEq)]
pub enum BeforeModelVerdict {
    /// Send the request with these edits.
    Proceed(RequestMutation),
    /// Respond without calling upstream.
    Respond(ResponseMutation),
    /// Refuse the request, with a response for the agent.
    Deny {
        /// Reason of the denial.
        reason: Reason,
        /// Response that replaces the reason, if a denying hook gave one.
        response: Option<ResponseMutation>,
    },
    /// Refuse the request and end the agent's loop.
    Stop(Reason),
}

impl EventDefinition for BeforeModel {
    const HONOURS: &'static [OutputPart] = &[
        OutputPart::Flow,
        OutputPart::SystemMessage,
        OutputPart::SuppressOutput,
        OutputPart::LlmRequest,
        OutputPart::AppendedText,
        OutputPart::SyntheticResponse,
    ];
    type Verdict = BeforeModelVerdict;

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn with_system_message(&self) -> Option<Self> {
        let llm_request = self.llm_request.with_system_message();
        Some(Self { llm_request })
    }

    fn apply(&mut self, output: &HookOutput) {
        self.llm_request.apply(&output.request_edit());
    }

    fn evaluate(merged: &HookOutput) -> BeforeModelVerdict {
        if let Some(reason) = merged.stop() {
            return BeforeModelVerdict::Stop(reason);
        }
        let response = merged
            .specific("llm_response")
            .and_then(ResponseMutation::read);
        if let Some(reason) = merged.deny() {
            return BeforeModelVerdict::Deny { reason, response };
        }
        match response {
            Some(response) => BeforeModelVerdict::Respond(response),
            None => BeforeModelVerdict::Proceed(RequestMutation {
                appended_text: merged.plain_context(),
                ..merged.request_edit()
            }),
        }
    }
}
