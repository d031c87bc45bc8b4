//! Log in and out of the console.

use std::net::SocketAddr;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use http::{Extensions, HeaderMap, header};
use maud::html;

use super::{form::FormFields, page::Page};
use crate::{
    auth::{AdminPrincipal, AuthError},
    config::AdminSettings,
    error::{ApiError, ErrorReason},
    middleware::{client_address, session_cookie_name, session_id},
    state::App,
};

/// Page after the login, if no other was requested.
const START: &str = "/console/";

/// Rejects requests without a user, which `page_responses` sends to the login page.
pub(super) async fn require_login(
    _principal: AdminPrincipal,
    request: Request,
    next: Next,
) -> Response {
    next.run(request).await
}

/// Shows the form for a token, unless the request has a user.
pub(super) async fn login_page(extensions: Extensions, fields: FormFields) -> Response {
    let next = local_target(fields.get("next"));
    if extensions.get::<AdminPrincipal>().is_some() {
        return Redirect::to(next).into_response();
    }
    login_form(next, None).respond(None)
}

/// Starts a session for the user with the token of the form.
pub(super) async fn log_in(
    State(app): State<App>,
    extensions: Extensions,
    fields: FormFields,
) -> Response {
    let snapshot = app.snapshot();
    let settings = &snapshot.config.admin;
    let next = local_target(fields.get("next"));
    let token = fields.get("token").trim();
    let address = client_address(&extensions);
    let access = &app.resources.admin_access;
    match access.log_in(settings, address, token.as_bytes()) {
        Ok(login) => {
            tracing::info!(user.name = &*login.user, "admin user logged in");
            let bound = app.start_config().admin.listen;
            let cookie = cookie(settings, bound, &login.session_id);
            ([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response()
        }
        Err(error) => {
            let failures = &app.resources.metrics.auth_failures;
            failures.with([error.as_str().into()]).inc();
            rejected_login(error, next)
        }
    }
}

/// Ends the session of the request.
///
/// # Errors
///
/// Returns an error if the form does not carry the token of the session.
pub(super) async fn log_out(
    State(app): State<App>,
    principal: AdminPrincipal,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, ApiError> {
    fields.check_csrf(&principal)?;
    let snapshot = app.snapshot();
    let settings = &snapshot.config.admin;
    let bound = app.start_config().admin.listen;
    if let Some(id) = session_id(&headers, settings, bound) {
        app.resources.admin_access.log_out(id);
    }
    let expired = format!("{}; Max-Age=0", cookie(settings, bound, ""));
    let login_page = Redirect::to("/console/login");
    Ok(([(header::SET_COOKIE, expired)], login_page).into_response())
}

fn login_form(next: &str, problem: Option<&str>) -> Page {
    let body = html! {
        @if let Some(problem) = problem {
            p.problem role="alert" { (problem) }
        }
        form.login method="post" action="/console/login" {
            input type="hidden" name="next" value=(next);
            label for="token" { "Admin token" }
            input #token name="token" type="password" autocomplete="current-password" required
                autofocus;
            button { "Log in" }
        }
        p.hint { "The token is " code { "admin.token" } " of the config, or that of one of "
            code { "admin.users" } "." }
    };
    Page::new("Log in", body)
}

fn rejected_login(error: AuthError, next: &str) -> Response {
    let error = match error {
        AuthError::Throttled { .. } => ApiError::from(error),
        _ => ApiError::new(ErrorReason::Unauthenticated, "No user has this token."),
    };
    let seconds = error
        .retry_seconds()
        .map(|seconds| format!("; try again in {seconds} s"));
    let problem = format!("{}{}", error.message(), seconds.unwrap_or_default());
    let page = login_form(next, Some(&problem));
    page.with_error(Some(error)).respond(None)
}

/// Returns a path of the console. Other targets of a redirect are replaced.
fn local_target(next: &str) -> &str {
    let is_refused = |char: char| char == '\\' || char.is_control();
    let is_local = next.starts_with(START) && !next.contains(is_refused);
    if is_local { next } else { START }
}

fn cookie(settings: &AdminSettings, bound: SocketAddr, session_id: &str) -> String {
    let name = session_cookie_name(settings, bound);
    let is_secure = name.starts_with("__Host-");
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={session_id}; HttpOnly{secure}; SameSite=Strict; Path=/")
}
