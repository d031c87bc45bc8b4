//! One model call under way: the steps around upstream, in order.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, header, request::Parts};

use super::{
    Hooked,
    before::Step,
    facts::Facts,
    gate::{Gate, Judged},
    reply::{Reply, Teller, denial_form},
    stream,
};
use crate::{
    app::{self, ApiError, App, ErrorReason, Shared, Snapshot},
    dialect::{Allowed, Call, CallsInPieces, Dialect, Document, Framing, Operation, Selected},
    event::{Context, EventName},
    hook::{About, AnswerLook, Plan},
    model::LlmRequest,
    policy::{Extent, Look},
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
    pub(super) context: Context,
    pub(super) shared: Shared,
    /// The agent's key, if it came in the query.
    query_key: Option<String>,
    /// The request as it came, once it is read.
    pub(super) received: Option<Document>,
    /// How hooks selected tools so far.
    pub(super) selected: Selected,
}

/// What a call comes into.
#[derive(Debug)]
pub(super) struct World {
    pub(super) app: App,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) facts: Facts,
    pub(super) query_key: Option<String>,
}

impl Exchange {
    pub(super) fn open(world: World, call: Call, head: Parts, session: Option<String>) -> Self {
        let snapshot = world.app.snapshot();
        let context = Context {
            session_named: session.is_some(),
            session_id: session.unwrap_or_default(),
            cwd: snapshot.config.hook_directory.display().to_string(),
            timestamp: app::now(),
            caller: app::caller(&head.headers, world.query_key.as_deref()),
            ..Context::default()
        };
        Self {
            shared: world.app.shared,
            dialect: world.dialect,
            facts: world.facts,
            query_key: world.query_key,
            received: None,
            selected: Selected::Untouched,
            snapshot,
            call,
            head,
            context,
        }
    }

    /// Whose conversations these are.
    pub(super) fn caller(&self) -> &[u8] {
        self.context.caller.key.as_bytes()
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
            self.context.session_id = self.shared.memory.unnamed(self.caller(), first);
            self.facts.session(&self.context.session_id);
        }
        Ok(document)
    }

    /// Who tells the agent what came of it.
    pub(super) fn teller(&self, document: &Document) -> Result<Arc<Teller>, ApiError> {
        let wish = self.dialect.wish(document)?;
        let denials = self.snapshot.config.denials;
        let agent = &self.context.caller.agent;
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
        teller: Arc<Teller>,
    ) -> Result<Reply, ApiError> {
        let document = match self.before(document).await? {
            Step::Go(document) => document,
            Step::Tell(reply) => return Ok(reply),
        };
        let allowed = self.allowed();
        let engine = &self.snapshot.engine;
        let generates = self.call.operation.generates();
        let plan = if generates {
            engine.plan(EventName::AfterModel, &self.context, self.about(&document))
        } else {
            Plan::default()
        };
        let gated = generates && (!plan.is_empty() || allowed != Allowed::All);
        if let (true, Operation::Stream(framing)) = (gated, &mut self.call.operation) {
            // Events come one by one; an array would have to be read whole.
            *framing = Framing::Sse;
        }
        let body = document.to_bytes();
        let outgoing = self.outgoing(body.into(), AnswerIs::Read);
        let answer = self.snapshot.upstream.send(outgoing).await?;
        if !gated || !answer.status.is_success() {
            return Ok(self.pass(answer));
        }
        let gate = self.gate(plan, &document, allowed)?;
        match teller.call.operation {
            Operation::Stream(framing) => stream::answer(gate, answer, framing, teller).await,
            _ => unary(gate, answer).await,
        }
    }

    /// What conditions are asked about.
    pub(super) fn about<'a>(&'a self, document: &'a Document) -> About<'a> {
        About::Call {
            dialect: self.dialect,
            call: &self.call,
            document,
        }
    }

    /// What stands between the answer to `document` and the agent.
    fn gate(self, plan: Plan, document: &Document, allowed: Allowed) -> Result<Gate, ApiError> {
        let mut llm_request = LlmRequest::default();
        if !plan.hooks.is_empty() {
            llm_request = self.dialect.read_request(&self.call, document)?;
        }
        let mut hooks = plan.hooks.iter();
        if !hooks.any(|it| it.protocol.shows_whole_messages()) {
            // A stream may be long; media would stay in memory until its end.
            llm_request.whole = Vec::new();
        }
        let (engine, model) = (&self.snapshot.engine, self.call.model_name());
        let look = |it: Look| engine.answer_look(&plan, &self.context, model, it);
        let again = if plan.hooks.is_empty() {
            AnswerLook::default()
        } else {
            look(Look::Again)
        };
        Ok(Gate {
            looks: [look(Look::First), again],
            snapshot: Arc::clone(&self.snapshot),
            memory: Arc::clone(&self.shared.memory),
            context: self.context,
            plan,
            llm_request: Arc::new(llm_request),
            allowed,
            pieces: CallsInPieces::default(),
            facts: self.facts,
        })
    }

    /// A request for upstream.
    pub(super) fn outgoing(&self, body: reqwest::Body, answer: AnswerIs) -> Outgoing {
        let own_key = self.snapshot.upstream.api_key();
        Outgoing {
            method: self.head.method.clone(),
            target: self.dialect.target(&self.call),
            headers: headers::to_upstream(
                &self.head.headers,
                own_key,
                self.query_key.as_deref(),
                answer,
            ),
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
        if let Some(length) = answer.headers.get(header::CONTENT_LENGTH) {
            // The body is what it was, so its length is, too.
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_LENGTH, length.clone());
        }
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
    match gate.judge(whole, Extent::Last).await? {
        Judged::Pass(body) => {
            *response.body_mut() = Body::from(body);
            Ok(Reply::Upstream(response))
        }
        Judged::Refused(reason) => Ok(Reply::Denied(reason)),
    }
}
