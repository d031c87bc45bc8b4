//! What surrounds every request: its id, the cap on requests under way, panics
//! and errors in Google's shape.

use std::{any::Any, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Version};
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

use crate::{
    app::{
        self, ApiError, App, Asking, Door, ErrorReason, Observed, Recorded, RequestId, UnderWay,
    },
    audit::CallerRecord,
    event::Caller,
};

/// A router with every layer around it.
pub(super) fn wrap(router: Router<App>, app: App, door: Door) -> Router {
    let recording = move |app, request, next| record(app, door, request, next);
    router
        .method_not_allowed_fallback(other_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(app.clone(), recording))
        .layer(middleware::from_fn(frame))
        .with_state(app)
}

/// A router whose requests count as under way, and are refused when too many
/// are. Operators must get through even then, or a busy gateway looks dead.
pub(super) fn capped(router: Router<App>, app: &App) -> Router<App> {
    router
        .layer(middleware::from_fn_with_state(app.clone(), cap))
        .layer(middleware::from_fn(versed))
}

async fn cap(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let limit = app.snapshot().config.limits.in_flight;
    let Some(under_way) = UnderWay::begin(&app.shared.metrics, limit) else {
        let message = "too many requests are under way";
        return ApiError::new(ErrorReason::Overloaded, message).into_response();
    };
    request.extensions_mut().insert(under_way.clone());
    let response = next.run(request).await;
    // A request is under way until its answer's last byte.
    response.map(|body| Body::new(Observed::new(body, move |_ended| drop(under_way))))
}

/// Tells the decision log of requests that are refused before anybody knows what
/// they are.
async fn record(State(app): State<App>, door: Door, request: Request, next: Next) -> Response {
    let Some(audit) = app.snapshot().audit.clone() else {
        return next.run(request).await;
    };
    let id = RequestId::of(request.extensions());
    let asking = Asking::of_request(&request);
    let response = next.run(request).await;
    let known = response.extensions().get::<Recorded>().is_some();
    if let Some(error) = response.extensions().get::<ApiError>().filter(|_| !known) {
        let mut refused = app::refused(door, asking);
        refused.request = id;
        if let Some(caller) = response.extensions().get::<Caller>() {
            refused.caller = CallerRecord::from(caller);
        }
        refused.error = error.reason().parts().2;
        refused.status = error.status().as_u16();
        audit.refused(refused);
    }
    response
}

/// Only HTTP/1.1 can tell an agent that a stream broke off: to older ones the end
/// of a connection is the end of an answer.
async fn versed(request: Request, next: Next) -> Response {
    if request.version() == Version::HTTP_11 {
        return next.run(request).await;
    }
    ApiError::new(ErrorReason::HttpVersion, "HTTP/1.1 is wanted here").into_response()
}

/// The outermost layer.
async fn frame(mut request: Request, next: Next) -> Response {
    let id: Arc<str> = Uuid::new_v4().to_string().into();
    request.extensions_mut().insert(RequestId(Arc::clone(&id)));
    let mut response = render(next.run(request).await, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response
            .headers_mut()
            .insert("x-hookgate-request-id", value);
    }
    response
}

/// An error is written here, where the request's id is known.
fn render(response: Response, id: &str) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else {
        return response;
    };
    let mut rendered = error.render(id);
    for (name, value) in response.headers() {
        if !rendered.headers().contains_key(name) {
            rendered.headers_mut().insert(name, value.clone());
        }
    }
    rendered
}

async fn other_method() -> ApiError {
    ApiError::new(
        ErrorReason::MethodNotAllowed,
        "another method is wanted here",
    )
}

/// The panic's text may hold anything, so nobody outside sees it.
#[expect(clippy::needless_pass_by_value, reason = "tower-http hands it over")]
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or_default(), "a request panicked");
    ApiError::new(ErrorReason::Internal, "something here is broken").into_response()
}
