//! One model call under way: the steps around upstream, in order.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use secrecy::ExposeSecret;

use super::{
    Hooked,
    before_model::Step,
    exchange_recorder::Facts,
    reply::{self, Reply, ResponseBuilder, denial_form},
    request_body::{declared_length, too_large},
    response_filter::{Chunks, Gate, unreadable},
    session_id::Name,
    stream,
    tool_denial::Turn,
    unary,
};
use crate::{
    auth::Identity,
    dialect::{
        self, Allowed, Api, Call, Dialect, Document, Framing, Operation, PartialCalls,
        ResponseDocument, ResponseExpectation, Selected,
    },
    event::{Context, EventName},
    hook::{About, Plan, ResponsePolicies},
    model::SentRequest,
    policy::Look,
    session::{CallRole, ResponseFingerprinter, Session},
    state::{self, ApiError, Caches, Snapshot},
    upstream::{
        OutgoingRequest, RequestBody, Upstream, UpstreamResponse,
        content_headers::{self, ContentEncoding},
        headers::{self, ResponseUse},
    },
};

/// One model call under way.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) snapshot: Arc<Snapshot>,
    upstream: Arc<Upstream>,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) call: Call,
    pub(super) head: Parts,
    pub(super) facts: Facts,
    pub(super) context: Context,
    /// What stood around the request on the wire, if anything did.
    around: Option<Document>,
    pub(super) caches: Arc<Caches>,
    /// Who calls.
    identity: Arc<Identity>,
    /// How the agent names its session, if it does.
    pub(super) named: Option<Name>,
    /// What kind of answer it wants, once the request is read.
    pub(super) wish: ResponseExpectation,
    /// Whether it is a call of an agent or one of its helpers.
    pub(super) role: CallRole,
    /// What is remembered of the session, once the request is read.
    pub(super) session: Option<Box<Session>>,
    /// What the agent was given so far.
    pub(super) emission: Option<ResponseFingerprinter>,
    /// How hooks selected tools so far.
    pub(super) selected: Selected,
    /// The request before `BeforeModel`, should the model be asked again.
    pub(super) asked: Option<Document>,
    /// The turn that it belongs to.
    pub(super) turn: Turn,
}

/// What asking the model comes to.
pub(super) enum Asked {
    /// Nothing of it needs to be judged, or it was not asked at all.
    Told(Reply),
    /// The answer, and what stands between it and the agent.
    Answered(UpstreamResponse, Box<Gate>),
}

/// What a call comes into.
#[derive(Debug)]
pub(super) struct World {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) caches: Arc<Caches>,
    pub(super) facts: Facts,
    pub(super) identity: Arc<Identity>,
}

impl Exchange {
    /// A call of a model API that the config does not name is refused. Boxed, for it
    /// goes through many hands.
    pub(super) fn open(
        world: World,
        call: Call,
        head: Parts,
        named: Option<Name>,
    ) -> Result<Box<Self>, ApiError> {
        let snapshot = world.snapshot;
        let upstream = snapshot.upstream(call.row.api)?;
        let context = Context {
            session_named: named.is_some(),
            session_id: named.as_ref().map(|it| it.id.clone()).unwrap_or_default(),
            trace: state::trace(snapshot.audit.as_deref(), &head.headers),
            ..Context::default()
        };
        let mut exchange = Box::new(Self {
            upstream: Arc::clone(upstream),
            dialect: dialect::of(call.row.api),
            around: None,
            caches: world.caches,
            facts: world.facts,
            identity: world.identity,
            named,
            wish: ResponseExpectation::default(),
            role: CallRole::Helper,
            session: None,
            emission: None,
            selected: Selected::Untouched,
            asked: None,
            turn: Turn::default(),
            snapshot,
            call,
            head,
            context,
        });
        if exchange.snapshot.audit.is_some() || exchange.hooked() == Hooked::Yes {
            exchange.introduce();
        }
        Ok(exchange)
    }

    /// Says who calls, where and when: hooks and the decision log are told.
    fn introduce(&mut self) {
        let directory = &self.snapshot.config.hook_directory;
        let context = &mut self.context;
        self.facts.request_id().clone_into(&mut context.request_id);
        context.caller = self.identity.caller();
        context.cwd = directory.display().to_string();
        context.timestamp = state::now();
        self.facts.opened(self.call.row.api.as_str(), context);
    }

    /// Who calls.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The model API that is called. Nobody else picks one.
    pub(super) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    pub(super) fn hooked(&self) -> Hooked {
        Hooked::of(self)
    }

    /// The request as the Gemini API has it, with what only it says of the call:
    /// its model, its session. Content that the API keeps must be the caller's.
    pub(super) fn open_body(&mut self, body: Document) -> Result<Document, ApiError> {
        let opened = self.dialect.open_request(&mut self.call, body)?;
        self.around = opened.around;
        if let (None, Some(name)) = (&self.named, opened.session.and_then(Name::of_body)) {
            self.context.session_named = true;
            self.context.session_id.clone_from(&name.id);
            self.named = Some(name);
        }
        let session = self.named.as_ref().map(|it| it.id.as_str());
        self.facts.call(&self.call, session);
        if let Some(cache) = self.dialect.cached_content(&opened.document)? {
            self.check_cache(&cache)?;
        }
        Ok(opened.document)
    }

    /// An answer or a chunk as the Gemini API has it.
    pub(super) fn open_answer(&self, bytes: Bytes) -> Result<ResponseDocument, ApiError> {
        let opened = self.dialect.open_answer(bytes);
        opened.map_err(|error| {
            let request_id = self.facts.request_id();
            tracing::warn!(request.id = request_id, %error, "the answer cannot be read");
            unreadable()
        })
    }

    /// Who tells the agent what came of it.
    pub(super) fn teller(&mut self, document: &Document) -> Result<Arc<ResponseBuilder>, ApiError> {
        self.wish = self.dialect.wish(document)?;
        let denials = self.snapshot.config.denials;
        let agent = &self.context.caller.agent;
        let form = denial_form(denials, self.call.operation, self.wish, agent);
        Ok(Arc::new(ResponseBuilder {
            dialect: self.dialect,
            call: self.call.clone(),
            form,
            facts: self.facts.clone(),
        }))
    }

    /// Everything between a read request and what the agent is told. What hooks
    /// decided is written down by then.
    pub(super) async fn settle(
        self: Box<Self>,
        document: Document,
        teller: Arc<ResponseBuilder>,
    ) -> Result<Reply, ApiError> {
        let facts = self.facts.clone();
        let reply = self.run(document, teller).await?;
        match reply {
            Reply::Upstream(_) => (),
            Reply::Answered(_) | Reply::Denied(_) => facts.settles().await?,
        }
        Ok(reply)
    }

    async fn run(
        mut self: Box<Self>,
        document: Document,
        teller: Arc<ResponseBuilder>,
    ) -> Result<Reply, ApiError> {
        let document = match self.arrive(document).await? {
            Step::Go(document) => document,
            Step::Tell(reply) => return Ok(reply),
        };
        let (answer, gate) = match self.ask(document).await? {
            Asked::Told(reply) => return Ok(reply),
            Asked::Answered(answer, gate) => (answer, gate),
        };
        match teller.call.operation {
            Operation::Stream(framing) => {
                stream::answer(self, (answer, *gate), framing, teller).await
            }
            _ => unary::answer(self, (answer, *gate), &teller).await,
        }
    }

    /// Asks the model: `BeforeModel`, `BeforeToolSelection`, upstream.
    pub(super) async fn ask(&mut self, document: Document) -> Result<Asked, ApiError> {
        self.asked = Some(document.clone());
        let document = match self.before(document).await? {
            Step::Go(document) => document,
            Step::Tell(reply) => return Ok(Asked::Told(reply)),
        };
        let allowed = self.allowed();
        let engine = &self.snapshot.engine;
        let generates = self.call.operation.generates();
        let plan = if generates {
            engine.plan(EventName::AfterModel, &self.context, self.about(&document))
        } else {
            Plan::default()
        };
        let judges_calls = generates && self.derives(EventName::BeforeTool);
        let judges_end = generates && self.derives(EventName::AfterAgent);
        let hooked = !plan.is_empty() || judges_calls || judges_end;
        // An agent that has heard a part must not get the rest unjudged.
        let goes_on = self.turn.has_asked_again();
        // What sums a conversation up comes back in its place, and is known by that.
        let sums_up = self.role == CallRole::Helper && self.snapshot.derives_any();
        let gated = generates && (hooked || goes_on || sums_up || allowed != Allowed::All);
        if let (true, Operation::Stream(framing)) = (gated, &mut self.call.operation) {
            // Events come one by one; an array would have to be read whole.
            *framing = Framing::Sse;
        }
        let around = self.around.as_ref();
        let body = self.dialect.close_request(&self.call, around, &document)?;
        let limit = self.snapshot.config.limits.body;
        if body.len() > limit {
            // Hooks may add to a request, but not what agents may not.
            return Err(too_large(limit));
        }
        let outgoing = self.outgoing(body.clone().into(), ResponseUse::Parsed);
        let answer = self.send(outgoing, Some(&body)).await?;
        if self.call.operation == Operation::CreateCache && answer.status.is_success() {
            return self.keep_cache(answer).await.map(Asked::Told);
        }
        if !gated || !answer.status.is_success() {
            let response = reply::passed(answer, &self.facts);
            return Ok(Asked::Told(Reply::Upstream(response)));
        }
        let mut gate = self.gate(plan, &document, allowed)?;
        gate.judges_calls = judges_calls;
        Ok(Asked::Answered(answer, Box::new(gate)))
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
    fn gate(&self, plan: Plan, document: &Document, allowed: Allowed) -> Result<Gate, ApiError> {
        let llm_request = if plan.hooks.is_empty() {
            SentRequest::default()
        } else {
            // A stream may be long; media would stay in memory until its end.
            let detail = plan.detail();
            self.dialect
                .read_request(&self.call, document, detail)?
                .into()
        };
        let (engine, model) = (&self.snapshot.engine, self.call.model_name());
        let look = |it: Look| engine.answer_look(&plan, &self.context, model, it);
        let again = if plan.hooks.is_empty() {
            ResponsePolicies::default()
        } else {
            look(Look::Again)
        };
        Ok(Gate {
            looks: [look(Look::First), again],
            snapshot: Arc::clone(&self.snapshot),
            context: self.context.clone(),
            model: model.to_owned(),
            plan,
            llm_request: Arc::new(llm_request),
            allowed,
            pieces: PartialCalls::default(),
            judges_calls: false,
            facts: self.facts.clone(),
            chunks: Chunks::default(),
        })
    }

    /// A request for upstream.
    pub(super) fn outgoing(&self, body: RequestBody, answer: ResponseUse) -> OutgoingRequest {
        // A caller's key is for those APIs that take keys.
        let takes_keys = self.dialect.api() != Api::CodeAssist;
        let own = self.identity.upstream.as_ref().filter(|_| takes_keys);
        let own = own.or_else(|| self.upstream().credential());
        let query_key = self.identity.query_key.as_ref();
        // What must be counted must be readable.
        let answer = match self.identity.usage() {
            Some(_) => ResponseUse::Parsed,
            None => answer,
        };
        let mut headers = headers::request_headers(
            &self.head.headers,
            own,
            query_key.map(ExposeSecret::expose_secret),
            answer,
        );
        if self.context.trace.is_on() {
            headers::set_trace(&mut headers, self.context.trace);
        }
        OutgoingRequest {
            method: self.head.method.clone(),
            target: self.call.target(),
            headers,
            body,
        }
    }

    /// Asks upstream, once the decision log knows. Who pays, is told what it costs.
    pub(super) async fn send(
        &self,
        outgoing: OutgoingRequest,
        body: Option<&[u8]>,
    ) -> Result<UpstreamResponse, ApiError> {
        self.facts.sends(body).await?;
        let goes = |it| self.facts.goes(it);
        let Some(mut usage) = self.identity.usage() else {
            return Ok(self.upstream().send(outgoing, &goes).await?);
        };
        if self.call.operation.generates() {
            let asked = body.map(<[u8]>::len);
            let asked = asked.or_else(|| declared_length(&self.head.headers));
            usage.begin(asked.unwrap_or_default());
        }
        let sent = self.upstream().send(outgoing, &goes).await;
        let answer = sent.inspect_err(|_| usage.end())?;
        let is_plain = content_headers::encoding(&answer.headers) == ContentEncoding::Identity;
        if !answer.status.is_success() {
            usage.end();
        } else if !is_plain {
            return Err(unreadable());
        }
        if let Some(length) = declared_length(&answer.headers) {
            usage.expect(length as u64);
        }
        Ok(answer.with_observer(move |piece| match piece {
            Some(piece) => usage.read(piece),
            None => usage.end(),
        }))
    }
}
