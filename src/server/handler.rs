//! Interface between connections and the handlers of a listener.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, extract::Request, response::Response};
use futures_util::future::BoxFuture;
use tower::ServiceExt;

use crate::{auth::CallerInFlightGuard, middleware::InFlightGuard};

/// Handler of the requests of a listener.
pub(super) trait Handler: Send + Sync + 'static {
    /// Handles one request of a listener.
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

/// Routes a request to its handler.
pub(super) async fn route(router: Router, request: Request) -> Response {
    let result: Result<Response, Infallible> = router.oneshot(request).await;
    match result {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
