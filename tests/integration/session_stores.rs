//! Redis session store, tested with a real Redis: sharing, outages and expiry.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hookgate::{
    config::Secret,
    observe::Metrics,
    session::{
        Fingerprint, ItemNote, MemoryStore, RedisStore, SessionKey, SessionState, SessionStore,
    },
};
use tokio::time::sleep;

use crate::harness::{Redis, TEST_TIMEOUT};

const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

fn store(redis: &Redis) -> SessionStore {
    store_with_limits(redis, 1000, IDLE_TIMEOUT)
}

fn store_with_limits(redis: &Redis, max: usize, idle: Duration) -> SessionStore {
    let url = Secret::from(redis.url());
    let failures = Metrics::default().session_store_failures.clone();
    let store = RedisStore::new(&url, max, idle, failures).unwrap();
    SessionStore::Redis(Box::new(store))
}

fn key(id: &str) -> SessionKey {
    SessionKey {
        caller: "ab".to_owned(),
        id: id.to_owned(),
    }
}

/// Returns a state in which one item is denied.
fn state_denying(item: u64) -> SessionState {
    let mut state = SessionState::default();
    *state.revise(item, 1) = ItemNote {
        denied: Some("no".to_owned()),
        ..ItemNote::default()
    };
    state
}

/// Returns the items that are denied in a session.
async fn denied_items(store: &SessionStore, id: &str) -> Vec<u64> {
    let state = store.load(&key(id)).await.unwrap_or_default();
    let mut items: Vec<u64> = state.notes.keys().copied().collect();
    items.sort_unstable();
    items
}

/// Expires sessions, which also writes unsaved ones, until Redis has this session.
async fn expire_until_written(store: &SessionStore, redis: &Redis, id: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let command = format!("EXISTS hookgate:4:session:ab:{id}");
    while !redis.ask(&command).starts_with(":1") {
        assert!(Instant::now() < deadline, "`{id}` is not written");
        store.expire().await;
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_saved_by_one_gateway_is_found_by_another() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));

    one.save(
        &key("a"),
        state_denying(1),
        &[Fingerprint(1), Fingerprint(2)],
    )
    .await;

    let found = other
        .find(&[Fingerprint(9), Fingerprint(2), Fingerprint(1)])
        .await;
    assert_eq!(found, Some((1, "a".to_owned())));
    assert_eq!(denied_items(&other, "a").await, [1]);
    assert_eq!(other.find(&[Fingerprint(8)]).await, None);
}

#[test]
fn a_thread_that_ends_does_not_end_the_connection() {
    let redis = Redis::start();
    let failures = Metrics::default().session_store_failures.clone();
    let url = Secret::from(redis.url());
    let store = RedisStore::new(&url, 1000, IDLE_TIMEOUT, failures.clone()).unwrap();
    let store = SessionStore::Redis(Box::new(store));

    for id in ["a", "b"] {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(store.save(&key(id), state_denying(1), &[]));
    }

    assert_eq!(failures.get(), 0);
}

#[tokio::test]
async fn a_session_that_ends_at_one_gateway_ends_at_all() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    one.save(&key("a"), state_denying(1), &[]).await;
    assert_eq!(denied_items(&other, "a").await, [1]);

    one.remove(&key("a")).await;

    assert!(other.load(&key("a")).await.is_none());
    other.save(&key("a"), state_denying(2), &[]).await;
    assert_eq!(denied_items(&one, "a").await, [2]);
}

#[tokio::test]
async fn a_call_in_flight_does_not_restore_a_session_that_ended_elsewhere() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    other.save(&key("a"), state_denying(1), &[]).await;
    other.save(&key("b"), state_denying(1), &[]).await;
    one.remove(&key("a")).await;
    one.remove(&key("b")).await;

    // With and without a call that has seen the end before.
    assert!(other.load(&key("b")).await.is_none());
    other.update(&key("a"), state_denying(2), &[]).await;
    other.update(&key("b"), state_denying(2), &[]).await;

    for store in [&one, &other] {
        assert!(store.load(&key("a")).await.is_none());
        assert!(store.load(&key("b")).await.is_none());
    }
    other.save(&key("a"), state_denying(3), &[]).await;
    assert_eq!(denied_items(&one, "a").await, [3]);
    other.update(&key("a"), state_denying(4), &[]).await;
    assert_eq!(denied_items(&one, "a").await, [3, 4]);
}

#[tokio::test]
async fn ended_sessions_leave_a_bounded_list_that_expires() {
    let redis = Redis::start();
    let store = store_with_limits(&redis, 2, IDLE_TIMEOUT);
    for id in ["a", "b", "c", "d"] {
        store.save(&key(id), state_denying(1), &[]).await;
        store.remove(&key(id)).await;
    }

    let keys = redis.ask("KEYS hookgate:4:*");
    assert_eq!(keys, "*1\r\n$16\r\nhookgate:4:ended\r\n+OK\r\n");
    assert_eq!(redis.ask("ZCARD hookgate:4:ended"), ":2\r\n+OK\r\n");
    let expiry = redis.ask("PTTL hookgate:4:ended");
    assert!(!expiry.starts_with(":-"), "{expiry}");
}

#[tokio::test]
async fn a_session_that_is_no_longer_copied_is_updated() {
    let redis = Redis::start();
    let (one, other) = (
        store_with_limits(&redis, 9, IDLE_TIMEOUT),
        store_with_limits(&redis, 1, IDLE_TIMEOUT),
    );
    other.save(&key("a"), state_denying(1), &[]).await;
    other.save(&key("b"), state_denying(1), &[]).await;

    other.update(&key("a"), state_denying(2), &[]).await;

    assert_eq!(denied_items(&one, "a").await, [1, 2]);
}

#[tokio::test]
async fn concurrent_saves_are_merged() {
    let redis = Redis::start();
    let stores: Vec<SessionStore> = (0..4).map(|_| store(&redis)).collect();

    let saves = (0..40).map(|item| {
        let store = &stores[item % stores.len()];
        let (item, fingerprint) = (item as u64, Fingerprint(item as u128));
        async move {
            store
                .save(&key("a"), state_denying(item), &[fingerprint])
                .await;
        }
    });
    futures_util::future::join_all(saves).await;
    for store in &stores {
        store.expire().await;
    }

    let all: Vec<u64> = (0..40).collect();
    for store in &stores {
        assert_eq!(denied_items(store, "a").await, all);
    }
    let found = stores[0].find(&[Fingerprint(39)]).await;
    assert_eq!(found, Some((0, "a".to_owned())));
}

#[tokio::test]
async fn calls_do_not_wait_for_an_unresponsive_redis() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    one.save(&key("a"), state_denying(1), &[Fingerprint(1)])
        .await;

    redis.hang();
    let started = Instant::now();
    one.save(&key("a"), state_denying(2), &[Fingerprint(2)])
        .await;
    let first = started.elapsed();
    let started = Instant::now();
    let found = one.find(&[Fingerprint(2)]).await;
    let (second, items) = (started.elapsed(), denied_items(&one, "a").await);
    redis.resume();

    assert!(first < Duration::from_millis(750), "{first:?}");
    assert!(second < Duration::from_millis(200), "{second:?}");
    assert_eq!(found, Some((0, "a".to_owned())));
    assert_eq!(items, [1, 2]);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while denied_items(&other, "a").await != [1, 2] {
        assert!(
            Instant::now() < deadline,
            "the session is not written later"
        );
        one.expire().await;
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        other.find(&[Fingerprint(2)]).await,
        Some((0, "a".to_owned()))
    );
}

#[tokio::test]
async fn sessions_are_written_again_to_a_redis_that_lost_its_data() {
    let mut redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    one.save(&key("a"), state_denying(1), &[Fingerprint(1)])
        .await;
    one.save(&key("b"), state_denying(5), &[Fingerprint(5)])
        .await;

    redis.kill();
    one.save(&key("a"), state_denying(2), &[Fingerprint(2)])
        .await;
    one.save(&key("c"), state_denying(3), &[Fingerprint(3)])
        .await;
    redis.restart();
    expire_until_written(&one, &redis, "a").await;
    expire_until_written(&one, &redis, "c").await;
    // Saved before the outage of Redis, and again after it.
    one.save(&key("b"), state_denying(6), &[Fingerprint(6)])
        .await;

    assert_eq!(denied_items(&other, "a").await, [1, 2]);
    assert_eq!(denied_items(&other, "b").await, [5, 6]);
    assert_eq!(denied_items(&other, "c").await, [3]);
    for (fingerprint, id) in [(1, "a"), (2, "a"), (3, "c"), (5, "b"), (6, "b")] {
        let found = other.find(&[Fingerprint(fingerprint)]).await;
        assert_eq!(found, Some((0, id.to_owned())), "{fingerprint}");
    }
}

#[tokio::test]
async fn gateways_share_one_fingerprint_secret_even_if_redis_starts_later() {
    let mut redis = Redis::start();
    redis.kill();
    let early = store(&redis);
    let before_redis = early.fingerprinter().await.fingerprint(&"x");
    redis.restart();
    let late = store(&redis);
    let shared = late.fingerprinter().await.fingerprint(&"x");

    let deadline = Instant::now() + TEST_TIMEOUT;
    while early.fingerprinter().await.fingerprint(&"x") != shared {
        assert!(Instant::now() < deadline, "the secrets stay different");
        early.expire().await;
        sleep(Duration::from_millis(20)).await;
    }

    assert_ne!(before_redis, shared);
}

#[tokio::test]
async fn a_session_expires_once_and_not_while_another_gateway_uses_it() {
    const SHORT_IDLE_TIMEOUT: Duration = Duration::from_millis(400);
    let redis = Redis::start();
    let stores = [
        store_with_limits(&redis, 9, SHORT_IDLE_TIMEOUT),
        store_with_limits(&redis, 9, SHORT_IDLE_TIMEOUT),
    ];
    let quiet = SessionState {
        turns: 3,
        ..state_denying(1)
    };
    stores[0]
        .save(&key("quiet"), quiet, &[Fingerprint(1)])
        .await;
    stores[0]
        .save(&key("busy"), state_denying(2), &[Fingerprint(2)])
        .await;

    let started = Instant::now();
    let mut ended = Vec::new();
    while started.elapsed() < 3 * SHORT_IDLE_TIMEOUT {
        stores[1]
            .save(&key("busy"), SessionState::default(), &[])
            .await;
        let expired = futures_util::future::join_all(stores.iter().map(SessionStore::expire)).await;
        ended.extend(expired.into_iter().flatten());
        sleep(Duration::from_millis(10)).await;
    }

    let ids: Vec<&str> = ended.iter().map(|(key, _)| key.id.as_str()).collect();
    assert_eq!(ids, ["quiet"]);
    assert_eq!((ended[0].1.turns, ended[0].1.notes.len()), (3, 0));
    for store in &stores {
        assert_eq!(store.find(&[Fingerprint(1)]).await, None);
        assert_eq!(store.load(&key("quiet")).await, None);
        assert_eq!(denied_items(store, "busy").await, [2]);
    }
}

#[tokio::test]
async fn a_session_with_a_call_in_flight_does_not_expire() {
    const SHORT_IDLE_TIMEOUT: Duration = Duration::from_millis(400);
    let redis = Redis::start();
    let store = store_with_limits(&redis, 9, SHORT_IDLE_TIMEOUT);
    store.save(&key("a"), state_denying(1), &[]).await;
    let in_flight = [key("a"), key("ended")].map(Arc::new);

    let started = Instant::now();
    while started.elapsed() < 3 * SHORT_IDLE_TIMEOUT {
        store.touch(&in_flight).await;
        assert_eq!(store.expire().await, []);
        sleep(Duration::from_millis(10)).await;
    }

    assert_eq!(denied_items(&store, "a").await, [1]);
    assert_eq!(redis.ask("ZCARD hookgate:4:seen"), ":1\r\n+OK\r\n");
}

#[tokio::test]
async fn the_oldest_of_too_many_sessions_ends() {
    let redis = Redis::start();
    let (one, other) = (
        store_with_limits(&redis, 2, IDLE_TIMEOUT),
        store_with_limits(&redis, 2, IDLE_TIMEOUT),
    );
    for (store, id) in [(&one, "a"), (&one, "b"), (&other, "c")] {
        store.save(&key(id), state_denying(1), &[]).await;
        // Redis orders sessions by the millisecond.
        sleep(Duration::from_millis(3)).await;
    }

    let ended = other.expire().await;

    let ids: Vec<&str> = ended.iter().map(|(key, _)| key.id.as_str()).collect();
    assert_eq!(ids, ["a"]);
    assert!(one.expire().await.is_empty());
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_found_by_id() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    let elsewhere = SessionKey {
        caller: "cd".to_owned(),
        ..key("a")
    };
    for key in [&key("a"), &key("ab"), &elsewhere] {
        one.save(key, state_denying(1), &[]).await;
        sleep(Duration::from_millis(3)).await;
    }

    let newest: Vec<SessionKey> = other
        .newest(2)
        .await
        .into_iter()
        .map(|entry| entry.0)
        .collect();
    let mut with_this_id: Vec<SessionKey> = other
        .find_by_id("a")
        .await
        .into_iter()
        .map(|entry| entry.0)
        .collect();
    with_this_id.sort();

    assert_eq!(newest, [elsewhere.clone(), key("ab")]);
    assert_eq!(with_this_id, [key("a"), elsewhere.clone()]);
    assert!(other.remove(&elsewhere).await.is_some());
    assert_eq!(one.find_by_id("a").await.len(), 1);
    assert_eq!(redis.ask("ZCARD hookgate:4:names"), ":2\r\n+OK\r\n");
}

#[tokio::test]
async fn saving_a_session_renews_the_ttl_of_all_its_fingerprints() {
    const SHORT_IDLE_TIMEOUT: Duration = Duration::from_millis(600);
    let redis = Redis::start();
    let (one, other) = (
        store_with_limits(&redis, 9, SHORT_IDLE_TIMEOUT),
        store_with_limits(&redis, 9, SHORT_IDLE_TIMEOUT),
    );
    one.save(&key("a"), state_denying(1), &[Fingerprint(1)])
        .await;
    let before = fingerprint_ttl(&redis);

    sleep(SHORT_IDLE_TIMEOUT).await;
    one.save(&key("a"), state_denying(2), &[Fingerprint(2)])
        .await;

    // It is renewed together with fingerprint 2.
    assert!(fingerprint_ttl(&redis) > before - 500, "{before}");
    assert_eq!(
        other.find(&[Fingerprint(1)]).await,
        Some((0, "a".to_owned()))
    );
}

/// Returns the TTL of fingerprint 1 in milliseconds.
fn fingerprint_ttl(redis: &Redis) -> i64 {
    let answer = redis.ask(&format!("PTTL hookgate:4:fingerprint:{:032x}", 1));
    let line = answer.lines().next().unwrap();
    line.trim_start_matches(':').parse().unwrap()
}

#[tokio::test]
async fn many_fingerprints_are_found_by_several_short_scripts() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    one.save(&key("a"), state_denying(1), &[Fingerprint(3000)])
        .await;
    let fingerprints: Vec<Fingerprint> = (1..=3000).map(Fingerprint).collect();
    other.find(&[Fingerprint(1)]).await;
    let before = script_runs(&redis);

    let found = other.find(&fingerprints).await;

    assert_eq!(found, Some((2999, "a".to_owned())));
    assert_eq!(script_runs(&redis) - before, 3);
}

fn script_runs(redis: &Redis) -> u64 {
    let info = redis.ask("INFO commandstats");
    let line = info
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let calls = line.and_then(|line| line.split(['=', ',']).nth(1)?.parse().ok());
    calls.unwrap_or(0)
}

#[tokio::test]
async fn the_password_of_the_redis_url_is_used() {
    let redis = Redis::with(&["--save", "", "--requirepass", "s3cr3t"]);
    let url = redis.url().replace("redis://", "redis://:s3cr3t@");
    let failures = Metrics::default().session_store_failures.clone();
    let with = RedisStore::new(&Secret::from(url), 9, IDLE_TIMEOUT, failures).unwrap();
    let with = SessionStore::Redis(Box::new(with));
    let without = store(&redis);

    with.save(&key("a"), state_denying(1), &[]).await;
    without.save(&key("b"), state_denying(1), &[]).await;

    assert_eq!(with.newest(9).await.len(), 1);
    assert_eq!(without.newest(9).await[0].0, key("b"));
}

#[tokio::test]
async fn the_memory_store_behaves_like_the_redis_store() {
    let redis = Redis::start();
    let memory = SessionStore::Memory(Box::new(MemoryStore::new(9, IDLE_TIMEOUT)));
    let redis = store(&redis);
    for store in [&memory, &redis] {
        store
            .save(&key("a"), state_denying(1), &[Fingerprint(1)])
            .await;
        store
            .save(&key("a"), state_denying(2), &[Fingerprint(2)])
            .await;

        assert_eq!(denied_items(store, "a").await, [1, 2]);
        assert_eq!(store.count(), 1);
        assert_eq!(store.newest(9).await.len(), 1);
        assert_eq!(store.find_by_id("a").await.len(), 1);
        assert_eq!(
            store.find(&[Fingerprint(1)]).await,
            Some((0, "a".to_owned()))
        );
        assert_eq!(store.remove(&key("a")).await.unwrap().notes.len(), 2);
        assert_eq!(store.find(&[Fingerprint(1)]).await, None);
        assert_eq!(store.load(&key("a")).await, None);
        assert!(store.expire().await.is_empty());
    }
}
