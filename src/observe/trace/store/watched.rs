//! Sessions whose content is kept on purpose, for a while and with a reason.

use std::{
    sync::{
        MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    mutex::Mutex,
    timestamp::{milliseconds, rfc3339_ms},
};

/// Watches at a time. The one that ends first is replaced.
const MAX_WATCHES: usize = 64;

/// A session whose content is kept until a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionWatch {
    /// Id of the session.
    pub session: String,
    /// Key, or its begin, of the caller whose session it is, empty for one without a credential;
    /// absent for the sessions of all callers with this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Reason for which the content is needed.
    pub reason: String,
    /// Operator that asked for it; `local` if no credential is configured.
    pub by: String,
    /// End of the watch: RFC 3339 in UTC.
    #[serde(serialize_with = "as_time")]
    #[schema(value_type = String)]
    pub until: SystemTime,
}

impl SessionWatch {
    /// Returns whether it includes the session of a caller.
    pub fn includes(&self, session: &str, caller: &str) -> bool {
        let mut callers = self.caller.iter();
        self.session == session && callers.all(|begin| is_key_begin(begin, caller))
    }
}

/// Returns whether a text is the begin of a caller's key. The key of a caller without a credential
/// is empty.
pub fn is_key_begin(begin: &str, key: &str) -> bool {
    key.starts_with(begin) && key.is_empty() == begin.is_empty()
}

/// All watches. Most gateways have none, which is found without a lock.
#[derive(Debug, Default)]
pub(crate) struct WatchedSessions {
    has_any: AtomicBool,
    watches: Mutex<Vec<SessionWatch>>,
}

impl WatchedSessions {
    pub(crate) fn add(&self, watch: SessionWatch) {
        let mut watches = self.watches.lock();
        watches.retain(|other| (&other.session, &other.caller) != (&watch.session, &watch.caller));
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

    pub(crate) fn includes(&self, session: &str, caller: &str) -> bool {
        self.has_any()
            && !session.is_empty()
            && self
                .current(SystemTime::now())
                .iter()
                .any(|watch| watch.includes(session, caller))
    }

    /// Returns the watches that have not ended.
    pub(crate) fn list(&self, now: SystemTime) -> Vec<SessionWatch> {
        self.current(now).clone()
    }

    /// Removes the watches that have ended, and locks the others.
    fn current(&self, now: SystemTime) -> MutexGuard<'_, Vec<SessionWatch>> {
        let mut watches = self.watches.lock();
        watches.retain(|watch| watch.until > now);
        self.has_any.store(!watches.is_empty(), Ordering::Relaxed);
        watches
    }
}

fn as_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_ms(milliseconds(*time)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_watch_of_one_caller_excludes_sessions_of_others() {
        let watched = WatchedSessions::default();
        let watch = |session: &str, caller: Option<&str>| SessionWatch {
            session: session.to_owned(),
            caller: caller.map(str::to_owned),
            reason: "ticket 7".to_owned(),
            by: String::new(),
            until: SystemTime::now() + Duration::from_mins(1),
        };
        watched.add(watch("one", Some("a")));
        watched.add(watch("one", Some("")));
        watched.add(watch("all", None));
        watched.add(watch("begin", Some("a")));

        let included = |session| ["a", "b", ""].map(|caller| watched.includes(session, caller));

        assert_eq!(included("one"), [true, false, true]);
        assert_eq!(included("all"), [true; 3]);
        assert_eq!(included("other"), [false; 3]);
        assert!(watched.includes("begin", "ab"));
        assert!(!watched.includes("begin", "ba"));
    }
}
