//! Request handlers of the two listeners, behind their middleware.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Version, header::CONTENT_LENGTH};
use tower::ServiceExt;

use crate::{
    api::{admin, events},
    audit_log::{AuditLog, CallerRecord},
    auth::CallerInFlightGuard,
    error::{ApiError, ErrorReason},
    event::Caller,
    middleware::{
        AuditRecorded, InFlightGuard, ListenerKind, RejectedRequest, RequestId, authenticate,
        check_origin, panic_response,
    },
    proxy,
    state::App,
};

/// Handler of the requests of a listener.
pub(super) trait Handler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(self: Arc<Self>, request: Request) -> BoxFuture<'static, HandlerResponse>;
}

/// Response of a handler.
pub(super) struct HandlerResponse {
    pub(super) response: Response,
    /// Dropped after the last byte of the response.
    pub(super) guard: Option<RequestGuard>,
}

/// Counts a request as in flight, in total and for its caller.
pub(super) type RequestGuard = (InFlightGuard, Option<CallerInFlightGuard>);

impl Handler for Router {
    fn handle(self: Arc<Self>, request: Request) -> BoxFuture<'static, HandlerResponse> {
        Box::pin(async move { route((*self).clone(), request).await.into() })
    }
}

impl From<Response> for HandlerResponse {
    fn from(response: Response) -> Self {
        let guard = None;
        Self { response, guard }
    }
}

/// Middleware of one listener, and the handlers behind it. Plain calls instead of
/// `tower` layers, which would be built anew for each request.
pub(super) struct MiddlewareStack {
    app: App,
    listener: ListenerKind,
    /// Every route but model calls.
    routes: Router,
}

impl Handler for MiddlewareStack {
    fn handle(self: Arc<Self>, request: Request) -> BoxFuture<'static, HandlerResponse> {
        Box::pin(self.handle_request(Box::new(request)))
    }
}

impl MiddlewareStack {
    /// Creates the stack of the agents' listener.
    pub(super) fn agents(app: App) -> Arc<Self> {
        Self::new(app, ListenerKind::Agents, events::routes())
    }

    /// Creates the stack of the admin listener.
    pub(super) fn operators(app: App) -> Arc<Self> {
        let routes = admin::routes(&app).fallback(unknown_path);
        Self::new(app, ListenerKind::Operators, routes)
    }

    fn new(app: App, listener: ListenerKind, routes: Router<App>) -> Arc<Self> {
        let routes = routes.method_not_allowed_fallback(method_not_allowed);
        let routes = routes.with_state(app.clone());
        Arc::new(Self {
            app,
            listener,
            routes,
        })
    }

    /// Assigns the request id, and renders and records errors. The request is boxed,
    /// because each nested future would have space for it.
    async fn handle_request(self: Arc<Self>, mut request: Box<Request>) -> HandlerResponse {
        let id = RequestId::random();
        request.extensions_mut().insert(id.clone());
        let audit = self.app.snapshot().audit.clone();
        let rejected = audit.map(|audit| (audit, RejectedRequest::from_request(&request)));
        let handled = AssertUnwindSafe(self.dispatch(request)).catch_unwind();
        let mut handled = match handled.await {
            Ok(Ok(handled)) => handled,
            Ok(Err(response)) => response.into(),
            Err(panic) => panic_response(&*panic).into(),
        };
        if let Some((audit, rejected)) = rejected {
            self.record_rejection(&audit, rejected, &id.0, &handled.response);
        }
        handled.response = render_error(handled.response, &id.0);
        if let Ok(value) = HeaderValue::from_str(&id.0) {
            let headers = handled.response.headers_mut();
            headers.insert(RequestId::HEADER, value);
        }
        handled
    }

    /// Checks the request and calls its handler. The admin API is not subject to the
    /// limit of in-flight requests, so that an overloaded gateway still passes its health
    /// checks.
    async fn dispatch(&self, mut request: Box<Request>) -> Result<HandlerResponse, Response> {
        let snapshot = self.app.snapshot();
        check_origin(&request, &snapshot.config, self.listener)
            .map_err(IntoResponse::into_response)?;
        if self.listener == ListenerKind::Operators {
            let response = Box::pin(route(self.routes.clone(), *request)).await;
            return Ok(response.into());
        }
        check_version(request.version()).map_err(IntoResponse::into_response)?;
        let resources = &self.app.resources;
        let in_flight = InFlightGuard::enter(&resources.metrics, snapshot.config.limits.in_flight)
            .ok_or_else(|| ApiError::too_many_in_flight().into_response())?;
        request.extensions_mut().insert(in_flight.clone());
        let (authenticated, caller) = authenticate(resources, snapshot, &mut request).await?;
        let response = if request.uri().path() == events::EVENTS_PATH {
            request.extensions_mut().insert(authenticated);
            // Boxed, so that the future of a model call has no space for it.
            Box::pin(route(self.routes.clone(), *request)).await
        } else {
            proxy::handle(&self.app, authenticated, request).await
        };
        Ok(HandlerResponse {
            response,
            guard: Some((in_flight, caller)),
        })
    }

    /// Writes the decision-log record of a request that was rejected before its method
    /// was known.
    fn record_rejection(
        &self,
        audit: &AuditLog,
        rejected: RejectedRequest,
        id: &str,
        response: &Response,
    ) {
        let extensions = response.extensions();
        let is_recorded = extensions.get::<AuditRecorded>().is_some();
        let Some(error) = extensions.get::<ApiError>().filter(|_| !is_recorded) else {
            return;
        };
        let mut record = rejected.into_record(self.listener);
        id.clone_into(&mut record.request);
        if let Some(caller) = extensions.get::<Caller>() {
            record.caller = CallerRecord::from(caller);
        }
        record.error = error.reason().as_str();
        record.status = error.status().as_u16();
        audit.append_rejection(record);
    }
}

async fn route(router: Router, request: Request) -> Response {
    let result: Result<Response, Infallible> = router.oneshot(request).await;
    match result {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Checks for HTTP/1.1. With older versions, a stream that breaks off looks complete: it
/// ends with the connection.
fn check_version(version: Version) -> Result<(), ApiError> {
    if version == Version::HTTP_11 {
        return Ok(());
    }
    let message = "unsupported HTTP version; supported: HTTP/1.1";
    Err(ApiError::new(ErrorReason::HttpVersion, message))
}

/// Renders an error with the request id.
fn render_error(response: Response, id: &str) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else {
        return response;
    };
    let mut rendered = error.render(id);
    for (name, value) in response.headers() {
        // The length is that of the empty body that stood for the error.
        if name != CONTENT_LENGTH && !rendered.headers().contains_key(name) {
            rendered.headers_mut().insert(name, value.clone());
        }
    }
    rendered
}

async fn unknown_path() -> ApiError {
    ApiError::new(ErrorReason::UnknownPath, "unknown path")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(ErrorReason::MethodNotAllowed, "method not allowed")
}
