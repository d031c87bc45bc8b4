//! Sends calls to the model API.

use bytes::Bytes;
use http::{HeaderMap, Uri, uri::PathAndQuery};
use secrecy::ExposeSecret;

use super::{
    cache_owner, earlier_responses, exchange_events, model_request::ModelRequest, reply::Reply,
    request_body::too_large, request_context::RequestContext, turn_state::TurnState,
};
use crate::{
    dialect::{self, Call, DialectError, Framing, Operation, RequestField},
    error::ApiError,
    observe::recorder::ExchangeEvent,
    state::ReplayInput,
    upstream::{OutgoingRequest, RequestBody, UpstreamError, UpstreamResponse, headers},
};

/// Sends the request of a hooked call, as hooks left it.
pub(super) async fn send_hooked(
    turn: &TurnState<'_>,
    request: &mut ModelRequest,
    may_be_filtered: bool,
) -> Result<UpstreamResponse, ApiError> {
    let context = turn.context;
    if let (true, Operation::Stream(framing)) = (may_be_filtered, &mut request.call.operation) {
        // Events arrive one by one; an array would have to be read whole.
        *framing = Framing::Sse;
    }
    check_hosted_servers(turn, request)?;
    let body = if request.call.retrieves() {
        Bytes::new()
    } else {
        request.upstream_body(context.dialect)?
    };
    let limit = context.snapshot.config.limits.body;
    if body.len() > limit {
        // Hooks may not exceed the limit that agents are held to.
        return Err(too_large(limit));
    }
    request.reserve_tokens(&context.identity, body.len())?;
    let call = &request.call;
    let mut outgoing = outgoing(context, call, body.clone().into())?;
    if turn.is_retry() {
        // It belongs to the agent's request, and this is another one.
        outgoing.headers.remove("idempotency-key");
    }
    send(context, call, outgoing, Some(&body)).await
}

/// Refuses MCP servers that the model API calls, unless the config allows them, or policies do by
/// their names and no hooks on tools run. Policies have withheld what they do not allow.
fn check_hosted_servers(turn: &TurnState<'_>, request: &ModelRequest) -> Result<(), DialectError> {
    let (call, engine) = (&request.call, &turn.context.snapshot.engine);
    if !call.operation.generates() {
        return Ok(());
    }
    let servers = dialect::hosted_servers(&request.document)?;
    let is_allowed = |server: &String| engine.allows_tool(turn.scope(), request.subject(), server);
    if servers.is_empty() || !engine.guards_tools() && servers.iter().all(is_allowed) {
        return Ok(());
    }
    let api = call.method.api;
    call.allowed_fields.check(api, RequestField::HostedServer)
}

/// Returns a response that no policy and no hook inspects, and every error of upstream.
pub(super) async fn reply_unfiltered(
    context: &RequestContext,
    request: &ModelRequest,
    answer: UpstreamResponse,
) -> Result<Reply, ApiError> {
    if request.call.operation == Operation::CreateCache && answer.status.is_success() {
        let response = cache_owner::record(context, answer).await?;
        return Ok(Reply::Upstream(response));
    }
    let response = earlier_responses::record_passed(context, answer).await?;
    Ok(Reply::Upstream(response))
}

/// Builds a request for the model API.
///
/// # Errors
///
/// If the call's path cannot be sent.
pub(super) fn outgoing(
    context: &RequestContext,
    call: &Call,
    body: RequestBody,
) -> Result<OutgoingRequest, UpstreamError> {
    let identity = &context.identity;
    let api = context.dialect.api();
    let own = identity.credential_for(api);
    let credential = own.as_ref().or(context.upstream.credential.as_ref());
    let query_key = identity.query_key.as_ref().map(ExposeSecret::expose_secret);
    let (received, vendor) = (&context.head.headers, api.vendor());
    let mut headers: HeaderMap = headers::request_headers(received, vendor, credential, query_key);
    context.upstream.header_rules.apply(&mut headers, received);
    let trace = context.hook_context.trace;
    if trace.is_enabled() {
        headers::set_trace(&mut headers, trace);
    }
    Ok(OutgoingRequest {
        method: context.head.method.clone(),
        target: target(call, &context.head.uri)?,
        headers,
        body,
    })
}

/// Returns path and query of a call. They are parsed again only where they differ from those
/// that were received.
fn target(call: &Call, received: &Uri) -> Result<PathAndQuery, UpstreamError> {
    let target = call.target();
    match received.path_and_query() {
        Some(same) if same.as_str() == target => Ok(same.clone()),
        _ => PathAndQuery::try_from(target).map_err(|_| UpstreamError::InvalidTarget),
    }
}

/// Sends a request once the decision log has stored it, and meters token usage for callers with
/// a token quota. `body` is `None` if the body is passed through unread.
pub(super) async fn send(
    context: &RequestContext,
    call: &Call,
    outgoing: OutgoingRequest,
    body: Option<&Bytes>,
) -> Result<UpstreamResponse, ApiError> {
    let sending = ExchangeEvent::Sending {
        model: call.model_name(),
        target: outgoing.target.as_str(),
        body,
    };
    context.recorder.record_durably(&sending).await?;
    let record_target = |target| {
        context.record(&ExchangeEvent::UpstreamSelected(target));
    };
    let usage = context.identity.usage();
    // The tokens of a stored response are counted when it is created.
    let is_free = dialect::counts_tokens(call.method.path) || call.retrieves();
    let Some(mut usage) = usage.filter(|_| !is_free) else {
        let answer = call_upstream(context, outgoing, &record_target).await?;
        return Ok(exchange_events::record_upstream(&context.recorder, answer));
    };
    if call.operation.generates() || call.operation.embeds() {
        usage.start(outgoing.body.size(), call.operation.generates());
    }
    let sent = call_upstream(context, outgoing, &record_target).await;
    let mut answer = sent.inspect_err(|_| usage.cancel())?;
    if answer.status.is_success() {
        answer.decode(context.snapshot.config.limits.event)?;
    } else {
        usage.cancel();
    }
    let answer = answer.with_observer(move |piece| match piece {
        Some(piece) => usage.read(piece),
        None => usage.finish(),
    });
    Ok(exchange_events::record_upstream(&context.recorder, answer))
}

/// Calls the model API, or takes its recorded answer in a replay.
async fn call_upstream(
    context: &RequestContext,
    outgoing: OutgoingRequest,
    on_attempt: &(dyn Fn(&'static str) + Sync),
) -> Result<UpstreamResponse, UpstreamError> {
    match context.head.extensions.get::<ReplayInput>() {
        Some(replay) => replay.answers.send(outgoing).await,
        None => context.upstream.send(outgoing, on_attempt).await,
    }
}
