//! Progress of a rollout: which sessions run under the candidate, the calls of both configs,
//! and the comparison that ends it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use aws_lc_rs::digest::{Context, SHA256};

use crate::{
    config::{RolloutSettings, RolloutUnit},
    mutex::Mutex,
    observe::trace::DurationHistogram,
};

/// Calls of each config before they are compared. They are compared again after twice as many,
/// since each comparison may be wrong by chance.
const MIN_CALLS: u64 = 200;

/// Standard deviations that a difference exceeds by chance in 1 % of all comparisons.
const SIGNIFICANT_DEVIATIONS: f64 = 2.326;

/// Share of calls above the 99th percentile.
const ABOVE_P99: f64 = 0.01;

/// Parts into which the hash of a session falls.
const HASH_PARTS: u64 = 10_000;

/// One of the two configs of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutArm {
    /// The config in use.
    Current,
    /// The config that is rolled out.
    Candidate,
}

/// A change of a rollout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RolloutChange {
    /// The share of the sessions grew to this percentage.
    Step(u8),
    /// A difference has ended the rollout.
    Abort(ArmDifference),
}

/// A difference of the two configs that ends a rollout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmDifference {
    /// Name of the condition.
    pub measure: &'static str,
    /// Calls of the config in use that count, of all.
    pub current: Proportion,
    /// Calls of the candidate that count, of all.
    pub candidate: Proportion,
}

/// Number of calls with a property, of all calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proportion {
    /// Calls with the property.
    pub count: u64,
    /// Calls with and without it.
    pub of: u64,
}

/// Facts of one call that a rollout counts for its config.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallOutcome {
    pub(super) denied: bool,
    pub(super) hook_failed: bool,
    pub(super) hook_time: Duration,
}

/// Progress of a rollout. It survives reloads that change neither config.
#[derive(Debug)]
pub struct RolloutProgress {
    /// Version of the config in use.
    pub from: String,
    /// Version of the candidate.
    pub to: String,
    settings: RolloutSettings,
    shares: Vec<u8>,
    state: Mutex<ProgressState>,
}

#[derive(Debug)]
struct ProgressState {
    step: usize,
    step_began: Instant,
    current: ArmCounts,
    candidate: ArmCounts,
    /// Calls of the candidate at the next comparison.
    compared_at: u64,
    is_aborted: bool,
}

/// Calls of one config since the last step.
#[derive(Debug, Default)]
struct ArmCounts {
    calls: u64,
    denied: u64,
    hook_failures: u64,
    hook_times: DurationHistogram,
}

/// State of a rollout at one look.
#[derive(Debug, Clone, Copy)]
pub struct RolloutStatus {
    /// Share of the sessions in percent.
    pub share: u8,
    /// True if a difference has ended it.
    pub is_aborted: bool,
    /// True if the next step waits for a comparison.
    pub awaits_comparison: bool,
    /// Denied calls of the config in use and of the candidate, since the last step.
    pub denied: [Proportion; 2],
    /// Calls with a failed hook, likewise.
    pub hook_failures: [Proportion; 2],
}

impl RolloutArm {
    /// Returns the label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Candidate => "candidate",
        }
    }
}

impl RolloutProgress {
    pub(super) fn new(from: &str, to: &str, settings: &RolloutSettings, is_aborted: bool) -> Self {
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            shares: settings.shares(),
            settings: settings.clone(),
            state: Mutex::new(ProgressState {
                is_aborted,
                ..ProgressState::new(0, Instant::now())
            }),
        }
    }

    /// Returns whether a rollout with these versions and settings is the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.from, &self.to, &self.settings) == (&other.from, &other.to, &other.settings)
    }

    /// Returns whether a caller takes part and, if so, whether the session must be known.
    pub(super) fn takes_part(&self, caller: &str) -> Option<RolloutUnit> {
        (self.has_caller(caller) && self.share() > 0).then_some(self.settings.by)
    }

    /// Returns whether calls of a caller are assigned to one of the two configs, and compared.
    pub(super) fn has_caller(&self, caller: &str) -> bool {
        let callers = &self.settings.callers;
        callers.is_empty() || callers.iter().any(|name| name == caller)
    }

    /// Returns the config of a session. It is the same in all gateways at the same step of this
    /// rollout, and stays that of the candidate while the share grows.
    pub(super) fn arm_of(&self, caller_key: &str, session: &str) -> RolloutArm {
        let mut hash = Context::new(&SHA256);
        for part in [self.to.as_str(), caller_key, session] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        let hash = hash.finish();
        let first = hash.as_ref().iter().take(size_of::<u64>());
        let number = first.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        if number % HASH_PARTS < u64::from(self.share()) * (HASH_PARTS / 100) {
            RolloutArm::Candidate
        } else {
            RolloutArm::Current
        }
    }

    /// Returns the share of the sessions in percent.
    pub(super) fn share(&self) -> u8 {
        self.share_in(&self.state.lock())
    }

    /// Takes the next step if it is time for it, and returns it. With conditions of an abort, a
    /// step ends after its first comparison at the earliest.
    pub(super) fn advance(&self, now: Instant) -> Option<RolloutChange> {
        let mut state = self.state.lock();
        let next = self.shares.get(state.step + 1)?;
        let waited = now.saturating_duration_since(state.step_began);
        if state.is_aborted || waited < self.settings.hold || self.awaits_comparison(&state) {
            return None;
        }
        // Each step is compared by itself, since the load of the day changes.
        *state = ProgressState::new(state.step + 1, now);
        Some(RolloutChange::Step(*next))
    }

    /// Counts a call. Returns the difference if it ends the rollout.
    pub(super) fn record(&self, arm: RolloutArm, call: CallOutcome) -> Option<RolloutChange> {
        let mut state = self.state.lock();
        let counts = match arm {
            RolloutArm::Current => &mut state.current,
            RolloutArm::Candidate => &mut state.candidate,
        };
        counts.add(call);
        let is_due = state.candidate.calls >= state.compared_at && state.current.calls >= MIN_CALLS;
        if state.is_aborted || !is_due {
            return None;
        }
        state.compared_at = state.candidate.calls.saturating_mul(2);
        let difference = self.difference(&state)?;
        state.is_aborted = true;
        Some(RolloutChange::Abort(difference))
    }

    pub(super) fn status(&self) -> RolloutStatus {
        let state = self.state.lock();
        let arms = [&state.current, &state.candidate];
        RolloutStatus {
            share: self.share_in(&state),
            is_aborted: state.is_aborted,
            awaits_comparison: self.awaits_comparison(&state),
            denied: arms.map(|arm| arm.proportion(arm.denied)),
            hook_failures: arms.map(|arm| arm.proportion(arm.hook_failures)),
        }
    }

    fn difference(&self, state: &ProgressState) -> Option<ArmDifference> {
        let (current, candidate) = (&state.current, &state.candidate);
        let limits = &self.settings.abort_if;
        let pair = |count: fn(&ArmCounts) -> u64| {
            [current, candidate].map(|arm| arm.proportion(count(arm)))
        };
        let denied = (limits.newly_denied, "newly_denied", pair(|arm| arm.denied));
        let failed = (
            limits.hook_failures,
            "hook_failures",
            pair(|arm| arm.hook_failures),
        );
        let slow = limits.hook_p99.and_then(|increase| {
            let increase = u64::try_from(increase.as_micros()).ok()?;
            let bound = current.hook_times.percentile(99)?.saturating_add(increase);
            Some([current, candidate].map(|arm| arm.proportion(arm.hook_times.count_from(bound))))
        });
        let above = slow.is_some().then_some(ABOVE_P99);
        let slow = (above, "hook_p99", slow.unwrap_or_default());
        let mut measures = [denied, failed, slow].into_iter();
        measures.find_map(|(limit, measure, [old, new])| {
            limit
                .filter(|limit| new.exceeds(old, *limit))
                .map(|_| ArmDifference {
                    measure,
                    current: old,
                    candidate: new,
                })
        })
    }

    /// Returns whether there is a next step, and it waits for a comparison.
    fn awaits_comparison(&self, state: &ProgressState) -> bool {
        let is_compared = state.compared_at > MIN_CALLS;
        let has_next = state.step + 1 < self.shares.len();
        has_next && !is_compared && self.settings.abort_if.is_set() && self.share_in(state) > 0
    }

    fn share_in(&self, state: &ProgressState) -> u8 {
        let share = self.shares.get(state.step).copied();
        share.filter(|_| !state.is_aborted).unwrap_or_default()
    }
}

impl ProgressState {
    /// The state at the begin of a step.
    fn new(step: usize, step_began: Instant) -> Self {
        Self {
            step,
            step_began,
            current: ArmCounts::default(),
            candidate: ArmCounts::default(),
            compared_at: MIN_CALLS,
            is_aborted: false,
        }
    }
}

impl ArmCounts {
    fn add(&mut self, call: CallOutcome) {
        self.calls += 1;
        self.denied += u64::from(call.denied);
        self.hook_failures += u64::from(call.hook_failed);
        self.hook_times.add(1, call.hook_time);
    }

    const fn proportion(&self, count: u64) -> Proportion {
        Proportion {
            count,
            of: self.calls,
        }
    }
}

impl Proportion {
    /// Returns whether this share is larger than `other` by more than `margin`, by a
    /// two-proportion z-test at 1 %.
    fn exceeds(self, other: Self, margin: f64) -> bool {
        let (own, others) = (self.share(), other.share());
        let variance = |proportion: Self, share: f64| share * (1.0 - share) / float(proportion.of);
        let deviation = (variance(self, own) + variance(other, others)).sqrt();
        own - others - margin > SIGNIFICANT_DEVIATIONS * deviation
    }

    /// Returns the share from 0 to 1.
    fn share(self) -> f64 {
        float(self.count) / float(self.of.max(1))
    }
}

impl fmt::Display for Proportion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, self.of)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of calls are far below the 53 bits of a float"
)]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
