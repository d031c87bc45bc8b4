//! Sessions in this process's memory.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lru::LruCache;
use tokio::time::Instant;
use uuid::Uuid;

use super::session_store::{SessionStore, StoreFuture};
use crate::session::{
    fingerprint::{Fingerprint, FingerprintBuildHasher, Fingerprinter},
    session_key::SessionKey,
    state::SessionState,
};

/// How many bytes a session has on average at most, all in all.
const SHARE: usize = 16 << 10;

/// What is granted to however few sessions, in bytes.
const LEAST: usize = 64 << 20;

/// How many prints lead to one session. Of more, the oldest do not any longer.
const MOST_PRINTS: usize = 16_384;

/// Sessions in this process's memory: so many, so large, and for so long.
#[derive(Debug)]
pub struct MemoryStore {
    fingerprinter: Fingerprinter,
    idle: Duration,
    kept: Mutex<MemoryStoreInner>,
}

/// What the lock guards.
#[derive(Debug)]
struct MemoryStoreInner {
    /// The one that was heard of last is first.
    sessions: LruCache<Arc<SessionKey>, MemoryEntry>,
    leads: Leads,
    max: usize,
    weight: usize,
    ended: Vec<(SessionKey, SessionState)>,
}

/// Which session a print leads to.
type Leads = HashMap<Fingerprint, Arc<SessionKey>, FingerprintBuildHasher>;

#[derive(Debug)]
struct MemoryEntry {
    state: SessionState,
    /// What leads here, from the oldest on; some may lead elsewhere by now.
    prints: VecDeque<Fingerprint>,
    heard: Instant,
    weight: usize,
    stamp: Uuid,
    told_prints: Option<Instant>,
}

/// What a shared store is told of what leads to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FingerprintSync {
    /// All that does.
    AllPrints,
    /// What did not before.
    NewPrints,
}

impl MemoryStore {
    /// A store of at most `max` sessions, which end when nothing is heard of
    /// them for `idle`.
    pub fn new(max: usize, idle: Duration) -> Self {
        Self {
            fingerprinter: Fingerprinter::new(Uuid::new_v4().into_bytes()),
            idle,
            kept: Mutex::new(MemoryStoreInner {
                sessions: LruCache::unbounded(),
                leads: HashMap::default(),
                max,
                weight: 0,
                ended: Vec::new(),
            }),
        }
    }

    /// See [`SessionStore::find`].
    pub(super) fn find_now(&self, prints: &[Fingerprint]) -> Option<(usize, String)> {
        let kept = self.kept();
        let mut led = prints.iter().map(|it| kept.leads.get(it)).enumerate();
        led.find_map(|(position, key)| Some((position, key?.id.clone())))
    }

    /// See [`SessionStore::load`].
    pub(super) fn load_now(&self, key: &SessionKey) -> Option<SessionState> {
        self.kept().sessions.peek(key).map(|it| it.state.clone())
    }

    /// See [`SessionStore::save`]; says which prints did not lead there before.
    pub(super) fn save_now(
        &self,
        key: &SessionKey,
        state: SessionState,
        prints: &[Fingerprint],
    ) -> Vec<Fingerprint> {
        let mut kept = self.kept();
        let fresh = kept.save(key, state, prints);
        kept.make_room();
        fresh
    }

    /// See [`SessionStore::remove`].
    pub(super) fn remove_now(&self, key: &SessionKey) -> Option<SessionState> {
        self.kept().remove(key)
    }

    /// See [`SessionStore::expire`].
    pub(super) fn expire_now(&self) -> Vec<(SessionKey, SessionState)> {
        let mut kept = self.kept();
        while kept.oldest().is_some_and(|it| it.elapsed() >= self.idle) {
            kept.end_the_oldest();
        }
        std::mem::take(&mut kept.ended)
    }

    /// See [`SessionStore::newest`].
    pub(super) fn newest_now(&self, limit: usize) -> Vec<(SessionKey, SessionState)> {
        self.select(|_| true, limit)
    }

    /// See [`SessionStore::find_by_id`].
    pub(super) fn find_by_id_now(&self, id: &str) -> Vec<(SessionKey, SessionState)> {
        self.select(|it| it.id == id, usize::MAX)
    }

    /// What leads to a session.
    pub(super) fn prints(&self, key: &SessionKey) -> Vec<Fingerprint> {
        let kept = self.kept();
        let entry = kept.sessions.peek(key);
        entry.map_or_else(Vec::new, |it| it.prints.iter().copied().collect())
    }

    /// The version of a session that a shared store had when it was the same as
    /// this one; nil if it never was.
    pub(super) fn stamp(&self, key: &SessionKey) -> Uuid {
        let kept = self.kept();
        kept.sessions.peek(key).map_or(Uuid::nil(), |it| it.stamp)
    }

    /// A shared store has this version of a session.
    pub(super) fn stamped(&self, key: &SessionKey, stamp: Uuid, told: FingerprintSync) {
        if let Some(entry) = self.kept().sessions.peek_mut(key) {
            entry.stamp = stamp;
            if told == FingerprintSync::AllPrints {
                entry.told_prints = Some(Instant::now());
            }
        }
    }

    /// What a shared store should be told of a session, so that it does not
    /// remove what leads there.
    pub(super) fn prints_to_tell(&self, key: &SessionKey) -> FingerprintSync {
        let kept = self.kept();
        let entry = kept.sessions.peek(key);
        match entry.and_then(|it| it.told_prints) {
            Some(told) if told.elapsed() < self.idle => FingerprintSync::NewPrints,
            _ => FingerprintSync::AllPrints,
        }
    }

    fn select(
        &self,
        wanted: impl Fn(&SessionKey) -> bool,
        most: usize,
    ) -> Vec<(SessionKey, SessionState)> {
        let kept = self.kept();
        let wanted = kept.sessions.iter().filter(|(key, _)| wanted(key));
        let pair = |(key, entry): (&Arc<SessionKey>, &MemoryEntry)| {
            (SessionKey::clone(key), entry.state.clone())
        };
        wanted.take(most).map(pair).collect()
    }

    fn kept(&self) -> MutexGuard<'_, MemoryStoreInner> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryStoreInner {
    fn save(
        &mut self,
        key: &SessionKey,
        state: SessionState,
        prints: &[Fingerprint],
    ) -> Vec<Fingerprint> {
        if !self.sessions.contains(key) {
            self.sessions
                .push(Arc::new(key.clone()), MemoryEntry::new());
        }
        // It becomes the one that was heard of last.
        let Some((key, entry)) = self.sessions.get_key_value_mut(key) else {
            return Vec::new();
        };
        let key = Arc::clone(key);
        entry.state.merge(state);
        let mut fresh = Vec::new();
        for print in prints {
            let before = self.leads.insert(*print, Arc::clone(&key));
            if before.is_none_or(|it| it != key) {
                entry.prints.push_back(*print);
                fresh.push(*print);
            }
        }
        while entry.prints.len() > MOST_PRINTS {
            let oldest = entry.prints.pop_front();
            mislead(&mut self.leads, &key, oldest);
        }
        entry.heard = Instant::now();
        self.weight -= entry.weight;
        entry.weight = entry.weigh(&key);
        self.weight += entry.weight;
        fresh
    }

    fn make_room(&mut self) {
        let most = self.max.saturating_mul(SHARE).max(LEAST);
        while self.sessions.len() > self.max || self.weight > most {
            self.end_the_oldest();
        }
    }

    /// When the session was heard of that was heard of the longest ago.
    fn oldest(&self) -> Option<Instant> {
        self.sessions.peek_lru().map(|(_, entry)| entry.heard)
    }

    fn end_the_oldest(&mut self) {
        let Some((key, _)) = self.sessions.peek_lru() else {
            return;
        };
        let key = SessionKey::clone(key);
        if let Some(state) = self.remove(&key)
            && self.ended.len() < self.max
        {
            self.ended.push((key, state));
        }
    }

    fn remove(&mut self, key: &SessionKey) -> Option<SessionState> {
        let (key, entry) = self.sessions.pop_entry(key)?;
        mislead(&mut self.leads, &key, entry.prints);
        self.weight -= entry.weight;
        Some(entry.state)
    }
}

/// Fingerprints lead no longer to a session, if they did.
fn mislead(
    leads: &mut Leads,
    key: &Arc<SessionKey>,
    prints: impl IntoIterator<Item = Fingerprint>,
) {
    for print in prints {
        if leads.get(&print) == Some(key) {
            leads.remove(&print);
        }
    }
}

impl MemoryEntry {
    fn new() -> Self {
        Self {
            state: SessionState::default(),
            prints: VecDeque::new(),
            heard: Instant::now(),
            weight: 0,
            stamp: Uuid::nil(),
            told_prints: None,
        }
    }

    /// About how many bytes it takes, with what leads here.
    fn weigh(&self, key: &SessionKey) -> usize {
        const AN_ENTRY: usize = 300;
        const A_PRINT: usize = 64;
        let key = key.id.len() + key.caller.len();
        AN_ENTRY + key + self.state.weight() + self.prints.len() * A_PRINT
    }
}

impl SessionStore for MemoryStore {
    fn fingerprinter(&self) -> StoreFuture<'_, Fingerprinter> {
        ready(self.fingerprinter.clone())
    }

    fn find<'a>(&'a self, prints: &'a [Fingerprint]) -> StoreFuture<'a, Option<(usize, String)>> {
        ready(self.find_now(prints))
    }

    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<SessionState>> {
        ready(self.load_now(key))
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        state: SessionState,
        prints: &'a [Fingerprint],
    ) -> StoreFuture<'a, ()> {
        self.save_now(key, state, prints);
        ready(())
    }

    fn remove<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<SessionState>> {
        ready(self.remove_now(key))
    }

    fn newest(&self, limit: usize) -> StoreFuture<'_, Vec<(SessionKey, SessionState)>> {
        ready(self.newest_now(limit))
    }

    fn find_by_id<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Vec<(SessionKey, SessionState)>> {
        ready(self.find_by_id_now(id))
    }

    fn expire(&self) -> StoreFuture<'_, Vec<(SessionKey, SessionState)>> {
        ready(self.expire_now())
    }

    fn count(&self) -> usize {
        self.kept().sessions.len()
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_mins(1);

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

    fn save(store: &MemoryStore, id: &str, prints: &[u128]) {
        let prints: Vec<Fingerprint> = prints.iter().copied().map(Fingerprint).collect();
        store.save_now(&key(id), state(1), &prints);
    }

    fn ended(store: &MemoryStore) -> Vec<String> {
        store.expire_now().into_iter().map(|it| it.0.id).collect()
    }

    #[test]
    fn prints_lead_to_the_session_that_had_them_last() {
        let store = MemoryStore::new(10, IDLE);
        save(&store, "a", &[1, 2, 3]);
        save(&store, "b", &[2]);

        let find = |prints: &[u128]| {
            let prints: Vec<Fingerprint> = prints.iter().copied().map(Fingerprint).collect();
            store.find_now(&prints)
        };
        assert_eq!(find(&[9, 3, 2]), Some((1, "a".to_owned())));
        assert_eq!(find(&[2, 1]), Some((0, "b".to_owned())));
        assert_eq!(store.remove_now(&key("a")), Some(state(1)));
        assert_eq!(find(&[1, 3]), None);
        assert_eq!(find(&[2]), Some((0, "b".to_owned())));
        assert_eq!(store.remove_now(&key("a")), None);
        assert!(ended(&store).is_empty());
    }

    #[test]
    fn callers_have_sessions_of_their_own() {
        let store = MemoryStore::new(10, IDLE);
        let other = SessionKey {
            caller: "b".to_owned(),
            ..key("a")
        };
        store.save_now(&key("a"), state(1), &[]);
        store.save_now(&other, state(5), &[]);

        assert_eq!(store.load_now(&key("a")), Some(state(1)));
        assert_eq!(store.load_now(&other), Some(state(5)));
        assert_eq!(store.select(|it| it.id == "a", 9).len(), 2);
    }

    #[test]
    fn what_is_saved_is_merged_and_new_prints_are_said_once() {
        let store = MemoryStore::new(10, IDLE);

        let prints = store.save_now(&key("a"), state(5), &[Fingerprint(1), Fingerprint(2)]);
        let more = store.save_now(&key("a"), state(1), &[Fingerprint(2), Fingerprint(3)]);

        assert_eq!(store.load_now(&key("a")), Some(state(5)));
        assert_eq!(
            (prints, more),
            (vec![Fingerprint(1), Fingerprint(2)], vec![Fingerprint(3)])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_nothing_is_heard_of_it_and_is_told_once() {
        let store = MemoryStore::new(10, IDLE);
        save(&store, "a", &[1]);
        save(&store, "b", &[2]);
        tokio::time::advance(IDLE / 2).await;
        save(&store, "a", &[1]);
        tokio::time::advance(IDLE / 2).await;

        assert_eq!(ended(&store), ["b"]);
        assert!(ended(&store).is_empty());
        assert!(store.load_now(&key("a")).is_some());
        tokio::time::advance(IDLE).await;
        assert_eq!(ended(&store), ["a"]);
        assert_eq!(store.find_now(&[Fingerprint(1), Fingerprint(2)]), None);
    }

    #[test]
    fn of_too_many_sessions_the_oldest_end() {
        let store = MemoryStore::new(2, IDLE);
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
    fn of_too_large_sessions_the_oldest_end() {
        let store = MemoryStore::new(100, IDLE);
        for id in 0..50 {
            let mut large = SessionState::default();
            large.revise(1, 1).context = Some("x".repeat(3 << 20));
            store.save_now(&key(&id.to_string()), large, &[]);
        }

        let count = store.count();
        assert_eq!(count, LEAST / (3 << 20));
        assert_eq!(ended(&store).len(), 50 - count);
    }

    #[test]
    fn of_too_many_prints_the_oldest_lead_nowhere() {
        let store = MemoryStore::new(10, IDLE);
        let prints: Vec<Fingerprint> = (0..=MOST_PRINTS as u128).map(Fingerprint).collect();
        store.save_now(&key("a"), state(1), &prints);

        assert_eq!(store.find_now(&[Fingerprint(0)]), None);
        assert!(store.find_now(&[Fingerprint(1)]).is_some());
    }
}
