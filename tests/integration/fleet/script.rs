//! The Redis script of limits: its rate, compared with `governor` in a process, and its clock.

use std::{num::NonZeroU32, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, FakeRelativeClock},
};
use hookgate::auth::{limit_keys, limit_script};
use proptest::{prelude::*, test_runner::TestRunner};
use redis::aio::MultiplexedConnection;
use uuid::Uuid;

use crate::harness::Redis;

const NANOSECONDS_PER_MINUTE: u64 = 60_000_000_000;
const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;

/// A wall-clock time, in microseconds.
const START_US: u64 = 1_900_000_000_123_456;

/// Runs the script for a caller without calls, at this time instead of that of Redis.
/// `limits` are the interval and the tolerance of the rate in nanoseconds, the calls in flight
/// and the tokens per day. Returns the result code and the time to wait, for the rate in
/// nanoseconds and for tokens in seconds.
async fn run_at(
    redis: &mut MultiplexedConnection,
    caller: &str,
    now_us: u64,
    spent: u64,
    limits: [u64; 4],
) -> (u8, u64) {
    let script = limit_script();
    let clock = "redis.call('TIME')";
    assert_eq!(script.matches(clock).count(), 1);
    let now = format!("{{ {}, {} }}", now_us / 1_000_000, now_us % 1_000_000);
    let script = script.replace(clock, &now);
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(4);
    command.arg(&limit_keys(caller, Uuid::new_v4()));
    // The lease, the local counts, the request and its tokens, the limits.
    command.arg(30_000).arg(&[0, 0, 0, spent, 0, 0, 0, 0]);
    command.arg("id").arg(0).arg(&limits);
    let (code, wait, _spent, _count, _day): (u8, u64, u64, u64, u64) =
        command.query_async(redis).await.unwrap();
    (code, wait)
}

/// Asks for a request at a rate. Returns the result code and the time to wait in nanoseconds.
async fn admit_at(
    redis: &mut MultiplexedConnection,
    caller: &str,
    per_minute: NonZeroU32,
    now_us: u64,
) -> (u8, u64) {
    let interval_ns = NANOSECONDS_PER_MINUTE / u64::from(per_minute.get());
    let tolerance_ns = interval_ns * u64::from(per_minute.get() - 1);
    run_at(redis, caller, now_us, 0, [interval_ns, tolerance_ns, 0, 0]).await
}

/// Asks for a request of a caller with 100 tokens per day, after it has spent some more. Returns
/// the result code.
async fn spend_at(redis: &mut MultiplexedConnection, now_us: u64, spent: u64) -> u8 {
    run_at(redis, "team-a", now_us, spent, [0, 0, 0, 100])
        .await
        .0
}

async fn connect(server: &Redis) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

#[test]
fn redis_admits_the_same_requests_as_governor() {
    let server = Redis::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let redis = runtime.block_on(connect(&server));
    let rates = prop_oneof![1_u32..20, 20_u32..1_000_000];
    let gaps_us = prop_oneof![3 => 0_u64..10, 2 => 0_u64..20_000_000, 1 => 0_u64..200_000_000];
    let cases = (rates, prop::collection::vec(gaps_us, 1..80));
    let config = ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let number = std::cell::Cell::new(0);

    let compared = TestRunner::new(config).run(&cases, |(per_minute, gaps_us)| {
        let per_minute = NonZeroU32::new(per_minute).unwrap();
        number.set(number.get() + 1);
        let caller = format!("caller-{}", number.get());
        let clock = FakeRelativeClock::default();
        let limiter = RateLimiter::direct_with_clock(Quota::per_minute(per_minute), clock.clone());
        let mut now_us = START_US;
        for gap_us in gaps_us {
            clock.advance(Duration::from_micros(gap_us));
            now_us += gap_us;
            let expected = limiter
                .check()
                .map_err(|until| until.wait_time_from(clock.now()));
            let answer =
                runtime.block_on(admit_at(&mut redis.clone(), &caller, per_minute, now_us));
            let answer = match answer {
                (0, _) => Ok(()),
                (4, wait_ns) => Err(Duration::from_nanos(wait_ns)),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(answer, expected);
        }
        Ok(())
    });

    compared.unwrap();
}

#[tokio::test]
async fn a_clock_of_redis_that_is_set_back_delays_a_request_by_one_interval_at_most() {
    let server = Redis::start();
    let mut redis = connect(&server).await;
    let per_minute = NonZeroU32::new(60).unwrap();
    for _ in 0..60 {
        let answer = admit_at(&mut redis, "team-a", per_minute, START_US).await;
        assert_eq!(answer, (0, 0));
    }

    let earlier_us = START_US - HOUR_US;
    let (code, wait_ns) = admit_at(&mut redis, "team-a", per_minute, earlier_us).await;

    assert_eq!((code, wait_ns), (4, 1_000_000_000));
    let later_us = earlier_us + wait_ns / 1000;
    let answer = admit_at(&mut redis, "team-a", per_minute, later_us).await;
    assert_eq!(answer, (0, 0));
}

#[tokio::test]
async fn tokens_are_reset_after_the_clock_of_redis_was_days_ahead() {
    let server = Redis::start();
    let mut redis = connect(&server).await;
    assert_eq!(spend_at(&mut redis, START_US, 50).await, 0);
    let ahead_us = START_US + 5 * DAY_US;
    assert_eq!(spend_at(&mut redis, ahead_us, 100).await, 2);

    assert_eq!(spend_at(&mut redis, START_US, 0).await, 0);
    assert_eq!(spend_at(&mut redis, START_US, 100).await, 2);
}

#[tokio::test]
async fn tokens_are_kept_if_the_clock_of_redis_is_set_back_over_midnight() {
    let server = Redis::start();
    let mut redis = connect(&server).await;
    let midnight_us = START_US.next_multiple_of(DAY_US);
    assert_eq!(spend_at(&mut redis, START_US, 50).await, 0);
    assert_eq!(spend_at(&mut redis, midnight_us + 1_000_000, 99).await, 0);

    for now_us in [midnight_us - 1_000_000, midnight_us + 2_000_000] {
        assert_eq!(spend_at(&mut redis, now_us, 0).await, 0);
    }
    assert_eq!(spend_at(&mut redis, midnight_us, 1).await, 2);
}

#[tokio::test]
async fn the_time_to_wait_for_tokens_ends_when_they_are_reset() {
    let server = Redis::start();
    let mut redis = connect(&server).await;
    let midnight_us = START_US.next_multiple_of(DAY_US) + DAY_US;
    let reset_us = midnight_us - HOUR_US / 2;
    assert_eq!(spend_at(&mut redis, START_US, 50).await, 0);
    assert_eq!(spend_at(&mut redis, reset_us, 100).await, 2);

    for (now_us, wait_s) in [(reset_us, 3600), (midnight_us, 1800)] {
        let answer = run_at(&mut redis, "team-a", now_us, 0, [0, 0, 0, 100]).await;
        assert_eq!(answer, (2, wait_s));
    }
    let next_reset_us = reset_us + HOUR_US;
    let answer = run_at(&mut redis, "team-a", next_reset_us, 0, [0, 0, 0, 100]).await;
    assert_eq!(answer, (0, 0));
    let answer = run_at(&mut redis, "team-a", next_reset_us, 100, [0, 0, 0, 100]).await;
    assert_eq!(answer, (2, 86_400 - 1800));
}
