//! What is asked of Redis. Each is one script, so that it happens at once.
//!
//! A session is one value, which two sorted sets list: by when it was heard of
//! (in the clock of Redis), and by its name. A print is a value that holds a
//! session. All but the sets and the secret vanish by themselves, should no
//! gateway be there to see to it.

use std::time::Duration;

use redis::{Cmd, ToRedisArgs};
use uuid::Uuid;

use super::codec::{Version, member, name};
use crate::session::{fingerprint::Fingerprint, session_key::SessionKey};

/// What all keys begin with. The number changes when what they hold does.
pub(super) const PREFIX: &str = "hookgate:1:";

/// How many sessions there are, and for how long.
#[derive(Debug)]
pub(super) struct RedisLimits {
    pub(super) max: usize,
    pub(super) idle: Duration,
}

/// Only if nobody has made one: the secret of prints.
const SECRET: &str = "
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])";

/// The first print that leads to a session which has not ended.
const FIND: &str = "
for at = 2, #KEYS do
  local member = redis.call('GET', KEYS[at])
  if member and redis.call('ZSCORE', KEYS[1], member) then return { at - 2, member } end
end
return false";

/// A session, unless the stamp of it is known.
const LOAD: &str = "
if redis.call('GETRANGE', KEYS[1], 0, 15) == ARGV[1] then return false end
return redis.call('GET', KEYS[1])";

/// Writes a session if what is there has the stamp that is expected; else says
/// what is there, which may be nothing.
const SAVE: &str = "
local session, seen, names = KEYS[1], KEYS[2], KEYS[3]
local expected, blob, lasts, member, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local stamp = redis.call('GETRANGE', session, 0, 15)
if stamp ~= expected then return redis.call('GET', session) or '' end
local now = redis.call('TIME')
redis.call('SET', session, blob, 'PX', lasts)
redis.call('ZADD', seen, now[1] * 1000 + math.floor(now[2] / 1000), member)
redis.call('ZADD', names, 0, name)
for at = 4, #KEYS do redis.call('SET', KEYS[at], member, 'PX', lasts) end
return false";

const FORGET: &str = "
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[2])
return redis.status_reply('OK')";

/// Takes away sessions of which nothing was heard for too long, and those that
/// are too many; whoever asks has them.
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

/// Takes over the secret of prints; the first one who asks brings it.
pub(super) fn secret(own: Uuid) -> Cmd {
    eval(SECRET, &[key("secret")], (own.as_bytes(),))
}

/// The position and the member of the first print that leads to a session.
pub(super) fn find(prints: &[Fingerprint]) -> Cmd {
    let keys: Vec<String> = [key("seen")].into_iter().chain(led(prints)).collect();
    let nothing: [&str; 0] = [];
    eval(FIND, &keys, &nothing)
}

/// A session, unless this version is known.
pub(super) fn load(session: &SessionKey, known: Version) -> Cmd {
    eval(LOAD, &[session_key(session)], (written(known),))
}

/// Ends a session.
pub(super) fn forget(session: &SessionKey) -> Cmd {
    let keys = [session_key(session), key("seen"), key("names")];
    eval(FORGET, &keys, (member(session), name(session)))
}

/// Members and sessions, newest first.
pub(super) fn newest(limit: usize) -> Cmd {
    eval(NEWEST, &[key("seen"), key("session:")], (limit,))
}

/// The names of the sessions that are called `id`.
pub(super) fn called(id: &str) -> Cmd {
    let (from, to) = (format!("{id}\0"), format!("{id}\u{1}"));
    eval(CALLED, &[key("names")], (from, to))
}

impl RedisLimits {
    /// Writes a session instead of the version that is expected, and what leads
    /// to it. The answer is nothing, or what is there instead.
    pub(super) fn save(
        &self,
        session: &SessionKey,
        expected: Version,
        blob: Vec<u8>,
        prints: &[Fingerprint],
    ) -> Cmd {
        let keys = [session_key(session), key("seen"), key("names")];
        let keys: Vec<String> = keys.into_iter().chain(led(prints)).collect();
        let (member, name) = (member(session), name(session));
        eval(
            SAVE,
            &keys,
            (written(expected), blob, self.lasts(), member, name),
        )
    }

    /// Members and sessions that have ended.
    pub(super) fn claim(&self, batch: usize) -> Cmd {
        let keys = [key("seen"), key("names"), key("session:")];
        eval(CLAIM, &keys, (milliseconds(self.idle), self.max, batch))
    }

    /// How long a value stays by itself, in milliseconds: as long as gateways may
    /// need to see that the session has ended.
    fn lasts(&self) -> u64 {
        let twice = self.idle.saturating_mul(2);
        milliseconds(twice.saturating_add(Duration::from_mins(1)))
    }
}

fn eval(script: &str, keys: &[String], arguments: impl ToRedisArgs) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn session_key(session: &SessionKey) -> String {
    key(&format!("session:{}", member(session)))
}

fn led(prints: &[Fingerprint]) -> impl Iterator<Item = String> {
    prints.iter().map(|it| key(&format!("print:{:032x}", it.0)))
}

/// What `GETRANGE` says of a session with this stamp.
fn written(stamp: Version) -> Vec<u8> {
    if stamp.is_nil() {
        return Vec::new();
    }
    stamp.as_bytes().to_vec()
}

fn milliseconds(duration: Duration) -> u64 {
    // Redis counts in doubles and in 63 bits.
    const MOST: u64 = 1 << 52;
    let ms = u64::try_from(duration.as_millis()).unwrap_or(MOST);
    ms.min(MOST)
}
