//! Who calls, before anything is done for them; what each caller has used up.

use std::{sync::Arc, time::SystemTime};

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};

use crate::{
    auth::{Certificate, Shown, Stay},
    event::Caller,
    state::{self, ApiError, App, Authenticated, Peer, RequestId, Snapshot},
};

/// Finds out who calls. The stay is held until the request is over.
pub(super) async fn ask(
    app: &App,
    snapshot: Arc<Snapshot>,
    request: &mut Request,
) -> Result<(Authenticated, Option<Stay>), Response> {
    state::check_head(request, snapshot.config.limits.headers)
        .map_err(IntoResponse::into_response)?;
    let peer = request.extensions().get::<Peer>().cloned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let certificate = peer.as_ref().and_then(|it| it.certificate.as_ref());
    let shown = Shown {
        headers: request.headers_mut(),
        query: &query,
        address: peer.as_ref().map(|it| it.addr.ip()),
        certificate: certificate.map(|it| Certificate {
            common_name: it.common_name.as_deref(),
            alternative_names: &it.alternative_names,
        }),
    };
    let shared = &app.shared;
    let callers = &snapshot.callers;
    let identity = callers.identify(shown, &shared.callers, &shared.metrics);
    let identity = identity
        .await
        .map_err(|it| ApiError::from(it).into_response())?;
    let stay = identity.enter(SystemTime::now());
    let stay = stay.map_err(|it| turn_away(identity.caller(), it.into(), request))?;
    let identity = Arc::new(identity);
    Ok((Authenticated { identity, snapshot }, stay))
}

/// The answer to a caller that may not go on now. Who it is goes with it, for the
/// decision log.
fn turn_away(caller: Caller, error: ApiError, request: &Request) -> Response {
    tracing::info!(
        request.id = &*RequestId::of(request.extensions()),
        caller.name = caller.name,
        reason = error.reason().parts().2,
        "caller limit exceeded"
    );
    let mut response = error.into_response();
    response.extensions_mut().insert(caller);
    response
}
