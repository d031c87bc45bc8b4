//! The rate limit in the Redis script, compared with `governor` in a process.

use std::{num::NonZeroU32, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, FakeRelativeClock},
};
use hookgate::auth::{limit_keys, limit_script};
use proptest::{prelude::*, test_runner::TestRunner};
use redis::aio::MultiplexedConnection;

use crate::harness::Redis;

const NANOSECONDS_PER_MINUTE: u64 = 60_000_000_000;

/// A wall-clock time, in microseconds.
const START_US: u64 = 1_900_000_000_123_456;

/// Runs the script for a caller without calls and tokens, at this time instead of that of
/// Redis. Returns the result code and the time to wait in nanoseconds.
async fn admit_at(
    redis: &mut MultiplexedConnection,
    caller: &str,
    per_minute: NonZeroU32,
    now_us: u64,
) -> (u8, u64) {
    let script = limit_script();
    let clock = "redis.call('TIME')";
    assert_eq!(script.matches(clock).count(), 1);
    let now = format!("{{ {}, {} }}", now_us / 1_000_000, now_us % 1_000_000);
    let script = script.replace(clock, &now);
    let interval_ns = NANOSECONDS_PER_MINUTE / u64::from(per_minute.get());
    let tolerance_ns = interval_ns * u64::from(per_minute.get() - 1);
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(3).arg(&limit_keys(caller));
    // The lease, no local counts, the request and its tokens, the limits.
    command.arg(30_000).arg(&[0; 7]).arg("id").arg(0);
    command.arg(&[interval_ns, tolerance_ns, 0, 0]);
    let (code, wait_ns, _spent, _count, _day): (u8, u64, u64, u64, u64) =
        command.query_async(redis).await.unwrap();
    (code, wait_ns)
}

#[test]
fn redis_admits_the_same_requests_as_governor() {
    let server = Redis::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let redis = runtime
        .block_on(client.get_multiplexed_async_connection())
        .unwrap();
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
