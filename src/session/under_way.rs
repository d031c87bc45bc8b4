//! Sessions whose requests are being answered in this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::SessionKey;

/// How many requests of each session are being answered.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<SessionKey, usize>>);

/// One request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct Begun {
    key: SessionKey,
    all: Arc<UnderWay>,
}

impl UnderWay {
    /// Whether any request of a session is being answered.
    pub(super) fn has(&self, key: &SessionKey) -> bool {
        self.requests().contains_key(key)
    }

    /// A request of a session begins.
    pub(super) fn begin(all: &Arc<Self>, key: &SessionKey) -> Begun {
        *all.requests().entry(key.clone()).or_default() += 1;
        Begun {
            key: key.clone(),
            all: Arc::clone(all),
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<SessionKey, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut requests = self.all.requests();
        if let Some(count) = requests.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                requests.remove(&self.key);
            }
        }
    }
}
