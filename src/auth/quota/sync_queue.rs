//! Callers whose calls and tokens the shared store has to take over.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

use super::{
    caller_usage::{CallerUsage, MAX_CALLERS, SyncScope},
    limit_script::LEASE_MS,
    shared_limits::{LimitsMode, SharedLimits},
};
use crate::{fleet::Fleet, mutex::Mutex};

/// Callers that are written at the same time.
const MAX_CONCURRENT_SYNCS: usize = 16;

/// Time in which changes are collected. A request of their caller takes them along sooner.
const COLLECT_INTERVAL: Duration = Duration::from_millis(10);

/// Time between two renewals of calls in flight.
const RENEWAL_INTERVAL: Duration = Duration::from_millis(LEASE_MS / 3);

/// Callers with calls in flight, or with tokens that the store does not have.
#[derive(Debug, Default)]
pub struct SyncQueue {
    callers: Mutex<FollowedCallers>,
    /// Notified when there are changes.
    has_changes: Notify,
}

#[derive(Debug, Default)]
struct FollowedCallers {
    /// By key of `event::Caller`.
    all: HashMap<Arc<str>, SharedUsage>,
    /// Keys of callers with changes.
    changed: HashSet<Arc<str>>,
}

/// Usage of a caller, which its calls and the queue refer to.
type SharedUsage = Arc<Mutex<CallerUsage>>;

impl SyncQueue {
    /// Keeps the usage of a caller until the store has all of it.
    pub(super) fn follow(&self, key: &Arc<str>, usage: &SharedUsage) {
        let mut callers = self.callers.lock();
        if callers.all.len() < MAX_CALLERS.get() && !callers.all.contains_key(key) {
            callers.all.insert(Arc::clone(key), Arc::clone(usage));
        }
    }

    /// Writes the calls and tokens of a caller soon.
    pub(super) fn add(&self, key: &Arc<str>, usage: &SharedUsage) {
        self.follow(key, usage);
        self.callers.lock().changed.insert(Arc::clone(key));
        self.has_changes.notify_one();
    }

    /// Writes changes to `limits` soon after they happen, and renews calls in flight, after a
    /// heartbeat. Returns when the next heartbeat is due, or if the store is unavailable.
    pub async fn keep_in_sync(&self, limits: &SharedLimits, renewed_at: &mut Instant) {
        let mut scope = SyncScope::Changes;
        if renewed_at.elapsed() >= RENEWAL_INTERVAL || limits.mode() != LimitsMode::Shared {
            scope = SyncScope::All;
        }
        if !self.sync(limits, scope).await {
            return;
        }
        limits.recover();
        if scope == SyncScope::All {
            *renewed_at = Instant::now();
        }
        let next_beat = Instant::now() + Fleet::HEARTBEAT_INTERVAL;
        let has_changes = &self.has_changes;
        while timeout_at(next_beat, has_changes.notified()).await.is_ok() {
            sleep(COLLECT_INTERVAL).await;
            if !self.sync(limits, SyncScope::Changes).await {
                return;
            }
        }
    }

    /// Writes all changes, once. Returns `false` if the store is unavailable.
    pub async fn flush(&self, limits: &SharedLimits) -> bool {
        self.sync(limits, SyncScope::Changes).await
    }

    async fn sync(&self, limits: &SharedLimits, scope: SyncScope) -> bool {
        let callers = self.callers.lock().take(scope);
        let written = stream::iter(callers).map(|(key, usage)| async move {
            limits.sync(&key, &usage, scope, None).await.is_some()
        });
        let written = written.buffer_unordered(MAX_CONCURRENT_SYNCS);
        // Each is polled to its end: a dropped one would be repeated by the next sync.
        let all_written = written.fold(true, async |all, is_written| all && is_written);
        all_written.await
    }
}

impl FollowedCallers {
    /// Returns the callers to write, and removes those that the store has.
    fn take(&mut self, scope: SyncScope) -> Vec<(Arc<str>, SharedUsage)> {
        let changed = mem::take(&mut self.changed);
        if scope == SyncScope::All {
            self.all.retain(|_, usage| usage.lock().needs_sync());
            return self.all.clone().into_iter().collect();
        }
        let usages = changed.into_iter().filter_map(|key| {
            let usage = Arc::clone(self.all.get(&key)?);
            Some((key, usage))
        });
        usages.collect()
    }
}
