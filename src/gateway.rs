//! The data plane: one model call, from agent to upstream and back.
//!
//! Read in this order: [`handle`] here, then `exchange` (one call from end to
//! end), `arrival` (its session), `before` (the steps before upstream), `gate` (one answer or chunk),
//! `round` (one answer), `turn` (what its end comes to), `stream` and `unary` (how
//! it goes on), `reply` (what the agent is told) and `early` (what it is told
//! while hooks take their time).

mod arrival;
mod before;
mod body;
mod caches;
mod early;
mod exchange;
mod facts;
mod gate;
mod keep_alive;
mod passthrough;
mod reply;
mod round;
mod session;
mod source;
mod stream;
mod transcript;
mod turn;
mod unary;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::request::Parts;

use self::{
    exchange::{Exchange, World},
    facts::Facts,
};
use crate::{
    app::{ApiError, App, Caches, ErrorReason, Snapshot},
    caller::Identity,
    dialect::{self, Document, Operation, RequestLine},
    event::EventName,
};

/// The request's id, as the outermost layer made it.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

/// Handles every request that no other door claims.
pub async fn handle(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let request_id = head.extensions.get::<RequestId>();
    let request_id = request_id.map(|it| it.0.to_string()).unwrap_or_default();
    let (identity, snapshot) = admitted(&head)?;
    let (caller, caches) = (&identity.caller.name, Arc::clone(&app.shared.caches));
    let facts = Facts::new(Arc::clone(&app.shared.metrics), request_id, caller);
    let response = take((identity, snapshot), (head, body), caches, facts.clone()).await;
    response.inspect_err(|error| facts.failed(error))
}

async fn take(
    (identity, snapshot): (Arc<Identity>, Arc<Snapshot>),
    (head, body): (Parts, Body),
    caches: Arc<Caches>,
    facts: Facts,
) -> Result<Response, ApiError> {
    let named = session::named(head.uri.path(), &head.headers)?;
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
    let call = known.call?;
    facts.call(&call, named.session.as_ref().map(|it| it.id.as_str()));
    let name = named.session;
    let world = World {
        caches,
        snapshot,
        facts,
        identity,
    };
    let exchange = Exchange::open(world, call, head, name)?;
    match (exchange.call.operation, exchange.hooked()) {
        (Operation::UseCache, _) => caches::forward(exchange, body).await,
        (_, Hooked::No) => passthrough::forward(exchange, body).await,
        (_, Hooked::Yes) => hooked(exchange, body).await,
    }
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

async fn hooked(mut exchange: Exchange, body: Body) -> Result<Response, ApiError> {
    let limits = &exchange.snapshot.config.limits;
    let patience = exchange.snapshot.config.timeouts.body;
    let bytes = body::read(body, &exchange.head.headers, limits.body, patience).await?;
    let document = exchange.open_body(Document::parse(bytes)?)?;
    let keep_alive = exchange.snapshot.config.timeouts.keep_alive;
    let teller = exchange.teller(&document)?;
    let operation = exchange.call.operation;
    let outcome = Box::pin(exchange.run(document, Arc::clone(&teller)));
    match operation {
        Operation::Stream(framing) => early::answer(outcome, teller, framing, keep_alive).await,
        _ => Ok(teller.tell(outcome.await?)),
    }
}

/// Who calls, and the snapshot by which it was let in, from the layer around this
/// door. INVARIANT: nobody gets here unasked.
fn admitted(head: &Parts) -> Result<(Arc<Identity>, Arc<Snapshot>), ApiError> {
    let identity = head.extensions.get::<Arc<Identity>>().map(Arc::clone);
    let snapshot = head.extensions.get::<Arc<Snapshot>>().map(Arc::clone);
    identity
        .zip(snapshot)
        .ok_or_else(|| ApiError::new(ErrorReason::Internal, "nobody asked who calls"))
}
