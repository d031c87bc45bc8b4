//! `AfterModel`: the model has answered, wholly or by one chunk.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, Flow, HookOutput, Part};
use crate::model::{LlmRequest, LlmResponse, ResponseMutation, SentRequest};

/// A request and what came of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct AfterModel {
    /// The request as it was sent; every chunk shares it.
    pub llm_request: Arc<SentRequest>,
    /// The whole answer, or one chunk of it.
    pub llm_response: LlmResponse,
}

impl EventKind for AfterModel {
    const NAME: EventName = EventName::AfterModel;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::ResponseEdit,
    ];
    /// A change to the answer, if any.
    type Verdict = Flow<Option<ResponseMutation>>;

    fn as_event(&self) -> Event<'_> {
        Event::AfterModel(self)
    }

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn llm_response(&self) -> Option<&LlmResponse> {
        Some(&self.llm_response)
    }

    fn with_system_message(&self) -> Option<Self> {
        Some(Self {
            llm_request: Arc::new(self.llm_request.with_system_message().into()),
            llm_response: self.llm_response.clone(),
        })
    }

    fn judge(folded: &HookOutput) -> Self::Verdict {
        Flow::judge(folded, || {
            ResponseMutation::read(folded.specific("llm_response")?)
        })
    }
}
