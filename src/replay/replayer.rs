//! Replay of calls and comparison of the results, each session in order.

use std::{
    collections::BTreeSet, hash::RandomState, iter, num::NonZeroUsize, sync::Arc, time::Duration,
};

use lru::LruCache;

use super::{
    answer_channels::called_tools,
    compare::compare,
    comparison::{ComparedExchange, Comparison, ComparisonLimits, UnknownReason},
    gateway::{ReplayGateway, Replayed, ReplayedHooks, UNKNOWN_CALLER},
    name_rules::name_rules,
    progress::{Progress, peak_kib},
    redaction::is_same_redaction,
    report::{ReplayCost, ReplayReport},
    session_order::{OrderedCall, session_key},
    tool_coverage::ToolCoverage,
    totals::ReplayTotals,
};
use crate::{
    config::{BUILTIN, Config},
    error::ErrorReason,
    mutex::Mutex,
    recording::RecordedExchange,
    state::BuildError,
    timestamp::whole_milliseconds,
};

/// Maximum number of sessions with a difference that are kept. Of more, content of that without
/// calls for the longest time counts as a difference.
const MAX_DIVERGED_SESSIONS: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

/// The configs of a replay.
#[derive(Debug)]
pub struct ReplayConfigs {
    /// The config to try.
    pub after: Config,
    /// The config to compare with; without one, what was recorded.
    pub before: Option<Config>,
    /// The hooks that run.
    pub hooks: ReplayedHooks,
}

/// The gateways of a replay, and the sums of their comparisons.
pub struct Replayer {
    before: Option<ReplayGateway>,
    after: ReplayGateway,
    /// True if a difference of the configs shows only in texts that a recording masks.
    redacts_otherwise: bool,
    /// Rules of the tried config that decide by names alone, and the refusal of a caller.
    name_rules: BTreeSet<String>,
    pub(super) hooks: ReplayedHooks,
    /// Sessions in which a call went otherwise, or may have.
    diverged: Mutex<LruCache<u64, ()>>,
    hasher: RandomState,
    totals: Mutex<ReplayTotals>,
    progress: Arc<Progress>,
}

impl Replayer {
    /// Builds the gateways of a replay. Hooks with `shadow: true` run.
    ///
    /// # Errors
    ///
    /// Returns an error if something that a config asks for cannot be built.
    pub async fn new(configs: ReplayConfigs, progress: Arc<Progress>) -> Result<Self, BuildError> {
        let before = configs.before.as_ref();
        let redacts_otherwise =
            before.is_some_and(|before| !is_same_redaction(before, &configs.after));
        let mut name_rules = name_rules(&configs.after);
        name_rules.insert(UNKNOWN_CALLER.to_owned());
        let before = match configs.before {
            Some(config) => Some(ReplayGateway::new(config, configs.hooks).await?),
            None => None,
        };
        Ok(Self {
            before,
            after: ReplayGateway::new(configs.after, configs.hooks).await?,
            redacts_otherwise,
            name_rules,
            hooks: configs.hooks,
            diverged: Mutex::new(LruCache::sparse(MAX_DIVERGED_SESSIONS)),
            hasher: RandomState::new(),
            totals: Mutex::default(),
            progress,
        })
    }

    /// Replays a call whose turn it is, and compares it; `None` if it is a request that no config
    /// recognises as a call.
    pub async fn compare(&self, call: &OrderedCall) -> Option<Comparison> {
        let has_diverged = self.has_diverged(&call.exchange);
        let none = BTreeSet::new();
        let limits = ComparisonLimits {
            caveat: caveat(call).filter(|_| self.before.is_none()),
            name_rules: &self.name_rules,
            has_diverged,
            needs_all_hooks: self.hooks == ReplayedHooks::Recorded,
            other_hash_keys: match &self.before {
                Some(_) => &none,
                None => &self.after.other_hash_keys,
            },
        };
        let mut comparison = Box::pin(self.replay(call, limits)).await;
        self.progress.add_call();
        if !is_call(&call.exchange) && comparison == Comparison::default() {
            return None;
        }
        if has_diverged || may_diverge(&comparison) {
            self.add_diverged(&call.exchange);
        }
        let is_masked = !call.exchange.masked.is_empty();
        if is_masked && self.redacts_otherwise && comparison.changes.is_empty() {
            comparison.unknown.get_or_insert(UnknownReason::Masked);
        }
        self.totals.lock().add(&call.exchange, &comparison);
        Some(comparison)
    }

    /// Returns whether an earlier call of the session, or of the one that it forked, went
    /// otherwise, or may have.
    fn has_diverged(&self, exchange: &RecordedExchange) -> bool {
        let Some(session) = &exchange.session else {
            return false;
        };
        let mut ids = iter::once(&session.id).chain(&session.parent);
        let diverged = self.diverged.lock();
        ids.any(|id| diverged.contains(&session_key(&self.hasher, exchange, id)))
    }

    /// Records that later calls of the session may differ.
    fn add_diverged(&self, exchange: &RecordedExchange) {
        if let Some(session) = &exchange.session {
            let key = session_key(&self.hasher, exchange, &session.id);
            self.diverged.lock().put(key, ());
        }
    }

    async fn replay(&self, call: &OrderedCall, limits: ComparisonLimits<'_>) -> Comparison {
        let recorded = &call.exchange;
        let after = match self.after.replay(call).await {
            Ok(after) => after,
            Err(reason) => return Comparison::unknown(reason),
        };
        let is_new_error = after.exchange.outcome.error != recorded.outcome.error;
        let error = after.exchange.outcome.error.as_deref();
        if is_new_error
            && error == Some(ErrorReason::BadDocument.as_str())
            && self.after.lacks_earlier_response(recorded)
        {
            return Comparison::unknown(UnknownReason::SessionIncomplete);
        }
        let before = match &self.before {
            None => None,
            Some(before) => match before.replay(call).await {
                Ok(before) => Some(before),
                Err(reason) => return Comparison::unknown(reason),
            },
        };
        if is_call(recorded) {
            self.add_facts(recorded, before.as_ref(), &after);
        }
        let none = BTreeSet::new();
        let recorded = ComparedExchange {
            exchange: recorded,
            unanswered: &none,
        };
        let before = before.as_ref().map_or(recorded, compared);
        compare(before, compared(&after), limits)
    }

    /// Adds what a call shows beside its differences.
    fn add_facts(&self, recorded: &RecordedExchange, before: Option<&Replayed>, after: &Replayed) {
        let rounds = recorded.rounds.iter();
        let answers = rounds.filter_map(|round| round.response.as_ref()?.bytes());
        let tools = answers.flat_map(|answer| called_tools(&recorded.dialect, &answer));
        let tools: Vec<String> = tools.collect();
        let time = match before {
            Some(before) => Some(before.elapsed),
            None => hook_time(recorded),
        };
        let mut totals = self.totals.lock();
        totals.add_times(time, after.elapsed);
        for tool in &tools {
            totals.add_tool(tool);
        }
        totals.asked.extend(after.asked.iter().cloned());
    }

    /// Returns the report of the calls so far.
    pub fn report(&self) -> ReplayReport {
        let snapshot = self.after.app.snapshot();
        let table = snapshot.engine.table();
        let totals = self.totals.lock().clone();
        let enabled = table.rules().iter().filter(|rule| !rule.disabled);
        let never = enabled.filter(|rule| !totals.asked.contains(&rule.name));
        let never_asked = never.map(|rule| rule.name.clone()).collect();
        let before = self.before.as_ref();
        let before = before.map(|before| before.app.snapshot().config.version.clone());
        ReplayReport {
            before: before.unwrap_or_else(|| ReplayReport::RECORDED.to_owned()),
            after: snapshot.config.version.clone(),
            never_asked,
            coverage: ToolCoverage::new(&totals.called_tools, table),
            effort: ReplayCost {
                elapsed_ms: whole_milliseconds(self.progress.elapsed()),
                calls_per_second: self.progress.rate(),
                peak_kib: peak_kib(),
            },
            ..totals.into_report()
        }
    }

    /// Ends both gateways, and waits for their hook processes.
    pub(super) async fn end(self) {
        self.after.end().await;
        if let Some(before) = self.before {
            before.end().await;
        }
    }
}

/// Returns why a difference of a replay from what was recorded does not count.
fn caveat(call: &OrderedCall) -> Option<UnknownReason> {
    let is_masked = !call.exchange.masked.is_empty();
    call.caveat.or(is_masked.then_some(UnknownReason::Masked))
}

/// Returns whether a request was recognised as a call.
const fn is_call(exchange: &RecordedExchange) -> bool {
    !exchange.dialect.is_empty()
}

/// Returns whether the agent may have gone on otherwise after a call. Hashes with another key are
/// no reason for it.
fn may_diverge(comparison: &Comparison) -> bool {
    let is_unknown = |reason| reason != UnknownReason::HashKeyUnknown;
    !comparison.changes.is_empty() || comparison.unknown.is_some_and(is_unknown)
}

/// Returns the time that the recorded hooks of a call took; `None` if none ran.
fn hook_time(exchange: &RecordedExchange) -> Option<Duration> {
    let runs = exchange.events.iter().flat_map(|event| &event.hooks);
    let hooks = runs.filter(|run| run.kind != BUILTIN);
    let times = hooks.map(|run| Duration::from_millis(run.ms));
    times.reduce(|sum, time| sum + time)
}

const fn compared(replayed: &Replayed) -> ComparedExchange<'_> {
    ComparedExchange {
        exchange: &replayed.exchange,
        unanswered: &replayed.unanswered,
    }
}
