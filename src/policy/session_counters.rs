//! Counters of policies per session. Bounded; the counters of an idle session
//! expire.
//!
//! Each replica counts for itself. What the others have counted comes with the state of the
//! session.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lru::LruCache;
use uuid::Uuid;

use crate::mutex::Mutex;

/// Maximum number of sessions with counters, over all policies.
const MAX_COUNTED_SESSIONS: usize = 100_000;

/// Time after which unused counters expire.
const IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// The counters of all policies. They survive a reload of the config.
#[derive(Debug)]
pub struct SessionCounters {
    /// Random name of this process among those that count.
    replica: String,
    /// The usage of each session, by the key of its caller and its id.
    usage: Mutex<LruCache<[String; 2], CountedSession>>,
}

#[derive(Debug)]
struct CountedSession {
    /// By the name of the policy.
    policies: BTreeMap<String, Arc<SessionUsage>>,
    last_used: Instant,
}

/// Usage of one session, counted by one policy.
#[derive(Debug, Default)]
pub(super) struct SessionUsage {
    calls: AtomicU64,
    tokens: AtomicU64,
    /// Tokens of the response that is reported in chunks, as far as they are counted.
    reported: AtomicU64,
    /// Calls and tokens that other replicas have counted.
    others: [AtomicU64; 2],
}

impl Default for SessionCounters {
    fn default() -> Self {
        let max = NonZeroUsize::new(MAX_COUNTED_SESSIONS).unwrap_or(NonZeroUsize::MIN);
        Self {
            replica: Uuid::new_v4().simple().to_string(),
            usage: Mutex::new(LruCache::new(max)),
        }
    }
}

impl SessionCounters {
    /// The usage of a session, by the key of its caller and its id.
    pub(super) fn usage(&self, policy: &str, caller: &str, session_id: &str) -> Arc<SessionUsage> {
        self.with_session(caller, session_id, |policies| {
            let usage = policies.entry(policy.to_owned());
            Arc::clone(usage.or_default())
        })
    }

    /// Takes over what other replicas have counted in a session: calls and tokens by policy
    /// and replica.
    pub fn read(
        &self,
        caller: &str,
        session_id: &str,
        stored: &BTreeMap<String, BTreeMap<String, [u64; 2]>>,
    ) {
        if stored.is_empty() {
            return;
        }
        self.with_session(caller, session_id, |policies| {
            for (policy, replicas) in stored {
                let others = replicas.iter().filter(|(name, _)| **name != self.replica);
                let sum = others.fold([0_u64; 2], |[calls, tokens], (_, [more, used])| {
                    [calls.saturating_add(*more), tokens.saturating_add(*used)]
                });
                let usage = policies.entry(policy.clone()).or_default();
                for (counter, sum) in usage.others.iter().zip(sum) {
                    counter.fetch_max(sum, Ordering::Relaxed);
                }
            }
        });
    }

    /// Writes what this replica has counted in a session. Returns whether any of it was not stored.
    pub fn write(
        &self,
        caller: &str,
        session_id: &str,
        stored: &mut BTreeMap<String, BTreeMap<String, [u64; 2]>>,
    ) -> bool {
        let mut sessions = self.usage.lock();
        let key = [caller, session_id].map(str::to_owned);
        let Some(session) = sessions.get_mut(&key) else {
            return false;
        };
        let mut is_changed = false;
        for (policy, usage) in &session.policies {
            let own = [&usage.calls, &usage.tokens].map(|counter| counter.load(Ordering::Relaxed));
            if own != [0, 0] {
                let replicas = stored.entry(policy.clone()).or_default();
                is_changed |= replicas.insert(self.replica.clone(), own) != Some(own);
            }
        }
        is_changed
    }

    /// Removes the counters of a session.
    pub fn remove(&self, caller: &str, session_id: &str) {
        let key = [caller, session_id].map(str::to_owned);
        self.usage.lock().pop(&key);
    }

    fn with_session<T>(
        &self,
        caller: &str,
        session_id: &str,
        work: impl FnOnce(&mut BTreeMap<String, Arc<SessionUsage>>) -> T,
    ) -> T {
        let key = [caller, session_id].map(str::to_owned);
        let now = Instant::now();
        let mut sessions = self.usage.lock();
        let session = sessions.get_or_insert_mut(key, || CountedSession {
            policies: BTreeMap::new(),
            last_used: now,
        });
        if now.duration_since(session.last_used) > IDLE_TIMEOUT {
            session.policies.clear();
        }
        session.last_used = now;
        work(&mut session.policies)
    }
}

impl SessionUsage {
    /// Counts a call and returns true, unless `max` calls are counted already.
    pub(super) fn try_count_call(&self, max: u64) -> bool {
        let [others, _] = &self.others;
        let order = Ordering::Relaxed;
        let max = max.saturating_sub(others.load(order));
        let increment = |calls| (calls < max).then_some(calls + 1);
        self.calls.fetch_update(order, order, increment).is_ok()
    }

    pub(super) fn count_tokens(&self, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Counts the tokens of a reported chunk by the total of its response so far. A total that is
    /// smaller than the one before begins another response.
    pub(super) fn count_reported_tokens(&self, total: u64) {
        if total > 0 {
            let counted = self.reported.swap(total, Ordering::Relaxed);
            self.count_tokens(total.checked_sub(counted).unwrap_or(total));
        }
    }

    /// Starts the count of another reported response.
    pub(super) fn begin_reported_response(&self) {
        self.reported.store(0, Ordering::Relaxed);
    }

    /// Returns the tokens that all replicas have counted.
    pub(super) fn tokens(&self) -> u64 {
        let [_, others] = &self.others;
        let own = self.tokens.load(Ordering::Relaxed);
        own.saturating_add(others.load(Ordering::Relaxed))
    }
}
