//! Requests in flight in this process, by session.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use tokio::sync::OwnedMutexGuard;

use super::{conversation::Item, fingerprint::Fingerprint, session_key::SessionKey};
use crate::mutex::Mutex;

/// Requests in flight of each session, by the prefix of their last item. Helper calls and requests
/// whose response is recorded have none, but their session is in use.
#[derive(Debug, Default)]
pub(super) struct ActiveRequests(Mutex<PrefixesBySession>);

/// Locks of the sessions that are being started, so that concurrent first calls start a session
/// once.
#[derive(Debug, Default)]
pub(super) struct StartLocks(Mutex<HashMap<SessionKey, Weak<StartLock>>>);

type StartLock = tokio::sync::Mutex<()>;

type PrefixesBySession = HashMap<Arc<SessionKey>, Vec<Option<Fingerprint>>>;

/// Other requests in flight of a session, as seen from one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConcurrentRequests {
    /// No other request is in flight.
    None,
    /// Only requests that the conversation contains.
    Contained,
    /// A request that is not part of the conversation.
    Diverging,
}

/// Marks a request as in flight, and its session as in use, until it is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequestGuard {
    key: Arc<SessionKey>,
    prefix: Option<Fingerprint>,
    requests: Arc<ActiveRequests>,
}

impl ActiveRequests {
    /// Compares the requests in flight of a session with a conversation.
    pub(super) fn compare(&self, key: &SessionKey, conversation: &[Item]) -> ConcurrentRequests {
        let contains =
            |prefix: &Fingerprint| conversation.iter().any(|item| item.prefix == *prefix);
        let requests = self.0.lock();
        let mut prefixes = requests.get(key).into_iter().flatten().flatten();
        match prefixes.clone().next() {
            None => ConcurrentRequests::None,
            Some(_) if prefixes.all(contains) => ConcurrentRequests::Contained,
            Some(_) => ConcurrentRequests::Diverging,
        }
    }

    /// Returns the sessions that are in use.
    pub(super) fn sessions(&self) -> Vec<Arc<SessionKey>> {
        self.0.lock().keys().cloned().collect()
    }

    /// Marks a request of a session as in flight. `prefix` is that of its last item; `None` for a
    /// helper call.
    pub(super) fn start(
        self: &Arc<Self>,
        key: &SessionKey,
        prefix: Option<Fingerprint>,
    ) -> ActiveRequestGuard {
        let key = Arc::new(key.clone());
        let mut requests = self.0.lock();
        requests.entry(Arc::clone(&key)).or_default().push(prefix);
        drop(requests);
        ActiveRequestGuard {
            key,
            prefix,
            requests: Arc::clone(self),
        }
    }
}

impl ActiveRequestGuard {
    /// Records that the request has its response.
    pub(super) fn finish(&mut self) {
        let finished = self.prefix.take();
        let mut requests = self.requests.0.lock();
        let mut prefixes = requests.get_mut(&self.key).into_iter().flatten();
        if let Some(prefix) = prefixes.find(|prefix| **prefix == finished) {
            *prefix = None;
        }
    }
}

impl StartLocks {
    /// Waits until no other request starts the session.
    pub(super) async fn lock(&self, key: &SessionKey) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            locks.retain(|_, lock| lock.strong_count() > 0);
            let lock = locks.get(key).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(key.clone(), Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}

impl Drop for ActiveRequestGuard {
    fn drop(&mut self) {
        let mut requests = self.requests.0.lock();
        let Some(mut prefixes) = requests.remove(&self.key) else {
            return;
        };
        if let Some(at) = prefixes.iter().position(|prefix| *prefix == self.prefix) {
            prefixes.swap_remove(at);
        }
        if !prefixes.is_empty() {
            requests.insert(Arc::clone(&self.key), prefixes);
        }
    }
}
