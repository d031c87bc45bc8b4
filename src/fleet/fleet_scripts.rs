//! Lua scripts of heartbeats, on the clock of Redis. All keys have one hash tag.

use super::{
    redis_connection::{RedisScript, ScriptCall},
    replica_status::ReplicaStatus,
};

/// Prefix of all keys. The number changes with the form of the values.
const PREFIX: &str = "hookgate:fleet:1:{replicas}";

/// Time after which a replica without a heartbeat is not counted.
const LIFETIME_MS: u64 = 10_000;

/// Time after which revisions and decision logs that nothing reports are forgotten: 30 days.
const MEMORY_MS: u64 = 2_592_000_000;

/// The beginning of all scripts.
const PREAMBLE: &str = "
local seen, status, revisions, logs, heads, lost = unpack(KEYS)
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function remove(replica)
  redis.call('ZREM', seen, replica)
  redis.call('HDEL', status, replica)
end
";

/// Writes a heartbeat and returns the number of replicas.
pub(super) const BEAT: &str = "
local replica, state, lifetime_ms, memory_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local revision, log, seq, hash = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
redis.call('ZADD', seen, now_ms, replica)
redis.call('HSET', status, replica, state)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now_ms - lifetime_ms)) do remove(dead) end
redis.call('ZADD', revisions, 'NX', now_ms, revision)
if redis.call('ZCARD', revisions) > 1000 then redis.call('ZREMRANGEBYRANK', revisions, 0, 0) end
if log ~= '' then
  local before = redis.call('HGET', heads, log)
  local before_seq = before and tonumber(string.match(before, '^%d+')) or 0
  if seq < before_seq then redis.call('HSET', lost, log, before) end
  redis.call('HSET', heads, log, string.format('%d %s', seq, hash))
  redis.call('ZADD', logs, now_ms, log)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', logs, '-inf', now_ms - memory_ms)) do
    redis.call('ZREM', logs, old)
    redis.call('HDEL', heads, old)
    redis.call('HDEL', lost, old)
  end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, memory_ms) end
return redis.call('ZCARD', seen)";

/// Removes a replica that ends.
pub(super) const LEAVE: &str = "
remove(ARGV[1])
return redis.status_reply('OK')";

/// Returns the replicas with their age and state, the newest revision in use, and the last
/// lines of decision logs.
pub(super) const LIST: &str = "
local lifetime_ms = tonumber(ARGV[1])
local replicas, last_lines = {}, {}
local found = redis.call('ZRANGEBYSCORE', seen, now_ms - lifetime_ms, '+inf', 'WITHSCORES')
for at = 1, #found, 2 do
  local state = redis.call('HGET', status, found[at])
  if state then replicas[#replicas + 1] = { now_ms - found[at + 1], state } end
end
local log_heads = redis.call('HGETALL', heads)
for at = 1, #log_heads, 2 do
  local before = redis.call('HGET', lost, log_heads[at]) or ''
  last_lines[#last_lines + 1] = { log_heads[at], log_heads[at + 1], before }
end
return { replicas, redis.call('ZREVRANGE', revisions, 0, -1), last_lines }";

/// Replicas with the age of their heartbeat and their state, revisions from the newest on,
/// and decision logs with their last line and the one that was lost.
pub(super) type ListAnswer = (
    Vec<(u64, Vec<u8>)>,
    Vec<String>,
    Vec<(String, String, String)>,
);

/// Returns a script with this body.
pub(super) fn script(body: &str) -> RedisScript {
    RedisScript::new(format!("{PREAMBLE}{body}"))
}

/// Returns a heartbeat. `state` is the status as JSON.
pub(super) fn beat(status: &ReplicaStatus, state: Vec<u8>) -> ScriptCall {
    let head = status.decision_log.as_ref();
    call()
        .arg(status.id.as_str())
        .arg(state)
        .arg(LIFETIME_MS)
        .arg(MEMORY_MS)
        .arg(status.revision.as_str())
        .arg(head.map_or("", |head| head.log.as_str()))
        .arg(head.map_or(0, |head| head.seq))
        .arg(head.map_or("", |head| head.hash.as_str()))
}

/// Returns the end of a replica.
pub(super) fn leave(replica: &str) -> ScriptCall {
    call().arg(replica)
}

/// Returns a request for all replicas.
pub(super) fn list() -> ScriptCall {
    call().arg(LIFETIME_MS)
}

fn call() -> ScriptCall {
    let names = ["seen", "status", "revisions", "logs", "heads", "lost"];
    ScriptCall::new(names.map(|name| format!("{PREFIX}:{name}")))
}
