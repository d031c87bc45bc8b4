//! Sums of comparisons: counts by rule, tool, caller and agent, and samples. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    comparison::{Change, Comparison, DifferenceKind},
    decisions::name_or,
    report::{CallTimes, ChangeSample, ReplayReport},
};
use crate::{observe::trace::DurationHistogram, recording::RecordedExchange};

/// Samples of one kind that are kept.
const MAX_SAMPLES: usize = 20;

/// Rows of a table. Models choose the names of tools, so there may be many.
const MAX_ROWS: usize = 1000;

/// Row of what has no row of its own.
const OTHER_ROW: &str = "(other)";

/// Sums of comparisons so far.
#[derive(Debug, Clone, Default)]
pub struct ReplayTotals {
    /// The report, without the durations of calls.
    pub report: ReplayReport,
    /// Names of the rules that ran.
    pub asked: BTreeSet<String>,
    /// Numbers of calls of each tool.
    pub called_tools: BTreeMap<String, u64>,
    before: DurationHistogram,
    after: DurationHistogram,
}

impl ReplayTotals {
    /// Adds the comparison of one call.
    pub fn add(&mut self, call: &RecordedExchange, comparison: &Comparison) {
        let report = &mut self.report;
        let counts = &mut report.counts;
        counts.calls += 1;
        counts.masked += u64::from(!call.masked.is_empty());
        match comparison.kind() {
            Some(DifferenceKind::NewlyDenied) => counts.newly_denied += 1,
            Some(DifferenceKind::NewlyAllowed) => counts.newly_allowed += 1,
            Some(DifferenceKind::Edited) => counts.edited += 1,
            None => match comparison.unknown {
                Some(reason) => {
                    counts.unknown += 1;
                    *report.unknown.entry(reason).or_default() += 1;
                }
                None if comparison.is_stale => counts.stale += 1,
                None => counts.unchanged += 1,
            },
        }
        for change in &comparison.changes {
            let rule = name_or(&change.rule, "(unknown)");
            row(&mut report.rules, rule).add(change.kind);
            if !change.tool.is_empty() {
                row(&mut report.tools, &change.tool).add(change.kind);
            }
            let caller = name_or(&call.caller, "(anonymous)");
            row(&mut report.callers, caller).add(change.kind);
            let agent = name_or(agent(call), "(unknown)");
            row(&mut report.agents, agent).add(change.kind);
            sample(&mut report.samples, call, change);
        }
    }

    /// Adds the durations of one call.
    pub fn add_times(&mut self, before: Option<Duration>, after: Duration) {
        if let Some(before) = before {
            self.before.add(1, before);
        }
        self.after.add(1, after);
    }

    /// Adds a call of a tool by the model.
    pub fn add_tool(&mut self, tool: &str) {
        *row(&mut self.called_tools, tool) += 1;
    }

    /// Returns the report, with the percentiles of the durations.
    pub fn into_report(self) -> ReplayReport {
        let percentile =
            |times: &DurationHistogram, percent| times.percentile(percent).unwrap_or_default();
        let mut report = self.report;
        // Calls are replayed at the same time, in another order each time.
        for samples in report.samples.values_mut() {
            samples.sort_by(|one, other| {
                (&one.time, &one.request).cmp(&(&other.time, &other.request))
            });
        }
        ReplayReport {
            times: CallTimes {
                before_p50_us: percentile(&self.before, 50),
                before_p99_us: percentile(&self.before, 99),
                after_p50_us: percentile(&self.after, 50),
                after_p99_us: percentile(&self.after, 99),
            },
            ..report
        }
    }
}

/// Keeps a sample. One that shows nothing new makes way for one that does.
fn sample(
    samples: &mut BTreeMap<DifferenceKind, Vec<ChangeSample>>,
    call: &RecordedExchange,
    change: &Change,
) {
    let samples = samples.entry(change.kind).or_default();
    let session = call.session.as_ref().map(|session| session.id.clone());
    let sample = ChangeSample {
        request: call.id.clone(),
        time: call.time.clone(),
        caller: call.caller.clone(),
        session: session.unwrap_or_default(),
        change: change.clone(),
    };
    if samples.len() < MAX_SAMPLES {
        samples.push(sample);
        return;
    }
    if samples.iter().any(|known| group(known) == group(&sample)) {
        return;
    }
    let repeated = (1..samples.len()).rev().find(|at| {
        let (earlier, rest) = samples.split_at(*at);
        let last = rest.first().map(group);
        earlier.iter().any(|known| Some(group(known)) == last)
    });
    if let Some(place) = repeated.and_then(|at| samples.get_mut(at)) {
        *place = sample;
    }
}

fn group(sample: &ChangeSample) -> (&str, &str, &str) {
    (&sample.change.rule, &sample.change.tool, &sample.caller)
}

/// Returns the name of the agent's product, which its `User-Agent` begins with; empty without one.
fn agent(call: &RecordedExchange) -> &str {
    let mut headers = call.headers.iter();
    let user_agent = headers.find(|(name, _)| name == "user-agent");
    let value = user_agent.map_or("", |(_, value)| value);
    let is_end = |letter: char| letter == '/' || letter.is_whitespace();
    value.split(is_end).next().unwrap_or_default()
}

fn row<'a, T: Default>(rows: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = if rows.len() < MAX_ROWS || rows.contains_key(name) {
        name
    } else {
        OTHER_ROW
    };
    rows.entry(name.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(caller: &str) -> RecordedExchange {
        RecordedExchange {
            caller: caller.to_owned(),
            ..RecordedExchange::default()
        }
    }

    fn denial(rule: &str, tool: &str) -> Comparison {
        Comparison {
            changes: vec![Change {
                kind: DifferenceKind::NewlyDenied,
                event: "BeforeTool".to_owned(),
                rule: rule.to_owned(),
                tool: tool.to_owned(),
                before: "proceed".to_owned(),
                after: "deny".to_owned(),
            }],
            ..Comparison::default()
        }
    }

    #[test]
    fn samples_show_every_rule_and_tool_before_they_repeat_one() {
        let mut totals = ReplayTotals::default();
        for _ in 0..100 {
            totals.add(&call("a"), &denial("often", "shell"));
        }
        for number in 0..30 {
            totals.add(&call("b"), &denial("seldom", &number.to_string()));
        }

        let samples = &totals.report.samples[&DifferenceKind::NewlyDenied];
        let groups: BTreeSet<_> = samples.iter().map(group).collect();
        assert_eq!((samples.len(), groups.len()), (MAX_SAMPLES, MAX_SAMPLES));
        assert_eq!(totals.report.counts.newly_denied, 130);
        assert_eq!(totals.report.rules["often"].newly_denied, 100);
    }

    #[test]
    fn agents_are_the_products_of_user_agents() {
        let mut totals = ReplayTotals::default();
        for user_agent in [
            "gemini-cli/0.61 (linux; x64)",
            "gemini-cli/0.62",
            "curl",
            "",
        ] {
            let header = ("user-agent".to_owned(), user_agent.to_owned());
            let call = RecordedExchange {
                headers: vec![header],
                ..call("a")
            };
            totals.add(&call, &denial("rule", "shell"));
        }

        let agents = totals.report.agents.into_iter();
        let agents: Vec<_> = agents
            .map(|(agent, counts)| (agent, counts.newly_denied))
            .collect();
        let expected = [("(unknown)", 1), ("curl", 1), ("gemini-cli", 2)];
        assert_eq!(
            agents,
            expected.map(|(agent, count)| (agent.to_owned(), count))
        );
    }

    #[test]
    fn a_table_of_many_names_is_bounded() {
        let mut totals = ReplayTotals::default();
        for number in 0..2 * MAX_ROWS {
            totals.add(&call(""), &denial("rule", &number.to_string()));
        }

        assert_eq!(totals.report.tools.len(), MAX_ROWS + 1);
        assert_eq!(totals.report.tools[OTHER_ROW].newly_denied, MAX_ROWS as u64);
    }
}
