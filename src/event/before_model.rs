//! `BeforeModel`: the agent is about to call the model.

use serde::{Deserialize, Serialize};

use super::{Action, Event, EventKind, EventName, HookOutput, Part, Reason, Verdict};
use crate::model::{LlmRequest, RequestMutation, ResponseMutation};

/// The request about to be sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct BeforeModel {
    /// In the stable form.
    pub llm_request: LlmRequest,
}

/// What the hooks' outputs come to.
#[derive(Debug, PartialEq)]
pub enum BeforeModelVerdict {
    /// Call upstream, with this change.
    Proceed(RequestMutation),
    /// Do not call upstream; answer with this.
    Respond(ResponseMutation),
    /// Refuse the call.
    Deny {
        /// Why.
        reason: Reason,
        /// What to say instead of the reason, if a hook gave an answer too.
        answer: Option<ResponseMutation>,
    },
    /// Refuse the call and end the agent's loop.
    Stop(Reason),
}

impl EventKind for BeforeModel {
    const NAME: EventName = EventName::BeforeModel;
    const HONOURS: &'static [Part] = &[
        Part::Flow,
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::LlmRequest,
        Part::Remark,
        Part::SyntheticAnswer,
    ];
    type Verdict = BeforeModelVerdict;

    fn as_event(&self) -> Event<'_> {
        Event::BeforeModel(self)
    }

    fn llm_request(&self) -> Option<&LlmRequest> {
        Some(&self.llm_request)
    }

    fn with_system_message(&self) -> Option<Self> {
        let llm_request = self.llm_request.with_system_message();
        Some(Self { llm_request })
    }

    fn absorb(&mut self, output: &HookOutput) {
        self.llm_request.absorb(&output.request_edit());
    }

    fn judge(folded: &HookOutput) -> BeforeModelVerdict {
        if let Some(reason) = folded.stop() {
            return BeforeModelVerdict::Stop(reason);
        }
        let answer = folded
            .specific("llm_response")
            .and_then(ResponseMutation::read);
        if let Some(reason) = folded.deny() {
            return BeforeModelVerdict::Deny { reason, answer };
        }
        match answer {
            Some(answer) => BeforeModelVerdict::Respond(answer),
            None => BeforeModelVerdict::Proceed(RequestMutation {
                remark: folded.plain_context(),
                ..folded.request_edit()
            }),
        }
    }
}

impl Verdict for BeforeModelVerdict {
    fn action(&self) -> Action {
        match self {
            Self::Proceed(_) => Action::Proceed,
            Self::Respond(_) => Action::Respond,
            Self::Deny { .. } => Action::Deny,
            Self::Stop(_) => Action::Stop,
        }
    }
}
