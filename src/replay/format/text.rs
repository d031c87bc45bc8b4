//! The report as text for a terminal.

use std::collections::BTreeMap;

use super::rows::{change_tables, count_rows, fact_rows, plain, share};
use crate::replay::{
    decisions::name_or,
    report::{ChangeCounts, ReplayReport},
};

pub(super) fn report(report: &ReplayReport) -> String {
    let calls = report.counts.calls;
    let mut lines = vec![format!(
        "{calls} calls {}: {} → {}",
        if report.is_of_shadow() {
            "evaluated"
        } else {
            "replayed"
        },
        report.before,
        report.after
    )];
    for (name, count) in count_rows(report) {
        lines.push(format!("  {name:26}{}", share(count, calls)));
    }
    for (reason, count) in &report.unknown {
        let reason = reason.explanation();
        lines.push(format!("    unknown: {count}, because {reason}"));
    }
    for (title, rows) in change_tables(report) {
        table(title, rows, &mut lines);
    }
    if report.samples().next().is_some() {
        lines.push("samples:".to_owned());
    }
    for sample in report.samples() {
        let change = &sample.change;
        let tool = if change.tool.is_empty() { "" } else { " " };
        lines.push(format!(
            "  {}: {} {}{tool}{} by {} ({} → {}), caller {}, request {}",
            change.kind.heading(),
            plain(&sample.time),
            change.event,
            plain(&change.tool),
            or_dash(&change.rule),
            or_dash(&change.before),
            or_dash(&change.after),
            or_dash(&sample.caller),
            plain(&sample.request),
        ));
    }
    for (name, value) in fact_rows(report) {
        lines.push(format!("{name}: {}", plain(&value)));
    }
    let damaged = report.damaged.count;
    if damaged > 0 {
        lines.push(format!("damaged parts of the recording: {damaged}"));
        let parts = report.damaged.parts.iter();
        lines.extend(parts.map(|part| format!("  {}", plain(part))));
    }
    lines.join("\n")
}

fn table(title: &str, rows: &BTreeMap<String, ChangeCounts>, lines: &mut Vec<String>) {
    lines.push(format!(
        "by {title}:{:1$}denied  allowed  edited",
        "",
        30 - title.len()
    ));
    for (name, counts) in rows {
        lines.push(format!(
            "  {:30} {:>8} {:>8} {:>7}",
            plain(name),
            counts.newly_denied,
            counts.newly_allowed,
            counts.edited
        ));
    }
}

fn or_dash(text: &str) -> String {
    plain(name_or(text, "–"))
}
