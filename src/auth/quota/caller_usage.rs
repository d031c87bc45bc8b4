//! Usage of one caller in this process, and what a shared store has to take over. Pure.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    mem,
    num::{NonZeroU64, NonZeroUsize},
    time::Instant,
};

use uuid::Uuid;

use super::{
    daily_tokens::{DailyTokens, OwnTokens, SeenTokens, UtcDay},
    exceeded::LimitRefusal,
    recent_outputs::RecentOutputs,
};
use crate::auth::gcra::{Gcra, RequestRate, nanoseconds_since};

/// Callers whose usage is kept; beyond it the least recently seen start anew.
pub(super) const MAX_CALLERS: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

/// Calls that have ended in one sync: a Lua function takes only so many arguments.
pub(super) const MAX_ENDED: usize = 1000;

/// Usage of one caller.
#[derive(Debug)]
pub(super) struct CallerUsage {
    rate: Gcra,
    tokens: DailyTokens,
    outputs: RecentOutputs,
    calls: HashMap<Uuid, CallInFlight>,
    /// Start of the clock of `rate`.
    started: Instant,
    /// Calls that have ended, and calls whose reserved tokens have changed, since the last
    /// sync.
    ended: Vec<Uuid>,
    changed: BTreeSet<Uuid>,
    /// True if requests were admitted while the shared store was unavailable.
    is_behind: bool,
}

/// One call in flight.
#[derive(Debug)]
struct CallInFlight {
    /// Tokens of the request, by its size.
    request: u64,
    /// Tokens expected of the answer.
    output: u64,
    reserved: u64,
    spent: u64,
    lease: Lease,
}

/// State of a call's lease in the shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    None,
    /// The store is asked to admit the call.
    Requested,
    /// The store may have it.
    Shared,
}

/// Calls and tokens of one caller for the shared store.
#[derive(Debug)]
pub(super) struct CallSync {
    pub(super) ended: Vec<Uuid>,
    /// Calls in flight with their reserved tokens.
    pub(super) live: Vec<(Uuid, u64)>,
    pub(super) own: OwnTokens,
    /// Time until the burst of this replica is allowed again.
    pub(super) debt_ns: u64,
    /// True if the store has not counted all of it, because it was unavailable.
    pub(super) is_behind: bool,
    pub(super) seen: SeenTokens,
}

/// Calls that a sync is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncScope {
    /// Those that have ended or changed.
    Changes,
    /// Those in flight, too, which renews them.
    All,
}

impl Default for CallerUsage {
    fn default() -> Self {
        Self {
            rate: Gcra::default(),
            tokens: DailyTokens::default(),
            outputs: RecentOutputs::default(),
            calls: HashMap::new(),
            started: Instant::now(),
            ended: Vec::new(),
            changed: BTreeSet::new(),
            is_behind: false,
        }
    }
}

impl CallSync {
    /// Returns whether there is nothing to take over.
    pub(super) const fn is_empty(&self) -> bool {
        let has_calls = !self.live.is_empty() || !self.ended.is_empty();
        !has_calls && self.own.unsettled() == 0 && !self.is_behind
    }
}

impl CallerUsage {
    /// Begins the day of the quota.
    pub(super) fn begin_day(&mut self, day: UtcDay) {
        self.tokens.begin_day(day.number, Instant::now());
    }

    /// Checks the rate at the present time.
    pub(super) fn check_rate(&self, rate: RequestRate) -> Result<(), LimitRefusal> {
        let checked = self.rate.check(rate, self.now_ns());
        checked.map_err(LimitRefusal::Rate)
    }

    /// Checks the tokens that a call has reserved.
    pub(super) fn check_tokens(
        &self,
        id: Uuid,
        per_day: NonZeroU64,
        replicas: u64,
        today: UtcDay,
    ) -> Result<(), LimitRefusal> {
        let rest = self.tokens.time_to_reset(today, Instant::now());
        let own = self.reserved_by(id);
        self.tokens.check(per_day, replicas, own, rest)
    }

    /// Returns the tokens that a call has reserved.
    pub(super) fn reserved_by(&self, id: Uuid) -> u64 {
        self.calls.get(&id).map_or(0, |call| call.reserved)
    }

    /// Counts an admitted request.
    pub(super) fn count_request(&mut self, rate: RequestRate) {
        let now_ns = self.now_ns();
        self.rate.count(rate, now_ns);
    }

    /// Adds a call in flight. It reserves tokens if its request has any.
    pub(super) fn begin_call(&mut self, id: Uuid, request: u64, lease: Lease) {
        let output = if request > 0 {
            self.outputs.expected()
        } else {
            0
        };
        let reserved = request.saturating_add(output);
        self.tokens.reserve(reserved);
        let call = CallInFlight {
            request,
            output,
            reserved,
            spent: 0,
            lease,
        };
        self.calls.insert(id, call);
    }

    /// Replaces the estimate of a call by the size of its request and the maximum of its
    /// answer, unless it has spent tokens already. Returns how that compares with the tokens
    /// that the call had reserved.
    pub(super) fn estimate_call(
        &mut self,
        id: Uuid,
        request: u64,
        max_output: Option<u64>,
    ) -> Ordering {
        let call = self.calls.get_mut(&id);
        let Some(call) = call.filter(|call| call.reserved > 0 && call.spent == 0) else {
            return Ordering::Equal;
        };
        let output = call.output.min(max_output.unwrap_or(u64::MAX));
        let reserved = request.saturating_add(output);
        call.request = request;
        let change = reserved.cmp(&call.reserved);
        if change.is_eq() {
            return change;
        }
        self.tokens.release(call.reserved);
        call.reserved = reserved;
        self.tokens.reserve(reserved);
        if call.lease != Lease::None {
            self.changed.insert(id);
        }
        change
    }

    /// Counts tokens of a call, which it need not reserve any more.
    pub(super) fn spend(&mut self, id: Uuid, amount: u64) {
        self.tokens.spend(amount);
        if let Some(call) = self.calls.get_mut(&id) {
            call.spent = call.spent.saturating_add(amount);
            let released = call.reserved.min(amount);
            call.reserved -= released;
            self.tokens.release(released);
            if call.lease != Lease::None {
                self.changed.insert(id);
            }
        }
    }

    /// Marks that the shared store may have a call: it was admitted, or the store did not answer.
    pub(super) fn share_call(&mut self, id: Uuid) {
        let call = self.calls.get_mut(&id);
        if let Some(call) = call.filter(|call| call.lease == Lease::Requested) {
            call.lease = Lease::Shared;
        }
    }

    /// Ends a call. Returns whether the shared store may have it.
    pub(super) fn end_call(&mut self, id: Uuid) -> Lease {
        let Some(call) = self.calls.remove(&id) else {
            return Lease::None;
        };
        self.changed.remove(&id);
        self.tokens.release(call.reserved);
        if call.spent > 0 {
            self.outputs.record(call.spent.saturating_sub(call.request));
        }
        // While the store is unavailable, the leases of further calls expire there.
        let is_kept = !self.is_behind || self.ended.len() < MAX_ENDED;
        if call.lease != Lease::None && is_kept {
            self.ended.push(id);
        }
        call.lease
    }

    /// Removes a call that was not admitted, unless the shared store may have it.
    pub(super) fn cancel_call(&mut self, id: Uuid) {
        let call = self.calls.get(&id);
        if let Some(call) = call.filter(|call| call.lease != Lease::Shared) {
            self.tokens.release(call.reserved);
            self.changed.remove(&id);
            self.calls.remove(&id);
        }
    }

    /// Marks that requests are admitted without the shared store.
    pub(super) const fn fall_behind(&mut self) {
        self.is_behind = true;
    }

    /// Returns the number of calls whose changes wait for a sync.
    #[cfg(test)]
    pub(super) fn changed_calls(&self) -> usize {
        self.changed.len()
    }

    /// Returns whether the shared store has calls of this process, or not all of its tokens.
    pub(super) fn needs_sync(&self) -> bool {
        let mut calls = self.calls.values();
        self.is_behind
            || self.tokens.own().unsettled() > 0
            || !self.ended.is_empty()
            || calls.any(|call| call.lease == Lease::Shared)
    }

    /// Takes what the shared store has to take over, until [`Self::finish_sync`] or
    /// [`Self::undo_sync`].
    pub(super) fn take_sync(&mut self, scope: SyncScope) -> CallSync {
        let changed = mem::take(&mut self.changed);
        let ended = self.ended.len().min(MAX_ENDED);
        // A call may have ended twice, and its tokens are removed once.
        let ended: BTreeSet<Uuid> = self.ended.drain(..ended).collect();
        let shared = |(id, call): (&Uuid, &CallInFlight)| {
            let is_meant = scope == SyncScope::All || changed.contains(id);
            let is_meant = is_meant && call.lease == Lease::Shared;
            is_meant.then_some((*id, call.reserved))
        };
        CallSync {
            live: self.calls.iter().filter_map(shared).collect(),
            ended: ended.into_iter().collect(),
            own: self.tokens.own(),
            debt_ns: self.rate.debt_ns(self.now_ns()),
            is_behind: self.is_behind,
            seen: self.tokens.seen(),
        }
    }

    /// Takes over the answer of the shared store to a sync: the tokens of the day. Calls that
    /// have ended in the meantime end once more, because another sync may have overtaken this one
    /// with their ends.
    pub(super) fn finish_sync(&mut self, sync: &CallSync, seen: SeenTokens) {
        self.is_behind = false;
        self.tokens.settle(sync.own);
        self.tokens.see(seen);
        let calls = &self.calls;
        let renewed = sync.live.iter().map(|(id, _)| *id);
        self.ended
            .extend(renewed.filter(|id| !calls.contains_key(id)));
    }

    /// Restores the calls of a sync that was not answered. Those that have ended beyond
    /// [`MAX_ENDED`] are left to the ends of their leases.
    pub(super) fn undo_sync(&mut self, sync: &CallSync) {
        let free = MAX_ENDED.saturating_sub(self.ended.len());
        self.ended.extend(sync.ended.iter().take(free));
        self.changed.extend(sync.live.iter().map(|(id, _)| *id));
    }

    fn now_ns(&self) -> u64 {
        nanoseconds_since(self.started)
    }
}
