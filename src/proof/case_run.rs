//! Runs a case on one guard: fires its events on an engine without sinks.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::Value;
use uuid::Uuid;

use super::{
    case::{CaseInput, Sender},
    example_call::ExampleCall,
    stage::{GuardSelection, Stage},
};
use crate::{
    auth::caller_key,
    config::{AfterModelMode, AskMode, Config},
    dialect::{self, AllowedFunctions, AnswerTexts, DialectError, ResponseDocument},
    event::{
        Action, AfterAgent, AfterModel, BeforeAgent, BeforeModel, BeforeModelVerdict, BeforeTool,
        CallContext, Caller, Context, EventDefinition, EventKind, EventName, EventOrigin,
        EventVisitor, FlowVerdict, HookOutput, HookRun, merge_outputs,
    },
    hook::{ConditionSubject, Engine, EventScope, Guard, run_hooks, run_response_hooks},
    observe::recorder::{ExchangeSummary, Recorder},
    policy::{ChunkPosition, PolicyRequest},
    session::{CallRole, MemoryStore, Session, SessionRequest, SessionStore, Sessions},
};

/// Start of the session ids that hooks receive with cases.
const SESSION_PREFIX: &str = "hookgate-proof-";

/// Runs the cases of one guard.
#[derive(Debug)]
pub(super) struct CaseRunner<'a> {
    pub(super) engine: Engine,
    pub(super) guard: &'a Guard,
    pub(super) config: &'a Config,
    /// Time of the proof, as hooks receive it.
    pub(super) timestamp: &'a str,
}

/// One case while it runs.
struct CaseRun<'a> {
    runner: &'a CaseRunner<'a>,
    context: Context,
    recorder: Recorder,
    stages: Vec<Stage>,
}

impl CaseRunner<'_> {
    /// Fires the events of a case. Returns one stage for each, in order.
    ///
    /// Dropping the future ends the guard's process.
    ///
    /// # Errors
    ///
    /// Returns a problem of the case itself.
    pub(super) async fn run(
        &self,
        sender: &Sender,
        input: &CaseInput,
    ) -> Result<Vec<Stage>, String> {
        let context = self.context(sender, input)?;
        let mut run = CaseRun {
            runner: self,
            recorder: Recorder::without_sinks(ExchangeSummary::from_context(&context)),
            context,
            stages: Vec::new(),
        };
        match input {
            CaseInput::Event(name, fields) => {
                let fields = Value::Object(fields.clone());
                let run = &mut run;
                name.visit(ReadEvent { run, fields })?.await;
            }
            CaseInput::Call(example) => {
                let called = run.call(example).await;
                called.map_err(|error| format!("cannot be read: {error}"))?;
            }
        }
        Ok(run.stages)
    }

    fn context(&self, sender: &Sender, input: &CaseInput) -> Result<Context, String> {
        let key = match sender.caller.as_str() {
            "" => String::new(),
            name => caller_key(name),
        };
        let context = Context {
            session_id: format!("{SESSION_PREFIX}{}", Uuid::new_v4()),
            cwd: self.config.hook_directory.display().to_string(),
            timestamp: self.timestamp.to_owned(),
            caller: Caller {
                key,
                name: sender.caller.clone(),
                agent: sender.agent.clone(),
                ..Caller::default()
            },
            ..Context::default()
        };
        match input {
            CaseInput::Event(_, fields) => context.with_reported(fields),
            CaseInput::Call(example) => Ok(Context {
                session_named: sender.session.is_some(),
                session_id: sender.session.clone().unwrap_or(context.session_id),
                call: Some(CallContext {
                    dialect: example.call.method.api.as_str(),
                    operation: example.call.operation.as_str(),
                }),
                ..context
            }),
        }
    }
}

impl CaseRun<'_> {
    const fn scope(&self) -> EventScope<'_> {
        EventScope::new(&self.context, &self.recorder)
    }

    /// Returns whether an event is worth firing: the guard may be on it.
    fn concerns(&self, event: EventName) -> bool {
        match self.runner.guard {
            Guard::Policy(_) => true,
            Guard::Hook(hook) => hook.event == event,
        }
    }

    /// Fires the events of a model call, in their order.
    async fn call(&mut self, example: &ExampleCall) -> Result<(), DialectError> {
        let session = self.session(example).await?;
        let prompt = session.prompts().last().zip(example.history.as_ref());
        let prompt = prompt.map(|(prompt, history)| session.prompt_text(prompt, history));
        let prompt = prompt.transpose()?.unwrap_or_default();
        let is_main = example.role == CallRole::Main;
        for event in example.events {
            match event {
                EventName::BeforeModel | EventName::AfterModel if !self.concerns(*event) => {
                    self.stages.push(Stage::new(*event));
                }
                EventName::BeforeAgent if is_main && session.current_prompt().is_some() => {
                    let prompt = prompt.clone();
                    self.fire(BeforeAgent { prompt }).await;
                }
                EventName::AfterTool => {
                    for event in example.tool_results()? {
                        self.fire(event).await;
                    }
                }
                EventName::BeforeModel => self.before_model(example).await?,
                EventName::AfterModel => self.after_model(example).await?,
                EventName::BeforeTool => self.before_tool(example).await?,
                EventName::AfterAgent if is_main => self.after_agent(example, &prompt).await?,
                _ => (),
            }
        }
        Ok(())
    }

    /// Opens a session of the call alone, which has its prompts.
    async fn session(&self, example: &ExampleCall) -> Result<Box<Session>, DialectError> {
        let store = MemoryStore::new(1, Duration::MAX);
        let request = SessionRequest {
            caller: &self.context.caller.key,
            agent: &self.context.caller.agent,
            named: None,
            continued: None,
            role: example.role,
            recorded: None,
        };
        let sessions = Sessions::new(SessionStore::Memory(Box::new(store)));
        sessions.open(request, example.history.as_ref()).await
    }

    async fn before_model(&mut self, example: &ExampleCall) -> Result<(), DialectError> {
        let mut stage = Stage::new(EventName::BeforeModel);
        let (engine, scope) = (&self.runner.engine, self.scope());
        let mut request = PolicyRequest::new(example.call.clone(), example.document.clone());
        let subject = ConditionSubject::Call {
            call: &request.call,
            document: &request.document,
        };
        let mut plan = engine.plan(EventName::BeforeModel, scope, subject);
        let mut runs = engine.inspect_request(&mut plan, scope, &mut request)?;
        if !plan.hooks.is_empty() {
            let llm_request = dialect::read_stable_form(
                &request.call,
                &request.document,
                plan.detail(EventName::BeforeModel),
            )?;
            let raw = || request.document.to_raw();
            let document = plan.shows_document().then(raw).flatten();
            let document = document.and_then(dialect::shown_to_hooks);
            let mut event = BeforeModel { llm_request };
            let called = run_hooks(&plan, scope, &mut event, document.as_deref());
            runs.extend(called.await);
        }
        let output = merged_output::<BeforeModel>(&runs);
        stage.add(&runs, BeforeModel::action(&output));
        let verdict = BeforeModel::evaluate(&output);
        if let BeforeModelVerdict::Proceed(mutation) = &verdict
            && !mutation.is_empty()
        {
            let (document, allowed) = (request.document, AllowedFunctions::default());
            let edited = dialect::write_request(&request.call, document, mutation, &allowed)?;
            stage.is_edited |= edited.document.is_edited();
            request.document = edited.document;
        }
        stage.add_json(&request.document.to_bytes());
        self.stages.push(stage);
        Ok(())
    }

    /// Passes the answer through the guard, chunk by chunk or whole.
    async fn after_model(&mut self, example: &ExampleCall) -> Result<(), DialectError> {
        let mut stage = Stage::new(EventName::AfterModel);
        let (engine, scope) = (&self.runner.engine, self.scope());
        let (call, document) = (&example.call, &example.document);
        let subject = ConditionSubject::Call { call, document };
        let plan = engine.plan(EventName::AfterModel, scope, subject);
        let mut policies = engine.response_policies(&plan, scope, call, document);
        let llm_request = Arc::new(
            dialect::read_stable_form(call, document, plan.detail(EventName::AfterModel))?.into(),
        );
        let mut chunks = self.chunks(example)?.into_iter().peekable();
        let mut text = String::new();
        while let Some(mut chunk) = chunks.next() {
            let position = match chunks.peek() {
                Some(_) => ChunkPosition::Chunk,
                None => ChunkPosition::Last,
            };
            let mut runs = policies.inspect(&mut chunk, position)?;
            if !plan.hooks.is_empty() && chunk.is_shown_to_hooks()? {
                runs.extend(run_response_hooks(&plan, scope, &llm_request, &chunk).await?);
            }
            finish_chunk(&mut stage, &mut chunk, &runs)?;
            text.extend(chunk.plain_texts());
        }
        let held = policies.finish()?;
        stage.add(&held.observed, Action::Proceed);
        for (mut chunk, runs) in held.chunks {
            finish_chunk(&mut stage, &mut chunk, &runs)?;
            text.extend(chunk.plain_texts());
        }
        // A secret may be split over chunks.
        stage.content.push_str(&text);
        self.stages.push(stage);
        Ok(())
    }

    fn chunks(&self, example: &ExampleCall) -> Result<Vec<ResponseDocument>, DialectError> {
        let chunks = example.answer.clone();
        let is_merged = self.runner.config.after_model == AfterModelMode::Buffered;
        if !is_merged || chunks.len() < 2 {
            return Ok(chunks);
        }
        Ok(vec![ResponseDocument::merge(chunks)?])
    }

    /// Fires `BeforeTool` for each call of the answer that hooks can inspect.
    async fn before_tool(&mut self, example: &ExampleCall) -> Result<(), DialectError> {
        for chunk in &example.answer {
            for (_, call) in chunk.calls()? {
                if call.refusal().is_none() {
                    self.fire(BeforeTool::from(call)).await;
                }
            }
        }
        Ok(())
    }

    /// Fires `AfterAgent` for an answer that ends the turn: a candidate has a text and no call.
    async fn after_agent(
        &mut self,
        example: &ExampleCall,
        prompt: &str,
    ) -> Result<(), DialectError> {
        let mut texts = AnswerTexts::default();
        for chunk in &example.answer {
            if chunk.is_paused()? || chunk.has_error()? {
                return Ok(());
            }
            texts.push(chunk)?;
        }
        let prompt_response = texts.without_calls();
        if !prompt_response.is_empty() {
            let event = AfterAgent {
                prompt: prompt.to_owned(),
                prompt_response,
                stop_hook_active: false,
            };
            self.fire(event).await;
        }
        Ok(())
    }

    /// Fires an event that is derived from model calls, or reported if the config derives
    /// it from none.
    async fn fire<E: EventKind>(&mut self, event: E) {
        let origin = if self.runner.config.events.derives(E::NAME) {
            EventOrigin::Derived
        } else {
            EventOrigin::Reported
        };
        self.fire_from(event, origin).await;
    }

    async fn fire_from<E: EventKind>(&mut self, event: E, origin: EventOrigin) {
        let mut stage = Stage::new(E::NAME);
        let CaseRunner { engine, guard, .. } = self.runner;
        if !guard.matches(event.subject()) {
            stage.selection = GuardSelection::Unmatched;
        }
        if self.concerns(E::NAME) {
            // Events are made of strings and JSON values, which always become JSON.
            let before = serde_json::to_value(&event).unwrap_or_default();
            let outcome = engine.fire(self.scope(), event, origin).await;
            let output = merged_output::<E>(&outcome.runs);
            let action = E::action(&output);
            stage.add(&outcome.runs, action);
            let answers_ask = origin == EventOrigin::Derived && action == Action::Ask;
            stage.is_denied |= answers_ask && self.runner.config.ask == AskMode::Deny;
            let after = edited::<E>(&before, &output);
            stage.is_edited |= after.is_some();
            stage.add_content(&after.unwrap_or(before));
        }
        self.stages.push(stage);
    }
}

/// Merges the runs of a guard, also if it only observes.
fn merged_output<E: EventKind>(runs: &[HookRun]) -> HookOutput {
    let outputs = runs.iter().map(|run| &run.result.output);
    merge_outputs(outputs, E::HONOURS).0
}

/// Returns the fields of an event after the edits of a guard; `None` if they are
/// unchanged. The reason of a denied result replaces it (hook protocol, section 1), like a text
/// that a guard puts in its place.
fn edited<E: EventKind>(before: &Value, output: &HookOutput) -> Option<Value> {
    match E::NAME {
        EventName::AfterTool => {
            let denial = output.deny().map(|reason| reason.as_str().to_owned());
            let text = denial.or_else(|| output.interpretation.tool_result.clone());
            text.map(Value::from)
        }
        EventName::AfterModel => {
            let edit = output.specific("llm_response");
            edit.filter(|_| !output.repeats("llm_response")).cloned()
        }
        // Context is added to a prompt, and nothing is taken away.
        EventName::BeforeAgent => None,
        _ => {
            let mut event: E = serde_json::from_value(before.clone()).ok()?;
            event.apply(output);
            let after = serde_json::to_value(event).ok()?;
            (after != *before).then_some(after)
        }
    }
}

/// Applies what a guard did with a chunk.
fn finish_chunk(
    stage: &mut Stage,
    chunk: &mut ResponseDocument,
    runs: &[HookRun],
) -> Result<(), DialectError> {
    let output = merged_output::<AfterModel>(runs);
    stage.add(runs, AfterModel::action(&output));
    if let FlowVerdict::Proceed(Some(mutation)) = &AfterModel::evaluate(&output) {
        chunk.write(mutation)?;
        stage.is_edited |= chunk.is_edited();
    }
    stage.add_json(&chunk.to_bytes());
    Ok(())
}

/// A reported event, before its type is known.
struct ReadEvent<'a, 'run> {
    run: &'a mut CaseRun<'run>,
    fields: Value,
}

impl<'a> EventVisitor for ReadEvent<'a, '_> {
    type Output = Result<BoxFuture<'a, ()>, String>;

    fn visit<E: EventKind>(self) -> Self::Output {
        let event: E = serde_json::from_value(self.fields)
            .map_err(|error| format!("is no {} event: {error}", E::NAME))?;
        let fired = self.run.fire_from(event, EventOrigin::Reported);
        Ok(Box::pin(fired))
    }
}
