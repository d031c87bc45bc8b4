//! Middleware of the agents' listener, and the handlers behind it.
//!
//! Plain calls instead of `tower` layers, which would be built anew for each model call.

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Version, header};

use super::handler::{Handler, HandlerResponse, route};
use crate::{
    api::events,
    auth::Identity,
    dialect::{self, RequestLine},
    error::{ApiError, BodyErrorReason, ErrorReason},
    middleware::{
        InFlightGuard, ListenerKind, RejectedRequest, RequestId, RequestKind, authenticate,
        check_origin, panic_response, render_error,
    },
    proxy,
    state::{App, Snapshot},
};

pub(super) struct MiddlewareStack {
    app: App,
    /// Reported events. Every other path is a model call.
    events: Router,
}

impl Handler for MiddlewareStack {
    fn handle(self: Arc<Self>, request: Request) -> BoxFuture<'static, HandlerResponse> {
        Box::pin(self.handle_request(Box::new(request)))
    }
}

impl MiddlewareStack {
    pub(super) fn new(app: App) -> Arc<Self> {
        let events = events::routes().method_not_allowed_fallback(async || {
            let message = "method not allowed; allowed: POST";
            ApiError::new(ErrorReason::MethodNotAllowed, message)
        });
        let events = events.with_state(app.clone());
        Arc::new(Self { app, events })
    }

    /// Assigns the request id, and renders and records errors. The request is boxed,
    /// because each nested future would have space for it.
    async fn handle_request(self: Arc<Self>, mut request: Box<Request>) -> HandlerResponse {
        let id = RequestId::random();
        request.extensions_mut().insert(id.clone());
        let kind = if events::is_events_path(request.uri().path()) {
            RequestKind::Event
        } else {
            RequestKind::ModelCall
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let snapshot = self.app.snapshot();
        let api = snapshot.configured_api(dialect::named_api(request.headers()));
        let audit = snapshot.audit.clone();
        // Boxed, so that the future has no space for it without a decision log.
        let rejected =
            audit.map(|audit| (audit, Box::new(RejectedRequest::from_request(&request))));
        let handled = AssertUnwindSafe(self.dispatch(snapshot, kind, request)).catch_unwind();
        let (response, guard) = match handled.await {
            Ok(Ok(handled)) => handled,
            Ok(Err(response)) => (response, None),
            Err(panic) => (panic_response(&*panic), None),
        };
        if let Some((audit, rejected)) = rejected {
            rejected.record(&audit, ListenerKind::Agents, &id, &response);
        }
        let dialect = || {
            dialect::dialect_of(RequestLine {
                method: &method,
                path: uri.path(),
                query: "",
                api,
            })
        };
        let mut response = render_error(response, &id, dialect);
        if let Some(BodyErrorReason(reason)) = response.extensions().get() {
            let errors = &self.app.resources.metrics.errors;
            errors.with([reason.as_str().into()]).inc();
        }
        if kind == RequestKind::Event {
            let nosniff = HeaderValue::from_static("nosniff");
            let headers = response.headers_mut();
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        }
        (response, guard)
    }

    /// Checks the request and calls its handler.
    async fn dispatch(
        &self,
        snapshot: Arc<Snapshot>,
        kind: RequestKind,
        mut request: Box<Request>,
    ) -> Result<HandlerResponse, Response> {
        let config = &snapshot.config;
        let bound = self.app.start_config().listen;
        check_origin(&request, &config.browsers, ListenerKind::Agents, bound)
            .and_then(|()| check_version(request.version()))
            .map_err(IntoResponse::into_response)?;
        let resources = &self.app.resources;
        let in_flight = InFlightGuard::enter(&resources.metrics, &config.limits, &mut request)
            .map_err(IntoResponse::into_response)?;
        request.extensions_mut().insert(in_flight.clone());
        let (authenticated, caller) = authenticate(resources, snapshot, kind, &mut request).await?;
        let admitted = in_flight.admit(&request);
        admitted.map_err(|error| error_of_caller(error, &authenticated.identity))?;
        let caller = caller.map(Arc::new);
        let response = if kind == RequestKind::Event {
            let identity = Arc::clone(&authenticated.identity);
            request.extensions_mut().insert(authenticated);
            request.extensions_mut().insert(caller.clone());
            // Boxed, so that the future of a model call has no space for it.
            let mut response = Box::pin(route(self.events.clone(), *request)).await;
            if response.extensions().get::<ApiError>().is_some() {
                response.extensions_mut().insert(identity.caller());
            }
            response
        } else {
            proxy::handle(&self.app, authenticated, request).await
        };
        Ok((response, Some((in_flight, caller))))
    }
}

/// Returns the response for an error, with the caller for the decision log.
fn error_of_caller(error: ApiError, identity: &Identity) -> Response {
    let mut response = error.into_response();
    response.extensions_mut().insert(identity.caller());
    response
}

/// Checks for HTTP/1.1 or HTTP/2. With older versions, a stream that breaks off looks
/// complete: it ends with the connection.
fn check_version(version: Version) -> Result<(), ApiError> {
    if version >= Version::HTTP_11 {
        return Ok(());
    }
    let message = "unsupported HTTP version; supported: HTTP/1.1 and HTTP/2";
    Err(ApiError::new(ErrorReason::HttpVersion, message))
}
