//! One answer of the model API on its way to the agent.
//!
//! Text goes on at once. A call waits, and all that follows it, until every call
//! of the answer is judged: once an agent has seen one call of a step, it runs it.

use bytes::Bytes;

use super::response_filter::{Gate, Judged, Refusal};
use crate::{
    dialect::{Counted, ResponseDocument, StepCall, Words},
    hook::Progress,
    policy::ChunkPosition,
    state::ApiError,
};

/// One answer under way.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) gate: Gate,
    /// Whether the end waits for hooks that judge the whole answer.
    waits_at_end: bool,
    /// The calls so far, in the model's order.
    pub(super) calls: Vec<StepCall>,
    /// The text so far.
    pub(super) text: String,
    /// What upstream counted last.
    pub(super) usage: Counted,
    /// Chunks that wait.
    held: Vec<ResponseDocument>,
    /// Whether its first text begins a paragraph: the agent has heard another one.
    begins_paragraph: bool,
    /// Whether there are other candidates, which nobody can ask for again.
    pub(super) has_alternatives: bool,
}

/// What a chunk comes to.
#[derive(Debug)]
pub(super) enum Taken {
    /// These go to the agent now.
    Out(Vec<ResponseDocument>),
    /// Nothing more of this answer goes to the agent.
    Refused(Refusal),
}

impl Round {
    pub(super) fn new(gate: Gate, waits_at_end: bool, begins_paragraph: bool) -> Self {
        Self {
            gate,
            waits_at_end,
            begins_paragraph,
            calls: Vec::new(),
            text: String::new(),
            usage: Counted::default(),
            held: Vec::new(),
            has_alternatives: false,
        }
    }

    /// Whether chunks that are nothing but words go on as such: nothing waits, and no
    /// text of this answer has to be changed.
    pub(super) fn takes_words(&self) -> bool {
        let waits = !self.calls.is_empty() || !self.held.is_empty();
        self.gate.takes_words() && !waits && !self.begins_paragraph
    }

    /// Judges a chunk that is nothing but words. `None`: it goes to the agent now. If
    /// not, how far it was judged.
    pub(super) fn take_words(&mut self, words: &mut Words) -> Option<Progress> {
        let progress = self.gate.judge_words(words);
        if progress.is_none() {
            self.text.extend(words.plain_texts());
            self.count(words.usage());
        }
        progress
    }

    /// Judges one chunk, of which policies have seen so much, or the whole answer.
    pub(super) async fn take(
        &mut self,
        chunk: ResponseDocument,
        progress: Progress,
        extent: ChunkPosition,
    ) -> Result<Taken, ApiError> {
        match self.gate.judge(chunk, progress, extent).await? {
            Judged::Pass(chunk) => self.admit(chunk).map(Taken::Out),
            Judged::Refused(refusal) => Ok(Taken::Refused(refusal)),
        }
    }

    /// What policies still held back, once nothing more comes from upstream.
    pub(super) async fn end(&mut self) -> Result<Taken, ApiError> {
        let mut out = Vec::new();
        for judged in self.gate.end().await? {
            match judged {
                Judged::Pass(chunk) => out.extend(self.admit(chunk)?),
                Judged::Refused(refusal) => return Ok(Taken::Refused(refusal)),
            }
        }
        Ok(Taken::Out(out))
    }

    fn admit(&mut self, mut chunk: ResponseDocument) -> Result<Vec<ResponseDocument>, ApiError> {
        self.calls.extend(chunk.step()?);
        self.text.push_str(&chunk.plain_text());
        self.count(chunk.usage()?);
        self.has_alternatives |= chunk.has_alternatives();
        self.begins_paragraph = self.begins_paragraph && !chunk.start_paragraph()?;
        if !self.calls.is_empty() || chunk.withholds() {
            self.held.push(chunk);
            return Ok(Vec::new());
        }
        // Some models say in every chunk that they finish.
        let mut out = if chunk.carries_content() {
            std::mem::take(&mut self.held)
        } else {
            Vec::new()
        };
        if self.waits_at_end && (chunk.finishes() || !self.held.is_empty()) {
            self.held.push(chunk);
        } else {
            out.push(chunk);
        }
        Ok(out)
    }

    fn count(&mut self, usage: Option<Counted>) {
        let Some(usage) = usage else {
            return;
        };
        // Nobody else wants to know while the answer is under way.
        if self.gate.snapshot.audit.is_some() {
            self.gate.facts.usage(&usage.read());
        }
        self.usage = usage;
    }

    /// Lets chunks wait for the end.
    pub(super) fn hold(&mut self, chunks: Vec<ResponseDocument>) {
        self.held.extend(chunks);
    }

    /// Whether exactly this waits.
    pub(super) fn holds_only(&self, answer: &Bytes) -> bool {
        match self.held.as_slice() {
            [chunk] => !chunk.withholds() && chunk.to_bytes() == answer,
            _ => false,
        }
    }

    /// Lets other chunks wait that say the same.
    pub(super) fn hold_instead(&mut self, chunks: Vec<ResponseDocument>) {
        self.held = chunks;
    }

    /// What waited, now that the answer stands.
    pub(super) fn release(&mut self) -> Result<Vec<ResponseDocument>, ApiError> {
        let mut held = std::mem::take(&mut self.held);
        for chunk in held.iter_mut().filter(|it| it.withholds()) {
            chunk.say_withheld()?;
        }
        Ok(held)
    }

    /// What of it the agent may hear although the model is asked again.
    pub(super) fn release_open(&mut self) -> Result<Vec<ResponseDocument>, ApiError> {
        let mut open = Vec::new();
        for mut chunk in std::mem::take(&mut self.held) {
            if chunk.open_end()? {
                open.push(chunk);
            }
        }
        Ok(open)
    }
}
