//! Resolves a request: its session name, its method, and whether the caller may use it.

mod config_assignment;

use std::sync::Arc;

use http::request::Parts;

pub(super) use self::config_assignment::assign;
use super::{earlier_responses, request_context::RequestContext, session_name};
use crate::{
    auth::Identity,
    dialect::{self, Call, MethodSpec, Operation, RecognizedCall, RequestLine, ResponseStorage},
    error::{ApiError, ErrorReason},
    event::{CallContext, Context, EventName},
    middleware::{Authenticated, trace_context},
    observe::recorder::{ExchangeEvent, Recorder},
    state::{App, ReplayInput, Traffic},
    timestamp::utc_timestamp,
};

/// Resolves the method and model API that a request is for.
///
/// # Errors
///
/// If the path is not in the method table, the method is not allowed by the config or for the
/// caller, or the decision log cannot be written.
pub(super) fn resolve(
    app: &App,
    authenticated: Authenticated,
    head: Parts,
    recorder: &Recorder,
) -> Result<(Box<RequestContext>, Call), ApiError> {
    let Authenticated {
        identity,
        snapshot,
        named_api,
    } = authenticated;
    if let Some(audit) = &snapshot.audit {
        audit.ensure_writable()?;
    }
    let (path, session_name) = session_name::split(head.uri.path(), &head.headers)?;
    let line = RequestLine {
        method: &head.method,
        path,
        query: head.uri.query().unwrap_or_default(),
        api: snapshot.configured_api(named_api),
    };
    let recognized = recognize(&app.resources.traffic, &identity, line)?;
    recorder.record(&ExchangeEvent::MethodResolved(recognized.method));
    snapshot.check_coverage(recognized.method)?;
    check_inspectable(recognized.method, &identity)?;
    let call = snapshot.apply_coverage(recognized.call?, identity.is_restricted());
    let session_id = session_name.as_ref().map(|name| name.id.as_str());
    recorder.record(&ExchangeEvent::CallRead {
        operation: call.label(),
        model: call.model_name(),
        session_id: session_id.unwrap_or_default(),
    });
    let upstream = Arc::clone(snapshot.upstream(call.method.api)?);
    let hook_context = Context {
        call: Some(CallContext {
            dialect: call.method.api.as_str(),
            operation: call.operation.as_str(),
        }),
        trace: trace_context(snapshot.audit.as_deref(), &head.headers),
        ..Context::default()
    };
    let mut context = Box::new(RequestContext {
        dialect: dialect::of(call.method.api),
        cached_content: Arc::clone(&app.resources.cached_content),
        earlier_responses: Arc::clone(&app.resources.earlier_responses),
        records_responses: earlier_responses::are_recorded(&call, &snapshot),
        recorder: recorder.clone(),
        snapshot,
        identity,
        head,
        upstream,
        session_name,
        hook_context,
    });
    // Only hooks and the decision log need the rest.
    if context.snapshot.audit.is_some() || is_hooked(&context, &call) {
        accept(&mut context, call.method.api.as_str());
    }
    Ok((context, call))
}

/// Completes the context of hooks, and records that the call is accepted.
fn accept(context: &mut RequestContext, dialect: &'static str) {
    let (recorder, identity) = (&context.recorder, &context.identity);
    let hook_context = &mut context.hook_context;
    recorder
        .request_id()
        .clone_into(&mut hook_context.request_id);
    if let Some(name) = &context.session_name {
        name.write_to(hook_context);
    }
    hook_context.sub_agent = session_name::sub_agent::name(&context.head.headers);
    hook_context.caller = identity.caller();
    let directory = &context.snapshot.config.hook_directory;
    hook_context.cwd = directory.display().to_string();
    let replay = context.head.extensions.get::<ReplayInput>();
    hook_context.timestamp = replay.map_or_else(utc_timestamp, |replay| replay.time.to_string());
    recorder.record(&ExchangeEvent::CallAccepted {
        dialect,
        caller: &hook_context.caller,
        trace: hook_context.trace,
    });
}

/// Recognizes and counts the call of a request line.
///
/// # Errors
///
/// If the path is not in the method table, or has other HTTP methods only.
fn recognize(
    traffic: &Traffic,
    identity: &Identity,
    line: RequestLine<'_>,
) -> Result<RecognizedCall, ApiError> {
    let (method, path) = (line.method.as_str(), line.path);
    let unknown_path = || {
        traffic.count_unknown(&identity.name, method, path);
        ApiError::new(ErrorReason::UnknownPath, unknown_path_message(path))
    };
    let recognized = dialect::recognize_call(line).ok_or_else(unknown_path)??;
    traffic.count(recognized.method);
    Ok(recognized)
}

/// Returns the message for an unknown path. Clients append the version of an API to the base URL.
fn unknown_path_message(path: &str) -> String {
    let mut versions = ["/v1", "/v1beta"].into_iter();
    let is_repeated = |version: &&str| path.starts_with(&format!("{version}{version}/"));
    versions.find(is_repeated).map_or_else(
        || "unknown path".to_owned(),
        |version| format!("unknown path: the base URL must not end in `{version}`"),
    )
}

/// Returns whether a call must be read: hooks or policies take part in it, its caller may not use
/// all fields, or its response is recorded for its owner.
pub(super) fn is_hooked(context: &RequestContext, call: &Call) -> bool {
    let (snapshot, operation) = (&context.snapshot, call.operation);
    let listens = |event| snapshot.engine.handles(event);
    let before = operation.sends_content() && listens(EventName::BeforeModel);
    let around = operation.generates()
        && (listens(EventName::BeforeToolSelection) || listens(EventName::AfterModel));
    let derived = operation.sends_content() && snapshot.derives_any;
    let is_edited = operation.generates() && call.storage == ResponseStorage::Never;
    // Texts to embed have no fields that restricted callers may not use.
    let is_checked =
        operation.sends_content() && !operation.embeds() && context.identity.is_restricted();
    let is_owned = operation.generates() && earlier_responses::have_owners(call, snapshot);
    let is_recorded = is_owned || operation == Operation::CreateCache;
    before || around || derived || is_edited || is_checked || is_recorded
}

/// Refuses a method whose content is not inspected to callers with limits on models, tools or
/// tokens.
fn check_inspectable(row: &MethodSpec, identity: &Identity) -> Result<(), ApiError> {
    if !row.is_uninspected() || !identity.is_restricted() {
        return Ok(());
    }
    let message = format!(
        "`{}` carries content that hookgate does not inspect, so this caller's limits on models, \
         tools and tokens cannot be enforced",
        row.name
    );
    Err(ApiError::new(ErrorReason::MethodRefused, message))
}
