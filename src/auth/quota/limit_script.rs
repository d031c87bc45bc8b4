//! Lua script of the limits in Redis, which runs atomically on the clock of Redis.
//!
//! A caller has one key per limit, all with the same hash tag: the theoretical arrival time
//! of its next request (seconds and nanoseconds), its calls in flight with their expiry
//! (milliseconds), and its tokens: spent on a day, and reserved, in all and by call. Their
//! count is known by its begin; `lost` are the tokens of the count before it, as far as
//! replicas have seen them. A fourth key has those that one replica has spent on a day.

use std::{num::NonZeroU64, time::Duration};

use redis::{FromRedisValue, RedisError, RedisResult, Value};
use uuid::Uuid;

use super::{
    caller_usage::{CallSync, MAX_ENDED},
    daily_tokens::SeenTokens,
    exceeded::LimitRefusal,
};
use crate::{auth::gcra::RequestRate, fleet::ScriptCall};

/// Prefix of all keys. The number changes with the form of the values.
const PREFIX: &str = "hookgate:limits:1";

/// Time after which a call ends in Redis unless its replica renews it.
pub(super) const LEASE_MS: u64 = 30_000;

/// Beyond every limit, and exact in the numbers of Redis.
const MAX_SYNCED_TOKENS: u64 = 1 << 42;

/// Takes over the calls of a replica and the tokens that it has spent. Then, if `id` is not
/// empty, it admits a request that exceeds no limit, and counts it. A call that is refused when it
/// asks again, with more tokens, has ended. Returns a code, a number of seconds or nanoseconds,
/// the tokens of the day, the identity of their count, and that day.
const SCRIPT: &str = "
local rate, calls, tokens, source = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_ms, debt_ns, is_behind = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local settled, sent, seen = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local seen_day, seen_count = tonumber(ARGV[7]), tonumber(ARGV[8])
local ended, id, amount = tonumber(ARGV[9]), ARGV[10], tonumber(ARGV[11])
local interval_ns, tolerance_ns = tonumber(ARGV[12]), tonumber(ARGV[13])
local max_calls, per_day = tonumber(ARGV[14]), tonumber(ARGV[15])
local first = 16

local time = redis.call('TIME')
local now_s, now_us = tonumber(time[1]), tonumber(time[2])
local now_ms = now_s * 1000 + math.floor(now_us / 1000)
local today, keep_ms = math.floor(now_s / 86400), 172800000

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
  -- Longer than replicas keep their part of it.
  local expiry_ms = math.ceil(in_ns / 1e6) + 60000
  local arrival = string.format('%d %d', now_s + s, ns - s * 1e9)
  redis.call('SET', rate, arrival, 'PX', expiry_ms)
end

local spent, count, day, reset_s, reserved, in_flight = seen, seen_count, seen_day, 0, 0, 0

local function read_tokens()
  local stored = redis.call('HMGET', tokens, 'spent', 'reserved', 'count', 'lost', 'day', 'reset_s')
  spent, reserved = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  count = tonumber(stored[3] or now_ms)
  local lost = tonumber(stored[4] or 0)
  day, reset_s = tonumber(stored[5] or -1), tonumber(stored[6] or 0)
  if not stored[3] then redis.call('HSET', tokens, 'count', count) end
  -- Unless it was just now, also by a clock that was set back since.
  if day ~= today and math.abs(now_s - reset_s) >= 3600 then
    spent, lost, reset_s = 0, 0, day < 0 and 0 or now_s
    day = today
    redis.call('HSET', tokens, 'lost', 0, 'day', day, 'reset_s', reset_s)
    redis.call('PEXPIRE', tokens, keep_ms)
  end
  if seen_day == today and seen_count ~= count and seen > lost then
    -- This count began after the one that the replica has seen was lost.
    spent = spent + seen - lost
    redis.call('HSET', tokens, 'lost', seen)
  elseif seen_day == today and seen_count == count then
    spent = math.max(spent, seen)
  end
end

local function take_over_tokens()
  if sent <= settled then return end
  -- A run whose answer was lost may have counted more than the replica has seen.
  local counted = math.max(settled, tonumber(redis.call('HGET', source, 'spent') or 0))
  if sent <= counted then return end
  spent = spent + sent - counted
  redis.call('HSET', source, 'spent', sent)
  redis.call('PEXPIRE', source, keep_ms)
end

local function remove(ids)
  if #ids == 0 then return end
  local of_calls = {}
  for at, id in ipairs(ids) do of_calls[at] = 'call:' .. id end
  for _, amount in ipairs(redis.call('HMGET', tokens, unpack(of_calls))) do
    reserved = reserved - tonumber(amount or 0)
  end
  redis.call('HDEL', tokens, unpack(of_calls))
  redis.call('ZREM', calls, unpack(ids))
end

local function renew(id, amount)
  local before = redis.call('HGET', tokens, 'call:' .. id)
  reserved = reserved + amount - tonumber(before or 0)
  redis.call('HSET', tokens, 'call:' .. id, amount)
  redis.call('ZADD', calls, now_ms + lease_ms, id)
end

local function take_over_calls()
  local gone = redis.call('ZRANGEBYSCORE', calls, '-inf', now_ms, 'LIMIT', 0, MAX_ENDED)
  remove(gone)
  gone = {}
  for at = first, first + ended - 1 do gone[#gone + 1] = ARGV[at] end
  remove(gone)
  for at = first + ended, #ARGV, 2 do renew(ARGV[at], tonumber(ARGV[at + 1])) end
  in_flight = redis.call('ZCARD', calls)
  if in_flight == 0 then reserved = 0 end
end

-- At midnight, but not within an hour after the last reset.
local function until_reset_s()
  local until_midnight_s = day == today and (today + 1) * 86400 - now_s or 0
  return math.max(until_midnight_s, reset_s + 3600 - now_s)
end

local function admit(in_ns)
  if max_calls > 0 and in_flight >= max_calls then return 1, 0 end
  if per_day > 0 then
    if spent >= per_day then return 2, until_reset_s() end
    local others = reserved - tonumber(redis.call('HGET', tokens, 'call:' .. id) or 0)
    local used = spent + others
    if others > 0 and (used >= per_day or used + amount > per_day) then return 3, 0 end
  end
  if interval_ns > 0 then
    if in_ns > tolerance_ns then return 4, in_ns - tolerance_ns end
    set_arrival(math.max(in_ns, 0) + interval_ns)
  end
  if max_calls > 0 or per_day > 0 then renew(id, amount) end
  return 0, 0
end

local has_calls = #ARGV >= first or sent > settled or max_calls > 0 or per_day > 0
if has_calls then
  read_tokens()
  take_over_tokens()
  take_over_calls()
end
local in_ns = 0
if interval_ns > 0 or is_behind then
  local arrival_ns, max_ns = until_arrival_ns(), tolerance_ns + interval_ns
  if interval_ns > 0 and (arrival_ns or 0) > max_ns then
    -- The clock was set back.
    arrival_ns = max_ns
    set_arrival(max_ns)
  end
  in_ns = arrival_ns or debt_ns
  if is_behind and debt_ns > (arrival_ns or 0) then
    in_ns = debt_ns
    set_arrival(debt_ns)
  end
end
local code, number = 0, 0
if id ~= '' then code, number = admit(in_ns) end
if has_calls then
  if code > 0 then remove({ id }) end
  redis.call('HSET', tokens, 'spent', spent, 'reserved', reserved)
  redis.call('PEXPIRE', calls, keep_ms)
end
return { code, number, spent, count, day }";

/// Limits of one request in Redis.
#[derive(Debug)]
pub(super) struct AdmitArguments {
    pub(super) call: Uuid,
    /// Number of tokens to reserve for the call.
    pub(super) amount: u64,
    pub(super) rate: Option<RequestRate>,
    pub(super) max_calls: Option<usize>,
    pub(super) per_day: Option<NonZeroU64>,
}

/// Answer of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitsAnswer {
    /// Decision on the request, if there was one.
    pub(super) admission: Result<(), LimitRefusal>,
    /// Tokens that all replicas have spent. Their count ends if Redis loses it.
    pub(super) seen: SeenTokens,
}

/// Returns the text of the script.
pub fn limit_script() -> String {
    SCRIPT.replace("MAX_ENDED", &MAX_ENDED.to_string())
}

/// Returns the call of the script that takes over `sync` of a caller, and decides on a
/// request if there is one.
pub(super) fn run(caller: &str, sync: &CallSync, request: Option<&AdmitArguments>) -> ScriptCall {
    let id = request.map(|request| request.call.simple().to_string());
    let rate = request.and_then(|request| request.rate);
    let (interval_ns, tolerance_ns) =
        rate.map_or((0, 0), |rate| (rate.interval_ns, rate.tolerance_ns));
    let max_calls = request.and_then(|request| request.max_calls);
    let per_day = request.and_then(|request| request.per_day);
    let own = sync.own;
    let mut call = ScriptCall::new(limit_script(), keys(caller, own.source))
        .arg(LEASE_MS)
        .arg(sync.debt_ns)
        .arg(u8::from(sync.is_behind))
        .arg(own.settled.min(MAX_SYNCED_TOKENS))
        .arg(own.spent.min(MAX_SYNCED_TOKENS))
        .arg(sync.seen.total)
        .arg(sync.seen.day)
        .arg(sync.seen.count)
        .arg(sync.ended.len())
        .arg(id.unwrap_or_default())
        .arg(request.map_or(0, |request| request.amount))
        .arg(interval_ns)
        .arg(tolerance_ns)
        .arg(max_calls.unwrap_or(0))
        .arg(per_day.map_or(0, NonZeroU64::get));
    for id in &sync.ended {
        call = call.arg(id.simple().to_string());
    }
    for (id, amount) in &sync.live {
        call = call.arg(id.simple().to_string()).arg(*amount);
    }
    call
}

/// Returns the keys of a caller, whose replica counts its tokens as `source`. Redis Cluster keeps
/// all keys with one hash tag together.
pub fn keys(caller: &str, source: Uuid) -> [String; 4] {
    let source = format!("spent:{}", source.simple());
    ["rate", "calls", "tokens", &source].map(|limit| format!("{PREFIX}:{{{caller}}}:{limit}"))
}

impl FromRedisValue for LimitsAnswer {
    fn from_redis_value(value: &Value) -> RedisResult<Self> {
        let (code, number, total, count, day): (u8, u64, u64, u64, u64) =
            redis::from_redis_value(value)?;
        let admission = match code {
            0 => Ok(()),
            1 => Err(LimitRefusal::Calls),
            2 => Err(LimitRefusal::TokensSpent(Duration::from_secs(number))),
            3 => Err(LimitRefusal::TokensReserved),
            4 => Err(LimitRefusal::Rate(Duration::from_nanos(number))),
            _ => {
                let kind = redis::ErrorKind::TypeError;
                return Err(RedisError::from((kind, "unknown answer of the limits")));
            }
        };
        Ok(Self {
            admission,
            seen: SeenTokens { day, total, count },
        })
    }
}
