//! One call: its facts, timeline, times, prompt cache, chunks and kept content.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use maud::{Markup, html};

use super::sessions;
use crate::{
    auth::AdminPrincipal,
    config::AdminRole,
    console::{
        call_row::{LIST, caller, deciding_rule, session_calls, verdict},
        conversation::conversation,
        form::FormFields,
        format::{calls_with, config_line, duration, item_address, with_parameter},
        page::{BadgeKind, Page, badge},
        svg,
        timeline::timeline_with_links,
    },
    error::{ApiError, ErrorReason},
    event::Action,
    observe::trace::{CallRecord, CallView, RecordKind, TraceFilter},
    state::{App, Snapshot},
    view::content::{self, view_content, visible_call},
};

/// Reason in the decision log for a view of content.
const REASON: &str = "page of the call";

/// Note on a reported event.
pub(super) const NO_CONTENT_OF_EVENTS: &str =
    "The content of reported events is not kept, only that of model calls.";

/// Parameters of the page that are no conditions.
const PAGE_PARAMETERS: [&str; 1] = ["content"];

/// Shows a call. With `content=1`, investigators also see its content, which is logged.
///
/// # Errors
///
/// Returns an error if the call is not kept, or the user may not see its content.
pub(in crate::console) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Page, ApiError> {
    let query = query.unwrap_or_default();
    let filter = TraceFilter::from_query(&query, &PAGE_PARAMETERS).unwrap_or_default();
    let Some(mut found) = app.resources.trace.view(&id, &filter) else {
        return Err(unknown_call(&app, &id));
    };
    found.call = visible_call(&principal, found.call);
    let content = match fields.get("content") {
        "" => None,
        _ => view_content(&app, &principal, &id, REASON).await?,
    };
    let content = match content {
        Some(content) => {
            let call = Arc::clone(&found.call);
            Some(content::render(&app, move || conversation(&call, &content)).await?)
        }
        None => None,
    };
    let (query, snapshot) = (filter.to_query(), app.snapshot());
    let body = html! {
        (neighbours(&found, &principal, &query))
        (facts(&found.call))
        (decision(&found.call, &snapshot))
        h2 { "Timeline" }
        (timeline_with_links(&found.call, &snapshot))
        (charts(&found.call))
        h2 #content-of-call { "Content" }
        @match &content {
            Some(content) => (content),
            None => (content_link(&found, &principal, (&query, view_note(&app)))),
        }
        (raw(&found.call))
    };
    Ok(Page::new(format!("Call {id}"), body).under(LIST))
}

/// Returns the error of a call without a record.
pub(super) fn unknown_call(app: &App, id: &str) -> ApiError {
    let message = if app.resources.trace.is_in_flight(id) {
        "the call is in flight; its record is made at its end"
    } else {
        "no call with this id is kept; the trace holds the last ones only. Requests refused for \
         their credential or a limit of their caller are not kept: the log and the decision log \
         have them"
    };
    ApiError::new(ErrorReason::UnknownCall, message)
}

fn neighbours(found: &CallView, principal: &AdminPrincipal, query: &str) -> Markup {
    let link = |id: &str, text: &str| html! { a href=(item_address(LIST, id, query)) { (text) } };
    html! {
        p {
            a data-up href={ (LIST) "?" (query) } { "All calls" }
            @if let Some(newer) = &found.newer { " · " (link(newer, "Newer")) }
            @if let Some(older) = &found.older { " · " (link(older, "Older")) }
            @if principal.has(AdminRole::Investigator) {
                " · " a href={ "/console/try?call=" (found.call.id) } { "Try it again" }
                @if found.has_content {
                    " · " a href={ (item_address(LIST, &found.call.id, "")) "/test" } { "Make a test of this" }
                }
            }
            " · " a href=(item_address("/calls", &found.call.id, query)) { "JSON" }
        }
    }
}

fn facts(call: &CallRecord) -> Markup {
    let (kind, verdict) = verdict(call);
    html! {
        dl {
            dt { "Verdict" } dd { (badge(kind, &verdict)) }
            dt { "Time" } dd { (call.time()) ", for " (duration(call.duration_us)) }
            dt { "Caller" } dd {
                @let caller = caller(&call.caller, &call.caller_key);
                @if caller.is_empty() { "without authentication" } @else {
                    a href=(calls_with("caller", caller)) { (caller) }
                }
            }
            dt { "Agent" } dd { (call.agent) }
            @if !call.session.is_empty() {
                dt { "Session" } dd { a href=(sessions::address(&call.session, Some(&call.caller_key))) { (call.session) } }
            }
            @match call.kind {
                RecordKind::Event => { dt { "Event" } dd { (call.method) ", " (call.end.as_str()) } }
                RecordKind::Call => {
                    dt { "Model" } dd {
                        (call.requested_model)
                        @if call.requested_model != call.model { " → " strong { (call.model) } }
                    }
                    dt { "Method" } dd { (call.dialect) " " (call.method) }
                    dt { "Rounds" } dd { (call.rounds) }
                    dt { "Status" } dd { (call.status) ", " (call.end.as_str()) }
                }
            }
            @if let Some(error) = call.error { dt { "Error" } dd { code { (error) } } }
            @if let Some(tokens) = call.tokens {
                dt { "Tokens" } dd {
                    (tokens.prompt) " in (" (tokens.cached) " from the cache), "
                    (tokens.candidates) " out, " (tokens.total) " in all"
                }
            }
        }
    }
}

/// Returns which rule decided or edited the call, and where the config has it, or its error.
fn decision(call: &CallRecord, snapshot: &Snapshot) -> Markup {
    let summary = call.summary();
    html! {
        @if let Some(rule) = deciding_rule(&summary) {
            @let is_edit = rule.action == Action::Proceed;
            p class=[(!is_edit).then_some("problem")] {
                strong { (rule.name) }
                @if let Some(at) = rule.at { " at " (config_line(snapshot, rule.name, at)) }
                " "
                @if is_edit { (badge(BadgeKind::Warning, "edited")) } @else {
                    "decided " strong { (rule.action.as_str()) }
                }
                " on " (rule.event.as_str())
                @if let Some(reason) = rule.reason { ": " q { (reason.display()) } }
            }
        } @else if let Some(error) = call.error {
            p.problem { "Error " code { (error) } ", status " (call.status) }
        } @else if call.repeats_decision() {
            p.hint {
                "A decision of an earlier call in this session was applied again: its prompt or tool result "
                "is in the history. "
                @if !call.session.is_empty() {
                    a href=(session_calls(&call.session, &call.caller_key)) { "Calls of the session" }
                }
            }
        }
    }
}

fn charts(call: &CallRecord) -> Markup {
    let Some(detail) = &call.detail else {
        return html! {};
    };
    html! {
        h2 { "Time" }
        (svg::time_split(call))
        @if let Some(effect) = &detail.prompt_cache {
            h2 { "Prompt cache" }
            (svg::cache_meter(effect))
        }
        @if !detail.chunks.is_empty() {
            h2 { "Chunks" }
            (svg::chunk_strip(&detail.chunks))
        }
    }
}

/// Returns where it is written who views content.
fn view_note(app: &App) -> &'static str {
    match app.snapshot().audit {
        Some(_) => "The decision log records who did.",
        None => "A line of the log names who did; no decision log is configured.",
    }
}

/// Returns a link to the content with a note, or why there is none.
fn content_link(
    found: &CallView,
    principal: &AdminPrincipal,
    (query, note): (&str, &str),
) -> Markup {
    let shown = with_parameter(query, "content=1");
    html! {
        @if found.call.kind == RecordKind::Event {
            p { (NO_CONTENT_OF_EVENTS) }
        } @else if !found.has_content {
            p { "Not kept. " code { "trace.content" } " of the config keeps the content of denied, edited "
                "or sampled calls; of those that ended with an error, only that of sampled ones." }
        } @else if principal.has(AdminRole::Investigator) {
            p { a href={ (item_address(LIST, &found.call.id, &shown)) "#content-of-call" } { "Show the content" }
                ". " (note) }
        } @else {
            p { "Kept. Seeing it needs the role " code { "investigator" } "." }
        }
    }
}

fn raw(call: &CallRecord) -> Markup {
    // Names, numbers and times only, so this cannot fail.
    let json = serde_json::to_string_pretty(call).unwrap_or_default();
    html! { details { summary { "Raw JSON of the record" } pre tabindex="0" { (json) } } }
}
