//! Session store in Redis, shared by several gateways.
//!
//! The memory of this process has a copy, which is used while Redis is unavailable. What
//! was saved in the meantime is written once Redis is available again.

mod codec;
mod lua;

use std::{collections::HashMap, sync::Arc, time::Duration};

use prometheus_client::metrics::counter::Counter;
use uuid::Uuid;

use self::{
    codec::{Version, key_of, key_of_name},
    lua::RedisLimits,
};
use super::memory::{FingerprintSync, MemoryStore};
use crate::{
    config::Secret,
    fleet::{RedisConnection, StoreError},
    mutex::Mutex,
    session::{
        fingerprint::{Fingerprint, Fingerprinter},
        session_key::SessionKey,
        state::SessionState,
    },
};

/// Sessions that are written, touched or expired by one call.
const BATCH_SIZE: usize = 100;

/// Fingerprints that one script looks up. Redis runs nothing else in the meantime.
const MAX_SEARCHED_KEYS: usize = 1024;

/// Attempts to merge a session with concurrent writes of other gateways.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// Session store in Redis with a copy of the sessions that this process has used.
#[derive(Debug)]
pub struct RedisStore {
    copy: MemoryStore,
    connection: RedisConnection,
    limits: RedisLimits,
    /// Secret of the fingerprints until Redis has one.
    own_secret: Uuid,
    /// Secret of the fingerprints in Redis, once it is known.
    shared_secret: Mutex<Option<Uuid>>,
    /// Saves that Redis does not have yet.
    pending: Mutex<PendingWrites>,
}

/// Sessions to write, each with the number of its last save.
#[derive(Debug, Default)]
struct PendingWrites {
    saves: u64,
    sessions: HashMap<SessionKey, u64>,
}

impl RedisStore {
    /// A store in the Redis at `url`, of at most `max` sessions, which end
    /// after `idle` without a request. Each time that Redis is away is
    /// counted in `failures`. Connects on first use.
    pub fn new(
        url: &Secret,
        max: usize,
        idle: Duration,
        failures: Counter,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            copy: MemoryStore::new(max, idle),
            connection: RedisConnection::new(url, "sessions", failures)?,
            limits: RedisLimits { max, idle },
            own_secret: Uuid::new_v4(),
            shared_secret: Mutex::default(),
            pending: Mutex::default(),
        })
    }

    /// Returns a fingerprinter with the shared secret, if Redis is available.
    pub(super) async fn fingerprinter(&self) -> Fingerprinter {
        if self.shared_secret.lock().is_none() {
            self.sync_secret().await;
        }
        Fingerprinter::new(self.secret().into_bytes())
    }

    fn secret(&self) -> Uuid {
        self.shared_secret.lock().unwrap_or(self.own_secret)
    }

    /// Takes over the shared secret. The first gateway creates it.
    async fn sync_secret(&self) {
        let call = lua::secret(self.secret());
        let secret: Option<Vec<u8>> = self.connection.run_script(&call).await;
        if let Some(secret) = secret.and_then(|bytes| Uuid::from_slice(&bytes).ok()) {
            *self.shared_secret.lock() = Some(secret);
        }
    }

    pub(super) async fn find(&self, fingerprints: &[Fingerprint]) -> Option<(usize, String)> {
        let own = self.copy.find(fingerprints);
        // Later fingerprints cannot be a better match.
        let until = own.as_ref().map_or(fingerprints.len(), |(at, _)| at + 1);
        let batches = fingerprints.get(..until)?.chunks(MAX_SEARCHED_KEYS);
        for (batch, start) in batches.zip((0..).step_by(MAX_SEARCHED_KEYS)) {
            let call = lua::find(batch);
            let found: Option<Option<(usize, Vec<u8>)>> = self.connection.run_script(&call).await;
            let Some(found) = found else { break };
            if let Some((at, member)) = found {
                let key = key_of(&member);
                return key.map(|key| (start + at, key.id)).or(own);
            }
        }
        own
    }

    pub(super) async fn load(&self, key: &SessionKey) -> Option<SessionState> {
        let call = lua::load(key, self.copy.version(key));
        let changed: Option<Option<Vec<u8>>> = self.connection.run_script(&call).await;
        match changed.flatten().as_deref() {
            Some([]) => self.remove_ended(key),
            Some(blob) => {
                self.merge_blob(key, blob);
            }
            None => (),
        }
        self.copy.load(key)
    }

    pub(super) async fn save(
        &self,
        key: &SessionKey,
        state: SessionState,
        fingerprints: &[Fingerprint],
    ) {
        let fresh = self.copy.save(key, state, fingerprints);
        // If the agent disconnects now, the save stays pending.
        let save = self.add_pending(key);
        if self.write(key, &fresh).await {
            self.pending.lock().remove_written(key, save);
        }
    }

    /// Adds a pending save and returns its number.
    fn add_pending(&self, key: &SessionKey) -> u64 {
        let mut pending = self.pending.lock();
        // A session without a copy is not written.
        if pending.sessions.len() > 2 * self.copy.count() {
            pending.sessions.retain(|key, _| self.copy.contains(key));
        }
        pending.save(key)
    }

    pub(super) async fn update(
        &self,
        key: &SessionKey,
        state: SessionState,
        fingerprints: &[Fingerprint],
    ) {
        // Redis may have a session that is no longer copied.
        if self.copy.contains(key) || self.load(key).await.is_some() {
            self.save(key, state, fingerprints).await;
        }
    }

    /// Writes this process's copy of a session, merged with the stored one. `fresh` are
    /// fingerprints that were not indexed for it before. Returns `false` if it must be
    /// written later.
    async fn write(&self, key: &SessionKey, fresh: &[Fingerprint]) -> bool {
        let mut expected = self.copy.version(key);
        let mut sync = self.copy.fingerprint_sync(key);
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let Some(state) = self.copy.load(key) else {
                return true; // It has ended in the meantime.
            };
            let version = Version::new_v4();
            let Some(blob) = codec::encode(version, &state) else {
                return true; // It cannot be encoded later either.
            };
            let fingerprints = match sync {
                FingerprintSync::All => self.copy.fingerprints(key),
                FingerprintSync::New => fresh.to_vec(),
            };
            let call = self.limits.save(key, expected, blob, &fingerprints);
            let there: Option<Option<Vec<u8>>> = self.connection.run_script(&call).await;
            let Some(there) = there else {
                return false;
            };
            match there.as_deref() {
                None => {
                    self.copy.record_version(key, version, sync);
                    return true;
                }
                Some([]) => {
                    self.remove_ended(key);
                    return true;
                }
                Some(blob) => expected = self.merge_blob(key, blob),
            }
            if expected.is_nil() {
                // Redis has lost the session.
                sync = FingerprintSync::All;
            }
        }
        false
    }

    /// Removes the copy of a session that was ended, here or at another gateway.
    fn remove_ended(&self, key: &SessionKey) {
        self.copy.remove(key);
        self.pending.lock().sessions.remove(key);
    }

    /// Merges what another gateway wrote, and returns its version.
    fn merge_blob(&self, key: &SessionKey, blob: &[u8]) -> Version {
        let (version, state) = codec::decode(blob);
        if let Some(state) = state {
            self.copy.save(key, state, &[]);
            self.copy.record_version(key, version, FingerprintSync::New);
        }
        version
    }

    pub(super) async fn remove(&self, key: &SessionKey) -> Option<SessionState> {
        let state = self.load(key).await;
        self.remove_ended(key);
        let call = self.limits.end(key);
        let _gone: Option<()> = self.connection.run_script(&call).await;
        state
    }

    pub(super) fn count(&self) -> usize {
        self.copy.count()
    }

    pub(super) async fn newest(&self, limit: usize) -> Vec<(SessionKey, SessionState)> {
        let call = lua::newest(limit);
        let listed: Option<Vec<ListedSession>> = self.connection.run_script(&call).await;
        let Some(listed) = listed else {
            return self.copy.newest(limit);
        };
        let read =
            |(member, blob): ListedSession| Some((key_of(&member)?, codec::decode(&blob).1?));
        listed.into_iter().filter_map(read).collect()
    }

    pub(super) async fn find_by_id(&self, id: &str) -> Vec<(SessionKey, SessionState)> {
        let call = lua::called(id);
        let names: Option<Vec<Vec<u8>>> = self.connection.run_script(&call).await;
        let Some(names) = names else {
            return self.copy.find_by_id(id);
        };
        let mut found = Vec::new();
        for key in names.iter().filter_map(|name| key_of_name(name)) {
            let state = self.load(&key).await;
            found.extend(state.map(|state| (key, state)));
        }
        found
    }

    pub(super) async fn touch(&self, keys: &[Arc<SessionKey>]) {
        self.copy.touch(keys);
        for batch in keys.chunks(BATCH_SIZE) {
            let call = self.limits.touch(batch);
            let touched: Option<()> = self.connection.run_script(&call).await;
            if touched.is_none() {
                return;
            }
        }
    }

    pub(super) async fn expire(&self) -> Vec<(SessionKey, SessionState)> {
        // Only Redis decides which sessions have ended for all gateways.
        drop(self.copy.expire());
        self.connection.connect().await;
        self.sync_secret().await;
        while self.write_batch().await == BATCH_SIZE {}
        let mut ended = Vec::new();
        while self.claim_batch(&mut ended).await == BATCH_SIZE {}
        ended
    }

    /// Writes a batch of pending saves, and returns how many were written.
    async fn write_batch(&self) -> usize {
        let batch = self.pending.lock().batch();
        for (written, (key, save)) in batch.iter().enumerate() {
            if !self.write(key, &self.copy.fingerprints(key)).await {
                return written;
            }
            self.pending.lock().remove_written(key, *save);
        }
        batch.len()
    }

    /// Claims a batch of ended sessions, and returns their number.
    async fn claim_batch(&self, ended: &mut Vec<(SessionKey, SessionState)>) -> usize {
        let call = self.limits.claim(BATCH_SIZE);
        let claimed: Option<Vec<ListedSession>> = self.connection.run_script(&call).await;
        let claimed = claimed.unwrap_or_default();
        let count = claimed.len();
        ended.extend(claimed.into_iter().filter_map(|(member, blob)| {
            let key = key_of(&member)?;
            let mut state = self.copy.remove(&key).unwrap_or_default();
            state.merge(codec::decode(&blob).1.unwrap_or_default());
            Some((key, state.ended()))
        }));
        count
    }
}

/// Member and encoded state of a session.
type ListedSession = (Vec<u8>, Vec<u8>);

impl PendingWrites {
    fn save(&mut self, key: &SessionKey) -> u64 {
        self.saves += 1;
        self.sessions.insert(key.clone(), self.saves);
        self.saves
    }

    /// Removes a session unless it was saved again after save number `save`.
    fn remove_written(&mut self, key: &SessionKey, save: u64) {
        if self.sessions.get(key).is_some_and(|number| *number <= save) {
            self.sessions.remove(key);
        }
    }

    fn batch(&self) -> Vec<(SessionKey, u64)> {
        let pair = |(key, save): (&SessionKey, &u64)| (key.clone(), *save);
        self.sessions.iter().take(BATCH_SIZE).map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn saves_wait_for_redis_only_while_their_session_is_copied() {
        let url = Secret::from("redis://127.0.0.1:1".to_owned());
        let store = RedisStore::new(&url, 10, Duration::from_mins(1), Counter::default()).unwrap();

        for number in 0..1000 {
            let key = SessionKey::new("ab", number.to_string());
            store.save(&key, SessionState::default(), &[]).await;
        }

        let pending = store.pending.lock().sessions.len();
        assert!((10..=30).contains(&pending), "{pending}");
    }
}
