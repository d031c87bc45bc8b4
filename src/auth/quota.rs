//! Quotas of callers: requests per minute, tokens per day and concurrent requests.
//!
//! Each process counts its own requests. With a shared store, Redis decides for all
//! replicas, and the counts of the process are what it continues with if Redis is
//! unavailable.

mod caller_quota;
mod caller_usage;
mod daily_tokens;
mod exceeded;
mod limit_script;
mod recent_outputs;
mod shared_limits;
mod sync_queue;

use std::sync::Arc;

use lru::LruCache;

pub(super) use self::caller_quota::{CallerCall, Quota, SharedQuota};
use self::caller_usage::MAX_CALLERS;
pub use self::{
    caller_quota::{CallerInFlightGuard, RequestCost},
    exceeded::{LimitRefusal, QuotaExceeded},
    limit_script::{keys as limit_keys, limit_script},
    recent_outputs::MAX_RESERVED_OUTPUT,
    shared_limits::{LimitsMode, LossMode, SharedLimits},
    sync_queue::SyncQueue,
};
use crate::mutex::Mutex;

/// Usage of every caller by `event::Caller::key`. Survives config reloads.
#[derive(Debug)]
pub(super) struct Quotas(Mutex<LruCache<String, Arc<Quota>>>);

impl Default for Quotas {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_CALLERS)))
    }
}

impl Quotas {
    /// Returns the usage of the caller with this key and name.
    pub(super) fn get(&self, key: &str, name: &Arc<str>) -> Arc<Quota> {
        let mut quotas = self.0.lock();
        let new = || Arc::new(Quota::new(key, name));
        Arc::clone(quotas.get_or_insert_ref(key, new))
    }

    /// Returns the name of the caller with this key, if it was seen.
    pub(super) fn name_of(&self, key: &str) -> Option<Arc<str>> {
        let quotas = self.0.lock();
        quotas.peek(key).map(|quota| Arc::clone(&quota.name))
    }
}
