//! Holds back parts of a response until they may go to the agent.
//!
//! Text passes at once. From the first function call on, everything waits until all calls of
//! the response are decided: an agent runs every call of a step that it has received.

use std::{
    collections::BTreeSet,
    ops::ControlFlow::{self, Break, Continue},
};

use bytes::Bytes;

use super::{filter::ResponseFilter, hosted_calls::HostedCalls, refusal::Refusal};
use crate::{
    dialect::{
        AnswerTexts, DialectError, ModelStep, ProposedCall, ResponseDocument, ResponseFormat,
    },
    error::ApiError,
    event::EventName,
    policy::ChunkPosition,
    proxy::{
        reply::unreadable_response, request_context::RequestContext, step_recorder::StepRecorder,
        turn_state::TurnState,
    },
    upstream::UpstreamError,
};

/// One response of the model: its filter, and what is held back of it.
#[derive(Debug)]
pub struct ResponseBuffer<'a> {
    context: &'a RequestContext,
    pub filter: ResponseFilter<'a>,
    /// Function calls so far, in the model's order.
    pub calls: Vec<ProposedCall>,
    /// Texts of the response so far.
    pub texts: AnswerTexts,
    /// All of the response so far, if a call may be denied. Else it is empty.
    pub step: ModelStep,
    /// Hosted calls without a result. An agent that sent them back would be refused.
    pub hosted_calls: HostedCalls,
    /// Token usage, as upstream last counted it.
    pub usage: Option<Bytes>,
    /// True if there are further candidates, which cannot be asked for again.
    pub has_alternatives: bool,
    /// Effect of the response on its turn, if it has no calls.
    pub turn_effect: TurnEffect,
    /// Indexes of the candidates of which text has gone to the agent.
    pub sent_texts: BTreeSet<u64>,
    held: Vec<ResponseDocument>,
    awaiting: AwaitingPart,
    /// Indexes of the candidates of which the agent has text of an earlier response, and which
    /// have none in this one yet.
    paragraphs: BTreeSet<u64>,
    steps: StepRecorder,
    /// Bytes of the model's chunks that are in `held`.
    held_bytes: usize,
    /// Bytes that are counted against `limits.memory`.
    reserved_bytes: usize,
}

/// Effect of a response without calls on its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEffect {
    /// The response is the answer of the turn.
    Ends,
    /// The model continues the response when the agent has sent it back.
    Pauses,
    /// An error of the model API ended the response, which is no answer.
    Fails,
}

/// Part of a response that waits for the decision at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitingPart {
    Nothing,
    /// Its end, for `AfterAgent`.
    End,
    /// All of it, because two answers in one text are no JSON.
    All,
}

/// The parts of a response that go to the agent now, or its refusal.
pub type Admitted = ControlFlow<Refusal, Vec<ResponseDocument>>;

impl<'a> ResponseBuffer<'a> {
    pub fn new(filter: ResponseFilter<'a>, turn: &mut TurnState<'a>) -> Self {
        let fires_after_agent = turn.derives(EventName::AfterAgent);
        let may_deny_calls = turn.expectation.declares_functions && filter.may_deny_calls();
        turn.may_deny_calls |= filter.may_deny_calls();
        let awaiting = match turn.expectation.format {
            ResponseFormat::Json if fires_after_agent || may_deny_calls => AwaitingPart::All,
            ResponseFormat::Text if fires_after_agent => AwaitingPart::End,
            ResponseFormat::Json | ResponseFormat::Text => AwaitingPart::Nothing,
        };
        Self {
            context: turn.context,
            filter,
            calls: Vec::new(),
            texts: AnswerTexts::default(),
            step: ModelStep::default(),
            hosted_calls: std::mem::take(&mut turn.hosted_calls),
            usage: None,
            has_alternatives: false,
            turn_effect: TurnEffect::Ends,
            sent_texts: BTreeSet::new(),
            held: Vec::new(),
            awaiting,
            paragraphs: turn.sent_texts.clone(),
            steps: turn.steps.clone(),
            held_bytes: 0,
            reserved_bytes: 0,
        }
    }

    /// Filters a chunk, or the whole response. Returns what goes to the agent now.
    pub async fn push(
        &mut self,
        chunk: ResponseDocument,
        position: ChunkPosition,
    ) -> Result<Admitted, ApiError> {
        self.steps.record_received(&chunk);
        let filtered = self.filter.filter(chunk, position).await;
        match filtered.map_err(unreadable_response)? {
            Continue(chunk) => {
                let received_bytes = chunk.wire_len();
                let is_edited = self.steps.record_edit(&chunk);
                let admitted = self.admit(chunk).map_err(unreadable_response)?;
                let held_bytes = self.held_bytes + self.filter.held_bytes();
                self.steps
                    .record_chunk(received_bytes, is_edited, held_bytes);
                Ok(Continue(admitted))
            }
            Break(refusal) => Ok(Break(refusal)),
        }
    }

    /// Filters a whole response and holds it back. Breaks if it is refused.
    pub async fn push_whole(
        &mut self,
        response: ResponseDocument,
    ) -> Result<ControlFlow<Refusal>, ApiError> {
        let admitted = self.push(response, ChunkPosition::Last).await?;
        self.sent_texts.clear();
        self.context.reserve_memory(self.filter.decision_bytes)?;
        Ok(admitted.map_continue(|chunks| self.held.extend(chunks)))
    }

    /// Filters what policies still hold back, at the end of upstream's response.
    pub async fn finish(&mut self) -> Result<Admitted, ApiError> {
        let filtered = self.filter.finish().await;
        let mut admitted = Vec::new();
        for filtered in filtered.map_err(unreadable_response)? {
            match filtered {
                Continue(chunk) => {
                    let chunks = self.admit(chunk);
                    admitted.extend(chunks.map_err(unreadable_response)?);
                }
                Break(refusal) => return Ok(Break(refusal)),
            }
        }
        Ok(Continue(admitted))
    }

    fn admit(
        &mut self,
        mut chunk: ResponseDocument,
    ) -> Result<Vec<ResponseDocument>, DialectError> {
        if self.filter.may_deny_calls() {
            self.step.push(&chunk)?;
            for call in self.hosted_calls.note(&chunk)? {
                self.hold(call);
            }
        }
        self.calls.extend(chunk.proposed_calls()?);
        self.texts.push(&chunk)?;
        if let Some(usage) = chunk.usage()? {
            self.usage = Some(usage);
        }
        self.has_alternatives |= chunk.has_alternatives();
        if chunk.has_error()? {
            self.turn_effect = TurnEffect::Fails;
        } else if chunk.is_paused()? {
            self.turn_effect = TurnEffect::Pauses;
        }
        chunk.start_paragraphs(&mut self.paragraphs)?;
        let holds_all = self.awaiting == AwaitingPart::All;
        if holds_all
            || !self.calls.is_empty()
            || chunk.has_withheld_calls()
            || self.hosted_calls.has_open()
        {
            self.hold(chunk);
            return Ok(Vec::new());
        }
        // Some models set a finish reason in every chunk.
        let mut admitted = Vec::new();
        if chunk.has_content() {
            admitted = std::mem::take(&mut self.held);
            self.held_bytes = 0;
        }
        if self.awaiting == AwaitingPart::End
            && (chunk.has_finish_reason() || !self.held.is_empty())
        {
            self.hold(chunk);
        } else {
            admitted.push(chunk);
        }
        let with_text = admitted
            .iter()
            .flat_map(ResponseDocument::candidates_with_text);
        self.sent_texts.extend(with_text);
        Ok(admitted)
    }

    fn hold(&mut self, chunk: ResponseDocument) {
        self.held_bytes += chunk.wire_len();
        self.held.push(chunk);
    }

    /// Counts what is buffered of a streamed response: the chunks that are held back, the reasons
    /// and edits of hooks for its calls, and all of its text.
    ///
    /// # Errors
    ///
    /// Fails if the chunks exceed `limits.response`, or if all calls together exceed
    /// `limits.memory`.
    pub fn reserve(&mut self) -> Result<(), ApiError> {
        let limit = self.context.snapshot.config.limits.response;
        let held_bytes = self.held_bytes + self.held.len() * ResponseDocument::PARSED_BYTES;
        if held_bytes > limit {
            return Err(UpstreamError::TooLarge { limit }.into());
        }
        let texts = self.texts.bytes() + self.filter.decision_bytes;
        let buffered = held_bytes + texts + self.step.bytes();
        let new_bytes = buffered.saturating_sub(self.reserved_bytes);
        if new_bytes > 0 {
            self.reserved_bytes += new_bytes;
            self.context.reserve_memory(new_bytes)?;
        }
        Ok(())
    }

    /// Holds back `chunks` of the same content instead, if exactly `response` is held back.
    pub fn hold_chunks_of(&mut self, response: &Bytes, chunks: Vec<ResponseDocument>) {
        if let [whole] = self.held.as_slice()
            && !whole.has_withheld_calls()
            && !whole.has_edited_envelope()
            && whole.to_bytes() == response
        {
            self.held = chunks;
        }
    }

    /// Returns whether what is held back is the result of decisions of hooks or policies.
    pub fn holds_decisions(&self) -> bool {
        !self.calls.is_empty() || self.held.iter().any(ResponseDocument::is_edited)
    }

    /// Releases what is held back, once the response is accepted. Denied calls are explained.
    pub fn release(&mut self, turn: &TurnState<'_>) -> Result<Vec<ResponseDocument>, ApiError> {
        let mut held = std::mem::take(&mut self.held);
        let with_text = &turn.sent_texts | &self.sent_texts;
        explain_denied_calls(&mut held, with_text).map_err(unreadable_response)?;
        Ok(held)
    }

    /// Drops a rejected answer, unless a text of it is sent.
    pub fn discard(&mut self) {
        if !self.sent_texts.is_empty() {
            return;
        }
        self.texts = AnswerTexts::default();
        for chunk in std::mem::take(&mut self.held) {
            if let Some(before) = self.steps.before_release(&chunk) {
                self.steps.record_answer_edit(before, Bytes::new());
            }
        }
    }

    /// Releases the texts of a response whose last calls are refused: those that wait, and those
    /// of the chunk with the calls.
    pub fn release_with(
        &mut self,
        chunk: ResponseDocument,
    ) -> Result<Vec<ResponseDocument>, ApiError> {
        let admitted = self.admit(chunk).map_err(unreadable_response)?;
        self.held.extend(admitted);
        self.release_open()
    }

    /// Releases what the agent may receive although the model is asked again.
    pub fn release_open(&mut self) -> Result<Vec<ResponseDocument>, ApiError> {
        let mut open = Vec::new();
        for mut chunk in std::mem::take(&mut self.held) {
            let before = self.steps.before_release(&chunk);
            let split = self.hosted_calls.split(&mut chunk);
            split.map_err(unreadable_response)?;
            let has_rest = chunk.remove_end();
            if has_rest.map_err(unreadable_response)? {
                self.sent_texts.extend(chunk.candidates_with_text());
                open.push(chunk);
            } else if let Some(before) = before {
                self.steps.record_answer_edit(before, Bytes::new());
            }
        }
        Ok(open)
    }
}

/// Explains the denied calls of chunks that are released. Each explanation is a paragraph of its
/// own; `with_text` are the indexes of the candidates with text before them.
fn explain_denied_calls(
    chunks: &mut [ResponseDocument],
    mut with_text: BTreeSet<u64>,
) -> Result<(), DialectError> {
    let mut explained = BTreeSet::new();
    for chunk in chunks {
        chunk.start_paragraphs(&mut explained)?;
        with_text.extend(chunk.candidates_with_text());
        if chunk.has_withheld_calls() {
            let more = chunk.explain_withheld_calls(&with_text)?;
            with_text.extend(&more);
            explained.extend(more);
        }
    }
    Ok(())
}
