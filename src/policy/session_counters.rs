//! What policies count, per session. Bounded; a session that was idle for long
//! starts anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use moka::sync::Cache;

use super::Occasion;

/// How many tallies are kept.
const MOST: u64 = 100_000;

/// How long one is kept after it was last of use.
const IDLE: Duration = Duration::from_hours(24);

/// The counts of all policies. It outlives every config.
#[derive(Debug)]
pub struct SessionCounters {
    tallies: Cache<Account, Arc<Tally>>,
}

/// Whose count it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Account {
    policy: String,
    caller: String,
    session_id: String,
}

/// The counts of one policy for one session.
#[derive(Debug, Default)]
pub(super) struct Tally {
    calls: AtomicU64,
    tokens: AtomicU64,
}

impl Default for SessionCounters {
    fn default() -> Self {
        let tallies = Cache::builder().max_capacity(MOST).time_to_idle(IDLE);
        Self {
            tallies: tallies.build(),
        }
    }
}

impl SessionCounters {
    /// The counts for the policy and the session of `occasion`.
    pub(super) fn tally(&self, occasion: &Occasion<'_>) -> Arc<Tally> {
        let account = Account {
            policy: occasion.policy.to_owned(),
            caller: occasion.context.caller.key.clone(),
            session_id: occasion.context.session_id.clone(),
        };
        self.tallies.get_with(account, Arc::default)
    }
}

impl Tally {
    /// Counts a call, unless `most` were counted already. Whether it did.
    pub(super) fn count_call(&self, most: u64) -> bool {
        let one_more = |calls| (calls < most).then_some(calls + 1);
        let order = Ordering::Relaxed;
        self.calls.fetch_update(order, order, one_more).is_ok()
    }

    /// Counts tokens.
    pub(super) fn count_tokens(&self, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// The tokens counted so far.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }
}
