//! The proxy: one model call, from the agent to the model API and back.
//!
//! [`handle`] is the whole path, read from top to bottom:
//!
//! ```text
//! route ─┬─ no hooks ──▶ passthrough
//!        ├─ stored ────▶ owned content
//!        └─ hooks ─────▶ read request ▶ session events ▶ ┌ BeforeModel ▶ BeforeToolSelection
//!                                                        │      ▶ upstream ▶ response filter ┐
//!                                                        └────────── ask again ◀─────────────┤
//!                                                                                            ▼
//!                                                                                          reply
//! ```
//!
//! Errors of upstream, and responses that nothing filters, go from upstream to the reply.
//!
//! Each stage is one file of functions over three values: no stage of a hooked call changes the
//! `RequestContext`, `ModelRequest` is what goes upstream, `TurnState` is what the call has
//! learned so far. A stage that can end the call returns
//! [`ControlFlow`](std::ops::ControlFlow): it continues, or breaks with the reply for the agent.
//! During a rollout `route::assign` first chooses the config of the request's session.

mod before_model;
mod cache_owner;
mod earlier_responses;
mod early_response;
mod exchange_events;
mod model_request;
mod owned_content;
mod passthrough;
mod reply;
mod request_body;
mod request_context;
mod response_filter;
mod route;
mod session_events;
mod session_name;
mod step_recorder;
mod tool_selection;
mod transcript;
mod turn_state;
mod upstream_call;

use std::{
    ops::ControlFlow::{Break, Continue},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};

use self::{
    model_request::ModelRequest,
    reply::{Reply, Responder},
    request_context::RequestContext,
    response_filter::{Output, ResponseFilter, channel::ChunkChannel},
    turn_state::TurnState,
};
use crate::{
    dialect::{Call, Operation},
    error::ApiError,
    middleware::{AuditRecorded, Authenticated},
    observe::recorder::{BodySide, ExchangeEvent},
    state::App,
};

/// Handles every authenticated request to the agents' listener that is not for hookgate's own
/// API.
///
/// Synchronous steps stay outside of async functions: each nested future is copied into its
/// parent, which makes all of them larger.
pub async fn handle(app: &App, authenticated: Authenticated, request: Box<Request>) -> Response {
    let unit = authenticated
        .snapshot
        .rollout_unit(&authenticated.identity.name);
    let exchange = exchange_events::exchange(&authenticated, &request);
    let (authenticated, request) = match unit {
        None => (authenticated, request),
        Some(unit) => Box::pin(route::assign(unit, authenticated, request)).await,
    };
    let (head, body) = request.into_parts();
    let recorder = exchange_events::start(app, &authenticated, exchange, &head);
    let body = exchange_events::record_body(&recorder, BodySide::Request, body);
    let routed = route::resolve(app, authenticated, head, &recorder);
    let handled = match routed {
        Ok((context, call)) => match call.operation {
            Operation::UseCache => Box::pin(owned_content::forward(context, call, body)).await,
            Operation::Other if call.stored_response().is_some() => {
                Box::pin(owned_content::forward(context, call, body)).await
            }
            _ if route::is_hooked(&context, &call) => {
                // Boxed, so that a call without hooks does not carry its size.
                let dialect = context.dialect;
                let handled = Box::pin(handle_hooked(context, call, body)).await;
                handled.map_err(|error| error.in_dialect(dialect))
            }
            _ => passthrough::forward(context, call, body).await,
        },
        Err(error) => Err(error),
    };
    match handled {
        Ok(response) => {
            response.map(|body| exchange_events::record_body(&recorder, BodySide::Response, body))
        }
        Err(error) => {
            exchange_events::record_failure(&recorder, &error);
            let mut response = error.into_response();
            response.extensions_mut().insert(AuditRecorded);
            response
        }
    }
}

/// Reads the request and runs the pipeline; a stream's status 200 goes out early if that takes
/// long.
async fn handle_hooked(
    context: Box<RequestContext>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let request = request_body::read_request(&context, call, body).await?;
    let responder = Arc::new(Responder::new(&context, &request));
    let Operation::Stream(_) = request.call.operation else {
        let output = Output::whole(Arc::clone(&responder));
        let reply = Box::pin(run(context, request, output)).await?;
        return Ok(reply.map_or_else(Response::default, |reply| responder.respond(reply)));
    };
    let keep_alive = context.snapshot.config.timeouts.keep_alive;
    let channel = ChunkChannel::default();
    let output = Output::stream(Arc::clone(&responder), channel.clone());
    let pipeline = Box::pin(run(context, request, output));
    early_response::respond(pipeline, channel, responder, keep_alive).await
}

/// Runs the pipeline of a hooked call. Returns the reply, or the rest of it if `output` has
/// streamed a part; `None` if it has streamed all.
async fn run(
    context: Box<RequestContext>,
    mut request: ModelRequest,
    mut output: Output,
) -> Result<Option<Reply>, ApiError> {
    let mut turn = TurnState::new(&context, &request)?;
    let reply = run_stages(&mut turn, &mut request, &mut output).await;
    if reply.is_err() {
        // Of a reply, the session is saved before the agent receives it.
        Box::pin(turn.save_session()).await;
    }
    // Boxed, like each stage, so that it occupies no memory while the response is streamed.
    Box::pin(output.finish(&mut turn, reply?)).await
}

/// Runs the stages of the pipeline. Returns the reply that replaces the model's response, or
/// `None` if that is complete.
///
/// Each stage is boxed, so that none of them occupies memory while the response is streamed.
async fn run_stages(
    turn: &mut TurnState<'_>,
    request: &mut ModelRequest,
    output: &mut Output,
) -> Result<Option<Reply>, ApiError> {
    let context = turn.context;
    if let Break(reply) = Box::pin(session_events::run(turn, request)).await? {
        return Ok(Some(Reply::Hooks(reply)));
    }
    loop {
        let (call, document) = (request.call.clone(), request.document.clone());
        if let Break(reply) = Box::pin(before_model::run(turn, request, output)).await? {
            return Ok(Some(Reply::Hooks(reply)));
        }
        Box::pin(turn.save_counters()).await;
        Box::pin(tool_selection::run(turn, request)).await?;

        let filter = ResponseFilter::new(turn, request)?;
        let is_required = filter.as_ref().is_some_and(|filter| filter.is_required);
        turn.steps.record_request(request);
        let may_be_filtered = is_required || output.is_announced();
        let sent = upstream_call::send_hooked(turn, request, may_be_filtered);
        let answer = Box::pin(sent).await?;
        let status = answer.status.as_u16();
        context.record(&ExchangeEvent::UpstreamAnswered { status });
        // Keep-alives may only be sent between the chunks of a response. Else an HTML page is an
        // error, for which status and headers can be sent now.
        let is_filtered = answer.status.is_success()
            && (output.is_announced() || is_required && !answer.has_media_type("text/html"));
        let Some(filter) = filter.filter(|_| is_filtered) else {
            let reply = upstream_call::reply_unfiltered(context, request, answer).await?;
            return Ok(Some(reply));
        };

        let filtered = response_filter::run(turn, filter, answer, output, document);
        match Box::pin(filtered).await? {
            Break(reply) => return Ok(reply.map(Reply::Hooks)),
            // The model is asked again: tool calls or the answer were denied.
            Continue(document) => {
                request.document = document;
                request.call = call;
            }
        }
    }
}
