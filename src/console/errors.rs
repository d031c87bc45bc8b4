//! Errors as pages, and the security headers of all responses of the console.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderName, HeaderValue, Method, header, uri::PathAndQuery};
use maud::html;

use super::{format::parameter, page::Page};
use crate::{
    auth::AdminPrincipal,
    error::{ApiError, ErrorReason},
    middleware::is_foreign_link,
    state::App,
};

/// Headers of every response. `X-Content-Type-Options` is set for the whole listener.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// Notice on all pages if there is no trace, from which most of their content comes.
const TRACE_OFF: &str = "The trace is off (`trace.exchanges: 0`): calls, sessions, denials, and \
    the counts of policies and hooks are not kept, and pages do not show what failed.";

/// Serves the console unless the config disables it, renders pages and errors for the user, and
/// sets the security headers. A link of another site leads to a link to the same page, which the
/// user follows: the page may show content, which is logged, and the browser may have sent no cookie.
pub(super) async fn page_responses(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    if !app.snapshot().config.admin.console {
        let message = "the console is disabled by `admin.console`";
        return ApiError::new(ErrorReason::UnknownPath, message).into_response();
    }
    let target = request.uri().path_and_query();
    let target = target.map_or_else(String::new, PathAndQuery::to_string);
    let method = request.method().clone();
    let principal = request.extensions().get::<AdminPrincipal>().cloned();
    let mut response = if is_foreign_link(&request) {
        link_page(&target).into_response()
    } else {
        next.run(request).await
    };
    if let Some(page) = response.extensions_mut().remove::<Page>() {
        let is_traced = app.snapshot().config.trace.exchanges > 0;
        let page = page.with_notice((!is_traced).then_some(TRACE_OFF));
        response = page.respond(principal.as_ref());
    } else if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        response = error_page(error, &method, &target, principal.as_ref());
    }
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a page with a link to this target.
fn link_page(target: &str) -> Page {
    let body = html! {
        p { "A link of another site leads here." }
        p { a href=(target) { "Continue to " (target) } }
    };
    Page::new("Link", body)
}

/// A path of the console without a page.
pub(super) async fn unknown_page() -> ApiError {
    ApiError::new(ErrorReason::UnknownPath, "unknown page")
}

fn error_page(
    error: ApiError,
    method: &Method,
    target: &str,
    principal: Option<&AdminPrincipal>,
) -> Response {
    let is_login = target.starts_with("/console/login");
    if error.reason() == ErrorReason::Unauthenticated && !is_login {
        let next = if *method == Method::GET { target } else { "" };
        let login_page = format!("/console/login?{}", parameter("next", next));
        return Redirect::to(&login_page).into_response();
    }
    let body = html! {
        p.problem { (error.message()) }
        p { a href="/console/" { "Overview" } }
    };
    let page = Page::new("Error", body).with_error(Some(error));
    page.respond(principal)
}
