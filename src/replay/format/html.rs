//! The report as an HTML page without scripts and without references to other files.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, html};

use super::rows::{change_tables, count_rows, fact_rows, plain, share, title};
use crate::replay::report::{ChangeCounts, ReplayReport};

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:1rem/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;width:100%}
caption{text-align:left;font-weight:600}
th,td{text-align:left;padding:.25rem .75rem;border-bottom:1px solid #8886;overflow-wrap:break-word}
td.number{text-align:right}
.scroll{overflow-x:auto}";

/// Returns the report as a page.
pub fn report(report: &ReplayReport) -> Markup {
    let calls = report.counts.calls;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "hookgate: " (title(report)) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { (title(report)) }
                p { (calls) " calls, " code { (plain(&report.before)) } " → " code { (plain(&report.after)) } }
                div.scroll { table {
                    caption { "Calls" }
                    @for (name, count) in count_rows(report) {
                        tr { th scope="row" { (name) } td.number { (share(count, calls)) } }
                    }
                    @for (reason, count) in &report.unknown {
                        tr { th scope="row" { "unknown, because " (reason.explanation()) } td.number { (count) } }
                    }
                } }
                @for (title, rows) in change_tables(report) { (table(title, rows)) }
                (samples(report))
                div.scroll { table {
                    caption { "Facts" }
                    @for (name, value) in fact_rows(report) {
                        tr { th scope="row" { (name) } td { (plain(&value)) } }
                    }
                    @for part in &report.damaged.parts {
                        tr { th scope="row" { "damaged" } td { (plain(part)) } }
                    }
                } }
            }
        }
    }
}

fn table(title: &str, rows: &BTreeMap<String, ChangeCounts>) -> Markup {
    html! {
        div.scroll { table {
            caption { "By " (title) }
            tr { th scope="col" { (title) } th scope="col" { "newly denied" } th scope="col" { "newly allowed" } th scope="col" { "edited" } }
            @for (name, counts) in rows {
                tr {
                    th scope="row" { (plain(name)) }
                    td.number { (counts.newly_denied) }
                    td.number { (counts.newly_allowed) }
                    td.number { (counts.edited) }
                }
            }
        } }
    }
}

fn samples(report: &ReplayReport) -> Markup {
    html! {
        @if report.samples().next().is_some() {
            div.scroll { table {
                caption { "Samples" }
                tr {
                    @for title in ["change", "time", "event", "tool", "rule", "verdict", "caller", "request"] {
                        th scope="col" { (title) }
                    }
                }
                @for sample in report.samples() {
                    @let change = &sample.change;
                    tr {
                        td { (change.kind.heading()) }
                        td { (plain(&sample.time)) }
                        td { (plain(&change.event)) }
                        td { (plain(&change.tool)) }
                        td { (plain(&change.rule)) }
                        td { (plain(&change.before)) " → " (plain(&change.after)) }
                        td { (plain(&sample.caller)) }
                        td { code { (plain(&sample.request)) } }
                    }
                }
            } }
        }
    }
}
