//! Lua scripts of the limits in Redis, each of which runs atomically on the clock of Redis.
//!
//! A caller has one key per limit, all with the same hash tag: the theoretical arrival time
//! of its next request (seconds and nanoseconds), its calls in flight with their expiry
//! (milliseconds), and its tokens: spent on a day, and reserved, in all and by call.

use std::num::NonZeroU64;

use redis::{FromRedisValue, RedisError, RedisResult, Value};
use uuid::Uuid;

use super::{caller_usage::CallSync, gcra::RequestRate};
use crate::fleet::ScriptCall;

/// Prefix of all keys. The number changes with the form of the values.
const PREFIX: &str = "hookgate:limits:1";

/// Time after which a call ends in Redis unless its replica renews it.
pub(super) const LEASE_MS: u64 = 30_000;

/// The beginning of both scripts.
const PREAMBLE: &str = "
local rate, calls, tokens = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now_s, now_us = tonumber(time[1]), tonumber(time[2])
local now_ms = now_s * 1000 + math.floor(now_us / 1000)
local day, keep_ms = math.floor(now_s / 86400), 172800000

-- Exact in doubles, because times are relative to now.
local function until_arrival_ns()
  local arrival = redis.call('GET', rate)
  if not arrival then return false end
  local s, ns = string.match(arrival, '^(%d+) (%d+)$')
  return (tonumber(s) - now_s) * 1e9 + (tonumber(ns) - now_us * 1000)
end

local function set_arrival(in_ns)
  local ns = now_us * 1000 + in_ns
  local s = math.floor(ns / 1e9)
  -- Longer than replicas remember their part of it.
  local expiry_ms = math.ceil(in_ns / 1e6) + 60000
  local arrival = string.format('%d %d', now_s + s, ns - s * 1e9)
  redis.call('SET', rate, arrival, 'PX', expiry_ms)
end

local function amount_of(call)
  return tonumber(redis.call('HGET', tokens, 'call:' .. call) or 0)
end

local function remove(call)
  if redis.call('ZREM', calls, call) == 1 then
    local amount = amount_of(call)
    if amount > 0 then
      redis.call('HDEL', tokens, 'call:' .. call)
      redis.call('HINCRBY', tokens, 'reserved', -amount)
    end
  end
end

local function add(call, amount, lease_ms)
  if redis.call('ZADD', calls, now_ms + lease_ms, call) == 1 then
    redis.call('HDEL', tokens, 'call:' .. call)
  end
  local before = amount_of(call)
  if amount ~= before then
    redis.call('HSET', tokens, 'call:' .. call, amount)
    redis.call('HINCRBY', tokens, 'reserved', amount - before)
    redis.call('PEXPIRE', tokens, keep_ms)
  end
  redis.call('PEXPIRE', calls, keep_ms)
end

local function remove_expired()
  local expired = redis.call('ZRANGEBYSCORE', calls, '-inf', now_ms)
  for _, call in ipairs(expired) do remove(call) end
end

-- The tokens of today; at least those that a replica has seen.
local function spent_today(seen, seen_day)
  local stored = redis.call('HMGET', tokens, 'spent', 'day', 'reset_s')
  local spent, of_day, reset_s = tonumber(stored[1] or 0), tonumber(stored[2] or -1), tonumber(stored[3] or 0)
  if of_day ~= day and now_s - reset_s >= 3600 then
    spent = 0
    redis.call('HSET', tokens, 'spent', 0, 'day', day, 'reset_s', of_day < 0 and 0 or now_s)
    redis.call('PEXPIRE', tokens, keep_ms)
  end
  if seen_day == day and seen > spent then
    spent = seen
    redis.call('HSET', tokens, 'spent', spent)
  end
  return spent
end
";

/// Admits a request that exceeds no limit, and counts it. Returns a code and two numbers.
const ADMIT: &str = "
local interval_ns, tolerance_ns, debt_ns = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_calls, call, lease_ms = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local per_day, amount = tonumber(ARGV[7]), tonumber(ARGV[8])
local is_call = max_calls > 0 or per_day > 0
local spent, in_ns = 0, 0
if is_call then
  remove_expired()
  local in_flight = redis.call('ZCARD', calls)
  if max_calls > 0 and in_flight >= max_calls then return { 1, 0, 0 } end
  if per_day > 0 then
    spent = spent_today(tonumber(ARGV[9]), tonumber(ARGV[10]))
    local reserved = tonumber(redis.call('HGET', tokens, 'reserved') or 0)
    if in_flight == 0 and reserved ~= 0 then
      reserved = 0
      redis.call('HDEL', tokens, 'reserved')
    end
    if spent >= per_day then return { 2, (day + 1) * 86400 - now_s, spent } end
    local used = spent + reserved
    if reserved > 0 and (used >= per_day or used + amount > per_day) then return { 3, 0, spent } end
  end
end
if interval_ns > 0 then
  in_ns = until_arrival_ns() or debt_ns
  if in_ns > tolerance_ns then return { 4, in_ns - tolerance_ns, spent } end
  set_arrival(math.max(in_ns, 0) + interval_ns)
end
if is_call then add(call, amount, lease_ms) end
return { 0, 0, spent }";

/// Takes over the calls of a replica, and the tokens that it has spent. Returns the tokens
/// of the day.
const SYNC: &str = "
local lease_ms, spent, debt_ns, ended = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5]), tonumber(ARGV[6])
remove_expired()
for at = 7, 6 + ended do remove(ARGV[at]) end
for at = 7 + ended, #ARGV, 2 do add(ARGV[at], tonumber(ARGV[at + 1]), lease_ms) end
if debt_ns > 0 and debt_ns > (until_arrival_ns() or 0) then set_arrival(debt_ns) end
local seen = tonumber(ARGV[3])
if spent == 0 and seen == 0 then return 0 end
local total = spent_today(seen, tonumber(ARGV[4]))
if spent == 0 then return total end
return redis.call('HINCRBY', tokens, 'spent', spent)";

/// Limits of one request in Redis, and what this process has seen of its caller.
#[derive(Debug)]
pub(super) struct AdmitArguments {
    pub(super) call: Uuid,
    /// Number of tokens to reserve for the call.
    pub(super) amount: u64,
    pub(super) rate: Option<RequestRate>,
    /// Time until this replica's part of the burst is allowed again.
    pub(super) debt_ns: u64,
    pub(super) max_calls: Option<usize>,
    pub(super) per_day: Option<NonZeroU64>,
    /// A day, and the tokens that all replicas had spent in it.
    pub(super) seen: (u64, u64),
}

/// Decision of the script on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmitAnswer {
    Admitted { spent: u64 },
    TooManyCalls,
    TokensSpent { rest_s: u64, spent: u64 },
    TokensReserved { spent: u64 },
    TooFast { wait_ns: u64 },
}

/// Returns the text of the script that admits requests.
pub fn admit_script() -> String {
    format!("{PREAMBLE}{ADMIT}")
}

/// Returns the text of the script that synchronizes a caller.
pub(super) fn sync_script() -> String {
    format!("{PREAMBLE}{SYNC}")
}

/// Returns the call of [`admit_script`] for a caller.
pub(super) fn admit(caller: &str, arguments: &AdmitArguments) -> ScriptCall {
    let (interval_ns, tolerance_ns) = arguments
        .rate
        .map_or((0, 0), |rate| (rate.interval_ns, rate.tolerance_ns));
    ScriptCall::new(keys(caller))
        .arg(interval_ns)
        .arg(tolerance_ns)
        .arg(arguments.debt_ns)
        .arg(arguments.max_calls.unwrap_or(0))
        .arg(arguments.call.simple().to_string())
        .arg(LEASE_MS)
        .arg(arguments.per_day.map_or(0, NonZeroU64::get))
        .arg(arguments.amount)
        .arg(arguments.seen.1)
        .arg(arguments.seen.0)
}

/// Returns the call of [`sync_script`] for a caller.
pub(super) fn sync(caller: &str, sync: &CallSync) -> ScriptCall {
    let mut call = ScriptCall::new(keys(caller))
        .arg(LEASE_MS)
        .arg(sync.spent)
        .arg(sync.seen.1)
        .arg(sync.seen.0)
        .arg(sync.debt_ns)
        .arg(sync.ended.len());
    for id in &sync.ended {
        call = call.arg(id.simple().to_string());
    }
    for (id, amount) in &sync.live {
        call = call.arg(id.simple().to_string()).arg(*amount);
    }
    call
}

/// Returns the keys of a caller. Redis Cluster keeps all keys with one hash tag together.
pub fn keys(caller: &str) -> [String; 3] {
    ["rate", "calls", "tokens"].map(|limit| format!("{PREFIX}:{{{caller}}}:{limit}"))
}

impl FromRedisValue for AdmitAnswer {
    fn from_redis_value(value: &Value) -> RedisResult<Self> {
        let (code, number, spent): (u8, u64, u64) = redis::from_redis_value(value)?;
        Ok(match code {
            0 => Self::Admitted { spent },
            1 => Self::TooManyCalls,
            2 => Self::TokensSpent {
                rest_s: number,
                spent,
            },
            3 => Self::TokensReserved { spent },
            4 => Self::TooFast { wait_ns: number },
            _ => {
                let kind = redis::ErrorKind::TypeError;
                return Err(RedisError::from((kind, "unknown answer of the limits")));
            }
        })
    }
}
