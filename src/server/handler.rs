//! Interface between connections and the handlers of a listener.

use std::sync::Arc;

use axum::{Router, extract::Request, response::Response};
use futures_util::future::BoxFuture;
use tower::ServiceExt;

use crate::{auth::CallerInFlightGuard, middleware::InFlightGuard};

/// Handler of the requests of a listener.
pub(super) trait Handler: Send + Sync + 'static {
    /// Handles one request of a listener.
    fn handle(self: Arc<Self>, request: Request) -> BoxFuture<'static, HandlerResponse>;
}

/// Response of a handler, and a guard that is dropped once all of it is taken to be written.
pub(super) type HandlerResponse = (Response, Option<RequestGuard>);

/// Counts a request as in flight, in total and for its caller.
pub(super) type RequestGuard = (InFlightGuard, Option<Arc<CallerInFlightGuard>>);

impl Handler for Router {
    fn handle(self: Arc<Self>, request: Request) -> BoxFuture<'static, HandlerResponse> {
        Box::pin(async move { (route((*self).clone(), request).await, None) })
    }
}

/// Routes a request to its handler.
pub(super) async fn route(router: Router, request: Request) -> Response {
    let Ok(response) = router.oneshot(request).await;
    response
}
