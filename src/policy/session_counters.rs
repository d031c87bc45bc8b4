//! Counters of policies per session. Bounded; the counters of an idle session
//! expire.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lru::LruCache;

/// Maximum number of sessions with counters, over all policies.
const MAX_COUNTED_SESSIONS: usize = 100_000;

/// Time after which unused counters expire.
const IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// The counters of all policies. They survive a reload of the config.
#[derive(Debug)]
pub struct SessionCounters {
    /// The usage of each session, by the name of the policy, the key of the caller and the id of
    /// the session.
    usage: Mutex<LruCache<[String; 3], LastUsage>>,
}

/// The usage of a session, and when it was last needed.
type LastUsage = (Arc<SessionUsage>, Instant);

/// Usage of one session, counted by one policy.
#[derive(Debug, Default)]
pub(super) struct SessionUsage {
    calls: AtomicU64,
    tokens: AtomicU64,
}

impl Default for SessionCounters {
    fn default() -> Self {
        let max = NonZeroUsize::new(MAX_COUNTED_SESSIONS).unwrap_or(NonZeroUsize::MIN);
        Self {
            usage: Mutex::new(LruCache::new(max)),
        }
    }
}

impl SessionCounters {
    /// The usage of a session, by the key of its caller and its id.
    pub(super) fn usage(&self, policy: &str, caller: &str, session_id: &str) -> Arc<SessionUsage> {
        let key = [policy, caller, session_id].map(str::to_owned);
        let now = Instant::now();
        let mut sessions = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let (usage, last_used) = sessions.get_or_insert_mut(key, || (Arc::default(), now));
        if now.duration_since(*last_used) > IDLE_TIMEOUT {
            *usage = Arc::default();
        }
        *last_used = now;
        Arc::clone(usage)
    }
}

impl SessionUsage {
    /// Counts a call and returns true, unless `max` calls are counted already.
    pub(super) fn try_count_call(&self, max: u64) -> bool {
        let increment = |calls| (calls < max).then_some(calls + 1);
        let order = Ordering::Relaxed;
        self.calls.fetch_update(order, order, increment).is_ok()
    }

    pub(super) fn count_tokens(&self, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }
}
