//! Sessions whose requests are being answered in this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Fingerprint, Item, SessionKey};

/// The requests of each session that are being answered, by the state of their
/// last item.
#[derive(Debug, Default)]
pub(super) struct ActiveRequests(Mutex<Requests>);

type Requests = HashMap<Arc<SessionKey>, Vec<Option<Fingerprint>>>;

/// What else of a session is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConcurrentRequests {
    /// No request.
    Nothing,
    /// Only what the conversation knows of.
    Known,
    /// A request for something of which the conversation does not know.
    Other,
}

/// One request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequestGuard {
    key: Arc<SessionKey>,
    end: Option<Fingerprint>,
    all: Arc<ActiveRequests>,
}

impl ActiveRequests {
    /// What else of a session is being answered, as a conversation sees it.
    pub(super) fn beside(&self, key: &SessionKey, conversation: &[Item]) -> ConcurrentRequests {
        let knows = |end: &Fingerprint| conversation.iter().any(|it| it.state == *end);
        let requests = self.requests();
        let Some(ends) = requests.get(key) else {
            return ConcurrentRequests::Nothing;
        };
        if ends.iter().flatten().all(knows) {
            ConcurrentRequests::Known
        } else {
            ConcurrentRequests::Other
        }
    }

    /// A request of a session begins.
    pub(super) fn begin(
        all: &Arc<Self>,
        key: &SessionKey,
        conversation: &[Item],
    ) -> ActiveRequestGuard {
        let end = conversation.last().map(|it| it.state);
        let key = Arc::new(key.clone());
        let mut requests = all.requests();
        requests.entry(Arc::clone(&key)).or_default().push(end);
        drop(requests);
        ActiveRequestGuard {
            key,
            end,
            all: Arc::clone(all),
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRequestGuard {
    fn drop(&mut self) {
        let mut requests = self.all.requests();
        let Some(mut ends) = requests.remove(&self.key) else {
            return;
        };
        if let Some(at) = ends.iter().position(|it| *it == self.end) {
            ends.swap_remove(at);
        }
        if !ends.is_empty() {
            requests.insert(Arc::clone(&self.key), ends);
        }
    }
}
