//! Lua scripts of heartbeats, on the clock of Redis. All keys have one hash tag.

use super::{redis_connection::ScriptCall, replica_status::ReplicaStatus};

/// Prefix of all keys. The number changes with the form of the values.
const PREFIX: &str = "hookgate:fleet:1:{replicas}";

/// Time after which a replica without a heartbeat is not counted.
const LIFETIME_MS: u64 = 10_000;

/// Time after which decision logs that nothing reports are removed: 30 days.
const MEMORY_MS: u64 = 2_592_000_000;

/// The beginning of all scripts.
const PREAMBLE: &str = "
local seen, status, logs, heads, lost = unpack(KEYS)
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function remove(replica)
  redis.call('ZREM', seen, replica)
  redis.call('HDEL', status, replica)
end
";

/// Writes a heartbeat and returns the number of replicas.
const BEAT: &str = "
local replica, state, lifetime_ms, memory_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local log, seq, hash, is_replaced = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8] == '1'
redis.call('ZADD', seen, now_ms, replica)
redis.call('HSET', status, replica, state)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now_ms - lifetime_ms)) do remove(dead) end
if log ~= '' then
  local before = redis.call('HGET', heads, log)
  if before then
    local before_seq, before_hash = string.match(before, '^(%d+) (.*)$')
    before_seq = tonumber(before_seq) or 0
    local is_other = seq == before_seq and hash ~= before_hash
    -- The first mark stays: the lines behind it are those of a log that is no longer complete.
    if is_replaced or is_other or seq < before_seq then redis.call('HSETNX', lost, log, before) end
  end
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
const LEAVE: &str = "
remove(ARGV[1])
return redis.status_reply('OK')";

/// Returns the last line that is known of a decision log.
const HEAD: &str = "
return redis.call('HGET', heads, ARGV[1])";

/// Returns the replicas with their age and state, and the last lines of decision logs.
const LIST: &str = "
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
return { replicas, last_lines }";

/// Replicas with the age of their heartbeat and their state, and decision logs with their last
/// line and the one that was lost.
pub(super) type ListAnswer = (Vec<(u64, Vec<u8>)>, Vec<(String, String, String)>);

/// State of a decision log's file, compared with what Redis has of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFile {
    /// The file has the last known line, or none is known.
    Continued,
    /// The file does not have that line.
    Replaced,
}

/// Returns a heartbeat. `state` is the status as JSON.
pub(super) fn beat(status: &ReplicaStatus, state: Vec<u8>, file: LogFile) -> ScriptCall {
    let head = status.decision_log.as_ref();
    call(BEAT)
        .arg(status.id.as_str())
        .arg(state)
        .arg(LIFETIME_MS)
        .arg(MEMORY_MS)
        .arg(head.map_or("", |head| head.log.as_str()))
        .arg(head.map_or(0, |head| head.seq))
        .arg(head.map_or("", |head| head.hash.as_str()))
        .arg(u8::from(file == LogFile::Replaced))
}

/// Returns a request for the last line of a decision log.
pub(super) fn head(log: &str) -> ScriptCall {
    call(HEAD).arg(log)
}

/// Returns the end of a replica.
pub(super) fn leave(replica: &str) -> ScriptCall {
    call(LEAVE).arg(replica)
}

/// Returns a request for all replicas.
pub(super) fn list() -> ScriptCall {
    call(LIST).arg(LIFETIME_MS)
}

/// Returns a call of the script with this body.
fn call(body: &str) -> ScriptCall {
    let names = ["seen", "status", "logs", "heads", "lost"];
    let keys = names.map(|name| format!("{PREFIX}:{name}"));
    ScriptCall::new(format!("{PREAMBLE}{body}"), keys)
}
