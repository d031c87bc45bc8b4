//! Counts and facts for all report formats, and texts without control or bidirectional characters.

use std::collections::BTreeMap;

use crate::{
    invisible_char::is_invisible,
    replay::report::{ChangeCounts, ReplayReport},
};

/// Returns a number with its share of all calls.
pub(super) fn share(count: u64, calls: u64) -> String {
    // Rounded.
    match (count * 1000 + calls / 2).checked_div(calls) {
        Some(per_mille) => format!("{count} ({}.{} %)", per_mille / 10, per_mille % 10),
        None => count.to_string(),
    }
}

/// Returns the title of the report.
pub(super) fn title(report: &ReplayReport) -> &'static str {
    if report.is_of_shadow() {
        "Shadow of live calls"
    } else {
        "Replay of recorded calls"
    }
}

/// Returns microseconds as milliseconds.
pub(super) fn milliseconds(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

/// The counts with their names.
pub(super) fn count_rows(report: &ReplayReport) -> [(&'static str, u64); 7] {
    let counts = &report.counts;
    [
        ("newly denied", counts.newly_denied),
        ("newly allowed", counts.newly_allowed),
        ("edited otherwise", counts.edited),
        ("unchanged", counts.unchanged),
        ("unknown", counts.unknown),
        ("same verdicts (stale)", counts.stale),
        ("of all, with masked texts", counts.masked),
    ]
}

/// The tables of differences that have rows, with their titles.
pub(super) fn change_tables(
    report: &ReplayReport,
) -> impl Iterator<Item = (&'static str, &BTreeMap<String, ChangeCounts>)> {
    let tables = [
        ("rule", &report.rules),
        ("tool", &report.tools),
        ("caller", &report.callers),
        ("agent", &report.agents),
    ];
    tables.into_iter().filter(|(_, rows)| !rows.is_empty())
}

/// The facts of the report that are one line each.
pub(super) fn fact_rows(report: &ReplayReport) -> Vec<(&'static str, String)> {
    let (times, effort, coverage) = (&report.times, &report.effort, &report.coverage);
    let pair = |p50, p99| format!("p50 {}, p99 {}", milliseconds(p50), milliseconds(p99));
    let mut rows = Vec::new();
    if times.before_p99_us > 0 {
        let title = match report.before.as_str() {
            ReplayReport::RECORDED => "time of the recorded hooks",
            ReplayReport::LIVE => "time of the live hooks",
            _ => "time in the gateway in the replay, before",
        };
        rows.push((title, pair(times.before_p50_us, times.before_p99_us)));
    }
    if times.after_p99_us > 0 {
        let after = pair(times.after_p50_us, times.after_p99_us);
        let title = if report.is_of_shadow() {
            "time in the gateway of the shadow"
        } else {
            "time in the gateway in the replay"
        };
        rows.push((title, after));
    }
    if coverage.tool_calls > 0 {
        let share = format!("{} of {}", coverage.named, coverage.tool_calls);
        let share = format!("{share} ({} %)", coverage.percent());
        rows.push(("tool calls that a rule names", share));
    }
    for rule in &report.judged_rules {
        let result = match &rule.not_judged {
            Some(reason) => format!("{}, not evaluated: {reason}", rule.rule),
            None => format!("{}, evaluated", rule.rule),
        };
        rows.push(("rule", result));
    }
    if !coverage.unnamed_tools.is_empty() {
        let tools = coverage.unnamed_tools.iter();
        let tools: Vec<String> = tools
            .map(|(tool, calls)| format!("{tool} ({calls})"))
            .collect();
        rows.push(("tools that no rule names", tools.join(", ")));
    }
    if !report.never_asked.is_empty() {
        rows.push(("rules that never ran", report.never_asked.join(", ")));
    }
    let (calls, rate) = (report.counts.calls, effort.calls_per_second);
    let (seconds, ms) = (effort.elapsed_ms / 1000, effort.elapsed_ms % 1000);
    let peak = |kib| format!(", {} MiB at most", kib / 1024);
    let peak = effort.peak_kib.map(peak).unwrap_or_default();
    let replay = format!("{calls} calls in {seconds}.{ms:03} s, {rate} calls/s{peak}");
    let name = if report.is_of_shadow() {
        "shadow"
    } else {
        "replay"
    };
    rows.push((name, replay));
    rows
}

/// Returns names from a recording without invisible characters.
pub(super) fn plain(text: &str) -> String {
    text.replace(is_invisible, "\u{fffd}")
}
