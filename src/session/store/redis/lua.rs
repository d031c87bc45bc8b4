//! Lua scripts for Redis, each of which runs atomically.
//!
//! A session is one value, listed in two sorted sets: by last use (in the clock of
//! Redis), and by id. A third set lists sessions that were ended, as long as another gateway
//! may have a copy. A fingerprint is a key whose value is a session. All keys but the first
//! two sets and the secret expire, in case no gateway removes them.

use std::{iter, sync::Arc, time::Duration};

use uuid::Uuid;

use super::codec::{Version, member, name};
use crate::{
    fleet::ScriptCall,
    session::{fingerprint::Fingerprint, session_key::SessionKey},
};

/// Prefix of all keys. The number changes with the encoding of values or fingerprints.
pub(super) const PREFIX: &str = "hookgate:4:";

/// Limits of the sessions in Redis.
#[derive(Debug)]
pub(super) struct RedisLimits {
    pub(super) max: usize,
    pub(super) idle: Duration,
}

/// Returns the secret of fingerprints, set before if there is none.
const SECRET: &str = "
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])";

/// Returns the first fingerprint of a session that has not ended.
const FIND: &str = "
for at = 2, #KEYS do
  local member = redis.call('GET', KEYS[at])
  if member and redis.call('ZSCORE', KEYS[1], member) then return { at - 2, member } end
end
return false";

/// Returns a session unless its version is the given one; an empty string if it was ended.
const LOAD: &str = "
if redis.call('GETRANGE', KEYS[1], 0, 15) == ARGV[1] then return false end
local blob = redis.call('GET', KEYS[1])
if not blob and redis.call('ZSCORE', KEYS[2], ARGV[2]) then return '' end
return blob";

/// Writes a session if the stored one has the expected version; else returns the stored one:
/// an empty string if it was ended, and a version of zeros if it was lost.
const SAVE: &str = "
local session, seen, names, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expected, blob, expiry_ms, member, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local version = redis.call('GETRANGE', session, 0, 15)
if version ~= expected then
  if version == '' and redis.call('ZSCORE', ended, member) then return '' end
  return redis.call('GET', session) or string.rep('\\0', 16)
end
local now = redis.call('TIME')
redis.call('SET', session, blob, 'PX', expiry_ms)
redis.call('ZADD', seen, now[1] * 1000 + math.floor(now[2] / 1000), member)
redis.call('ZADD', names, 0, name)
redis.call('ZREM', ended, member)
for at = 5, #KEYS do redis.call('SET', KEYS[at], member, 'PX', expiry_ms) end
return false";

/// Ends a session, and lists it among the last ones that were ended.
const END: &str = "
local session, seen, names, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, name, idle, surplus = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
redis.call('DEL', session)
redis.call('ZREM', seen, member)
redis.call('ZREM', names, name)
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', ended, now_ms, member)
redis.call('ZREMRANGEBYSCORE', ended, '-inf', now_ms - idle)
redis.call('ZREMRANGEBYRANK', ended, 0, surplus)
redis.call('PEXPIRE', ended, idle)
return redis.status_reply('OK')";

/// Marks sessions as used now, if they have not ended.
const TOUCH: &str = "
local seen, sessions, expiry_ms = KEYS[1], KEYS[2], ARGV[1]
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
for at = 2, #ARGV do
  redis.call('ZADD', seen, 'XX', now_ms, ARGV[at])
  redis.call('PEXPIRE', sessions .. ARGV[at], expiry_ms)
end
return redis.status_reply('OK')";

/// Removes idle and surplus sessions and returns them.
const CLAIM: &str = "
local seen, names, sessions = KEYS[1], KEYS[2], KEYS[3]
local idle, max, batch = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = redis.call('TIME')
local until_ms = now[1] * 1000 + math.floor(now[2] / 1000) - idle
local members = redis.call('ZRANGEBYSCORE', seen, '-inf', until_ms, 'LIMIT', 0, batch)
local too_many = math.min(redis.call('ZCARD', seen) - max, batch)
if too_many > #members then members = redis.call('ZRANGE', seen, 0, too_many - 1) end
local claimed = {}
for _, member in ipairs(members) do
  local session = sessions .. member
  local caller, id = string.match(member, '^([^:]*):(.*)$')
  claimed[#claimed + 1] = { member, redis.call('GET', session) or '' }
  redis.call('DEL', session)
  redis.call('ZREM', seen, member)
  if id then redis.call('ZREM', names, id .. '\\0' .. caller) end
end
return claimed";

const NEWEST: &str = "
local listed = {}
for _, member in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  listed[#listed + 1] = { member, redis.call('GET', KEYS[2] .. member) or '' }
end
return listed";

const CALLED: &str =
    "return redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[1], '(' .. ARGV[2], 'LIMIT', 0, 100)";

impl RedisLimits {
    /// Replaces the expected version of a session and indexes fingerprints. Returns the
    /// stored session if it has another version.
    pub(super) fn save(
        &self,
        session: &SessionKey,
        expected: Version,
        blob: Vec<u8>,
        fingerprints: &[Fingerprint],
    ) -> ScriptCall {
        let keys = keys_of(session).into_iter();
        let call = ScriptCall::new(SAVE, keys.chain(fingerprint_keys(fingerprints)));
        let (expected, expiry_ms) = (version_bytes(expected), self.expiry_ms());
        call.arg((expected, blob, expiry_ms, member(session), name(session)))
    }

    /// Ends a session and removes its indexes.
    pub(super) fn end(&self, session: &SessionKey) -> ScriptCall {
        let surplus = i64::try_from(self.max).map_or(i64::MIN, |max| -max - 1);
        let idle = milliseconds(self.idle);
        let call = ScriptCall::new(END, keys_of(session));
        call.arg((member(session), name(session), idle, surplus))
    }

    /// Marks sessions as used now.
    pub(super) fn touch(&self, sessions: &[Arc<SessionKey>]) -> ScriptCall {
        let members: Vec<String> = sessions.iter().map(|session| member(session)).collect();
        let call = ScriptCall::new(TOUCH, [key("seen"), key("session:")]);
        call.arg(self.expiry_ms()).arg(members)
    }

    /// Returns members and states of ended sessions.
    pub(super) fn claim(&self, batch: usize) -> ScriptCall {
        let call = ScriptCall::new(CLAIM, [key("seen"), key("names"), key("session:")]);
        call.arg((milliseconds(self.idle), self.max, batch))
    }

    /// Returns the expiry of values in milliseconds, long enough for a gateway to see
    /// that the session has ended.
    fn expiry_ms(&self) -> u64 {
        let twice = self.idle.saturating_mul(2);
        milliseconds(twice.saturating_add(Duration::from_mins(1)))
    }
}

/// Returns the shared secret; `own` becomes it if there is none.
pub(super) fn secret(own: Uuid) -> ScriptCall {
    ScriptCall::new(SECRET, [key("secret")]).arg(own.as_bytes())
}

/// Returns the position and the member of the first indexed fingerprint.
pub(super) fn find(fingerprints: &[Fingerprint]) -> ScriptCall {
    let keys = iter::once(key("seen")).chain(fingerprint_keys(fingerprints));
    ScriptCall::new(FIND, keys)
}

/// Returns a session unless it has this version.
pub(super) fn load(session: &SessionKey, known: Version) -> ScriptCall {
    let call = ScriptCall::new(LOAD, [session_key(session), key("ended")]);
    call.arg((version_bytes(known), member(session)))
}

/// Returns members and sessions, most recently used first.
pub(super) fn newest(limit: usize) -> ScriptCall {
    ScriptCall::new(NEWEST, [key("seen"), key("session:")]).arg(limit)
}

/// Returns the names of the sessions with this id.
pub(super) fn called(id: &str) -> ScriptCall {
    let range = (format!("{id}\0"), format!("{id}\u{1}"));
    ScriptCall::new(CALLED, [key("names")]).arg(range)
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Returns the keys of a session and of the sets that list sessions.
fn keys_of(session: &SessionKey) -> [String; 4] {
    let session = session_key(session);
    [session, key("seen"), key("names"), key("ended")]
}

fn session_key(session: &SessionKey) -> String {
    key(&format!("session:{}", member(session)))
}

fn fingerprint_keys(fingerprints: &[Fingerprint]) -> impl Iterator<Item = String> {
    let fingerprints = fingerprints.iter();
    fingerprints.map(|Fingerprint(number)| key(&format!("fingerprint:{number:032x}")))
}

/// Returns the result of `GETRANGE` for a session with this version.
fn version_bytes(version: Version) -> Vec<u8> {
    if version.is_nil() {
        return Vec::new();
    }
    version.as_bytes().to_vec()
}

fn milliseconds(duration: Duration) -> u64 {
    // Redis counts in doubles and in 63 bits.
    const MAX_MS: u64 = 1 << 52;
    let ms = u64::try_from(duration.as_millis()).unwrap_or(MAX_MS);
    ms.min(MAX_MS)
}
