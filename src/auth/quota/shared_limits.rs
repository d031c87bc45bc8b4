//! Limits in Redis, and the way in which this process limits callers while it is
//! unavailable.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use prometheus_client::metrics::gauge::Gauge;

use super::{
    caller_usage::{CallSync, CallerUsage, SyncScope},
    daily_tokens::SeenTokens,
    exceeded::LimitRefusal,
    limit_script::{AdmitArguments, LimitsAnswer, run},
};
use crate::{config::OnStoreLoss, fleet::Fleet, mutex::Mutex};

/// Limits that all replicas of a fleet share.
#[derive(Debug)]
pub struct SharedLimits {
    fleet: Arc<Fleet>,
    on_loss: OnStoreLoss,
    /// Least number of replicas among which limits are divided.
    min_replicas: u64,
    /// True while Redis is unavailable: since a failed request or heartbeat.
    is_lost: AtomicBool,
    /// Metric that is 1 while limits are shared, else 0.
    gauge: Gauge,
}

/// Place in which the limits of callers are counted at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitsMode {
    /// In Redis, for all replicas.
    Shared,
    /// In this process, while Redis is unavailable.
    Lost(LossMode),
}

/// Method by which this process limits callers while Redis is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossMode {
    /// By their limits, divided by this number of replicas.
    Divided(u64),
    /// By no limit, until the store is back.
    Unlimited,
    /// By refusing all requests.
    Refused,
}

/// Sync that the store has not answered. Undone when it is dropped.
struct PendingSync<'a> {
    usage: &'a Mutex<CallerUsage>,
    sync: CallSync,
    is_answered: bool,
}

impl SharedLimits {
    /// Creates limits in the Redis of `fleet`. `gauge` is 1 while they are shared.
    pub fn new(fleet: Arc<Fleet>, on_loss: OnStoreLoss, min_replicas: u32, gauge: Gauge) -> Self {
        Self {
            fleet,
            on_loss,
            min_replicas: u64::from(min_replicas),
            is_lost: AtomicBool::new(false),
            gauge,
        }
    }

    /// Returns how limits are counted at present.
    pub fn mode(&self) -> LimitsMode {
        if self.is_lost.load(Ordering::Relaxed) {
            LimitsMode::Lost(self.loss_mode())
        } else {
            LimitsMode::Shared
        }
    }

    /// Returns the reason why limits are not shared.
    pub fn loss_cause(&self) -> String {
        let refusal = self.fleet.connection.refusal();
        refusal.unwrap_or_else(|| "Redis is unavailable".to_owned())
    }

    /// Returns the number by which this process divides limits while Redis is unavailable.
    pub(super) fn divisor(&self) -> u64 {
        match self.loss_mode() {
            LossMode::Divided(replicas) => replicas,
            LossMode::Unlimited | LossMode::Refused => 1,
        }
    }

    /// Returns how this process limits callers while Redis is unavailable.
    pub(super) fn loss_mode(&self) -> LossMode {
        let replicas = self.fleet.replicas().max(self.min_replicas);
        match self.on_loss {
            OnStoreLoss::Share => LossMode::Divided(replicas.max(1)),
            OnStoreLoss::Local => LossMode::Divided(1),
            OnStoreLoss::Open => LossMode::Unlimited,
            OnStoreLoss::Closed => LossMode::Refused,
        }
    }

    /// Writes the calls and tokens of the caller with this key that Redis does not have, and
    /// asks for a request if there is one; `None` if Redis is unavailable. What was not answered,
    /// also because the future was dropped, is written again by a later sync.
    pub(super) async fn sync(
        &self,
        caller: &str,
        usage: &Mutex<CallerUsage>,
        scope: SyncScope,
        request: Option<&AdmitArguments>,
    ) -> Option<Result<(), LimitRefusal>> {
        let pending = PendingSync::take(usage, scope);
        if pending.sync.is_empty() && request.is_none() {
            return Some(Ok(()));
        }
        let call = run(caller, &pending.sync, request);
        let answer: Option<LimitsAnswer> = self.fleet.connection.run_script(&call).await;
        let Some(answer) = answer else {
            self.lose();
            return None;
        };
        pending.finish(answer.seen);
        Some(answer.admission)
    }

    /// Marks Redis as unavailable, so that no request waits for it.
    pub fn lose(&self) {
        self.gauge.set(0);
        self.is_lost.store(true, Ordering::Relaxed);
    }

    pub(super) fn recover(&self) {
        self.gauge.set(1);
        self.is_lost.store(false, Ordering::Relaxed);
    }
}

impl<'a> PendingSync<'a> {
    fn take(usage: &'a Mutex<CallerUsage>, scope: SyncScope) -> Self {
        Self {
            sync: usage.lock().take_sync(scope),
            usage,
            is_answered: false,
        }
    }

    fn finish(mut self, seen: SeenTokens) {
        self.is_answered = true;
        self.usage.lock().finish_sync(&self.sync, seen);
    }
}

impl Drop for PendingSync<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.usage.lock().undo_sync(&self.sync);
        }
    }
}
