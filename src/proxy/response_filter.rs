//! Policies, `AfterModel` hooks and `BeforeTool` hooks on one answer or one
//! chunk, and what it may call.

use std::sync::Arc;

use serde_json::Value;

use super::{exchange_recorder::Facts, outcome::Did};
use crate::{
    config::{AskMode, HookView},
    dialect::{
        Allowed, CallDecision, DialectError, FunctionCall, PartialCalls, ResponseDocument, Words,
    },
    event::{
        AfterModel, ArgumentsEdit, BeforeTool, BeforeToolVerdict, Context, Flow, HookOutput,
        Reason, mcp_context,
    },
    hook::{Held, Origin, Plan, Progress, ResponsePolicies, Run, Seen},
    model::SentRequest,
    policy::{ChunkPosition, Look},
    state::{ApiError, ErrorReason, Snapshot},
};

/// Stands between upstream's answer and the agent.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) context: Context,
    /// Who looks and runs on `AfterModel`; made once, for it has no subject.
    pub(super) plan: Plan,
    /// The model that was asked.
    pub(super) model: String,
    /// The policies that look before hooks, and at what hooks changed.
    pub(super) looks: [ResponsePolicies; 2],
    /// The request as it was sent; only hooks are shown it.
    pub(super) llm_request: Arc<SentRequest>,
    /// What the answer may call.
    pub(super) allowed: Allowed,
    pub(super) pieces: PartialCalls,
    /// Whether `BeforeTool` hooks are asked about its calls.
    pub(super) judges_calls: bool,
    pub(super) facts: Facts,
    pub(super) chunks: Chunks,
}

/// The chunks that policies were shown.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Whether they have seen one as a document.
    has_begun: bool,
    /// How many they let by as words, that nobody was told of.
    let_by: u64,
}

/// What is left of an answer or a chunk.
#[derive(Debug)]
pub(super) enum Judged {
    /// This goes to the agent, but for calls that it withholds.
    Pass(ResponseDocument),
    /// Nothing of it goes to the agent, and nothing that follows.
    Refused(Refusal),
}

/// Why an answer does not go on.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    /// Whether the session stops, too.
    pub(super) stops: bool,
}

impl Gate {
    /// Whether any policy looks at the answer.
    pub(super) fn has_policies(&self) -> bool {
        self.looks.iter().any(|it| !it.is_empty())
    }

    /// Whether chunks that are nothing but words can be judged as such. The first one
    /// is always a document, so that the agent's headers name who has seen it.
    pub(super) fn takes_words(&self) -> bool {
        self.plan.hooks.is_empty() && self.chunks.has_begun
    }

    /// Judges a chunk that is nothing but words, which call nothing. `None`: it goes
    /// on. If somebody has more to say of it, how far policies have come.
    pub(super) fn judge_words(&mut self, words: &mut Words) -> Option<Progress> {
        let [first, _] = &mut self.looks;
        let progress = first.words(words);
        if words.is_edited() {
            self.facts.did(Did::Edit);
        }
        if progress.is_none() {
            self.chunks.let_by += 1;
        }
        progress
    }

    /// Tells of the words that went by since it was last told.
    fn tell_of_words(&mut self) {
        let let_by = std::mem::take(&mut self.chunks.let_by);
        let [first, _] = &mut self.looks;
        let silent = first.silent();
        if !silent.is_empty() {
            self.snapshot.engine.silent(&silent);
            self.facts.shown(let_by);
            self.facts.silent(&silent);
        }
    }

    /// Judges one answer or chunk, of which policies have seen so much. INVARIANT:
    /// what cannot be read never passes.
    pub(super) async fn judge(
        &mut self,
        mut chunk: ResponseDocument,
        progress: Progress,
        extent: ChunkPosition,
    ) -> Result<Judged, ApiError> {
        self.chunks.has_begun = true;
        let select = self.withhold_unselected(&mut chunk);
        select.map_err(|it| self.report(&it))?;
        let [first, _] = &mut self.looks;
        let runs = first.go_on(progress, &mut chunk, extent);
        let runs = self.spoken(runs.map_err(|it| self.report(&it))?);
        if self.has_policies() {
            self.facts.shown(1);
        }
        let judged = self.judge_seen(Seen { chunk, runs }, extent).await?;
        self.judge_calls(judged).await
    }

    /// What policies still hold back after the last chunk.
    pub(super) async fn end(&mut self) -> Result<Vec<Judged>, ApiError> {
        self.tell_of_words();
        let [first, _] = &mut self.looks;
        let held = first.end().map_err(|it| self.report(&it))?;
        let mut judged = Vec::new();
        for seen in self.held(held) {
            let seen = self.judge_seen(seen, ChunkPosition::Chunk).await?;
            judged.push(self.judge_calls(seen).await?);
        }
        let [_, again] = &mut self.looks;
        let held = again.end().map_err(|it| self.report(&it))?;
        for seen in self.held(held) {
            judged.push(self.conclude(seen)?);
        }
        Ok(judged)
    }

    /// Hooks, and policies again.
    async fn judge_seen(&mut self, seen: Seen, extent: ChunkPosition) -> Result<Judged, ApiError> {
        let Seen { mut chunk, runs } = seen;
        if self.plan.hooks.is_empty() || !chunk.carries_content() {
            return self.look_again(Seen { chunk, runs }, extent);
        }
        let mut all = runs;
        all.extend(self.run_hooks(&chunk).await?);
        self.facts.chunk();
        if let Some(refused) = self.apply(&mut chunk, all)? {
            return Ok(refused);
        }
        let runs = Vec::new();
        self.look_again(Seen { chunk, runs }, extent)
    }

    fn look_again(&mut self, seen: Seen, extent: ChunkPosition) -> Result<Judged, ApiError> {
        let Seen {
            mut chunk,
            mut runs,
        } = seen;
        let [_, again] = &mut self.looks;
        let said = again.chunk(&mut chunk, extent);
        runs.extend(self.spoken(said.map_err(|it| self.report(&it))?));
        self.conclude(Seen { chunk, runs })
    }

    fn conclude(&self, seen: Seen) -> Result<Judged, ApiError> {
        let Seen { mut chunk, runs } = seen;
        if let Some(refused) = self.apply(&mut chunk, runs)? {
            return Ok(refused);
        }
        if chunk.document().is_edited() {
            self.facts.did(Did::Edit);
        }
        Ok(Judged::Pass(chunk))
    }

    /// `BeforeTool`: each call, before the agent sees it.
    async fn judge_calls(&mut self, judged: Judged) -> Result<Judged, ApiError> {
        let Judged::Pass(mut chunk) = judged else {
            return Ok(judged);
        };
        let calls = if self.judges_calls {
            chunk.calls().map_err(|it| self.report(&it))?
        } else {
            Vec::new()
        };
        let mut fates = Vec::with_capacity(calls.len());
        for (candidate, call) in calls {
            match self.judge_call(candidate, call).await {
                Ok(fate) => fates.push(fate),
                Err(reason) => return Ok(self.refuse(reason, Did::Stop)),
            }
        }
        if fates.iter().any(|it| *it != CallDecision::Keep) {
            self.facts.did(Did::Edit);
            let rewritten = fates
                .iter()
                .any(|it| matches!(it, CallDecision::Rewrite(_)));
            chunk.decide(fates).map_err(|it| self.report(&it))?;
            if rewritten {
                return self.look_at_rewritten(chunk);
            }
        }
        Ok(Judged::Pass(chunk))
    }

    /// Policies look at what hooks made of calls. Each look is one of its own: a
    /// call is whole.
    fn look_at_rewritten(&self, mut chunk: ResponseDocument) -> Result<Judged, ApiError> {
        let engine = &self.snapshot.engine;
        let mut look = engine.answer_look(&self.plan, &self.context, &self.model, Look::Again);
        let runs = look.chunk(&mut chunk, ChunkPosition::Last);
        let runs = self.spoken(runs.map_err(|it| self.report(&it))?);
        self.conclude(Seen { chunk, runs })
    }

    /// What policies held back at the end, with those runs that say something.
    fn held(&self, held: Held) -> Vec<Seen> {
        self.snapshot.engine.looked(&self.context, &held.observed);
        self.facts.looked(&held.observed);
        let seen = held.seen.into_iter().map(|Seen { chunk, runs }| {
            let runs = self.spoken(runs);
            Seen { chunk, runs }
        });
        seen.collect()
    }

    /// Takes down what policies did. The runs that say something are left: these
    /// are still to be judged, and most chunks leave policies silent.
    fn spoken(&self, runs: Vec<Run>) -> Vec<Run> {
        self.snapshot.engine.looked(&self.context, &runs);
        let says = |it: &Run| it.answer.output != HookOutput::default();
        if !runs.iter().any(says) {
            self.facts.looked(&runs);
            return Vec::new();
        }
        let (spoken, silent): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(says);
        self.facts.looked(&silent);
        spoken
    }

    /// What becomes of a call, or why the turn ends.
    async fn judge_call(
        &mut self,
        candidate: u64,
        call: FunctionCall,
    ) -> Result<CallDecision, Reason> {
        if call.in_pieces || call.name.is_empty() {
            let why = "its arguments come in pieces, which hooks cannot judge";
            let mut refuse = |_: &FunctionCall| Some(why.to_owned());
            return Ok(self.pieces.judge(candidate, &call, &mut refuse));
        }
        let Value::Object(tool_input) = object(call.arguments) else {
            let why = "its arguments are no object";
            return Ok(CallDecision::Refuse(why.to_owned()));
        };
        let event = BeforeTool {
            mcp_context: mcp_context(&call.name),
            tool_name: call.name,
            tool_input: tool_input.clone(),
            original_request_name: None,
        };
        let engine = &self.snapshot.engine;
        let fired = engine.fire(&self.context, event, Origin::Derived).await;
        self.facts.note(&fired);
        let edit = match fired.verdict {
            BeforeToolVerdict::Proceed(edit) => edit,
            BeforeToolVerdict::Ask(_) if self.snapshot.config.ask == AskMode::Allow => {
                ArgumentsEdit::of(&fired.folded)
            }
            BeforeToolVerdict::Ask(reason) | BeforeToolVerdict::Deny(reason) => {
                return Ok(CallDecision::Refuse(reason.as_str().to_owned()));
            }
            BeforeToolVerdict::Stop(reason) => return Err(reason),
        };
        let mut arguments = tool_input.clone();
        edit.apply(&mut arguments);
        Ok(if arguments == tool_input {
            CallDecision::Keep
        } else {
            CallDecision::Rewrite(arguments)
        })
    }

    async fn run_hooks(&self, chunk: &ResponseDocument) -> Result<Vec<Run>, ApiError> {
        let sees = |it: HookView| self.plan.hooks.iter().any(|hook| hook.sees == it);
        let raw = sees(HookView::Document).then(|| chunk.document().to_raw());
        let raw = raw.flatten();
        let mut event = AfterModel {
            llm_request: Arc::clone(&self.llm_request),
            llm_response: chunk.read().map_err(|it| self.report(&it))?,
        };
        let engine = &self.snapshot.engine;
        let runs = engine.run(&self.plan, &self.context, &mut event, raw.as_deref());
        Ok(runs.await)
    }

    /// What runs come to: a change of the chunk, or a refusal.
    fn apply(
        &self,
        chunk: &mut ResponseDocument,
        runs: Vec<Run>,
    ) -> Result<Option<Judged>, ApiError> {
        if runs.is_empty() {
            return Ok(None);
        }
        let fired = self.snapshot.engine.judge_chunk(runs);
        self.facts.note_chunk(&fired);
        match fired.verdict {
            Flow::Proceed(None) => Ok(None),
            Flow::Proceed(Some(mutation)) => {
                let diagnostics = chunk.write(&mutation).map_err(|it| self.report(&it))?;
                self.facts.note_diagnostics(&diagnostics);
                self.facts.did(Did::Edit);
                Ok(None)
            }
            Flow::Deny(reason) => Ok(Some(self.refuse(reason, Did::Deny))),
            Flow::Stop(reason) => Ok(Some(self.refuse(reason, Did::Stop))),
        }
    }

    /// Calls of functions that were not selected are taken out.
    fn withhold_unselected(&mut self, chunk: &mut ResponseDocument) -> Result<(), DialectError> {
        if self.allowed == Allowed::All {
            return Ok(());
        }
        let mut refuse = |call: &FunctionCall| {
            let reason = || format!("`{}` is not allowed for this call", call.name);
            (!self.allowed.includes(&call.name)).then(reason)
        };
        chunk.withhold_calls(&mut self.pieces, &mut refuse)?;
        Ok(())
    }

    fn refuse(&self, reason: Reason, did: Did) -> Judged {
        self.facts.did(did);
        let stops = did == Did::Stop;
        Judged::Refused(Refusal { reason, stops })
    }

    fn report(&self, error: &DialectError) -> ApiError {
        let request_id = self.facts.request_id();
        tracing::warn!(request.id = request_id, %error, "the answer cannot be read");
        unreadable()
    }
}

/// An answer may end before its end.
impl Drop for Gate {
    fn drop(&mut self) {
        self.tell_of_words();
    }
}

/// Arguments, where none means an empty object.
fn object(arguments: Value) -> Value {
    match arguments {
        Value::Null => Value::Object(serde_json::Map::new()),
        given => given,
    }
}

/// The error for an answer that hooks cannot see through.
pub(super) fn unreadable() -> ApiError {
    let message = "the model API's answer cannot be read";
    ApiError::new(ErrorReason::UpstreamUnreadable, message)
}
