//! Sessions in the memory of this process.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use lru::LruCache;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    mutex::Mutex,
    session::{
        fingerprint::{Fingerprint, FingerprintBuildHasher, Fingerprinter},
        session_key::SessionKey,
        state::SessionState,
    },
};

/// Most bytes per session, on average over all sessions.
const BYTES_PER_SESSION: usize = 16 << 10;

/// Lower bound of the memory limit, for small numbers of sessions.
const MIN_STORE_BYTES: usize = 64 << 20;

/// Most indexed fingerprints per session. The oldest are removed first.
const MAX_FINGERPRINTS: usize = 16_384;

/// Session store in memory, bounded in number, bytes and idle time.
#[derive(Debug)]
pub struct MemoryStore {
    fingerprinter: Fingerprinter,
    idle_timeout: Duration,
    inner: Mutex<MemoryStoreInner>,
}

#[derive(Debug)]
struct MemoryStoreInner {
    /// Most recently used first.
    sessions: LruCache<Arc<SessionKey>, MemoryEntry>,
    fingerprint_index: FingerprintIndex,
    max: usize,
    memory_bytes: usize,
    /// Remains of sessions that have ended, which `memory_bytes` does not count.
    ended: Vec<(SessionKey, SessionState)>,
}

type FingerprintIndex = HashMap<Fingerprint, Arc<SessionKey>, FingerprintBuildHasher>;

#[derive(Debug)]
struct MemoryEntry {
    state: SessionState,
    /// Oldest first. Some may be indexed for another session by now.
    fingerprints: VecDeque<Fingerprint>,
    last_used: Instant,
    memory_bytes: usize,
    version: Uuid,
    all_fingerprints_written: Option<Instant>,
}

/// Fingerprints of a session to write to a shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FingerprintSync {
    /// All of them, since they may have expired there.
    All,
    /// Those that were not indexed before.
    New,
}

impl MemoryStore {
    /// Returns a store of at most `max` sessions, which end after `idle_timeout`
    /// without a request.
    pub fn new(max: usize, idle_timeout: Duration) -> Self {
        Self {
            fingerprinter: Fingerprinter::new(Uuid::new_v4().into_bytes()),
            idle_timeout,
            inner: Mutex::new(MemoryStoreInner {
                sessions: LruCache::unbounded(),
                fingerprint_index: HashMap::default(),
                max,
                memory_bytes: 0,
                ended: Vec::new(),
            }),
        }
    }

    /// Returns the fingerprinter of this process.
    pub(super) fn fingerprinter(&self) -> Fingerprinter {
        self.fingerprinter.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.inner.lock().sessions.len()
    }

    /// Returns the position of the first fingerprint that is indexed, and the id of its
    /// session.
    pub(super) fn find(&self, fingerprints: &[Fingerprint]) -> Option<(usize, String)> {
        let inner = self.inner.lock();
        let index = &inner.fingerprint_index;
        let mut fingerprints = fingerprints.iter().enumerate();
        fingerprints.find_map(|(position, wanted)| Some((position, index.get(wanted)?.id.clone())))
    }

    pub(super) fn load(&self, key: &SessionKey) -> Option<SessionState> {
        Some(self.inner.lock().sessions.peek(key)?.state.clone())
    }

    /// Merges and indexes a state. Returns the fingerprints that were not indexed for the
    /// session before.
    pub(super) fn save(
        &self,
        key: &SessionKey,
        state: SessionState,
        fingerprints: &[Fingerprint],
    ) -> Vec<Fingerprint> {
        self.inner.lock().save(key, state, fingerprints)
    }

    /// Merges and indexes a state, unless the session has ended.
    pub(super) fn update(
        &self,
        key: &SessionKey,
        state: SessionState,
        fingerprints: &[Fingerprint],
    ) {
        let mut inner = self.inner.lock();
        if inner.sessions.contains(key) {
            inner.save(key, state, fingerprints);
        }
    }

    pub(super) fn contains(&self, key: &SessionKey) -> bool {
        self.inner.lock().sessions.contains(key)
    }

    pub(super) fn remove(&self, key: &SessionKey) -> Option<SessionState> {
        self.inner.lock().remove(key)
    }

    /// Marks sessions as used now, if they have not ended.
    pub(super) fn touch(&self, keys: &[Arc<SessionKey>]) {
        let mut inner = self.inner.lock();
        for key in keys {
            // The session becomes the most recently used.
            if let Some(entry) = inner.sessions.get_mut(key) {
                entry.last_used = Instant::now();
            }
        }
    }

    /// Removes idle sessions, and returns all that ended since the last call.
    pub(super) fn expire(&self) -> Vec<(SessionKey, SessionState)> {
        let mut inner = self.inner.lock();
        let is_idle = |entry: &MemoryEntry| entry.last_used.elapsed() >= self.idle_timeout;
        while let Some((_, oldest)) = inner.sessions.peek_lru()
            && is_idle(oldest)
        {
            inner.end_oldest();
        }
        std::mem::take(&mut inner.ended)
    }

    pub(super) fn newest(&self, limit: usize) -> Vec<(SessionKey, SessionState)> {
        self.select(|_| true, limit)
    }

    pub(super) fn find_by_id(&self, id: &str) -> Vec<(SessionKey, SessionState)> {
        self.select(|key| key.id == id, usize::MAX)
    }

    /// Returns the fingerprints of a session.
    pub(super) fn fingerprints(&self, key: &SessionKey) -> Vec<Fingerprint> {
        let inner = self.inner.lock();
        let entry = inner.sessions.peek(key).into_iter();
        entry
            .flat_map(|entry| &entry.fingerprints)
            .copied()
            .collect()
    }

    /// Returns the version that a shared store had when it was last in sync with this
    /// one; nil if it never was.
    pub(super) fn version(&self, key: &SessionKey) -> Uuid {
        let inner = self.inner.lock();
        let entry = inner.sessions.peek(key);
        entry.map_or(Uuid::nil(), |entry| entry.version)
    }

    /// Records the version that a shared store has.
    pub(super) fn record_version(&self, key: &SessionKey, version: Uuid, sync: FingerprintSync) {
        if let Some(entry) = self.inner.lock().sessions.peek_mut(key) {
            entry.version = version;
            if sync == FingerprintSync::All {
                entry.all_fingerprints_written = Some(Instant::now());
            }
        }
    }

    /// Returns which fingerprints to write to a shared store, so that none expires there.
    pub(super) fn fingerprint_sync(&self, key: &SessionKey) -> FingerprintSync {
        let inner = self.inner.lock();
        let entry = inner.sessions.peek(key);
        match entry.and_then(|entry| entry.all_fingerprints_written) {
            Some(written) if written.elapsed() < self.idle_timeout => FingerprintSync::New,
            _ => FingerprintSync::All,
        }
    }

    fn select(
        &self,
        wanted: impl Fn(&SessionKey) -> bool,
        max: usize,
    ) -> Vec<(SessionKey, SessionState)> {
        let inner = self.inner.lock();
        let wanted = inner.sessions.iter().filter(|(key, _)| wanted(key));
        let pair = |(key, entry): (&Arc<SessionKey>, &MemoryEntry)| {
            (SessionKey::clone(key), entry.state.clone())
        };
        wanted.take(max).map(pair).collect()
    }
}

impl MemoryStoreInner {
    fn save(
        &mut self,
        key: &SessionKey,
        state: SessionState,
        fingerprints: &[Fingerprint],
    ) -> Vec<Fingerprint> {
        if !self.sessions.contains(key) {
            let key = Arc::new(key.clone());
            self.sessions.push(key, MemoryEntry::new());
        }
        // The session becomes the most recently used.
        let Some((key, entry)) = self.sessions.get_key_value_mut(key) else {
            return Vec::new();
        };
        let key = Arc::clone(key);
        entry.state.merge(state);
        let mut fresh = Vec::new();
        let surplus = fingerprints.len().saturating_sub(MAX_FINGERPRINTS);
        for fingerprint in fingerprints.iter().skip(surplus) {
            let index = &mut self.fingerprint_index;
            let before = index.insert(*fingerprint, Arc::clone(&key));
            if before.is_none_or(|before| before != key) {
                entry.fingerprints.push_back(*fingerprint);
                fresh.push(*fingerprint);
            }
        }
        while entry.fingerprints.len() > MAX_FINGERPRINTS {
            let oldest = entry.fingerprints.pop_front();
            unlink(&mut self.fingerprint_index, &key, oldest);
        }
        entry.last_used = Instant::now();
        self.memory_bytes -= entry.memory_bytes;
        entry.memory_bytes = entry.estimated_bytes(&key);
        self.memory_bytes += entry.memory_bytes;
        self.enforce_limits();
        fresh
    }

    fn enforce_limits(&mut self) {
        let max_bytes = self.max.saturating_mul(BYTES_PER_SESSION);
        let max_bytes = max_bytes.max(MIN_STORE_BYTES);
        while self.sessions.len() > self.max || self.memory_bytes > max_bytes {
            self.end_oldest();
        }
    }

    fn end_oldest(&mut self) {
        let Some((key, _)) = self.sessions.peek_lru() else {
            return;
        };
        let key = SessionKey::clone(key);
        if let Some(state) = self.remove(&key)
            && self.ended.len() < self.max
        {
            self.ended.push((key, state.ended()));
        }
    }

    fn remove(&mut self, key: &SessionKey) -> Option<SessionState> {
        let (key, entry) = self.sessions.pop_entry(key)?;
        unlink(&mut self.fingerprint_index, &key, entry.fingerprints);
        self.memory_bytes -= entry.memory_bytes;
        Some(entry.state)
    }
}

/// Removes index entries that still point to `key`.
fn unlink(
    index: &mut FingerprintIndex,
    key: &Arc<SessionKey>,
    fingerprints: impl IntoIterator<Item = Fingerprint>,
) {
    for fingerprint in fingerprints {
        if index.get(&fingerprint) == Some(key) {
            index.remove(&fingerprint);
        }
    }
}

impl MemoryEntry {
    fn new() -> Self {
        Self {
            state: SessionState::default(),
            fingerprints: VecDeque::new(),
            last_used: Instant::now(),
            memory_bytes: 0,
            version: Uuid::nil(),
            all_fingerprints_written: None,
        }
    }

    /// Estimates the memory of the entry and its index entries.
    fn estimated_bytes(&self, key: &SessionKey) -> usize {
        const ENTRY_BYTES: usize = 300;
        const FINGERPRINT_BYTES: usize = 64;
        let key = key.id.len() + key.caller.len();
        ENTRY_BYTES + key + self.state.memory_bytes() + self.fingerprints.len() * FINGERPRINT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

    fn key(id: &str) -> SessionKey {
        SessionKey {
            caller: String::new(),
            id: id.to_owned(),
        }
    }

    fn state(requests: u64) -> SessionState {
        SessionState {
            requests,
            ..SessionState::default()
        }
    }

    fn save(store: &MemoryStore, id: &str, fingerprints: &[u128]) {
        let fingerprints: Vec<Fingerprint> =
            fingerprints.iter().copied().map(Fingerprint).collect();
        store.save(&key(id), state(1), &fingerprints);
    }

    fn ended(store: &MemoryStore) -> Vec<String> {
        store.expire().into_iter().map(|entry| entry.0.id).collect()
    }

    #[test]
    fn fingerprints_point_to_the_session_that_had_them_last() {
        let store = MemoryStore::new(10, IDLE_TIMEOUT);
        save(&store, "a", &[1, 2, 3]);
        save(&store, "b", &[2]);

        let find = |fingerprints: &[u128]| {
            let fingerprints: Vec<Fingerprint> =
                fingerprints.iter().copied().map(Fingerprint).collect();
            store.find(&fingerprints)
        };
        assert_eq!(find(&[9, 3, 2]), Some((1, "a".to_owned())));
        assert_eq!(find(&[2, 1]), Some((0, "b".to_owned())));
        assert_eq!(store.remove(&key("a")), Some(state(1)));
        assert_eq!(find(&[1, 3]), None);
        assert_eq!(find(&[2]), Some((0, "b".to_owned())));
        assert_eq!(store.remove(&key("a")), None);
        assert!(ended(&store).is_empty());
    }

    #[test]
    fn callers_have_sessions_of_their_own() {
        let store = MemoryStore::new(10, IDLE_TIMEOUT);
        let other = SessionKey {
            caller: "b".to_owned(),
            ..key("a")
        };
        store.save(&key("a"), state(1), &[]);
        store.save(&other, state(5), &[]);

        assert_eq!(store.load(&key("a")), Some(state(1)));
        assert_eq!(store.load(&other), Some(state(5)));
        assert_eq!(store.select(|key| key.id == "a", 9).len(), 2);
    }

    #[test]
    fn saved_states_are_merged_and_new_fingerprints_returned_once() {
        let store = MemoryStore::new(10, IDLE_TIMEOUT);

        let fingerprints = store.save(&key("a"), state(5), &[Fingerprint(1), Fingerprint(2)]);
        let more = store.save(&key("a"), state(1), &[Fingerprint(2), Fingerprint(3)]);

        assert_eq!(store.load(&key("a")), Some(state(5)));
        assert_eq!(
            (fingerprints, more),
            (vec![Fingerprint(1), Fingerprint(2)], vec![Fingerprint(3)])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_ends_once() {
        let store = MemoryStore::new(10, IDLE_TIMEOUT);
        save(&store, "a", &[1]);
        save(&store, "b", &[2]);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        save(&store, "a", &[1]);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;

        assert_eq!(ended(&store), ["b"]);
        assert!(ended(&store).is_empty());
        assert!(store.load(&key("a")).is_some());
        tokio::time::advance(IDLE_TIMEOUT).await;
        assert_eq!(ended(&store), ["a"]);
        assert_eq!(store.find(&[Fingerprint(1), Fingerprint(2)]), None);
    }

    #[test]
    fn the_oldest_of_too_many_sessions_end() {
        let store = MemoryStore::new(2, IDLE_TIMEOUT);
        for id in ["a", "b", "a", "c"] {
            save(&store, id, &[]);
        }

        assert_eq!(ended(&store), ["b"]);
        let newest: Vec<_> = store.select(|_| true, 9);
        let newest: Vec<&str> = newest.iter().map(|(key, _)| key.id.as_str()).collect();
        assert_eq!(newest, ["c", "a"]);
        assert_eq!(store.count(), 2);
    }

    #[test]
    fn the_oldest_of_too_large_sessions_end() {
        let store = MemoryStore::new(100, IDLE_TIMEOUT);
        for id in 0..50 {
            let mut large = SessionState::default();
            large.revise(1, 1).context = Some("x".repeat(3 << 20));
            store.save(&key(&id.to_string()), large, &[]);
        }

        let count = store.count();
        assert_eq!(count, MIN_STORE_BYTES / (3 << 20));
        let ended = store.expire();
        assert_eq!(ended.len(), 50 - count);
        let bytes = ended.iter().map(|(_, state)| state.memory_bytes());
        assert!(bytes.sum::<usize>() < 50 << 10);
    }

    #[test]
    fn the_oldest_of_too_many_fingerprints_are_removed() {
        let store = MemoryStore::new(10, IDLE_TIMEOUT);
        let fingerprints: Vec<Fingerprint> =
            (0..=MAX_FINGERPRINTS as u128).map(Fingerprint).collect();
        let fresh = store.save(&key("a"), state(1), &fingerprints);

        assert_eq!(store.find(&[Fingerprint(0)]), None);
        assert!(store.find(&[Fingerprint(1)]).is_some());
        assert_eq!(fresh, fingerprints[1..]);
    }
}
