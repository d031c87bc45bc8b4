//! What the end of an answer comes to: it stands, the model is asked again
//! without the agent's knowing, or the turn ends.

use bytes::Bytes;
use serde_json::Value;

use super::{
    exchange::Exchange,
    outcome::Did,
    response_buffer::Round,
    response_filter::{Gate, Refusal},
};
use crate::{
    dialect::{self, Document, ResponseDocument, StepCall, Words},
    event::{AfterAgent, EventName, Flow, HookStatus, Reason},
    session::ResponseFingerprinter,
    state::ApiError,
};

/// How many different calls of a turn are counted. Of more, all are counted anew.
const MOST_COUNTED: usize = 256;

/// The part of a turn that this call is.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// What the user asked.
    pub(super) prompt: String,
    /// The item of the conversation that the turn is known by: the last one of its
    /// prompt.
    pub(super) item: usize,
    /// Whether the agent has heard words of an answer that others follow.
    has_spoken: bool,
    /// Whether the model is asked again only because a hook refused its answer.
    goes_on: bool,
    /// How often the model was told that its calls are refused.
    denied_rounds: u32,
    /// How often it was asked for another answer.
    retries: u32,
}

/// What the end of an answer comes to.
pub(super) enum Ending {
    /// The answer stands.
    Stands,
    /// The turn ends with these words.
    Told(Reason),
    /// Hooks cut the answer off, with these words in the place of the rest.
    Refused(Reason),
    /// The model is asked again, with this request.
    Again(Document),
}

impl Turn {
    /// Whether the model was asked more than once.
    pub(super) const fn has_asked_again(&self) -> bool {
        self.denied_rounds > 0 || self.retries > 0
    }
}

impl Exchange {
    /// What stands between the next answer and the agent.
    pub(super) fn round(&self, gate: Gate) -> Round {
        let waits_at_end = self.derives(EventName::AfterAgent);
        Round::new(gate, waits_at_end, self.turn.has_spoken)
    }

    /// What comes of an answer that hooks refused to let go on.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Ending {
        if refusal.stops {
            self.stop(refusal.reason.as_str());
        }
        Ending::Refused(refusal.reason)
    }

    /// What hooks made of an answer is written down before the agent is told.
    pub(super) async fn settle_ending(&self, ending: &Ending) -> Result<(), ApiError> {
        match ending {
            Ending::Told(_) | Ending::Refused(_) => self.facts.settles().await,
            Ending::Stands | Ending::Again(_) => Ok(()),
        }
    }

    /// What comes of an answer that has come to its end.
    pub(super) async fn conclude(&mut self, round: &Round) -> Result<Ending, ApiError> {
        let refusal = round.calls.iter().find_map(|it| it.refusal.as_deref());
        match refusal {
            Some(_) if round.has_alternatives => Ok(Ending::Stands),
            Some(reason) => self.refuse_step(round, &Reason::new(Some(reason))),
            None => {
                self.transcribe_answer(round).await;
                if round.calls.is_empty() && !round.text.is_empty() {
                    return self.after_agent(round).await;
                }
                Ok(Ending::Stands)
            }
        }
    }

    /// Calls were refused: the model is told, unless it does not listen.
    fn refuse_step(&mut self, round: &Round, reason: &Reason) -> Result<Ending, ApiError> {
        self.facts.did(Did::Edit);
        for call in round.calls.iter().filter(|it| it.refusal.is_some()) {
            let (request_id, tool) = (self.facts.request_id(), call.name.as_str());
            tracing::info!(
                request.id = request_id,
                tool.name = tool,
                "a tool call was denied"
            );
        }
        let again = self.count_refusals(&round.calls);
        let events = &self.snapshot.config.events;
        if again >= events.max_same_denials || self.turn.denied_rounds >= events.max_denied_rounds {
            self.facts.did(Did::Deny);
            return Ok(Ending::Told(reason.clone()));
        }
        let hidden = dialect::refused_step("", &round.calls)?;
        self.hide(&hidden);
        self.turn.denied_rounds += 1;
        let told = dialect::refused_step(&round.text, &round.calls)?;
        self.ask_again(round, &told)
    }

    /// Remembers what the agent does not know of, for the requests that follow.
    fn hide(&mut self, contents: &[Bytes]) {
        let first = self.turn.denied_rounds == 0;
        let Some((session, item)) = self.last_item() else {
            return;
        };
        let note = session.note_mut(&item);
        if first {
            note.hidden_contents.clear();
        }
        let texts = contents
            .iter()
            .map(|it| String::from_utf8_lossy(it).into_owned());
        note.hidden_contents.extend(texts);
    }

    /// Counts the refused calls of a step. How often the most frequent of them was
    /// refused in this turn.
    fn count_refusals(&mut self, calls: &[StepCall]) -> u32 {
        let Some(session) = &mut self.session else {
            return 0;
        };
        let Some(item) = session.item(self.turn.item).cloned() else {
            return 0;
        };
        let refused = calls.iter().filter(|it| it.refusal.is_some());
        let prints = refused.map(|it| session.fingerprint(&(&it.name, it.arguments.to_string())));
        let prints: Vec<u64> = prints.collect();
        let counts = &mut session.note_mut(&item).denied_calls;
        if counts.len() > MOST_COUNTED {
            counts.clear();
        }
        let mut most = 0;
        for print in prints {
            let count = counts.entry(print).or_default();
            *count = count.saturating_add(1);
            most = most.max(*count);
        }
        most
    }

    /// Stops the session until its next prompt.
    pub(super) fn stop(&mut self, reason: &str) {
        if let Some(session) = &mut self.session {
            session.record_stop(self.turn.item, reason);
        }
    }

    /// Last words as a paragraph, if the agent has heard others.
    pub(super) fn apart(&self, round: &Round, reason: Reason) -> Reason {
        if self.turn.has_spoken || !round.text.is_empty() {
            return Reason::new(Some(&format!("\n\n{}", reason.as_str())));
        }
        reason
    }

    /// A chunk goes to the agent.
    pub(super) fn spoke(&mut self, chunk: &ResponseDocument) -> Result<(), ApiError> {
        if let Some(emission) = self.emission() {
            emission.push_chunk(chunk)?;
        }
        Ok(())
    }

    /// A chunk goes to the agent that is nothing but words.
    pub(super) fn spoke_words(&mut self, words: &Words) {
        if let Some(emission) = self.emission() {
            emission.push_text_chunk(words);
        }
    }

    fn emission(&mut self) -> Option<&mut ResponseFingerprinter> {
        let session = self
            .session
            .as_ref()
            .filter(|it| it.is_found_by_history())?;
        let begin = || session.response_fingerprinter();
        Some(self.emission.get_or_insert_with(begin))
    }

    /// All of the answer is about to be out: the model's, or other words.
    pub(super) async fn has_spoken(&mut self, by_model: bool) {
        if let Some(session) = &mut self.session {
            let emission = self.emission.take();
            let emission = emission.unwrap_or_else(|| session.response_fingerprinter());
            session.record_response(emission, by_model).await;
        }
    }

    /// `AfterAgent`, of a final text.
    async fn after_agent(&mut self, round: &Round) -> Result<Ending, ApiError> {
        if !self.derives(EventName::AfterAgent) {
            return Ok(Ending::Stands);
        }
        let event = AfterAgent {
            prompt: self.turn.prompt.clone(),
            prompt_response: round.text.clone(),
            stop_hook_active: self.turn.goes_on,
        };
        let fired = self.derive(event).await;
        match fired.verdict {
            Flow::Stop(reason) => {
                self.stop(reason.as_str());
                Ok(Ending::Told(reason))
            }
            // Another answer would make the hook no better.
            Flow::Deny(reason)
                if fired
                    .runs
                    .iter()
                    .any(|it| it.status() == HookStatus::Failed) =>
            {
                Ok(Ending::Told(reason))
            }
            Flow::Deny(reason) if self.may_retry() => {
                if fired.folded.specific("clearContext") == Some(&Value::Bool(true)) {
                    return self.start_over(round, &reason);
                }
                let refused = dialect::saying(true, &round.text);
                let asked = dialect::saying(false, reason.as_str());
                self.ask_again(round, &[refused, asked])
            }
            Flow::Proceed(()) | Flow::Deny(_) => Ok(Ending::Stands),
        }
    }

    /// Whether another answer is asked for. The last one stands, refused or not:
    /// an agent that is told nothing would ask for ever.
    fn may_retry(&mut self) -> bool {
        if self.turn.retries >= self.snapshot.config.events.max_answer_retries {
            let request_id = self.facts.request_id();
            tracing::warn!(request.id = request_id, "a refused answer stands");
            return false;
        }
        self.turn.retries += 1;
        self.turn.goes_on = true;
        true
    }

    /// Asks without the history, as a hook wants it.
    fn start_over(&mut self, round: &Round, reason: &Reason) -> Result<Ending, ApiError> {
        let state = self.session.as_ref().map(|it| &it.state);
        let context = state.and_then(|it| it.context.as_deref());
        let said: Vec<&str> = context.into_iter().chain([reason.as_str()]).collect();
        if let Some(document) = &mut self.asked {
            dialect::start_over(document, &said)?;
        }
        self.ask_again(round, &[])
    }

    fn ask_again(&mut self, round: &Round, contents: &[Bytes]) -> Result<Ending, ApiError> {
        self.turn.has_spoken |= !round.text.is_empty();
        let Some(mut document) = self.asked.take() else {
            return Ok(Ending::Stands);
        };
        dialect::append(&mut document, contents)?;
        Ok(Ending::Again(document))
    }
}
