//! Authentication of admin requests, for JSON and pages alike.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{FromRequestParts, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, header, request::Parts};

use super::request_extensions::PeerInfo;
use crate::{
    auth::{AdminCredential, AdminPrincipal, AuthError},
    authorization::bearer_token,
    config::{AdminRole, AdminSettings},
    error::{ApiError, ErrorReason},
    event::Caller,
    state::App,
};

/// Header with the token of a session, for scripts that change something.
const CSRF_HEADER: HeaderName = HeaderName::from_static("x-hookgate-csrf");

/// Adds the [`AdminPrincipal`] of a request to its extensions, if it has a valid credential:
/// a bearer token, or the cookie of a login. Rejects an invalid bearer token. The response has the
/// user as its [`Caller`], for the decision log.
pub async fn identify_admin_user(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    match identify(&app, &request) {
        Ok(principal) => {
            let user = principal.as_ref().and_then(user_name);
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            let mut response = next.run(request).await;
            if let Some(name) = user {
                let caller = Caller {
                    name,
                    ..Caller::default()
                };
                response.extensions_mut().insert(caller);
            }
            response
        }
        Err(error) => {
            let failures = &app.resources.metrics.auth_failures;
            failures.with([error.as_str().into()]).inc();
            auth_error(error).into_response()
        }
    }
}

/// Rejects requests of the admin API without a user, and requests of a browser session that
/// change something without the session's token.
pub async fn require_admin_user(
    principal: AdminPrincipal,
    request: Request,
    next: Next,
) -> Response {
    let is_session = matches!(principal.credential, AdminCredential::Session { .. });
    if is_session && !request.method().is_safe() {
        let given = request.headers().get(CSRF_HEADER);
        let given = given.and_then(|value| value.to_str().ok());
        if !principal.accepts_csrf_token(given.unwrap_or_default()) {
            return bad_csrf_token("use the token of the present login").into_response();
        }
    }
    next.run(request).await
}

impl<S: Sync> FromRequestParts<S> for AdminPrincipal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let principal = parts.extensions.get::<Self>().cloned();
        principal.ok_or_else(|| auth_error(AuthError::Missing))
    }
}

/// Checks that a user has the role of an operator.
///
/// # Errors
///
/// Returns an error that names the role.
pub fn require_operator(principal: &AdminPrincipal) -> Result<(), ApiError> {
    let role = AdminRole::Operator;
    if principal.has(role) {
        return Ok(());
    }
    let message = format!("the role `{}` is required", role.as_str());
    Err(ApiError::new(ErrorReason::RoleRequired, message))
}

/// Checks the token of a form that the console has received.
///
/// # Errors
///
/// Returns an error if the token is not that of the user's session.
pub fn check_csrf_token(principal: &AdminPrincipal, token: &str) -> Result<(), ApiError> {
    let needs_none = matches!(principal.credential, AdminCredential::Bearer { .. });
    if needs_none || principal.accepts_csrf_token(token) {
        return Ok(());
    }
    let remedy = "go back and reload that page, then send it again";
    Err(bad_csrf_token(remedy))
}

/// Returns the name of the session cookie of an admin listener that is bound to this address. With
/// the prefix `__Host-`, browsers accept it only over TLS, for this host and for all paths. It has
/// the port, because cookies of a host belong to all of its ports.
pub fn session_cookie_name(settings: &AdminSettings, bound: SocketAddr) -> String {
    let is_plain = settings.tls.is_none() && bound.ip().is_loopback();
    let prefix = if is_plain { "" } else { "__Host-" };
    format!("{prefix}hookgate-{}", bound.port())
}

/// Returns the id in the session cookie; `None` without one, or if there are several.
pub fn session_id<'a>(
    headers: &'a HeaderMap,
    settings: &AdminSettings,
    bound: SocketAddr,
) -> Option<&'a str> {
    let name = session_cookie_name(settings, bound);
    let headers = headers.get_all(header::COOKIE).iter();
    let cookies = headers.filter_map(|value| value.to_str().ok());
    let cookies = cookies.flat_map(|value| value.split(';'));
    let mut values = cookies.filter_map(|cookie| {
        let (key, value) = cookie.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    values.next().filter(|_| values.next().is_none())
}

/// Returns the address of the client of a request.
pub fn client_address(extensions: &http::Extensions) -> Option<IpAddr> {
    extensions.get::<PeerInfo>().map(|peer| peer.addr.ip())
}

fn identify(app: &App, request: &Request) -> Result<Option<AdminPrincipal>, AuthError> {
    let snapshot = app.snapshot();
    let (settings, access) = (&snapshot.config.admin, &app.resources.admin_access);
    if let Some(principal) = access.open(settings) {
        return Ok(Some(principal));
    }
    let headers = request.headers();
    if let Some(given) = headers.get(header::AUTHORIZATION) {
        let token = bearer_token(given.as_bytes());
        let address = client_address(request.extensions());
        let identified = access.identify(settings, address, token.unwrap_or_default());
        return identified.map(Some);
    }
    let session = session_id(headers, settings, app.start_config().admin.listen);
    Ok(session.and_then(|id| access.resume(settings, id)))
}

/// Returns the name of a user; `None` if the config has no credential.
fn user_name(principal: &AdminPrincipal) -> Option<String> {
    match principal.credential {
        AdminCredential::Open { .. } => None,
        AdminCredential::Bearer { .. } | AdminCredential::Session { .. } => {
            Some(principal.name.to_string())
        }
    }
}

fn auth_error(error: AuthError) -> ApiError {
    match error {
        AuthError::Missing | AuthError::Unknown => {
            let message = "missing or invalid admin token";
            ApiError::new(ErrorReason::Unauthenticated, message)
        }
        error => error.into(),
    }
}

fn bad_csrf_token(remedy: &str) -> ApiError {
    let message = format!("missing or invalid token of the browser session: {remedy}");
    ApiError::new(ErrorReason::BadCsrfToken, message)
}
