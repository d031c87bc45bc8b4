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

/// Shows the methods and the refused unknown paths.
pub(in crate::console) async fn show(State(app): State<App>) -> Page {
    let methods = coverage::methods(&app);
    let is_called = |method: &&MethodCoverage| method.calls_last_day > 0;
    let (called, others): (Vec<&MethodCoverage>, Vec<_>) = methods.iter().partition(is_called);
    let body = html! {
        p { "A call that goes around the hooks is in a row with the word "
            em { "not inspected" } " and a count above 0. Any method that is not listed is refused. "
            a href="/coverage" { "JSON" } }
        h2 { "Called methods" }
        @if called.is_empty() {
            p { "None in the last 24 hours." }
        } @else {
            (method_table("Methods with calls in the last 24 hours", &called))
        }
        h2 { "Refused unknown paths" }
        (unknown_paths(&app.resources.traffic.unknown_paths()))
        h2 { "Other methods" }
        (method_table("Methods without calls in the last 24 hours", &others))
    };
    Page::new("Coverage", body).under("/console/coverage")
}

fn method_table(caption: &str, methods: &[&MethodCoverage]) -> Markup {
    let rows = html! { @for method in methods { (row(method)) } };
    html! {
        (table(caption, &["Name", "API", "Hooks inspect", "Calls in 24 h", "Path and reason"], &rows))
    }
}

fn row(method: &MethodCoverage) -> Markup {
    let policy = &method.policy;
    let passes_uninspected = policy.runs == HookCoverage::Passed && method.calls_last_day > 0;
    html! {
        tr class=[passes_uninspected.then_some("warning")] {
            th scope="row" { (policy.name) }
            td { (policy.api) }
            td { (coverage_badge(policy.runs)) }
            td.number { (method.calls_last_day) }
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
