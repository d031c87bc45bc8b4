//! Policies and hooks as the trace names them, and their statistics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;
use utoipa::ToSchema;

use super::histogram::DurationHistogram;
use crate::{
    config::{FailureMode, HookMode},
    event::EventName,
    observe::HourlyCounts,
    timestamp::{now_ms, rfc3339_ms},
};

/// One policy or hook, as it is written in the config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RuleIdentity {
    /// Name, or command of a hook without a name.
    pub name: String,
    /// Type of the hook, such as `command`; `builtin` for policies.
    #[serde(rename = "type")]
    pub kind: String,
    /// Kind of the policy, such as `redact`, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// File and line of the config.
    pub at: RulePosition,
    /// Events on which it runs.
    #[schema(value_type = Vec<String>)]
    pub events: Vec<EventName>,
    /// Mode of its decisions: `enforce` or `observe`.
    #[schema(value_type = String)]
    pub mode: HookMode,
    /// Effect of a failure: `open` or `closed`; absent for policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub on_failure: Option<FailureMode>,
    /// Condition under which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// True if a switch of the config disables it.
    pub disabled: bool,
}

/// A line of a config file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct RulePosition {
    /// File of the config, as the operator named it.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
}

/// A rule and its statistics. After a reload, an equal rule continues the statistics.
#[derive(Debug)]
pub struct TracedRule {
    /// The rule in the config.
    pub identity: RuleIdentity,
    pub(crate) statistics: Arc<RuleStatistics>,
}

/// Counts of one rule since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct RuleStatistics {
    asked: RunCounter,
    skipped: AtomicU64,
    acted: RunCounter,
    would_have: RunCounter,
    failed: RunCounter,
    /// Milliseconds since 1970; 0 for never.
    last_asked: AtomicU64,
    last_acted: AtomicU64,
    durations: DurationHistogram,
}

/// Number of runs since the start of the process, and of those in the last day.
#[derive(Debug, Default)]
struct RunCounter {
    total: AtomicU64,
    last_day: HourlyCounts,
}

/// Effect of a run for the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEffect {
    None,
    Acted,
    WouldHave,
}

/// Numbers of runs of one rule in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct RuleCounts {
    /// Number of runs, on all events.
    pub asked: u64,
    /// Number of runs that decided or edited something.
    pub acted: u64,
    /// Number of runs in mode `observe` that would have decided or edited something.
    pub would_have: u64,
    /// Number of runs that failed.
    pub failed: u64,
}

/// One rule with its statistics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RuleSummary {
    /// The rule in the config.
    #[serde(flatten)]
    #[schema(inline)]
    pub rule: RuleIdentity,
    /// Numbers of its runs since the start of the process.
    #[serde(flatten)]
    pub counts: RuleCounts,
    /// Number of events on which it did not run.
    pub skipped: u64,
    /// The numbers of its runs in the last 24 hours, counted by the hour.
    pub last_day: RuleCounts,
    /// Median duration in microseconds; absent without runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<u64>,
    /// 99th percentile of the duration in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
    /// Time of the last run: RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_asked: Option<String>,
    /// Time of the last run that decided or edited something; absent if it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_acted: Option<String>,
}

impl RuleIdentity {
    /// Returns whether it is the same rule, perhaps on another line or with other settings.
    pub(crate) fn is_same_rule(&self, other: &Self) -> bool {
        self.name == other.name
            && self.kind == other.kind
            && self.policy == other.policy
            && self.at.file == other.at.file
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.name.capacity()
            + self.kind.capacity()
            + self.policy.as_ref().map_or(0, String::capacity)
            + self.at.file.capacity()
            + self.events.capacity() * size_of::<EventName>()
            + self.when.as_ref().map_or(0, String::capacity)
    }
}

impl RunCounter {
    fn add(&self, now: Instant, runs: u64) {
        self.total.fetch_add(runs, Ordering::Relaxed);
        self.last_day.add_many(now, runs);
    }
}

impl RuleStatistics {
    fn counts(&self, read: impl Fn(&RunCounter) -> u64) -> RuleCounts {
        RuleCounts {
            asked: read(&self.asked),
            acted: read(&self.acted),
            would_have: read(&self.would_have),
            failed: read(&self.failed),
        }
    }
}

impl TracedRule {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.identity.heap_bytes() + size_of::<RuleStatistics>()
    }

    pub(crate) fn record_skip(&self) {
        self.statistics.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts equal runs, which took `elapsed` in all.
    pub(crate) fn record_runs(
        &self,
        times: u64,
        effect: RunEffect,
        is_failed: bool,
        elapsed: Duration,
    ) {
        let statistics = &self.statistics;
        let (now, now_ms) = (Instant::now(), now_ms());
        statistics.last_asked.fetch_max(now_ms, Ordering::Relaxed);
        statistics.asked.add(now, times);
        if is_failed {
            statistics.failed.add(now, times);
        }
        statistics.durations.add(times, elapsed);
        match effect {
            RunEffect::None => (),
            RunEffect::Acted => {
                statistics.acted.add(now, times);
                statistics.last_acted.fetch_max(now_ms, Ordering::Relaxed);
            }
            RunEffect::WouldHave => statistics.would_have.add(now, times),
        }
    }

    /// Returns the rule with its statistics so far.
    pub fn summary(&self) -> RuleSummary {
        let statistics = &self.statistics;
        let now = Instant::now();
        let time = |counter: &AtomicU64| match counter.load(Ordering::Relaxed) {
            0 => None,
            milliseconds => Some(rfc3339_ms(milliseconds)),
        };
        RuleSummary {
            rule: self.identity.clone(),
            counts: statistics.counts(|runs| runs.total.load(Ordering::Relaxed)),
            skipped: statistics.skipped.load(Ordering::Relaxed),
            last_day: statistics.counts(|runs| runs.last_day.sum(now)),
            p50_us: statistics.durations.percentile(50),
            p99_us: statistics.durations.percentile(99),
            last_asked: time(&statistics.last_asked),
            last_acted: time(&statistics.last_acted),
        }
    }
}
