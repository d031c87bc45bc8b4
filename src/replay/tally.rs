//! Sums of comparisons: counts by rule, tool and caller, and samples. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::compare::{Change, Comparison, DifferenceKind, UnknownReason};
use crate::{observe::trace::DurationHistogram, recording::RecordedExchange};

/// Samples of one kind that are kept.
const MAX_SAMPLES: usize = 20;

/// Rows of a table. Models choose the names of tools, so there may be many.
const MAX_ROWS: usize = 1000;

/// Row of what has no row of its own.
const OTHER_ROW: &str = "(other)";

/// Numbers of calls, each counted once by its strictest difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// Calls that were compared.
    pub calls: u64,
    /// Calls that are denied now, and were not before.
    pub newly_denied: u64,
    /// Calls that were denied before, and are not any more.
    pub newly_allowed: u64,
    /// Calls with other content or another verdict.
    pub edited: u64,
    /// Calls without a difference.
    pub unchanged: u64,
    /// Calls that cannot be compared.
    pub unknown: u64,
    /// Calls whose rest was not compared, because recorded answers do not fit any more. They
    /// are counted above, too.
    pub stale: u64,
}

/// Numbers of differences of one rule, tool or caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounts {
    /// Decisions that deny now.
    pub newly_denied: u64,
    /// Decisions that do not deny any more.
    pub newly_allowed: u64,
    /// Differences of any other kind.
    pub edited: u64,
}

/// A call with a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSample {
    /// Request id of the recorded call.
    pub request: String,
    /// Time of the recorded call.
    pub time: String,
    /// Name of the caller.
    pub caller: String,
    /// Session of the call; empty if unknown.
    pub session: String,
    /// The difference that it shows.
    #[serde(flatten)]
    pub change: Change,
}

/// Durations of the same calls before and after the change, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Median before the change.
    pub before_p50_us: u64,
    /// 99th percentile before the change.
    pub before_p99_us: u64,
    /// Median after the change.
    pub after_p50_us: u64,
    /// 99th percentile after the change.
    pub after_p99_us: u64,
}

/// Identifying fields of a call in a report.
#[derive(Debug, Clone, Copy)]
pub struct CallName<'a> {
    /// Request id of the call.
    pub request: &'a str,
    /// Time of the call.
    pub time: &'a str,
    /// Name of the caller.
    pub caller: &'a str,
    /// Session of the call; empty if unknown.
    pub session: &'a str,
}

impl<'a> From<&'a RecordedExchange> for CallName<'a> {
    fn from(exchange: &'a RecordedExchange) -> Self {
        let session = exchange.session.as_ref();
        Self {
            request: &exchange.id,
            time: &exchange.time,
            caller: &exchange.caller,
            session: session.map_or("", |session| &session.id),
        }
    }
}

/// Sums of comparisons so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Numbers of calls by their result.
    pub counts: CallCounts,
    /// Differences by the rule that decides.
    pub rules: BTreeMap<String, ChangeCounts>,
    /// Differences by the tool that is called.
    pub tools: BTreeMap<String, ChangeCounts>,
    /// Differences by the name of the caller.
    pub callers: BTreeMap<String, ChangeCounts>,
    /// Numbers of calls that cannot be compared, by reason.
    pub unknown: BTreeMap<UnknownReason, u64>,
    /// Samples by kind, of distinct rules, tools and callers where possible.
    pub samples: BTreeMap<DifferenceKind, Vec<ChangeSample>>,
    /// Names of the rules that were asked.
    pub asked: BTreeSet<String>,
    /// Numbers of calls of each tool.
    pub called_tools: BTreeMap<String, u64>,
    before: DurationHistogram,
    after: DurationHistogram,
}

impl Tally {
    /// Adds the comparison of one call.
    pub fn add<'a>(&mut self, call: impl Into<CallName<'a>>, comparison: &Comparison) {
        let call = call.into();
        let counts = &mut self.counts;
        counts.calls += 1;
        counts.stale += u64::from(comparison.is_stale);
        match comparison.kind() {
            Some(DifferenceKind::NewlyDenied) => counts.newly_denied += 1,
            Some(DifferenceKind::NewlyAllowed) => counts.newly_allowed += 1,
            Some(DifferenceKind::Edited) => counts.edited += 1,
            None => match comparison.unknown {
                Some(reason) => {
                    counts.unknown += 1;
                    *self.unknown.entry(reason).or_default() += 1;
                }
                None => counts.unchanged += 1,
            },
        }
        for change in &comparison.changes {
            let rule = if change.rule.is_empty() {
                "(unknown)"
            } else {
                &change.rule
            };
            row(&mut self.rules, rule).add(change.kind);
            if !change.tool.is_empty() {
                row(&mut self.tools, &change.tool).add(change.kind);
            }
            let caller = if call.caller.is_empty() {
                "(anonymous)"
            } else {
                call.caller
            };
            row(&mut self.callers, caller).add(change.kind);
            self.sample(call, change);
        }
    }

    /// Adds the durations of one call.
    pub fn add_times(&mut self, before: Duration, after: Duration) {
        self.before.add(1, before);
        self.after.add(1, after);
    }

    /// Adds a call of a tool by the model.
    pub fn add_tool(&mut self, tool: &str) {
        *row(&mut self.called_tools, tool) += 1;
    }

    /// Returns the percentiles of the durations.
    pub fn times(&self) -> CallTimes {
        let percentile =
            |times: &DurationHistogram, percent| times.percentile(percent).unwrap_or_default();
        CallTimes {
            before_p50_us: percentile(&self.before, 50),
            before_p99_us: percentile(&self.before, 99),
            after_p50_us: percentile(&self.after, 50),
            after_p99_us: percentile(&self.after, 99),
        }
    }

    /// Keeps a sample. One that shows nothing new makes way for one that does.
    fn sample(&mut self, call: CallName<'_>, change: &Change) {
        let samples = self.samples.entry(change.kind).or_default();
        let sample = ChangeSample {
            request: call.request.to_owned(),
            time: call.time.to_owned(),
            caller: call.caller.to_owned(),
            session: call.session.to_owned(),
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
}

impl ChangeCounts {
    const fn add(&mut self, kind: DifferenceKind) {
        match kind {
            DifferenceKind::NewlyDenied => self.newly_denied += 1,
            DifferenceKind::NewlyAllowed => self.newly_allowed += 1,
            DifferenceKind::Edited => self.edited += 1,
        }
    }
}

fn group(sample: &ChangeSample) -> (&str, &str, &str) {
    (&sample.change.rule, &sample.change.tool, &sample.caller)
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

    const fn call(caller: &str) -> CallName<'_> {
        CallName {
            request: "r",
            time: "",
            caller,
            session: "",
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
        let mut tally = Tally::default();
        for _ in 0..100 {
            tally.add(call("a"), &denial("often", "shell"));
        }
        for number in 0..30 {
            tally.add(call("b"), &denial("seldom", &number.to_string()));
        }

        let samples = &tally.samples[&DifferenceKind::NewlyDenied];
        let groups: BTreeSet<_> = samples.iter().map(group).collect();
        assert_eq!((samples.len(), groups.len()), (MAX_SAMPLES, MAX_SAMPLES));
        assert_eq!(tally.counts.newly_denied, 130);
        assert_eq!(tally.rules["often"].newly_denied, 100);
    }

    #[test]
    fn a_table_of_many_names_is_bounded() {
        let mut tally = Tally::default();
        for number in 0..2 * MAX_ROWS {
            tally.add(call(""), &denial("rule", &number.to_string()));
        }

        assert_eq!(tally.tools.len(), MAX_ROWS + 1);
        assert_eq!(tally.tools[OTHER_ROW].newly_denied, MAX_ROWS as u64);
    }
}
