//! Limits of one caller: admits its requests, and follows its calls until they end.

use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use uuid::Uuid;

use super::{
    caller_usage::{CallerUsage, Lease, SyncScope},
    daily_tokens::UtcDay,
    exceeded::{LimitRefusal, QuotaExceeded},
    limit_script::AdmitArguments,
    shared_limits::{LimitsMode, LossMode, SharedLimits},
    sync_queue::SyncQueue,
};
use crate::{auth::gcra::RequestRate, config::Grant, model::tokens_of, mutex::Mutex};

/// Usage of one caller.
#[derive(Debug, Default)]
pub(in crate::auth) struct Quota {
    /// The key in `event::Caller`, which is a hash.
    key: Arc<str>,
    /// Name of the caller.
    pub(super) name: Arc<str>,
    /// Requests of this process.
    in_flight: AtomicUsize,
    usage: Arc<Mutex<CallerUsage>>,
}

/// A request of a caller. It ends when it is dropped, once its tokens are counted.
#[derive(Debug)]
pub(in crate::auth) struct CallerCall {
    quota: Arc<Quota>,
    id: Uuid,
    /// Limits that several gateways share, if the caller's are.
    shared: Option<SharedQuota>,
}

/// Counts a request as one of its caller until it is dropped. Its tokens may be counted later.
#[derive(Debug)]
pub struct CallerInFlightGuard(pub(in crate::auth) Arc<CallerCall>);

/// Tokens that a request may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCost {
    /// None, because it calls no model.
    Free,
    /// Those of a model call with a body of this size; zero if it is not known.
    Bytes(u64),
}

/// Limits that several gateways share, and the queue of what they have to take over.
#[derive(Debug, Clone)]
pub(in crate::auth) struct SharedQuota {
    pub(in crate::auth) limits: Arc<SharedLimits>,
    pub(in crate::auth) queue: Arc<SyncQueue>,
}

/// One request on its way through the limits of its caller.
struct Entry<'a> {
    quota: &'a Quota,
    grant: &'a Grant,
    call: Uuid,
    day: UtcDay,
}

/// Counter of a request: the shared store or this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedBy {
    Store,
    Process,
}

impl Quota {
    pub(super) fn new(key: &str, name: &Arc<str>) -> Self {
        Self {
            key: key.into(),
            name: Arc::clone(name),
            ..Self::default()
        }
    }

    /// Counts a request, unless it exceeds a limit of `grant`. If the future is dropped, the
    /// request has ended.
    pub(in crate::auth) async fn enter(
        self: &Arc<Self>,
        grant: &Grant,
        cost: RequestCost,
        shared: Option<&SharedQuota>,
        now: SystemTime,
    ) -> Result<CallerInFlightGuard, QuotaExceeded> {
        let shared = shared.filter(|_| grant.has_shared_limits());
        let guard = self.begin_call(grant, cost, shared);
        let entry = Entry {
            quota: self,
            grant,
            call: guard.0.id,
            day: UtcDay::at(now),
        };
        self.usage.lock().begin_day(entry.day);
        let checked = match shared {
            // Boxed, because most callers have no shared limits.
            Some(shared) => Box::pin(entry.check_shared(&shared.limits)).await,
            None => entry.check(1).map(|()| CountedBy::Process),
        };
        let counted_by = checked.inspect_err(|_| self.usage.lock().cancel_call(entry.call))?;
        if let Some(shared) = shared {
            let mut usage = self.usage.lock();
            if counted_by == CountedBy::Process {
                usage.fall_behind();
            }
            usage.share_call(entry.call);
            drop(usage);
            shared.queue.follow(&self.key, &self.usage);
        }
        Ok(guard)
    }

    /// Adds a call in flight.
    fn begin_call(
        self: &Arc<Self>,
        grant: &Grant,
        cost: RequestCost,
        shared: Option<&SharedQuota>,
    ) -> CallerInFlightGuard {
        let guard = CallerInFlightGuard(Arc::new(CallerCall {
            quota: Arc::clone(self),
            id: Uuid::new_v4(),
            shared: shared.cloned(),
        }));
        let request = match cost {
            RequestCost::Bytes(bytes) if grant.tokens_per_day.is_some() => tokens(bytes),
            _ => 0,
        };
        let has_lease = request > 0 || grant.shared_in_flight.is_some();
        let lease = match shared {
            Some(_) if has_lease => Lease::Requested,
            _ => Lease::None,
        };
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.usage.lock().begin_call(guard.0.id, request, lease);
        guard
    }
}

impl Entry<'_> {
    /// Checks the limits in Redis, or those of this process while Redis is unavailable.
    async fn check_shared(&self, limits: &SharedLimits) -> Result<CountedBy, QuotaExceeded> {
        self.check_in_flight(self.grant.in_flight)?;
        if limits.mode() == LimitsMode::Shared
            && let Some(admission) = self.ask(limits).await
        {
            admission.map_err(|refusal| self.exceeded(refusal))?;
            // For the time in which Redis is unavailable.
            self.count_rate(limits.divisor());
            return Ok(CountedBy::Store);
        }
        match limits.loss_mode() {
            LossMode::Divided(replicas) => self.check(replicas)?,
            LossMode::Unlimited => self.count_rate(1),
            LossMode::Refused => return Err(self.exceeded(LimitRefusal::Unavailable)),
        }
        Ok(CountedBy::Process)
    }

    /// Asks Redis, which takes over what other calls of the caller have changed at the same
    /// time; `None` if it is unavailable.
    async fn ask(&self, limits: &SharedLimits) -> Option<Result<(), LimitRefusal>> {
        let amount = self.quota.usage.lock().reserved_by(self.call);
        let request = AdmitArguments {
            call: self.call,
            amount,
            rate: self.grant.requests_per_minute.map(RequestRate::per_minute),
            max_calls: self.grant.shared_in_flight,
            // The quota applies only to calls that cost tokens.
            per_day: self.grant.tokens_per_day.filter(|_| amount > 0),
        };
        let (key, usage) = (&self.quota.key, &self.quota.usage);
        let scope = SyncScope::Changes;
        let admission = limits.sync(key, usage, scope, Some(&request)).await;
        if admission.is_none() {
            // It may admit the call later.
            usage.lock().share_call(self.call);
        }
        admission
    }

    /// Checks the limits of this process, which is one of `replicas`, and counts the request
    /// against its rate under the same lock.
    fn check(&self, replicas: u64) -> Result<(), QuotaExceeded> {
        self.check_in_flight(self.grant.in_flight)?;
        if let Some(limit) = self.grant.shared_in_flight {
            let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
            self.check_in_flight((limit / replicas).max(1))?;
        }
        let checked = self.check_usage(&mut self.quota.usage.lock(), replicas);
        checked.map_err(|refusal| self.exceeded(refusal))
    }

    fn check_usage(&self, usage: &mut CallerUsage, replicas: u64) -> Result<(), LimitRefusal> {
        if let Some(per_day) = self.grant.tokens_per_day
            && usage.reserved_by(self.call) > 0
        {
            usage.check_tokens(self.call, per_day, replicas, self.day)?;
        }
        if let Some(per_minute) = self.grant.requests_per_minute {
            let rate = rate_of_one(per_minute, replicas);
            usage.check_rate(rate)?;
            usage.count_request(rate);
        }
        Ok(())
    }

    /// Counts a request that was admitted without the rate of this process.
    fn count_rate(&self, replicas: u64) {
        if let Some(per_minute) = self.grant.requests_per_minute {
            let mut usage = self.quota.usage.lock();
            usage.count_request(rate_of_one(per_minute, replicas));
        }
    }

    /// Checks the number of calls of this process, this one included.
    fn check_in_flight(&self, limit: usize) -> Result<(), QuotaExceeded> {
        if self.quota.in_flight.load(Ordering::Relaxed) > limit {
            return Err(QuotaExceeded {
                limit: limit as u64,
                ..self.exceeded(LimitRefusal::Calls)
            });
        }
        Ok(())
    }

    /// Names the limit of the grant that a request exceeds. Those that it does not have are never
    /// exceeded.
    fn exceeded(&self, refusal: LimitRefusal) -> QuotaExceeded {
        let grant = self.grant;
        let limit = match refusal {
            LimitRefusal::Calls => grant.shared_in_flight.map(|calls| calls as u64),
            LimitRefusal::TokensSpent(_) | LimitRefusal::TokensReserved => {
                grant.tokens_per_day.map(NonZeroU64::get)
            }
            LimitRefusal::Rate(_) => grant.requests_per_minute.map(|rate| rate.get().into()),
            LimitRefusal::Unavailable => None,
        };
        QuotaExceeded {
            caller: Arc::clone(&self.quota.name),
            limit: limit.unwrap_or_default(),
            refusal,
        }
    }
}

impl CallerCall {
    /// Replaces the reserved tokens by those of a request of this size, whose answer has at
    /// most `max_output` tokens. Returns whether they are more than before.
    pub(in crate::auth) fn estimate(&self, bytes: usize, max_output: Option<u64>) -> bool {
        let request = tokens(bytes as u64);
        let mut usage = self.quota.usage.lock();
        let change = usage.estimate_call(self.id, request, max_output);
        drop(usage);
        if change.is_ne() {
            self.queue();
        }
        change.is_gt()
    }

    /// Checks that the tokens that the call reserves since its request was read fit into the
    /// quota of `grant`. A call that is refused reserves none.
    pub(in crate::auth) async fn admit_again(
        &self,
        grant: &Grant,
        now: SystemTime,
    ) -> Result<(), QuotaExceeded> {
        // The call is counted against the other limits already.
        let grant = &Grant {
            tokens_per_day: grant.tokens_per_day,
            in_flight: usize::MAX,
            ..Grant::default()
        };
        let entry = Entry {
            quota: &self.quota,
            grant,
            call: self.id,
            day: UtcDay::at(now),
        };
        self.quota.usage.lock().begin_day(entry.day);
        let checked = match &self.shared {
            Some(shared) => entry
                .check_shared(&shared.limits)
                .await
                .map(|_counted_by| ()),
            None => entry.check(1),
        };
        checked.inspect_err(|_| self.end())
    }

    /// Adds tokens to the usage of the day.
    pub(in crate::auth) fn spend(&self, tokens: u64, now: SystemTime) {
        let mut usage = self.quota.usage.lock();
        usage.begin_day(UtcDay::at(now));
        usage.spend(self.id, tokens);
        drop(usage);
        self.queue();
    }

    /// Releases what the call has reserved, and ends its lease.
    fn end(&self) {
        if self.quota.usage.lock().end_call(self.id) != Lease::None {
            self.queue();
        }
    }

    fn queue(&self) {
        if let Some(shared) = &self.shared {
            shared.queue.add(&self.quota.key, &self.quota.usage);
        }
    }
}

impl Drop for CallerCall {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for CallerInFlightGuard {
    fn drop(&mut self) {
        self.0.quota.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the tokens of a request of this size, at least one.
fn tokens(bytes: u64) -> u64 {
    tokens_of(bytes).max(1)
}

/// Returns the rate of one of `replicas` that together have a rate.
fn rate_of_one(per_minute: NonZeroU32, replicas: u64) -> RequestRate {
    let one = u64::from(per_minute.get()) / replicas.max(1);
    let one = u32::try_from(one).ok().and_then(NonZeroU32::new);
    RequestRate::per_minute(one.unwrap_or(NonZeroU32::MIN))
}

#[cfg(test)]
mod tests;
