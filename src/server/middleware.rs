//! The two doors: what is asked of every request before a room answers it, in
//! this order, and what is done to every answer.
//!
//! Plain calls, where a stack of layers would be built anew for each request.

use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderName, HeaderValue, Version, header::CONTENT_LENGTH};
use tower::ServiceExt;
use uuid::Uuid;

use super::{authenticate, origin_check};
use crate::{
    admin, api,
    audit_log::{Audit, CallerRecord},
    auth::Stay,
    event::Caller,
    proxy,
    state::{self, ApiError, App, Asking, Door, ErrorReason, Recorded, RequestId, UnderWay},
};

/// The request's id, for the agent.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-hookgate-request-id");

/// Whoever answers the requests of a listener.
pub(super) trait Answers: Send + Sync + 'static {
    /// Answers one request.
    fn answer(self: Arc<Self>, request: Request) -> BoxFuture<'static, Answered>;
}

/// What came of a request.
pub(super) struct Answered {
    pub(super) response: Response,
    /// Dropped with the answer's last byte.
    pub(super) held: Option<Held>,
}

/// A request is under way, and its caller stays, until its answer's last byte.
pub(super) type Held = (UnderWay, Option<Stay>);

impl Answers for Router {
    fn answer(self: Arc<Self>, request: Request) -> BoxFuture<'static, Answered> {
        Box::pin(async move { Answered::at_once(route((*self).clone(), request).await) })
    }
}

impl Answered {
    fn at_once(response: Response) -> Self {
        let held = None;
        Self { response, held }
    }
}

/// One of our own doors.
pub(super) struct Guarded {
    app: App,
    door: Door,
    /// What stands behind it, apart from the gateway.
    rooms: Router,
}

impl Answers for Guarded {
    fn answer(self: Arc<Self>, request: Request) -> BoxFuture<'static, Answered> {
        Box::pin(self.answered(Box::new(request)))
    }
}

impl Guarded {
    /// The door of agents.
    pub(super) fn agents(app: App) -> Arc<Self> {
        Self::new(app, Door::Agents, api::routes())
    }

    /// The door of operators.
    pub(super) fn operators(app: App) -> Arc<Self> {
        let rooms = admin::routes(&app).fallback(unknown_path);
        Self::new(app, Door::Operators, rooms)
    }

    fn new(app: App, door: Door, rooms: Router<App>) -> Arc<Self> {
        let rooms = rooms.method_not_allowed_fallback(other_method);
        let rooms = rooms.with_state(app.clone());
        Arc::new(Self { app, door, rooms })
    }

    /// Gives the request its id, and writes whatever error comes of it. The request
    /// is boxed, or each future within a future would have room for it.
    async fn answered(self: Arc<Self>, mut request: Box<Request>) -> Answered {
        let id: Arc<str> = (&*Uuid::new_v4()
            .hyphenated()
            .encode_lower(&mut Uuid::encode_buffer()))
            .into();
        request.extensions_mut().insert(RequestId(Arc::clone(&id)));
        let audit = self.app.snapshot().audit.clone();
        let asking = audit.map(|it| (it, Asking::of_request(&request)));
        let admitted = AssertUnwindSafe(self.admit(request)).catch_unwind();
        let mut answered = match admitted.await {
            Ok(Ok(answered)) => answered,
            Ok(Err(response)) => Answered::at_once(response),
            Err(panic) => Answered::at_once(panicked(&*panic)),
        };
        if let Some((audit, asking)) = asking {
            self.record(&audit, asking, &id, &answered.response);
        }
        answered.response = render(answered.response, &id);
        if let Ok(value) = HeaderValue::from_str(&id) {
            let headers = answered.response.headers_mut();
            headers.insert(REQUEST_ID, value);
        }
        answered
    }

    /// Lets a request in, or not. Operators must get through even if too many are
    /// under way, or a busy gateway looks dead.
    async fn admit(&self, mut request: Box<Request>) -> Result<Answered, Response> {
        let snapshot = self.app.snapshot();
        let checked = origin_check::check(&request, &snapshot.config, self.door);
        checked.map_err(IntoResponse::into_response)?;
        if self.door == Door::Operators {
            let response = Box::pin(route(self.rooms.clone(), *request)).await;
            return Ok(Answered::at_once(response));
        }
        check_version(request.version()).map_err(IntoResponse::into_response)?;
        let under_way = UnderWay::begin(&self.app.shared.metrics, snapshot.config.limits.in_flight);
        let under_way = under_way.ok_or_else(|| too_many().into_response())?;
        request.extensions_mut().insert(under_way.clone());
        let asked = authenticate::ask(&self.app, snapshot, &mut request).await;
        let (admitted, stay) = asked?;
        let response = if request.uri().path() == api::EVENTS {
            request.extensions_mut().insert(admitted);
            // Boxed, so that calls of models have no room for it.
            Box::pin(route(self.rooms.clone(), *request)).await
        } else {
            proxy::handle(&self.app, admitted, request).await
        };
        let held = Some((under_way, stay));
        Ok(Answered { response, held })
    }

    /// Tells the decision log of a request that was refused before anybody knew
    /// what it is.
    fn record(&self, audit: &Audit, asking: Asking, id: &str, response: &Response) {
        let known = response.extensions().get::<Recorded>().is_some();
        let Some(error) = response.extensions().get::<ApiError>().filter(|_| !known) else {
            return;
        };
        let mut refused = state::refused(self.door, asking);
        id.clone_into(&mut refused.request);
        if let Some(caller) = response.extensions().get::<Caller>() {
            refused.caller = CallerRecord::from(caller);
        }
        refused.error = error.reason().parts().2;
        refused.status = error.status().as_u16();
        audit.refused(refused);
    }
}

async fn route(router: Router, request: Request) -> Response {
    let answered: Result<Response, Infallible> = router.oneshot(request).await;
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Only HTTP/1.1 can tell an agent that a stream broke off: to older ones the end
/// of a connection is the end of an answer.
fn check_version(version: Version) -> Result<(), ApiError> {
    if version == Version::HTTP_11 {
        return Ok(());
    }
    let message = "HTTP/1.1 is wanted here";
    Err(ApiError::new(ErrorReason::HttpVersion, message))
}

fn too_many() -> ApiError {
    ApiError::new(ErrorReason::Overloaded, "too many requests are under way")
}

/// An error is written here, where the request's id is known.
fn render(response: Response, id: &str) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else {
        return response;
    };
    let mut rendered = error.render(id);
    for (name, value) in response.headers() {
        // A router says how long the body is that stands for the error.
        if name != CONTENT_LENGTH && !rendered.headers().contains_key(name) {
            rendered.headers_mut().insert(name, value.clone());
        }
    }
    rendered
}

async fn unknown_path() -> ApiError {
    ApiError::new(ErrorReason::UnknownPath, "this path is not served here")
}

async fn other_method() -> ApiError {
    let message = "another method is wanted here";
    ApiError::new(ErrorReason::MethodNotAllowed, message)
}

/// The panic's text may hold anything, so nobody outside sees it.
fn panicked(panic: &(dyn Any + Send)) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or_default(), "request handler panicked");
    ApiError::new(ErrorReason::Internal, "something here is broken").into_response()
}
