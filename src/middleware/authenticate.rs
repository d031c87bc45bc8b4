//! Authentication of a request and its caller's quotas.

use std::{sync::Arc, time::SystemTime};

use axum::{
    body::HttpBody,
    extract::Request,
    response::{IntoResponse, Response},
};

use super::{
    header_validation::validate_headers,
    request_extensions::{Authenticated, PeerInfo, RequestId},
};
use crate::{
    auth::{CallerInFlightGuard, Credentials, Identity, QuotaExceeded, RequestCost},
    dialect::{self, counts_tokens},
    error::ApiError,
    state::{AppResources, Snapshot},
};

/// Kind of a request of an agent, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A call to a model API.
    ModelCall,
    /// An event that an agent reports.
    Event,
}

/// Validates the headers, authenticates the caller and counts the request against the
/// caller's quotas.
///
/// # Errors
///
/// Returns the response for a request that is rejected. If a quota is exceeded, its
/// extensions contain the `event::Caller` for the decision log.
pub async fn authenticate(
    resources: &AppResources,
    snapshot: Arc<Snapshot>,
    kind: RequestKind,
    request: &mut Request,
) -> Result<(Authenticated, Option<CallerInFlightGuard>), Response> {
    validate_headers(request, snapshot.config.limits.headers)
        .map_err(IntoResponse::into_response)?;
    let named_api = dialect::named_api(request.headers());
    let peer = request.extensions().get::<PeerInfo>().cloned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let credentials = Credentials {
        headers: request.headers_mut(),
        query: &query,
        address: peer.as_ref().map(|peer| peer.addr.ip()),
        certificate: peer.as_ref().and_then(|peer| peer.certificate.as_ref()),
    };
    let identity = snapshot
        .authenticator
        .authenticate(credentials, &resources.auth, &resources.metrics)
        .await
        .map_err(|error| ApiError::from(error).into_response())?;
    let cost = match kind {
        RequestKind::Event => RequestCost::Free,
        RequestKind::ModelCall => cost(request),
    };
    let entered = identity.enter(cost, SystemTime::now()).await;
    let guard = entered.map_err(|exceeded| {
        let id = RequestId::from_extensions(request.extensions());
        let mut response = limit_error(&id, &identity, exceeded).into_response();
        response.extensions_mut().insert(identity.caller());
        response
    })?;
    let identity = Arc::new(identity);
    let authenticated = Authenticated {
        identity,
        snapshot,
        named_api,
    };
    Ok((authenticated, guard))
}

/// Logs that a request exceeds a limit of its caller, and returns its error.
pub fn limit_error(request_id: &str, identity: &Identity, exceeded: QuotaExceeded) -> ApiError {
    let error = ApiError::from(exceeded);
    tracing::info!(
        request.id = request_id,
        caller.name = &*identity.name,
        reason = error.reason().as_str(),
        "caller limit exceeded"
    );
    error
}

/// Returns the cost of a request to a model API. Only those with a body call a model, unless they
/// count tokens.
fn cost(request: &Request) -> RequestCost {
    let is_empty = request.body().is_end_stream();
    let length = request.body().size_hint().exact();
    if is_empty || counts_tokens(request.uri().path()) {
        RequestCost::Free
    } else {
        RequestCost::Bytes(length.unwrap_or_default())
    }
}
