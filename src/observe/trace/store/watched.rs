//! Sessions whose content is kept on purpose, for a while and with a reason.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::observe::trace::clock;

/// Watches at a time. The one that ends first is replaced.
const MAX_WATCHES: usize = 64;

/// A session whose content is kept until a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionWatch {
    /// Id of the session.
    pub session: String,
    /// Reason for which the content is needed.
    pub reason: String,
    /// Operator that asked for it; empty without users.
    pub by: String,
    /// End of the watch: RFC 3339 in UTC.
    #[serde(serialize_with = "as_time")]
    #[schema(value_type = String)]
    pub until: SystemTime,
}

/// All watches. Most gateways have none, which is found without a lock.
#[derive(Debug, Default)]
pub(crate) struct WatchedSessions {
    has_any: AtomicBool,
    watches: Mutex<Vec<SessionWatch>>,
}

impl WatchedSessions {
    pub(crate) fn add(&self, watch: SessionWatch) {
        let mut watches = self.watches();
        watches.retain(|other| other.session != watch.session);
        if watches.len() >= MAX_WATCHES {
            watches.sort_by_key(|watch| watch.until);
            watches.remove(0);
        }
        watches.push(watch);
        self.has_any.store(true, Ordering::Relaxed);
    }

    /// Returns whether there are watches, some of which may have ended.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    pub(crate) fn includes(&self, session: &str) -> bool {
        self.has_any()
            && !session.is_empty()
            && self
                .list(SystemTime::now())
                .iter()
                .any(|watch| watch.session == session)
    }

    /// Returns the watches that have not ended, and removes the others.
    pub(crate) fn list(&self, now: SystemTime) -> Vec<SessionWatch> {
        let mut watches = self.watches();
        watches.retain(|watch| watch.until > now);
        self.has_any.store(!watches.is_empty(), Ordering::Relaxed);
        watches.clone()
    }

    fn watches(&self) -> MutexGuard<'_, Vec<SessionWatch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn as_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&clock::rfc3339(clock::milliseconds(*time)))
}
