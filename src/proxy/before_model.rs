//! The steps before upstream: `BeforeModel`, `BeforeToolSelection`.

use serde_json::value::RawValue;

use super::{exchange::Exchange, outcome::Did, reply::Reply};
use crate::{
    config::HookView,
    dialect::{Allowed, Document, Selected},
    event::{BeforeModel, BeforeModelVerdict, BeforeToolSelection, EventName},
    hook::{Plan, Run},
    model::{RequestMutation, ToolConfig},
    policy::{Look, PolicyRequest},
    session::{Item, Session},
    state::{ApiError, ErrorReason},
};

/// Whether to go on to upstream.
pub(super) enum Step {
    /// With this document.
    Go(Document),
    /// No: tell the agent this.
    Tell(Reply),
}

impl Exchange {
    /// `BeforeModel` and `BeforeToolSelection`, in this order.
    pub(super) async fn before(&mut self, document: Document) -> Result<Step, ApiError> {
        match self.before_model(document).await? {
            Step::Go(document) => {
                self.permit().await;
                self.select_tools(document).await.map(Step::Go)
            }
            told @ Step::Tell(_) => Ok(told),
        }
    }

    /// What the answer may call.
    pub(super) fn allowed(&self) -> Allowed {
        match &self.selected {
            Selected::Written(allowed) => allowed.clone(),
            Selected::Untouched => Allowed::All,
        }
    }

    /// What was denied once may be allowed later.
    async fn permit(&mut self) {
        if let Some((session, item)) = self.last_item()
            && session.note(&item).is_some_and(|it| it.denied.is_some())
        {
            session.note_mut(&item).denied = None;
            session.save().await;
        }
    }

    /// Remembers a denial and what the agent is told for it. Only an answer of
    /// the model becomes part of a conversation.
    async fn forbid(&mut self, did: Did, told: &str) {
        if self.call.operation.generates()
            && let Some((session, item)) = self.last_item()
        {
            session.note_mut(&item).denied = Some(told.to_owned());
        }
        if did == Did::Stop {
            self.stop(told);
        }
        if let Some(session) = &mut self.session {
            session.save().await;
        }
    }

    pub(super) fn last_item(&mut self) -> Option<(&mut Session, Item)> {
        let session = self.session.as_deref_mut()?;
        let item = session.conversation.items.last().cloned()?;
        Some((session, item))
    }

    async fn before_model(&mut self, document: Document) -> Result<Step, ApiError> {
        let engine = &self.snapshot.engine;
        let plan = engine.plan(EventName::BeforeModel, &self.context, self.about(&document));
        if plan.is_empty() {
            return Ok(Step::Go(document));
        }
        let (document, mut runs) = self.look(&plan, document, Look::First)?;
        runs.extend(self.run_before_model(&plan, &document).await?);
        let fired = self
            .snapshot
            .engine
            .judge::<BeforeModel>(&self.context, runs);
        self.facts.note(&fired);
        match fired.verdict {
            BeforeModelVerdict::Proceed(mutation) if mutation.is_empty() => Ok(Step::Go(document)),
            BeforeModelVerdict::Proceed(mutation) => {
                let document = self.edit(document, &mutation)?;
                let (engine, about) = (&self.snapshot.engine, self.about(&document));
                let plan = engine.plan_again(EventName::BeforeModel, &self.context, about);
                let (document, runs) = self.look(&plan, document, Look::Again)?;
                let fired = self
                    .snapshot
                    .engine
                    .judge::<BeforeModel>(&self.context, runs);
                self.facts.note(&fired);
                self.obey(fired.verdict, document).await
            }
            verdict => self.obey(verdict, document).await,
        }
    }

    /// Lets policies look at the request, and change it.
    fn look(
        &mut self,
        plan: &Plan,
        document: Document,
        look: Look,
    ) -> Result<(Document, Vec<Run>), ApiError> {
        let mut call = PolicyRequest {
            dialect: self.dialect,
            call: self.call.clone(),
            document,
            edited: false,
        };
        let engine = &self.snapshot.engine;
        let runs = engine.look(plan, &self.context, &mut call, look)?;
        if call.edited {
            self.facts.did(Did::Edit);
            self.facts.model(call.call.model_name());
            self.call = call.call;
        }
        Ok((call.document, runs))
    }

    async fn run_before_model(
        &self,
        plan: &Plan,
        document: &Document,
    ) -> Result<Vec<Run>, ApiError> {
        if plan.hooks.is_empty() {
            return Ok(Vec::new());
        }
        let llm_request = self
            .dialect
            .read_request(&self.call, document, plan.detail())?;
        let raw = shown(plan, document);
        let mut event = BeforeModel { llm_request };
        let engine = &self.snapshot.engine;
        let runs = engine.run(plan, &self.context, &mut event, raw.as_deref());
        Ok(runs.await)
    }

    /// What a verdict that leaves the request as it is means for the agent.
    async fn obey(
        &mut self,
        verdict: BeforeModelVerdict,
        document: Document,
    ) -> Result<Step, ApiError> {
        let answers = self.call.operation.generates();
        let (did, reply) = match verdict {
            BeforeModelVerdict::Proceed(_) => return Ok(Step::Go(document)),
            BeforeModelVerdict::Respond(answer) if answers => {
                (Did::Respond, Reply::Answered(answer))
            }
            BeforeModelVerdict::Respond(_) => {
                let message = "a hook answered instead of the model, which this call cannot tell";
                return Err(ApiError::new(ErrorReason::PolicyDenied, message));
            }
            BeforeModelVerdict::Deny {
                answer: Some(answer),
                ..
            } if answers => (Did::Deny, Reply::Answered(answer)),
            BeforeModelVerdict::Deny { reason, .. } => (Did::Deny, Reply::Denied(reason)),
            BeforeModelVerdict::Stop(reason) => (Did::Stop, Reply::Denied(reason)),
        };
        self.facts.did(did);
        match &reply {
            Reply::Denied(reason) => self.forbid(did, reason.as_str()).await,
            Reply::Answered(answer) if did == Did::Deny => {
                self.forbid(did, &answer.text()).await;
            }
            Reply::Answered(_) | Reply::Upstream(_) => self.permit().await,
        }
        Ok(Step::Tell(reply))
    }

    fn edit(
        &mut self,
        document: Document,
        mutation: &RequestMutation,
    ) -> Result<Document, ApiError> {
        if mutation.is_empty() {
            return Ok(document);
        }
        let edited = self.dialect.write_request(&self.call, document, mutation)?;
        self.facts.note_diagnostics(&edited.diagnostics);
        if edited.document.is_edited() || edited.model.is_some() {
            self.facts.did(Did::Edit);
        }
        if let Some(model) = edited.model {
            self.facts.model(model.as_str());
            self.call.model = Some(model);
        }
        self.selected = edited.selected;
        Ok(edited.document)
    }

    /// What hooks select, written into the document. It binds the answer too.
    async fn select_tools(&mut self, mut document: Document) -> Result<Document, ApiError> {
        if !self.call.operation.generates() {
            return Ok(document);
        }
        let engine = &self.snapshot.engine;
        let plan = engine.plan(
            EventName::BeforeToolSelection,
            &self.context,
            self.about(&document),
        );
        if !plan.is_empty() {
            let llm_request = self
                .dialect
                .read_request(&self.call, &document, plan.detail())?;
            let raw = shown(&plan, &document);
            let mut event = BeforeToolSelection { llm_request };
            let runs = engine.run(&plan, &self.context, &mut event, raw.as_deref());
            let fired = engine.judge::<BeforeToolSelection>(&self.context, runs.await);
            self.facts.note(&fired);
            self.select(&mut document, fired.verdict.as_ref())?;
        }
        Ok(document)
    }

    fn select(
        &mut self,
        document: &mut Document,
        selection: Option<&ToolConfig>,
    ) -> Result<(), ApiError> {
        let Some(selection) = selection else {
            return Ok(());
        };
        let selected = self.dialect.write_selection(document, selection)?;
        if selected != Selected::Untouched {
            self.facts.did(Did::Edit);
            self.selected = selected;
        }
        Ok(())
    }
}

/// The document, if any hook of the plan wants to see it.
fn shown(plan: &Plan, document: &Document) -> Option<Box<RawValue>> {
    let wanted = plan.hooks.iter().any(|it| it.sees == HookView::Document);
    wanted.then(|| document.to_raw()).flatten()
}
