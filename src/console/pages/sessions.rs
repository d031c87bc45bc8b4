//! Sessions: the most recent ones, and one of them.

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};

use crate::{
    auth::AdminPrincipal,
    config::AdminRole,
    console::{
        call_row::session_calls,
        form::{FormFields, csrf_field},
        format::{calls_with, item_address, parameter},
        page::{BadgeKind, Page, badge, table},
    },
    error::ApiError,
    observe::trace::TraceFilter,
    state::App,
    timestamp::{milliseconds, rfc3339_ms},
    view::{
        content,
        sessions::{self, SessionDetails, SessionInfo},
    },
};

const LIST: &str = "/console/sessions";

/// Sessions of one page.
const LISTED_SESSIONS: usize = 100;

/// Shows the sessions that were used last.
pub(in crate::console) async fn list(State(app): State<App>) -> Page {
    let mut list = sessions::newest(&app, LISTED_SESSIONS + 1).await.sessions;
    let has_more = list.len() > LISTED_SESSIONS;
    list.truncate(LISTED_SESSIONS);
    let rows = html! { @for session in &list { (row(session)) } };
    let body = html! {
        @if list.is_empty() {
            p { "No session yet. A session begins with the first call of an agent." }
        } @else {
            @if has_more {
                p.muted { "The last " (LISTED_SESSIONS) " sessions. This process has "
                    (app.snapshot().sessions.store().count()) "." }
            }
            (table("Sessions by last call",
                &["Session", "Agent", "Caller", "Found by", "Prompts", "Calls", "Last call"], &rows))
        }
    };
    Page::new("Sessions", body).under(LIST)
}

/// Shows one session, or redirects to its calls if only these are kept.
///
/// # Errors
///
/// Returns an error if no session has the id.
pub(in crate::console) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    let caller = fields.find("caller");
    let details = match sessions::find(&app, &id, caller).await {
        Ok(details) => details,
        Err(error) => return calls_of_ended(&app, &id, caller).ok_or(error),
    };
    let body = html! {
        (detail_list(&details))
        (kept_calls(&details))
        (watch_form(&app, &principal, &details.session))
    };
    let page = Page::new(format!("Session {id}"), body).under(LIST);
    Ok(page.into_response())
}

/// Keeps the content of a session for a while.
///
/// # Errors
///
/// Returns an error if the user is no investigator, a field is out of range, or the form is
/// not that of the user's session.
pub(in crate::console) async fn watch(
    State(app): State<App>,
    Path(id): Path<String>,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    fields.check_csrf(&principal)?;
    let minutes = fields.get("minutes").parse().unwrap_or_default();
    let address = address(&id, fields.find("caller"));
    let caller = fields.find("caller").map(str::to_owned);
    let reason = fields.get("reason").to_owned();
    content::watch(&app, &principal, id, caller, (minutes, reason)).await?;
    Ok(Redirect::to(&address).into_response())
}

/// Returns a redirect to the calls of a session without state; `None` if none is kept.
fn calls_of_ended(app: &App, id: &str, caller: Option<&str>) -> Option<Response> {
    let calls = match caller {
        Some(key) => session_calls(id, key),
        None => calls_with("session", id),
    };
    let (_, query) = calls.split_once('?')?;
    let filter = TraceFilter::from_query(query, &[]).ok()?;
    let kept = app.resources.trace.list(&filter, None, 1).calls;
    (!kept.is_empty()).then(|| Redirect::to(&calls).into_response())
}

/// Returns the watches of a session, and the form for another one.
fn watch_form(app: &App, principal: &AdminPrincipal, session: &SessionInfo) -> Markup {
    let SessionInfo { id, caller, .. } = session;
    let watches = app.resources.trace.watches();
    let watches = watches.iter().filter(|watch| watch.includes(id, caller));
    html! {
        h2 { "Content" }
        @for watch in watches {
            @let until = rfc3339_ms(milliseconds(watch.until));
            p role="status" { (badge(BadgeKind::Warning, "kept")) " until " (until) " for " (watch.by) ": " (watch.reason) }
        }
        @if principal.has(AdminRole::Investigator) {
            form.line method="post" action={ (item_address(LIST, id, "")) "/watch" } {
                (csrf_field(principal))
                input type="hidden" name="caller" value=(caller);
                label { "Minutes" input type="number" name="minutes" value="15" min="1" max="1440" required; }
                label.wide { "Reason" input name="reason" maxlength="500" required; }
                button { "Keep the content of its calls" }
            }
            p.hint { "Secrets are masked before it is kept. "
                @if app.snapshot().audit.is_some() { "The decision log has the reason." }
                @else { "A line of the log names who asked for it; no decision log is configured." }
            }
        } @else {
            p.hint { "Keeping content needs the role " code { "investigator" } "." }
        }
    }
}

fn row(session: &SessionInfo) -> Markup {
    html! {
        tr {
            th scope="row" {
                a data-row href=(address(&session.id, Some(&session.caller))) { (session.id) }
            }
            td { (session.agent) }
            td { (caller(session)) }
            td { (session.source) }
            td.number { (session.turns) }
            td.number { (session.requests) }
            td.nowrap { (session.last_seen) }
        }
    }
}

fn detail_list(details: &SessionDetails) -> Markup {
    let session = &details.session;
    let reported = details.reported.iter().map(|event| event.as_str());
    let reported: Vec<&str> = reported.collect();
    html! {
        p {
            a data-up href=(LIST) { "All sessions" } " · "
            a href=(session_calls(&session.id, &session.caller)) { "Calls of this session" }
        }
        dl {
            dt { "Agent" } dd { (session.agent) }
            dt { "Caller" } dd {
                (caller(session))
                @if !session.caller_name.is_empty() { " " code.muted { (session.caller) } }
            }
            dt { "Found by" } dd { (source(session.source)) }
            dt { "First call" } dd { (session.started) }
            dt { "Last call" } dd { (session.last_seen) }
            dt { "Prompts" } dd { (session.turns) }
            dt { "Model calls" } dd { (session.requests) }
            dt { "Items" } dd { (details.items) " of the conversation that hooks have decided" }
            dt { "Denied requests" } dd { (details.denied) " removed from its history" }
            dt { "Hidden results" } dd { (details.replaced) " tool results that the model does not see" }
            dt { "Added context" } dd { (details.contexts) " prompts, results and session starts" }
            dt { "Stopped" } dd {
                @if details.stopped { (badge(BadgeKind::Bad, "hooks stopped a turn")) } @else { "no" }
            }
            dt { "Events that the agent reports" } dd {
                @if reported.is_empty() { "none" } @else { (reported.join(", ")) }
            }
        }
    }
}

/// Shows the tools and tokens of the calls that the live trace keeps.
fn kept_calls(details: &SessionDetails) -> Markup {
    let kept = &details.kept;
    let session = &details.session;
    let calls = session_calls(&session.id, &session.caller);
    let rows = html! {
        @for tool in &kept.tools {
            tr {
                th scope="row" { a href={ (calls) "&" (parameter("tool", &tool.name)) } { (tool.name) } }
                td.number { (tool.records) }
                td.number { (tool.denied) }
            }
        }
    };
    html! {
        h2 { "Tools and tokens" }
        p { "Of its " (kept.records) " calls and reported events that the live trace keeps: "
            (kept.total_tokens) " tokens, of them " (kept.prompt_tokens) " in (" (kept.cached_tokens) " from the cache)." }
        @if kept.tools.is_empty() { p { "No tool was called." } } @else {
            (table("Tools by name", &["Tool", "Calls", "Denied"], &rows))
        }
    }
}

/// Returns the address of a session of a caller, whose key is empty without a credential; without
/// `caller`, of the session of this id that was used last.
pub(super) fn address(id: &str, caller: Option<&str>) -> String {
    let query = caller.map(|key| parameter("caller", key));
    item_address(LIST, id, &query.unwrap_or_default())
}

/// Returns how a session is identified, in words.
fn source(source: &'static str) -> &'static str {
    match source {
        "history" => "history: the conversation continues a known one",
        "path" => "path: the agent's base URL names it",
        "header" => "header: the agent names it",
        "agent_header" => "agent_header: a header of the agent names it",
        "body" => "body: the request body names it",
        "code_assist" => "code_assist: the request body names it",
        "reported" => "reported: events of the agent name it",
        other => other,
    }
}

/// Returns the name of a session's caller, or the begin of its key, with a link to its calls.
fn caller(session: &SessionInfo) -> Markup {
    html! {
        @if !session.caller_name.is_empty() {
            a href=(calls_with("caller", &session.caller_name)) { (session.caller_name) }
        } @else if session.caller.is_empty() {
            "without authentication"
        } @else {
            code { (session.caller.chars().take(12).collect::<String>()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_of_a_session_names_its_caller_also_without_a_credential() {
        let session = SessionInfo {
            id: "main".to_owned(),
            source: "path",
            agent: String::new(),
            caller_name: String::new(),
            caller: String::new(),
            started: String::new(),
            last_seen: String::new(),
            turns: 0,
            requests: 1,
        };

        let row = row(&session).into_string();

        assert!(
            row.contains("href=\"/console/sessions/main?caller=\""),
            "{row}"
        );
    }
}
