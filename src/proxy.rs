//! The data plane: one model call, from agent to upstream and back.
//!
//! Read in this order: [`handle`] here, then `exchange` (one call from end to
//! end), `arrival` (its session), `before` (the steps before upstream), `gate` (one answer or chunk),
//! `round` (one answer), `turn` (what its end comes to), `stream` and `unary` (how
//! it goes on), `reply` (what the agent is told) and `early` (what it is told
//! while hooks take their time).

mod audit_recorder;
mod before_model;
mod body_digest;
mod cached_content;
mod chunk_source;
mod early_response;
mod exchange;
mod exchange_recorder;
mod keep_alive;
mod outcome;
mod passthrough;
mod reply;
mod request_body;
mod response_buffer;
mod response_filter;
mod session_events;
mod session_id;
mod stream;
mod tool_denial;
mod transcript;
mod unary;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::request::Parts;

use self::{
    audit_recorder::Trail,
    body_digest::Side,
    exchange::{Exchange, World},
    exchange_recorder::Facts,
};
use crate::{
    audit_log::CallerRecord,
    auth::Identity,
    dialect::{self, Document, Operation, RequestLine, Row},
    event::EventName,
    state::{self, ApiError, App, Asking, Authenticated, Door, ErrorReason, Recorded, Snapshot},
};

/// Handles every request that no other door claims, of a caller that was let in.
///
/// All up to the first wait is in plain calls: a future within a future is copied
/// once more for each, with all the room that it will ever need.
pub async fn handle(app: &App, admitted: Authenticated, request: Box<Request>) -> Response {
    let (facts, taken) = open(app, admitted, *request);
    let answered = match taken {
        Ok((exchange, body)) => match (exchange.call.operation, exchange.hooked()) {
            (Operation::UseCache, _) => Box::pin(cached_content::forward(exchange, body)).await,
            (_, Hooked::No) => passthrough::forward(exchange, body).await,
            // Boxed, so that a call that nobody listens to has no room for it.
            (_, Hooked::Yes) => Box::pin(hooked(exchange, body)).await,
        },
        Err(error) => Err(error),
    };
    match answered {
        Ok(response) => response.map(|it| facts.watch(it, Side::Answer)),
        Err(error) => {
            facts.failed(&error);
            let mut response = error.into_response();
            response.extensions_mut().insert(Recorded);
            response
        }
    }
}

/// What is known of a request, and what it asks for, if it is a call that may be
/// made.
fn open(
    app: &App,
    admitted: Authenticated,
    request: Request,
) -> (Facts, Result<(Box<Exchange>, Body), ApiError>) {
    let (head, body) = request.into_parts();
    let Authenticated { identity, snapshot } = admitted;
    let trail = trail(&snapshot, &head, &identity);
    let facts = Facts::new(&app.shared, &head, &identity.name, trail);
    let body = facts.watch(body, Side::Request);
    let world = World {
        caches: Arc::clone(&app.shared.caches),
        snapshot,
        facts: facts.clone(),
        identity,
    };
    let taken = take(world, head).map(|exchange| (exchange, body));
    (facts, taken)
}

/// What the decision log is told of a request, if there is one.
fn trail(snapshot: &Snapshot, head: &Parts, identity: &Identity) -> Option<Box<Trail>> {
    let audit = snapshot.audit.as_ref()?;
    let mut refused = state::refused(Door::Agents, Asking::of(head));
    refused.caller = CallerRecord::from(&identity.caller());
    let trail = Trail::new(Arc::clone(audit), refused);
    // Boxed, so that a gateway without a decision log has no room for it.
    Some(Box::new(trail))
}

/// What a request asks for, if it is a call that may be made.
fn take(world: World, head: Parts) -> Result<Box<Exchange>, ApiError> {
    let (snapshot, facts) = (&world.snapshot, &world.facts);
    if let Some(audit) = &snapshot.audit {
        audit.check()?;
    }
    let named = session_id::named(head.uri.path(), &head.headers)?;
    let line = RequestLine {
        method: &head.method,
        path: named.path,
        query: head.uri.query().unwrap_or_default(),
    };
    let Some(known) = dialect::recognise(line) else {
        let message = "this path is not served here";
        return Err(ApiError::new(ErrorReason::UnknownPath, message));
    };
    let known = known?;
    facts.operation(known.row.label());
    snapshot.covers(known.row)?;
    check_held(known.row, &world.identity)?;
    let call = known.call?;
    facts.call(&call, named.session.as_ref().map(|it| it.id.as_str()));
    let name = named.session;
    Exchange::open(world, call, head, name)
}

/// What a caller may use must hold on every way to a model.
fn check_held(row: &Row, identity: &Identity) -> Result<(), ApiError> {
    if !row.is_unseen() || !identity.is_held_to_what_is_seen() {
        return Ok(());
    }
    let message = format!(
        "`{}` carries content that hookgate does not see, where it cannot hold this caller to \
         its models, tools and tokens",
        row.name
    );
    Err(ApiError::new(ErrorReason::MethodRefused, message))
}

/// Whether any hook has a say in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hooked {
    /// Nobody listens: what comes in goes out.
    No,
    /// Somebody does.
    Yes,
}

impl Hooked {
    fn of(exchange: &Exchange) -> Self {
        let operation = exchange.call.operation;
        let listens = |event| exchange.snapshot.engine.listens(event);
        let before = operation.sends_content() && listens(EventName::BeforeModel);
        let around = operation.generates()
            && (listens(EventName::BeforeToolSelection) || listens(EventName::AfterModel));
        let derived = operation.sends_content() && exchange.snapshot.derives_any();
        // Whose it is must be known.
        let is_kept = operation == Operation::CreateCache;
        if before || around || derived || is_kept {
            Self::Yes
        } else {
            Self::No
        }
    }
}

async fn hooked(mut exchange: Box<Exchange>, body: Body) -> Result<Response, ApiError> {
    let limits = exchange.snapshot.config.limits;
    let patience = exchange.snapshot.config.timeouts.body;
    let bytes = request_body::read(body, &exchange.head, &limits, patience).await?;
    let document = exchange.open_body(Document::parse(bytes)?)?;
    let keep_alive = exchange.snapshot.config.timeouts.keep_alive;
    let teller = exchange.teller(&document)?;
    let operation = exchange.call.operation;
    let outcome = Box::pin(exchange.settle(document, Arc::clone(&teller)));
    match operation {
        Operation::Stream(framing) => {
            early_response::answer(outcome, teller, framing, keep_alive).await
        }
        _ => Ok(teller.tell(outcome.await?)),
    }
}
