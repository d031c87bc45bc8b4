//! The console: pages for operators on the admin listener, made on the server.
//!
//! Every page but the live tail works without scripts. Pages show what `view` computes; the
//! admin API returns the same as JSON. A page is one file in `pages`, with its handlers and its
//! markup, one route here and one entry in `page::NAVIGATION`.
//!
//! - `access`: log in and out, and the requirement to be logged in;
//! - `page`: the frame of all pages, which handlers return;
//! - `call_row`, `timeline`, `svg`, `conversation`: parts of the pages of calls;
//! - `shadow_state`: a part of the page of changes;
//! - `format`: numbers, times and addresses;
//! - `form`: fields of forms, and the token against cross-site requests;
//! - `assets`: the stylesheet and the script;
//! - `errors`: pages and errors as responses, with the security headers of all.
//!
//! INVARIANT: texts of agents, models and hooks are hostile. Templates escape markup, and
//! `page` shows control and bidirectional characters of the whole page as escapes.

mod access;
mod assets;
mod call_row;
mod conversation;
mod errors;
mod form;
mod format;
mod page;
mod pages;
mod shadow_state;
mod svg;
mod timeline;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::{from_fn, from_fn_with_state},
    response::Redirect,
    routing::{any, get, post},
};

use self::{
    access::{log_in, log_out, login_page, require_login},
    assets::get_asset,
    errors::{page_responses, unknown_page},
    pages::{
        call, calls, changes, config, coverage, denials, fleet, overview, rules, sessions, try_it,
    },
};
use crate::{
    middleware::{identify_admin_user, limit_time},
    state::App,
};

/// Returns the routes. All but the login page and the assets require a user, if the config has
/// a credential.
pub fn routes(app: &App) -> Router<App> {
    let pages = Router::new()
        .route("/console/", get(overview::show))
        .route("/console/calls", get(calls::list))
        .route("/console/calls/stream", get(calls::stream))
        .route("/console/calls/{id}", get(call::show))
        .route("/console/calls/{id}/test", get(denials::test_of_call))
        .route("/console/sessions", get(sessions::list))
        .route("/console/sessions/{id}", get(sessions::show))
        .route("/console/sessions/{id}/watch", post(sessions::watch))
        .route("/console/denials", get(denials::list))
        .route("/console/rules", get(rules::list))
        .route("/console/coverage", get(coverage::show))
        .route("/console/fleet", get(fleet::show))
        .route("/console/config", get(config::show))
        .route("/console/config/reload", post(config::reload))
        .route("/console/changes", get(changes::show))
        .route("/console/changes/end-shadow", post(changes::end_shadow))
        .route("/console/changes/promote", post(changes::promote))
        .route("/console/changes/rollback", post(changes::roll_back))
        .route(
            "/console/try",
            get(try_it::show)
                .post(try_it::submit)
                .layer(DefaultBodyLimit::max(try_it::MAX_FORM_BYTES)),
        )
        .route("/console/logout", post(log_out))
        .route("/console/{*path}", any(unknown_page))
        .route_layer(from_fn(require_login));
    Router::new()
        .route("/", get(to_overview))
        .route("/console", get(to_overview))
        .route("/console/login", get(login_page).post(log_in))
        .route("/console/assets/{name}", get(get_asset))
        .merge(pages)
        .route_layer(from_fn(limit_time))
        .route_layer(from_fn_with_state(app.clone(), page_responses))
        .route_layer(from_fn_with_state(app.clone(), identify_admin_user))
}

async fn to_overview() -> Redirect {
    Redirect::to("/console/")
}
