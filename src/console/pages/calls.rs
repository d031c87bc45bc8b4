//! Calls: the list with its filter, and its live tail.

use std::time::Duration;

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::HeaderMap;
use maud::{Markup, html};
use tokio::time::Instant;

use crate::{
    auth::AdminPrincipal,
    console::{
        call_row::{COLUMNS, CallRow, LIST, caller, models, short_time},
        form::FormFields,
        format::{duration, with_code, with_parameter},
        page::{Page, header_cell},
    },
    error::{ApiError, ErrorReason},
    observe::trace::{
        CallList, InFlightCall, InFlightCalls, MAX_PAGE_RECORDS, TraceBatch, TraceFilter,
        filter_keys,
    },
    state::App,
    view::live_tail::{self, LiveTail},
};

/// Parameters of the page that are no conditions.
const PAGE_PARAMETERS: [&str; 2] = ["cursor", "after"];

/// Time after which a stream ends. The browser connects again, which prolongs its login.
const MAX_STREAM_TIME: Duration = Duration::from_mins(10);

/// Shows the calls that match the filter of the query.
pub(in crate::console) async fn list(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    fields: FormFields,
) -> Page {
    let query = query.unwrap_or_default();
    let (filter, problem) = match TraceFilter::from_query(&query, &PAGE_PARAMETERS) {
        Ok(filter) => (filter, None),
        Err(error) => (TraceFilter::default(), Some(error.to_string())),
    };
    let cursor = fields.get("cursor").parse().ok();
    let words = match &problem {
        Some(_) => fields.get("q").to_owned(),
        None => filter.to_words(),
    };
    let body = html! {
        (filter_form(&words, problem.as_deref()))
        @if problem.is_none() {
            @if cursor.is_none() { (in_flight(&app.resources.trace.calls_in_flight(&filter))) }
            (page_of_calls(&app.resources.trace.list(&filter, cursor, MAX_PAGE_RECORDS), &filter, cursor))
        }
    };
    Page::new("Calls", body).under(LIST)
}

/// Streams the rows of calls that match the filter of the query and end from now on, or behind
/// the last ones that the browser has received.
///
/// # Errors
///
/// Returns an error if the query has no valid filter.
pub(in crate::console) async fn stream(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    principal: AdminPrincipal,
    fields: FormFields,
) -> Result<Response, ApiError> {
    let query = query.unwrap_or_default();
    let filter = TraceFilter::from_query(&query, &PAGE_PARAMETERS)
        .map_err(|error| ApiError::new(ErrorReason::BadQuery, error.to_string()))?;
    let after = live_tail::last_position(&headers).or_else(|| fields.get("after").parse().ok());
    let query = filter.to_query();
    let tail = LiveTail::open(&app, principal, filter, after)?;
    let ends = Instant::now() + MAX_STREAM_TIME;
    let stop = app.resources.shutdown.clone();
    let write = move |tail: &LiveTail, batch: &TraceBatch| row_events(tail, batch, &query);
    Ok(tail.respond(None, Some(ends), stop, write))
}

/// Returns an event with the rows of calls, also without any: its id is where the browser
/// continues.
fn row_events(tail: &LiveTail, batch: &TraceBatch, query: &str) -> String {
    let calls = batch.calls.iter();
    let rows: Vec<CallRow> = calls.map(|call| CallRow::new(call, query)).collect();
    // Rows hold texts only, so this cannot fail.
    let rows = serde_json::to_string(&rows).unwrap_or_default();
    let lost = tail.lost_event(batch).unwrap_or_default();
    let position = tail.position();
    format!("{lost}id: {position}\nevent: calls\ndata: {rows}\n\n")
}

fn filter_form(words: &str, problem: Option<&str>) -> Markup {
    html! {
        form.line method="get" action=(LIST) role="search" {
            label.wide { "Filter"
                input data-filter type="search" name="q" value=(words)
                    placeholder="verdict:deny caller:ci since:15m" spellcheck="false"
                    aria-invalid=[problem.map(|_| "true")] aria-describedby="filter-help";
            }
            button { "Filter" }
            @if !words.is_empty() { a href=(LIST) { "All calls" } }
        }
        @if let Some(problem) = problem { p.problem role="alert" { (with_code(problem)) } }
        details #filter-help {
            summary { "Conditions" }
            p { "Words such as " code { "rule:\"no shell\"" } ", all of which must hold. In quotes, write "
                code { "\\\"" } " for a quote and " code { "\\\\" } " for a backslash." }
            dl { @for (key, meaning) in filter_keys() {
                dt { code { (key) ":" } } dd { (with_code(meaning)) }
            } }
        }
    }
}

fn in_flight(found: &InFlightCalls) -> Markup {
    html! {
        details.in-flight open[!found.calls.is_empty()] {
            summary { (found.calls.len()) " of " (found.total) " calls in flight match" }
            @if !found.calls.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="Calls in flight" {
                    table {
                        caption { "When this page was made, the oldest first" }
                        thead { tr {
                            @for column in ["Since (UTC)", "For", "Method", "Model", "Caller", "Session", "Action", "Status"] {
                                (header_cell(column))
                            }
                        } }
                        tbody { @for call in &found.calls { (in_flight_row(call)) } }
                    }
                }
            }
        }
    }
}

fn in_flight_row(call: &InFlightCall) -> Markup {
    html! {
        tr {
            th.nowrap scope="row" { (short_time(&call.time)) }
            td.number { (duration(call.elapsed_us.into())) }
            td { (call.method) }
            td { (models(&call.requested_model, &call.model)) }
            td { (caller(&call.caller, &call.caller_key)) }
            td { (call.session) }
            td { (call.action) }
            td {
                @if let Some(waiting) = &call.waits_for {
                    "waits for " (waiting.event) " hooks for " (duration(waiting.elapsed_us.into())) ": "
                    (waiting.hooks.join(", "))
                } @else { @match (call.status, call.upstream) {
                    (0, "") => "before the model API",
                    (0, _) => "waits for the model API",
                    (status, _) => { (status) ", streams" }
                } }
            }
        }
    }
}

fn page_of_calls(page: &CallList, filter: &TraceFilter, cursor: Option<u64>) -> Markup {
    let query = filter.to_query();
    // New calls are added to the first page only.
    let stream = cursor.is_none().then(|| format!("{LIST}/stream?{query}"));
    html! {
        p.muted { span data-scanned { (scan_range(page, cursor)) } " "
            a href={ "/calls?" (page_query(&query, cursor)) } { "JSON" }
        }
        @if let Some(stream) = &stream {
            p data-live=(stream) data-after=(page.last_seq) hidden {
                button type="button" aria-pressed="false" { "Live" } " "
                span role="status" aria-live="polite" {}
            }
        }
        div.scroll tabindex="0" role="region" aria-label="Calls" {
            table.calls data-rows {
                caption { "Calls, newest first" }
                thead { tr { @for column in COLUMNS { th scope="col" { (column) } } } }
                tbody { @for call in &page.calls { (CallRow::new(call, &query).markup()) } }
            }
        }
        @if let Some(next) = page.next {
            p { a href={ (LIST) "?" (page_query(&query, Some(next))) } { "Older calls" } }
        }
    }
}

/// Returns the query of the page behind a cursor.
fn page_query(query: &str, cursor: Option<u64>) -> String {
    cursor.map_or_else(
        || query.to_owned(),
        |cursor| with_parameter(query, &format!("cursor={cursor}")),
    )
}

fn scan_range(page: &CallList, cursor: Option<u64>) -> Markup {
    let scanned = &page.scanned;
    let found = page.calls.len();
    let (none, rest) = match (scanned.is_complete, cursor) {
        (true, None) => ("No call is kept yet.", "; these are all that are kept."),
        (true, Some(_)) => ("No older call is kept.", "; there are no older ones."),
        (false, _) => ("No call of this time is kept.", "; there are older ones."),
    };
    html! {
        @if let (Some(from), Some(to)) = (&scanned.from, &scanned.to) {
            (found) " of " (scanned.records) " calls from " (from) " to " (to) " match" (rest)
        } @else {
            (none)
        }
    }
}
