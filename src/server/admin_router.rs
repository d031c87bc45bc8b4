//! Middleware of the admin listener.
//!
//! The admin API is not subject to the limit of in-flight requests, so that an overloaded
//! gateway still passes its health checks.

use std::any::Any;

use axum::{
    Extension, Router,
    extract::{Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use percent_encoding::percent_decode_str;
use tower_http::{
    catch_panic::CatchPanicLayer, compression::CompressionLayer,
    sensitive_headers::SetSensitiveRequestHeadersLayer, set_header::SetResponseHeaderLayer,
};

use crate::{
    api::admin,
    console,
    dialect::{self, Api},
    error::{ApiError, ErrorReason},
    middleware::{
        ListenerKind, RejectedRequest, RequestId, check_origin, panic_response, render_error,
    },
    state::App,
    trial::AgentHandler,
    view::trial::Trials,
};

/// Returns the admin API behind its middleware; the last layer sees a request first.
pub(super) fn admin_router(app: &App, handler: AgentHandler) -> Router {
    admin::routes(app)
        .merge(console::routes(app))
        .fallback(async || ApiError::new(ErrorReason::UnknownPath, "unknown path"))
        .method_not_allowed_fallback(async || {
            ApiError::new(ErrorReason::MethodNotAllowed, "method not allowed")
        })
        .with_state(app.clone())
        .layer(Extension(Trials::new(handler)))
        .layer(CompressionLayer::new())
        .layer(from_fn(reject_undecodable_paths))
        .layer(from_fn_with_state(app.clone(), reject_foreign_pages))
        .layer(CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| {
            panic_response(&*panic)
        }))
        .layer(from_fn_with_state(app.clone(), render_errors))
        .layer(SetResponseHeaderLayer::overriding(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        ))
        .layer(SetSensitiveRequestHeadersLayer::new([
            header::AUTHORIZATION,
            header::COOKIE,
        ]))
}

/// Assigns the request id, and renders and records errors. `tower_http::request_id` is not
/// used because it accepts ids of clients.
async fn render_errors(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = RequestId::random();
    request.extensions_mut().insert(id.clone());
    let audit = app.snapshot().audit.clone();
    let rejected = audit.map(|audit| (audit, RejectedRequest::from_request(&request)));
    let response = next.run(request).await;
    if let Some((audit, rejected)) = rejected {
        rejected.record(&audit, ListenerKind::Operators, &id, &response);
    }
    let error = response.extensions().get::<ApiError>();
    let is_overloaded = error.is_some_and(|error| error.reason() == ErrorReason::Overloaded);
    let mut response = render_error(response, &id, || dialect::of(Api::Gemini));
    if is_overloaded {
        // Health checks need a connection.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

async fn reject_foreign_pages(State(app): State<App>, request: Request, next: Next) -> Response {
    let snapshot = app.snapshot();
    let (browsers, bound) = (&snapshot.config.browsers, app.start_config().admin.listen);
    match check_origin(&request, browsers, ListenerKind::Operators, bound) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Refuses a path with an id that is no text, for which the routes have no error of ours.
async fn reject_undecodable_paths(request: Request, next: Next) -> Response {
    let path = percent_decode_str(request.uri().path()).decode_utf8();
    if path.is_err() {
        let message = "unknown path: it is not UTF-8";
        return ApiError::new(ErrorReason::UnknownPath, message).into_response();
    }
    next.run(request).await
}
