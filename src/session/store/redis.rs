//! Sessions in Redis, so that several gateways share them.
//!
//! Everything is in this process's memory, too: that answers while Redis is
//! away, and what was saved meanwhile is written once Redis is back.

mod codec;
mod connection;
mod lua;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use uuid::Uuid;

use self::{
    codec::{Version, key_of, unname},
    connection::RedisConnection,
    lua::RedisLimits,
};
use super::{
    memory::{FingerprintSync, MemoryStore},
    session_store::{SessionStore, StoreFuture},
};
use crate::{
    config::Secret,
    session::{
        fingerprint::{Fingerprint, Fingerprinter},
        session_key::SessionKey,
        state::SessionState,
    },
};

pub use self::connection::StoreError;

/// How many sessions are written, or end, in one go.
const BATCH: usize = 100;

/// How often a session is merged with what others wrote meanwhile.
const TRIES: usize = 5;

/// Sessions in Redis, and a copy of those that came by here.
#[derive(Debug)]
pub struct RedisStore {
    copy: MemoryStore,
    link: RedisConnection,
    bounds: RedisLimits,
    /// The secret, and whether it is that of Redis.
    fingerprinter: Mutex<(Uuid, SecretSource)>,
    /// What was saved while Redis was away.
    unwritten: Mutex<PendingWrites>,
}

/// Sessions, each with the number of the save that Redis has not.
#[derive(Debug, Default)]
struct PendingWrites {
    saves: u64,
    sessions: HashMap<SessionKey, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretSource {
    Yes,
    NotYet,
}

impl RedisStore {
    /// A store in the Redis at `url`, of at most `max` sessions, which end when
    /// nothing is heard of them for `idle`. Each time that Redis is away is
    /// counted in `failures`. Asks nobody yet.
    pub fn new(
        url: &Secret,
        (max, idle): (usize, Duration),
        failures: Counter,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            copy: MemoryStore::new(max, idle),
            link: RedisConnection::new(url, failures)?,
            bounds: RedisLimits { max, idle },
            fingerprinter: Mutex::new((Uuid::new_v4(), SecretSource::NotYet)),
            unwritten: Mutex::default(),
        })
    }

    /// Makes prints with the secret of all gateways, if Redis can be asked for it.
    async fn agreed_printer(&self) -> Fingerprinter {
        let (_, agreed) = *lock(&self.fingerprinter);
        if agreed == SecretSource::NotYet {
            self.agree().await;
        }
        let (secret, _) = *lock(&self.fingerprinter);
        Fingerprinter::new(secret.into_bytes())
    }

    /// Takes over the secret of all gateways; the first one makes it.
    async fn agree(&self) {
        let (own, _) = *lock(&self.fingerprinter);
        let secret: Option<Vec<u8>> = self.link.run(lua::secret(own)).await;
        if let Some(secret) = secret.and_then(|it| Uuid::from_slice(&it).ok()) {
            *lock(&self.fingerprinter) = (secret, SecretSource::Yes);
        }
    }

    async fn find(&self, prints: &[Fingerprint]) -> Option<(usize, String)> {
        let own = self.copy.find_now(prints);
        // Only what would be better than that, or as good, need be asked for.
        let until = own.as_ref().map_or(prints.len(), |(at, _)| at + 1);
        let find = lua::find(prints.get(..until)?);
        let found: Option<Option<(usize, Vec<u8>)>> = self.link.run(find).await;
        let found = found.flatten();
        let found = found.and_then(|(at, member)| Some((at, key_of(&member)?.id)));
        found.or(own)
    }

    async fn load(&self, key: &SessionKey) -> Option<SessionState> {
        let load = lua::load(key, self.copy.stamp(key));
        let changed: Option<Option<Vec<u8>>> = self.link.run(load).await;
        if let Some(blob) = changed.flatten() {
            self.take_in(key, &blob);
        }
        self.copy.load_now(key)
    }

    async fn save(&self, key: &SessionKey, state: SessionState, prints: &[Fingerprint]) {
        let fresh = self.copy.save_now(key, state, prints);
        // If the agent leaves meanwhile, nobody waits for this any more.
        let save = lock(&self.unwritten).save(key);
        if self.write(key, &fresh).await == WriteOutcome::Yes {
            lock(&self.unwritten).written(key, save);
        }
    }

    /// Writes what this process knows of a session, merged with what others
    /// wrote. `fresh` are prints that did not lead there before.
    async fn write(&self, key: &SessionKey, fresh: &[Fingerprint]) -> WriteOutcome {
        let mut expected = self.copy.stamp(key);
        let mut told = self.copy.prints_to_tell(key);
        for _ in 0..TRIES {
            let Some(state) = self.copy.load_now(key) else {
                return WriteOutcome::Yes; // It has ended meanwhile.
            };
            let stamp = Version::new_v4();
            let Some(blob) = codec::encode(stamp, &state) else {
                return WriteOutcome::Yes; // Nothing that could be written later either.
            };
            let prints = match told {
                FingerprintSync::AllPrints => self.copy.prints(key),
                FingerprintSync::NewPrints => fresh.to_vec(),
            };
            let save = self.bounds.save(key, expected, blob, &prints);
            let there: Option<Option<Vec<u8>>> = self.link.run(save).await;
            let Some(there) = there else {
                return WriteOutcome::NotYet;
            };
            match there.as_deref() {
                None => {
                    self.copy.stamped(key, stamp, told);
                    return WriteOutcome::Yes;
                }
                // Redis has lost it.
                Some([]) => (expected, told) = (Version::nil(), FingerprintSync::AllPrints),
                Some(blob) => expected = self.take_in(key, blob),
            }
        }
        WriteOutcome::NotYet
    }

    /// Merges what others wrote; the stamp of that.
    fn take_in(&self, key: &SessionKey, blob: &[u8]) -> Version {
        let (stamp, state) = codec::decode(blob);
        if let Some(state) = state {
            self.copy.save_now(key, state, &[]);
            self.copy.stamped(key, stamp, FingerprintSync::NewPrints);
        }
        stamp
    }

    async fn remove(&self, key: &SessionKey) -> Option<SessionState> {
        let state = self.load(key).await;
        self.copy.remove_now(key);
        lock(&self.unwritten).sessions.remove(key);
        let _gone: Option<()> = self.link.run(lua::forget(key)).await;
        state
    }

    async fn newest(&self, limit: usize) -> Vec<(SessionKey, SessionState)> {
        let listed: Option<Vec<Listed>> = self.link.run(lua::newest(limit)).await;
        let Some(listed) = listed else {
            return self.copy.newest_now(limit);
        };
        let read = |(member, blob): Listed| Some((key_of(&member)?, codec::decode(&blob).1?));
        listed.into_iter().filter_map(read).collect()
    }

    async fn find_by_id(&self, id: &str) -> Vec<(SessionKey, SessionState)> {
        let names: Option<Vec<Vec<u8>>> = self.link.run(lua::called(id)).await;
        let Some(names) = names else {
            return self.copy.find_by_id_now(id);
        };
        let mut find_by_id = Vec::new();
        for key in names.iter().filter_map(|it| unname(it)) {
            let state = self.load(&key).await;
            find_by_id.extend(state.map(|it| (key, it)));
        }
        find_by_id
    }

    async fn expire(&self) -> Vec<(SessionKey, SessionState)> {
        // Whether one has ended for all gateways, only Redis can tell.
        drop(self.copy.expire_now());
        self.link.reach().await;
        self.agree().await;
        while self.write_some().await == MoreWork::Yes {}
        let mut ended = Vec::new();
        while self.claim_some(&mut ended).await == MoreWork::Yes {}
        ended
    }

    /// Writes some of what was saved while Redis was away.
    async fn write_some(&self) -> MoreWork {
        let some = lock(&self.unwritten).some();
        for (key, save) in &some {
            let prints = self.copy.prints(key);
            if self.write(key, &prints).await == WriteOutcome::NotYet {
                return MoreWork::No;
            }
            lock(&self.unwritten).written(key, *save);
        }
        MoreWork::after(some.len())
    }

    /// Takes some sessions that ended, and that no other gateway has claimed.
    async fn claim_some(&self, ended: &mut Vec<(SessionKey, SessionState)>) -> MoreWork {
        let claimed = self.link.run(self.bounds.claim(BATCH)).await;
        let claimed: Vec<Listed> = claimed.unwrap_or_default();
        let more = MoreWork::after(claimed.len());
        ended.extend(claimed.into_iter().filter_map(|(member, blob)| {
            let key = key_of(&member)?;
            let mut state = self.copy.remove_now(&key).unwrap_or_default();
            state.merge(codec::decode(&blob).1.unwrap_or_default());
            Some((key, state))
        }));
        more
    }
}

/// A member, and the session as it is written.
type Listed = (Vec<u8>, Vec<u8>);

/// Whether there may be more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoreWork {
    Yes,
    No,
}

impl MoreWork {
    fn after(done: usize) -> Self {
        if done < BATCH { Self::No } else { Self::Yes }
    }
}

impl PendingWrites {
    fn save(&mut self, key: &SessionKey) -> u64 {
        self.saves += 1;
        self.sessions.insert(key.clone(), self.saves);
        self.saves
    }

    /// Redis has what a save left, and so what those before it left.
    fn written(&mut self, key: &SessionKey, save: u64) {
        if self.sessions.get(key).is_some_and(|it| *it <= save) {
            self.sessions.remove(key);
        }
    }

    fn some(&self) -> Vec<(SessionKey, u64)> {
        let pair = |(key, save): (&SessionKey, &u64)| (key.clone(), *save);
        self.sessions.iter().take(BATCH).map(pair).collect()
    }
}

/// Whether Redis has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteOutcome {
    Yes,
    NotYet,
}

impl SessionStore for RedisStore {
    fn fingerprinter(&self) -> StoreFuture<'_, Fingerprinter> {
        Box::pin(self.agreed_printer())
    }

    fn find<'a>(&'a self, prints: &'a [Fingerprint]) -> StoreFuture<'a, Option<(usize, String)>> {
        Box::pin(self.find(prints))
    }

    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<SessionState>> {
        Box::pin(self.load(key))
    }

    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        state: SessionState,
        prints: &'a [Fingerprint],
    ) -> StoreFuture<'a, ()> {
        Box::pin(self.save(key, state, prints))
    }

    fn remove<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<SessionState>> {
        Box::pin(self.remove(key))
    }

    fn newest(&self, limit: usize) -> StoreFuture<'_, Vec<(SessionKey, SessionState)>> {
        Box::pin(self.newest(limit))
    }

    fn find_by_id<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Vec<(SessionKey, SessionState)>> {
        Box::pin(self.find_by_id(id))
    }

    fn expire(&self) -> StoreFuture<'_, Vec<(SessionKey, SessionState)>> {
        Box::pin(self.expire())
    }

    fn count(&self) -> usize {
        self.copy.count()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
