//! The report in Markdown, for a pull request.

use std::collections::BTreeMap;

use super::rows::{change_tables, count_rows, fact_rows, plain, share, title};
use crate::replay::report::{ChangeCounts, ReplayReport};

pub(super) fn report(report: &ReplayReport) -> String {
    let calls = report.counts.calls;
    let (before, after) = (cell(&report.before), cell(&report.after));
    let mut lines = vec![
        format!("## {}", title(report)),
        String::new(),
        format!("{calls} calls, `{before}` → `{after}`"),
        String::new(),
        "| result | calls |".to_owned(),
        "|---|---:|".to_owned(),
    ];
    for (name, count) in count_rows(report) {
        lines.push(format!("| {name} | {} |", share(count, calls)));
    }
    for (title, rows) in change_tables(report) {
        table(title, rows, &mut lines);
    }
    let mut samples = report.samples().peekable();
    if samples.peek().is_some() {
        let head = ["", "| change | event | tool | rule | caller | request |"];
        lines.extend(head.map(str::to_owned));
        lines.push("|---|---|---|---|---|---|".to_owned());
    }
    for sample in samples {
        let change = &sample.change;
        let values = [
            change.kind.heading(),
            &change.event,
            &change.tool,
            &change.rule,
            &sample.caller,
            &sample.request,
        ];
        let row: Vec<String> = values.into_iter().map(cell).collect();
        lines.push(format!("| {} |", row.join(" | ")));
    }
    lines.push(String::new());
    for (reason, count) in &report.unknown {
        let reason = reason.explanation();
        lines.push(format!("- unknown: {count}, because {reason}"));
    }
    for (name, value) in fact_rows(report) {
        lines.push(format!("- {name}: {}", cell(&value)));
    }
    let damaged = report.damaged.parts.iter();
    lines.extend(damaged.map(|part| format!("- damaged: {}", cell(part))));
    lines.join("\n")
}

fn table(title: &str, rows: &BTreeMap<String, ChangeCounts>, lines: &mut Vec<String>) {
    lines.push(String::new());
    lines.push(format!(
        "| {title} | newly denied | newly allowed | edited |"
    ));
    lines.push("|---|---:|---:|---:|".to_owned());
    for (name, counts) in rows {
        lines.push(format!(
            "| {} | {} | {} | {} |",
            cell(name),
            counts.newly_denied,
            counts.newly_allowed,
            counts.edited
        ));
    }
}

/// Returns a text that has no meaning in Markdown and HTML.
fn cell(text: &str) -> String {
    let mut escaped = String::new();
    for char in plain(text).chars() {
        match char {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '@' | '!' => {
                escaped.push('\\');
                escaped.push(char);
            }
            other => escaped.push(other),
        }
    }
    escaped
}
