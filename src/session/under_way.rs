//! Sessions whose requests are being answered in this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Item, Print, SessionKey};

/// The requests of each session that are being answered, by the state of their
/// last item.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<SessionKey, Vec<Option<Print>>>>);

/// One request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct Begun {
    key: SessionKey,
    end: Option<Print>,
    all: Arc<UnderWay>,
}

impl UnderWay {
    /// Whether any request of a session is being answered.
    pub(super) fn has(&self, key: &SessionKey) -> bool {
        self.requests().contains_key(key)
    }

    /// Whether a request of a session is being answered that asks for something
    /// of which a conversation does not know.
    pub(super) fn has_other(&self, key: &SessionKey, conversation: &[Item]) -> bool {
        let knows = |end: &Print| conversation.iter().any(|it| it.state == *end);
        let requests = self.requests();
        let mut ends = requests.get(key).into_iter().flatten().flatten();
        ends.any(|it| !knows(it))
    }

    /// A request of a session begins.
    pub(super) fn begin(all: &Arc<Self>, key: &SessionKey, conversation: &[Item]) -> Begun {
        let end = conversation.last().map(|it| it.state);
        all.requests().entry(key.clone()).or_default().push(end);
        Begun {
            key: key.clone(),
            end,
            all: Arc::clone(all),
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<SessionKey, Vec<Option<Print>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut requests = self.all.requests();
        if let Some(ends) = requests.get_mut(&self.key) {
            if let Some(at) = ends.iter().position(|it| *it == self.end) {
                ends.swap_remove(at);
            }
            if ends.is_empty() {
                requests.remove(&self.key);
            }
        }
    }
}
