//! Records the steps of a call for the live trace: what was edited, chunks, rounds and tokens.
//! Nothing is compared, copied or counted unless a sink needs it.

use bytes::Bytes;

use super::{model_request::ModelRequest, request_context::RequestContext};
use crate::{
    dialect::{self, Dialect, Document, PromptPrefix, ResponseDocument},
    observe::{
        ReportedTokens,
        recorder::{BodyPart, ChunkFacts, ExchangeEvent, Recorder, SinkNeed},
        trace::PromptParts,
    },
};

/// Records the steps of one call.
#[derive(Debug, Clone)]
pub(super) struct StepRecorder {
    recorder: Recorder,
    /// The agent's request; `None` if no sink needs the steps.
    received: Option<Document>,
    wants_content: bool,
    wants_usage: bool,
    dialect: &'static dyn Dialect,
}

impl StepRecorder {
    /// Records the steps of a call, which begins with the agent's request.
    pub(super) fn new(context: &RequestContext, request: &ModelRequest) -> Self {
        let recorder = context.recorder.clone();
        let wants_steps = recorder.needs(SinkNeed::Steps);
        let steps = Self {
            received: wants_steps.then(|| request.document.clone()),
            wants_content: wants_steps && recorder.needs(SinkNeed::Content),
            wants_usage: recorder.needs(SinkNeed::Usage),
            dialect: context.dialect,
            recorder,
        };
        steps.record_request_body(BodyPart::AgentRequest, request);
        steps
    }

    /// Records the request that is about to go upstream.
    pub(super) fn record_request(&self, request: &ModelRequest) {
        let Some(received) = &self.received else {
            return;
        };
        let sent = &request.document;
        let is_edited = sent.is_edited();
        self.record_request_body(BodyPart::UpstreamRequest, request);
        if is_edited {
            let (before, after) = (self.shown(received.to_bytes()), self.shown(sent.to_bytes()));
            if before != after {
                let (before, after) = (&before, &after);
                self.record(&ExchangeEvent::RequestEdited { before, after });
            }
        }
        if request.call.operation.generates() {
            let sent = is_edited.then(|| dialect::prompt_parts(sent)).transpose();
            if let (Ok(received), Ok(sent)) = (dialect::prompt_parts(received), sent) {
                self.record(&ExchangeEvent::PromptSent {
                    received: as_prompt(&received),
                    sent: sent.as_ref().map(as_prompt),
                });
            }
        }
    }

    /// Records a chunk of the model, before it is filtered.
    pub(super) fn record_received(&self, chunk: &ResponseDocument) {
        self.record_body(BodyPart::ModelAnswer, || chunk.original_bytes());
        // A usage that cannot be read fails the call when the chunk is filtered.
        if self.wants_usage
            && let Ok(Some(usage)) = chunk.usage()
            && let Some(counts) = ReportedTokens::parse(&usage).usage()
        {
            self.record(&ExchangeEvent::UsageReported(counts));
        }
    }

    /// Returns the bytes of a held-back chunk, before its end is removed.
    pub(super) fn before_release(&self, chunk: &ResponseDocument) -> Option<Bytes> {
        self.received.is_some().then(|| chunk.to_bytes())
    }

    /// Records a filtered chunk. `held_bytes` is what is held back after it.
    pub(super) fn record_chunk(&self, received_bytes: usize, is_edited: bool, held_bytes: usize) {
        if self.received.is_none() {
            return;
        }
        let bytes = |length| u32::try_from(length).unwrap_or(u32::MAX);
        self.record(&ExchangeEvent::ChunkFiltered(ChunkFacts {
            received_bytes: bytes(received_bytes),
            held_bytes: bytes(held_bytes),
            is_edited,
        }));
    }

    /// Records the difference between a filtered chunk and that of the model. Returns whether
    /// they differ: a policy that withholds text until it is complete may write the same text
    /// again.
    pub(super) fn record_edit(&self, chunk: &ResponseDocument) -> bool {
        self.received.is_some()
            && chunk.is_edited()
            && self.record_answer_edit(chunk.original_bytes(), chunk.to_bytes())
    }

    /// Records a difference between a chunk of the model and what the agent receives; either
    /// may be empty. Returns whether they differ.
    pub(super) fn record_answer_edit(&self, before: Bytes, after: Bytes) -> bool {
        if self.received.is_none() {
            return false;
        }
        let (before, after) = (&self.shown(before), &self.shown(after));
        if before != after {
            self.record(&ExchangeEvent::AnswerEdited { before, after });
        }
        before != after
    }

    /// Records a chunk that goes to the agent.
    pub(super) fn record_sent(&self, chunk: &ResponseDocument) {
        self.record_body(BodyPart::AgentAnswer, || chunk.to_bytes());
    }

    /// Records the end of a response of the model.
    pub(super) fn end_round(&self, asked_again: Option<&'static str>) {
        if self.received.is_some() {
            self.record(&ExchangeEvent::RoundEnded { asked_again });
        }
    }

    fn record(&self, event: &ExchangeEvent<'_>) {
        self.recorder.record(event);
    }

    /// Returns a body without the fields that only hookgate needs.
    fn shown(&self, body: Bytes) -> Bytes {
        if self.dialect.api().is_google() {
            body
        } else {
            dialect::without_private_fields(&body)
        }
    }

    /// Records the body of a request in the form of its API, without the envelope of Code
    /// Assist.
    fn record_request_body(&self, part: BodyPart, request: &ModelRequest) {
        if !self.wants_content {
            return;
        }
        let body = if self.dialect.api().is_google() {
            Ok(request.document.to_bytes())
        } else {
            request.upstream_body(self.dialect)
        };
        // An edit that cannot be written fails the call when it is sent.
        if let Ok(body) = body {
            self.record(&ExchangeEvent::BodyInspected(part, &body));
        }
    }

    fn record_body(&self, part: BodyPart, body: impl FnOnce() -> Bytes) {
        if self.wants_content {
            let body = self.shown(body());
            self.record(&ExchangeEvent::BodyInspected(part, &body));
        }
    }
}

fn as_prompt(prefix: &PromptPrefix) -> PromptParts<'_> {
    PromptParts {
        head: [&prefix.system_instruction, &prefix.tools],
        contents: &prefix.contents,
    }
}
