//! One model call under way: the steps around upstream, in order.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, header, request::Parts};

use super::{
    Hooked, RequestId,
    facts::{Did, Facts},
    gate::{Gate, Judged},
    reply::{Reply, Teller, denial_form},
    session, stream,
};
use crate::{
    app::{self, ApiError, App, ErrorReason, Shared, Snapshot},
    config::HookView,
    dialect::{Allowed, Call, Dialect, Document, Operation, Selected},
    event::{
        BeforeModel, BeforeModelVerdict, BeforeToolSelection, Context, EventName, Reason, Subject,
    },
    hook::Plan,
    model::{RequestMutation, ToolConfig},
    telemetry::ExchangeFinished,
    upstream::{
        Answer, Outgoing,
        headers::{self, AnswerIs},
    },
};

/// One model call under way.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) call: Call,
    pub(super) head: Parts,
    pub(super) facts: Facts,
    context: Context,
    shared: Shared,
    caller: Arc<[u8]>,
    /// The request as it came, once it is read.
    received: Option<Document>,
    /// How hooks selected tools so far.
    selected: Selected,
}

/// Whether to go on to upstream.
enum Step {
    /// With this document.
    Go(Document),
    /// No: tell the agent this.
    Tell(Reply),
}

impl Exchange {
    pub(super) fn open(
        app: &App,
        dialect: &'static dyn Dialect,
        call: Call,
        head: Parts,
        session: Option<String>,
    ) -> Self {
        let snapshot = app.snapshot();
        let request_id = head.extensions.get::<RequestId>();
        let record = ExchangeFinished {
            request_id: request_id.map(|it| it.0.to_string()).unwrap_or_default(),
            session_id: session.clone().unwrap_or_default(),
            operation: call.operation.as_str(),
            model: call.model_name().to_owned(),
            ..ExchangeFinished::default()
        };
        let context = Context {
            session_id: session.unwrap_or_default(),
            cwd: snapshot.config.hook_directory.display().to_string(),
            timestamp: app::now(),
            ..Context::default()
        };
        Self {
            facts: Facts::new(Arc::clone(&app.shared.metrics), record),
            shared: app.shared.clone(),
            caller: session::caller(&head.headers).into(),
            received: None,
            snapshot,
            dialect,
            call,
            head,
            context,
            selected: Selected::Untouched,
        }
    }

    pub(super) fn hooked(&self) -> Hooked {
        Hooked::of(self)
    }

    /// Finds the fields of the body; a conversation without a name gets its id.
    pub(super) fn read(&mut self, body: Bytes) -> Result<Document, ApiError> {
        let document = Document::parse(body)?;
        if self.context.session_id.is_empty() {
            let contents = document.list(&["contents"])?.unwrap_or_default();
            let first = contents.first().map_or(&[][..], AsRef::as_ref);
            self.context.session_id = self.shared.memory.unnamed(&self.caller, first);
            self.facts.session(&self.context.session_id);
        }
        Ok(document)
    }

    /// Who tells the agent what came of it.
    pub(super) fn teller(&self, document: &Document) -> Result<Arc<Teller>, ApiError> {
        let wish = self.dialect.wish(document)?;
        let denials = self.snapshot.config.denials;
        let agent = self.head.headers.get(header::USER_AGENT);
        let agent = agent.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let form = denial_form(denials, self.call.operation, wish, agent);
        Ok(Arc::new(Teller {
            dialect: self.dialect,
            call: self.call.clone(),
            form,
            facts: self.facts.clone(),
        }))
    }

    /// Everything between a read request and what the agent is told.
    pub(super) async fn run(
        mut self,
        document: Document,
        query_key: Option<String>,
        teller: Arc<Teller>,
    ) -> Result<Reply, ApiError> {
        let document = match self.remember(document)? {
            Step::Go(document) => self.before_model(document).await?,
            stopped @ Step::Tell(_) => stopped,
        };
        let document = match document {
            Step::Go(document) => document,
            Step::Tell(reply) => return Ok(reply),
        };
        let (document, allowed) = self.select_tools(document).await?;
        let engine = &self.snapshot.engine;
        let plan = engine.plan(EventName::AfterModel, Subject::None);
        let body = document.to_bytes();
        let outgoing = self.outgoing(body.into(), query_key.as_deref(), AnswerIs::Read);
        let answer = self.snapshot.upstream.send(outgoing).await?;
        let gated =
            self.call.operation.generates() && (!plan.is_empty() || allowed != Allowed::All);
        if !gated || !answer.status.is_success() {
            return Ok(self.pass(answer));
        }
        let llm_request = self.dialect.read_request(&self.call, &document)?;
        let gate = Gate {
            snapshot: Arc::clone(&self.snapshot),
            memory: Arc::clone(&self.shared.memory),
            caller: self.caller,
            context: self.context,
            plan,
            llm_request: Arc::new(llm_request),
            allowed,
            facts: self.facts,
        };
        match self.call.operation {
            Operation::Stream(framing) => stream::answer(gate, answer, framing, teller).await,
            _ => unary(gate, answer).await,
        }
    }

    /// A request for upstream.
    pub(super) fn outgoing(
        &self,
        body: reqwest::Body,
        query_key: Option<&str>,
        answer: AnswerIs,
    ) -> Outgoing {
        let own_key = self.snapshot.upstream.api_key();
        Outgoing {
            method: self.head.method.clone(),
            target: self.dialect.target(&self.call),
            headers: headers::to_upstream(&self.head.headers, own_key, query_key, answer),
            body,
        }
    }

    /// Upstream's answer as it is.
    pub(super) fn pass(self, answer: Answer) -> Reply {
        if answer.media_type() == "text/html" {
            return self.no_json(&answer);
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status;
        *response.headers_mut() = headers::to_agent(&answer.headers);
        *response.body_mut() = Body::from_stream(answer.pieces());
        Reply::Upstream(response)
    }

    /// A page for people is no answer for an agent. An error keeps its status.
    fn no_json(self, answer: &Answer) -> Reply {
        let error = if answer.status.is_success() {
            let message = "the model API answered with HTML";
            ApiError::new(ErrorReason::UpstreamUnreadable, message)
        } else {
            ApiError::upstream_status(answer.status)
        };
        let mut response = error.render(self.facts.request_id());
        if let Some(after) = answer.headers.get(header::RETRY_AFTER) {
            let after: HeaderValue = after.clone();
            response.headers_mut().insert(header::RETRY_AFTER, after);
        }
        Reply::Upstream(response)
    }

    /// Takes what was denied before out of the history; a stopped session waits
    /// for its next prompt.
    fn remember(&mut self, mut document: Document) -> Result<Step, ApiError> {
        let memory = &self.shared.memory;
        let session_id = &self.context.session_id;
        if let Some(reason) = memory.stopped(&self.caller, session_id, &document)? {
            self.facts.did(Did::Stop);
            let reason = Reason::new(Some(&reason));
            return Ok(Step::Tell(Reply::Denied(reason)));
        }
        self.received = Some(document.clone());
        memory.clean(&self.caller, &mut document)?;
        Ok(Step::Go(document))
    }

    /// Remembers a denial and what the agent is told for it.
    fn forbid(&self, did: Did, told: &str) -> Result<(), ApiError> {
        let memory = &self.shared.memory;
        if let Some(received) = &self.received {
            memory.deny(&self.caller, received, told)?;
        }
        if did == Did::Stop {
            memory.stop(&self.caller, &self.context.session_id, told);
        }
        Ok(())
    }

    async fn before_model(&mut self, document: Document) -> Result<Step, ApiError> {
        let engine = &self.snapshot.engine;
        let plan = engine.plan(EventName::BeforeModel, Subject::None);
        if plan.is_empty() {
            return Ok(Step::Go(document));
        }
        let llm_request = self.dialect.read_request(&self.call, &document)?;
        let raw = shown(&plan, &document);
        let event = BeforeModel { llm_request };
        let fired = engine.fire_plan(&plan, &self.context, event, raw.as_deref());
        let fired = fired.await;
        self.facts.note(&fired);
        let answers = self.call.operation.generates();
        let (did, step) = match fired.verdict {
            BeforeModelVerdict::Proceed(mutation) => {
                return self.edit(document, &mutation).map(Step::Go);
            }
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
        match &step {
            Reply::Denied(reason) => self.forbid(did, reason.as_str())?,
            Reply::Answered(answer) if did == Did::Deny => self.forbid(did, &answer.text())?,
            Reply::Answered(_) | Reply::Upstream(_) => (),
        }
        Ok(Step::Tell(step))
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
    async fn select_tools(
        &mut self,
        mut document: Document,
    ) -> Result<(Document, Allowed), ApiError> {
        let engine = &self.snapshot.engine;
        let plan = engine.plan(EventName::BeforeToolSelection, Subject::None);
        if self.call.operation.generates() && !plan.is_empty() {
            let llm_request = self.dialect.read_request(&self.call, &document)?;
            let raw = shown(&plan, &document);
            let event = BeforeToolSelection { llm_request };
            let fired = engine.fire_plan(&plan, &self.context, event, raw.as_deref());
            let fired = fired.await;
            self.facts.note(&fired);
            self.select(&mut document, fired.verdict.as_ref())?;
        }
        let allowed = match std::mem::replace(&mut self.selected, Selected::Untouched) {
            Selected::Written(allowed) => allowed,
            Selected::Untouched => Allowed::All,
        };
        Ok((document, allowed))
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

async fn unary(mut gate: Gate, answer: Answer) -> Result<Reply, ApiError> {
    if answer.is_encoded() {
        return Err(super::gate::unreadable());
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers::to_agent(&answer.headers);
    let limit = gate.snapshot.config.limits.response;
    let whole = answer.whole(limit).await?;
    match gate.judge(whole).await? {
        Judged::Pass(body) => {
            *response.body_mut() = Body::from(body);
            Ok(Reply::Upstream(response))
        }
        Judged::Refused(reason) => Ok(Reply::Denied(reason)),
    }
}

/// The document, if any hook of the plan wants to see it.
fn shown(plan: &Plan, document: &Document) -> Option<Box<serde_json::value::RawValue>> {
    let wanted = plan.hooks.iter().any(|it| it.sees == HookView::Document);
    wanted.then(|| document.to_raw()).flatten()
}
