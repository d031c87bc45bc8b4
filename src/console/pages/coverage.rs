//! Coverage: every method of the model APIs, which hooks inspect it, and its calls.

use axum::extract::State;
use maud::{Markup, html};

use crate::{
    console::{
        format::with_code,
        page::{BadgeKind, Page, badge, table},
    },
    dialect::HookCoverage,
    state::{App, UnknownPath},
    view::coverage::{self, MethodCoverage},
};

/// Columns of a table of methods.
const METHOD_COLUMNS: [&str; 5] = [
    "Name",
    "API",
    "Hooks inspect",
    "Calls in 24 h",
    "Path and reason",
];

/// Columns of the table of fields, whose calls are not counted.
const FIELD_COLUMNS: [&str; 4] = ["Name", "API", "Hooks inspect", "Path, field and reason"];

/// Shows the methods, the refused unknown paths, and the fields of requests.
pub(in crate::console) async fn show(State(app): State<App>) -> Page {
    let all = coverage::methods(&app);
    let is_field = |row: &&MethodCoverage| row.policy.field.is_some();
    let (mut fields, methods): (Vec<&MethodCoverage>, Vec<_>) = all.iter().partition(is_field);
    fields.sort_by_key(|field| field.policy.runs != HookCoverage::Passed);
    let is_called = |method: &&MethodCoverage| method.calls_last_day > Some(0);
    let (called, others): (Vec<_>, Vec<_>) = methods.into_iter().partition(is_called);
    let body = html! {
        p { "A method whose calls go around the hooks is in a row with the words "
            em { "not inspected" } " and a count above 0. Any method that is not listed is refused. "
            a href="/coverage" { "JSON" } }
        h2 { "Called methods" }
        @if called.is_empty() {
            p { "None in the last 24 hours." }
        } @else {
            (coverage_table("Methods with calls in the last 24 hours", &METHOD_COLUMNS, &called))
        }
        h2 { "Refused unknown paths" }
        (unknown_paths(&app.resources.traffic.unknown_paths()))
        h2 { "Fields of requests" }
        p { "Content that a field refers to is not in the request. Calls are not counted by field." }
        (coverage_table("Fields that are not inspected, then the others", &FIELD_COLUMNS, &fields))
        h2 { "Other methods" }
        (coverage_table("Methods without calls in the last 24 hours", &METHOD_COLUMNS, &others))
    };
    Page::new("Coverage", body).under("/console/coverage")
}

fn coverage_table(caption: &str, columns: &[&str], rows: &[&MethodCoverage]) -> Markup {
    let rows = html! { @for row in rows { (coverage_row(row)) } };
    table(caption, columns, &rows)
}

/// Returns the row of a method, or of a field, which has no count.
fn coverage_row(row: &MethodCoverage) -> Markup {
    let policy = &row.policy;
    let is_used = row.calls_last_day != Some(0);
    let passes_uninspected = policy.runs == HookCoverage::Passed && is_used;
    html! {
        tr class=[passes_uninspected.then_some("warning")] {
            th scope="row" { (policy.name) }
            td { (policy.api) }
            td { (coverage_badge(policy.runs)) }
            @if let Some(calls) = row.calls_last_day { td.number { (calls) } }
            td.path {
                code { (policy.method) " " (policy.path) }
                @if let Some(field) = policy.field { " " code { (field) } }
                @if let Some(why) = &policy.why { div { (with_code(why)) } }
            }
        }
    }
}

fn coverage_badge(runs: HookCoverage) -> Markup {
    match runs {
        HookCoverage::Hooked => badge(BadgeKind::Good, "request and response"),
        HookCoverage::RequestOnly => badge(BadgeKind::Good, "request"),
        HookCoverage::Passed => badge(BadgeKind::Warning, "not inspected"),
        HookCoverage::Refused => badge(BadgeKind::Neutral, "refused"),
    }
}

fn unknown_paths(paths: &[UnknownPath]) -> Markup {
    if paths.is_empty() {
        return html! { p { "None since the start of the process." } };
    }
    let rows = html! {
        @for path in paths {
            tr {
                th scope="row" { code { (path.path) } }
                td { (path.caller) }
                td.number { (path.requests) }
                td.nowrap { (path.last) }
            }
        }
    };
    let columns = ["Path", "Caller", "Requests", "Last"];
    table("Since the start of the process", &columns, &rows)
}
