//! The shadow on the page of changes: its state and its report.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    form::csrf_field,
    format::{counted, item_address},
    page::{BadgeKind, badge, table},
};
use crate::{auth::AdminPrincipal, config::AdminRole, state::ShadowStatus};

/// Results of calls, in the order of the report: field and label.
const RESULTS: [(&str, &str); 6] = [
    ("newly_denied", "newly denied"),
    ("newly_allowed", "newly allowed"),
    ("edited", "edited"),
    ("unchanged", "unchanged"),
    ("unknown", "unknown"),
    ("stale", "same verdicts, stale content"),
];

/// Results that decisions have, too: the first of [`RESULTS`].
const DECISION_RESULTS: usize = 3;

/// Tables of the report, and what their rows are.
const TABLES: [(&str, &str); 4] = [
    ("rules", "Rule"),
    ("tools", "Tool"),
    ("callers", "Caller"),
    ("agents", "Agent"),
];

/// Returns the state of the shadow, and the report of what it has evaluated.
pub(super) fn shadow_state(status: &ShadowStatus, principal: &AdminPrincipal) -> Markup {
    if let Some(error) = &status.error {
        return start_failure(error);
    }
    if status.started.is_empty() {
        return html! {
            p { "No config evaluates live calls. " code { "hookgate shadow" } " starts one, or " code { "shadow" } " in the config." }
        };
    }
    let is_running = status.reason.is_none();
    html! {
        p role="status" {
            "The config " code { (status.to) }
            @if is_running { " evaluates " } @else { " evaluated " }
            (percent(status.sample)) " % of the sessions after their calls, since " (status.started) " and until " (status.until)
            @if let Some(reason) = status.reason { ". It ended: " (reason) }
            ". Agents notice nothing of it."
        }
        @if status.dropped > 0 {
            p.problem { (status.dropped) " calls were not evaluated, because its queue or its memory was full." }
        }
        @if let Some(report) = &status.report { (report_tables(report)) }
        @if is_running && principal.has(AdminRole::Operator) {
            form.line method="post" action="/console/changes/end-shadow" {
                (csrf_field(principal))
                button { "End the shadow" }
            }
        }
    }
}

/// Returns a share in percent, without the binary digits behind its decimal ones.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

fn start_failure(error: &str) -> Markup {
    html! {
        p role="status" { "The shadow of the config cannot be started:" }
        p.problem { (error) }
    }
}

fn report_tables(report: &Value) -> Markup {
    let counts = &report["counts"];
    let results = html! {
        @for (field, label) in RESULTS {
            tr { th scope="row" { (label) } td.number { (counts[field]) } }
        }
    };
    let calls = counts["calls"].as_u64().unwrap_or_default();
    let calls = counted(calls, "call");
    html! {
        (table(&format!("{calls} evaluated"), &["Result", "Calls"], &results))
        @for (field, title) in TABLES {
            @if let Some(rows) = report[field].as_object().filter(|rows| !rows.is_empty()) {
                @let rows = html! {
                    @for (name, counts) in rows {
                        tr {
                            th scope="row" { (name) }
                            @for (field, _) in RESULTS.iter().take(DECISION_RESULTS) { td { (counts[field]) } }
                        }
                    }
                };
                (table(&format!("Decisions by {}", title.to_lowercase()),
                    &[title, "Newly denied", "Newly allowed", "Edited"], &rows))
            }
        }
        (samples(report))
    }
}

fn samples(report: &Value) -> Markup {
    let kinds = report["samples"].as_object().into_iter().flatten();
    let samples = kinds.filter_map(|(_, samples)| samples.as_array());
    let samples: Vec<&Value> = samples.flatten().collect();
    let text = |sample: &Value, field: &str| sample[field].as_str().unwrap_or_default().to_owned();
    let rows = html! {
        @for sample in &samples {
            @let request = text(sample, "request");
            tr {
                th scope="row" { a href=(item_address("/console/calls", &request, "")) { (text(sample, "time")) } }
                td { (text(sample, "kind").replace('_', " ")) }
                td { (text(sample, "event")) " " (text(sample, "tool")) }
                td { code { (text(sample, "rule")) } }
                td { (verdict(&text(sample, "before"))) }
                td { (verdict(&text(sample, "after"))) }
                td { (text(sample, "caller")) }
            }
        }
    };
    html! {
        @if !samples.is_empty() {
            (table("Samples side by side", &["Call", "Change", "Event", "Rule", "In use", "Shadow", "Caller"], &rows))
        }
    }
}

fn verdict(verdict: &str) -> Markup {
    let kind = match verdict {
        "" | "proceed" => BadgeKind::Neutral,
        _ => BadgeKind::Warning,
    };
    html! { @if !verdict.is_empty() { (badge(kind, verdict)) } }
}
