//! Sessions in a real Redis: shared, and there when it is not.

use std::time::{Duration, Instant};

use hookgate::{
    config::Secret,
    observe::Metrics,
    session::{
        Fingerprint, ItemNote, MemoryStore, RedisStore, SessionKey, SessionState, SessionStore,
    },
};
use tokio::time::sleep;

use crate::harness::{PATIENCE, Redis};

const IDLE: Duration = Duration::from_mins(1);

fn store(redis: &Redis) -> SessionStore {
    limited(redis, 1000, IDLE)
}

fn limited(redis: &Redis, max: usize, idle: Duration) -> SessionStore {
    let url = Secret::from(redis.url());
    let failures = Metrics::default().session_store_failures.clone();
    let store = RedisStore::new(&url, (max, idle), failures).unwrap();
    SessionStore::Redis(Box::new(store))
}

fn key(id: &str) -> SessionKey {
    SessionKey {
        caller: "ab".to_owned(),
        id: id.to_owned(),
    }
}

/// A state that denies an item.
fn denying(item: u64) -> SessionState {
    let mut state = SessionState::default();
    *state.revise(item, 1) = ItemNote {
        denied: Some("no".to_owned()),
        ..ItemNote::default()
    };
    state
}

/// The items that are denied in a session.
async fn denied(store: &SessionStore, id: &str) -> Vec<u64> {
    let state = store.load(&key(id)).await.unwrap_or_default();
    let mut items: Vec<u64> = state.notes.keys().copied().collect();
    items.sort_unstable();
    items
}

/// Tends until Redis is reached again.
async fn tended_until_it_is_back(store: &SessionStore, redis: &Redis, id: &str) {
    let deadline = Instant::now() + PATIENCE;
    let command = format!("EXISTS hookgate:3:session:ab:{id}");
    while !redis.ask(&command).starts_with(":1") {
        assert!(Instant::now() < deadline, "`{id}` is not written");
        store.expire().await;
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_one_gateway_saves_the_other_finds() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));

    one.save(&key("a"), denying(1), &[Fingerprint(1), Fingerprint(2)])
        .await;

    let found = other
        .find(&[Fingerprint(9), Fingerprint(2), Fingerprint(1)])
        .await;
    assert_eq!(found, Some((1, "a".to_owned())));
    assert_eq!(denied(&other, "a").await, [1]);
    assert_eq!(other.find(&[Fingerprint(8)]).await, None);
}

#[tokio::test]
async fn what_both_save_at_once_is_merged() {
    let redis = Redis::start();
    let stores: Vec<SessionStore> = (0..4).map(|_| store(&redis)).collect();

    let saves = (0..40).map(|item| {
        let store = &stores[item % stores.len()];
        let (item, print) = (item as u64, Fingerprint(item as u128));
        async move { store.save(&key("a"), denying(item), &[print]).await }
    });
    futures_util::future::join_all(saves).await;
    for store in &stores {
        store.expire().await;
    }

    let all: Vec<u64> = (0..40).collect();
    for store in &stores {
        assert_eq!(denied(store, "a").await, all);
    }
    let found = stores[0].find(&[Fingerprint(39)]).await;
    assert_eq!(found, Some((0, "a".to_owned())));
}

#[tokio::test]
async fn calls_do_not_wait_for_a_redis_that_hangs() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    one.save(&key("a"), denying(1), &[Fingerprint(1)]).await;

    redis.hang();
    let started = Instant::now();
    one.save(&key("a"), denying(2), &[Fingerprint(2)]).await;
    let first = started.elapsed();
    let started = Instant::now();
    let found = one.find(&[Fingerprint(2)]).await;
    let (second, items) = (started.elapsed(), denied(&one, "a").await);
    redis.go_on();

    assert!(first < Duration::from_millis(750), "{first:?}");
    assert!(second < Duration::from_millis(200), "{second:?}");
    assert_eq!(found, Some((0, "a".to_owned())));
    assert_eq!(items, [1, 2]);
    let deadline = Instant::now() + PATIENCE;
    while denied(&other, "a").await != [1, 2] {
        assert!(Instant::now() < deadline, "it is not written later");
        one.expire().await;
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        other.find(&[Fingerprint(2)]).await,
        Some((0, "a".to_owned()))
    );
}

#[tokio::test]
async fn a_redis_that_lost_its_data_receives_it_again() {
    let mut redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    one.save(&key("a"), denying(1), &[Fingerprint(1)]).await;
    one.save(&key("b"), denying(5), &[Fingerprint(5)]).await;

    redis.kill();
    one.save(&key("a"), denying(2), &[Fingerprint(2)]).await;
    one.save(&key("c"), denying(3), &[Fingerprint(3)]).await;
    redis.start_again();
    tended_until_it_is_back(&one, &redis, "a").await;
    tended_until_it_is_back(&one, &redis, "c").await;
    // Saved before Redis went, and again after it came back.
    one.save(&key("b"), denying(6), &[Fingerprint(6)]).await;

    assert_eq!(denied(&other, "a").await, [1, 2]);
    assert_eq!(denied(&other, "b").await, [5, 6]);
    assert_eq!(denied(&other, "c").await, [3]);
    for (print, id) in [(1, "a"), (2, "a"), (3, "c"), (5, "b"), (6, "b")] {
        let found = other.find(&[Fingerprint(print)]).await;
        assert_eq!(found, Some((0, id.to_owned())), "{print}");
    }
}

#[tokio::test]
async fn gateways_have_one_secret_even_if_redis_comes_later() {
    let mut redis = Redis::start();
    redis.kill();
    let early = store(&redis);
    let alone = early.fingerprinter().await.fingerprint(&"x");
    redis.start_again();
    let late = store(&redis);
    let shared = late.fingerprinter().await.fingerprint(&"x");

    let deadline = Instant::now() + PATIENCE;
    while early.fingerprinter().await.fingerprint(&"x") != shared {
        assert!(Instant::now() < deadline, "they never agree");
        early.expire().await;
        sleep(Duration::from_millis(20)).await;
    }

    assert_ne!(alone, shared);
}

#[tokio::test]
async fn a_session_ends_once_and_not_while_another_gateway_sees_it() {
    const SHORT: Duration = Duration::from_millis(400);
    let redis = Redis::start();
    let stores = [limited(&redis, 9, SHORT), limited(&redis, 9, SHORT)];
    stores[0]
        .save(&key("quiet"), denying(1), &[Fingerprint(1)])
        .await;
    stores[0]
        .save(&key("busy"), denying(2), &[Fingerprint(2)])
        .await;

    let started = Instant::now();
    let mut ended = Vec::new();
    while started.elapsed() < 3 * SHORT {
        stores[1]
            .save(&key("busy"), SessionState::default(), &[])
            .await;
        let told = futures_util::future::join_all(stores.iter().map(SessionStore::expire)).await;
        ended.extend(told.into_iter().flatten());
        sleep(Duration::from_millis(10)).await;
    }

    let ids: Vec<&str> = ended.iter().map(|(key, _)| key.id.as_str()).collect();
    assert_eq!(ids, ["quiet"]);
    assert_eq!(ended[0].1.notes.len(), 1);
    for store in &stores {
        assert_eq!(store.find(&[Fingerprint(1)]).await, None);
        assert_eq!(store.load(&key("quiet")).await, None);
        assert_eq!(denied(store, "busy").await, [2]);
    }
}

#[tokio::test]
async fn of_too_many_sessions_the_oldest_end() {
    let redis = Redis::start();
    let (one, other) = (limited(&redis, 2, IDLE), limited(&redis, 2, IDLE));
    for (store, id) in [(&one, "a"), (&one, "b"), (&other, "c")] {
        store.save(&key(id), denying(1), &[]).await;
        // Redis tells them apart by the millisecond.
        sleep(Duration::from_millis(3)).await;
    }

    let ended = other.expire().await;

    let ids: Vec<&str> = ended.iter().map(|(key, _)| key.id.as_str()).collect();
    assert_eq!(ids, ["a"]);
    assert!(one.expire().await.is_empty());
}

#[tokio::test]
async fn sessions_are_listed_and_found_by_their_names() {
    let redis = Redis::start();
    let (one, other) = (store(&redis), store(&redis));
    let elsewhere = SessionKey {
        caller: "cd".to_owned(),
        ..key("a")
    };
    for key in [&key("a"), &key("ab"), &elsewhere] {
        one.save(key, denying(1), &[]).await;
        sleep(Duration::from_millis(3)).await;
    }

    let newest: Vec<SessionKey> = other.newest(2).await.into_iter().map(|it| it.0).collect();
    let mut called: Vec<SessionKey> = other
        .find_by_id("a")
        .await
        .into_iter()
        .map(|it| it.0)
        .collect();
    called.sort();

    assert_eq!(newest, [elsewhere.clone(), key("ab")]);
    assert_eq!(called, [key("a"), elsewhere.clone()]);
    assert!(other.remove(&elsewhere).await.is_some());
    assert_eq!(one.find_by_id("a").await.len(), 1);
    assert_eq!(redis.ask("ZCARD hookgate:3:names"), ":2\r\n+OK\r\n");
}

#[tokio::test]
async fn prints_last_as_long_as_their_session() {
    const SHORT: Duration = Duration::from_millis(600);
    let redis = Redis::start();
    let (one, other) = (limited(&redis, 9, SHORT), limited(&redis, 9, SHORT));
    one.save(&key("a"), denying(1), &[Fingerprint(1)]).await;
    let before = lasts(&redis);

    sleep(SHORT).await;
    one.save(&key("a"), denying(2), &[Fingerprint(2)]).await;

    // It was written anew with the other one.
    assert!(lasts(&redis) > before - 500, "{before}");
    assert_eq!(
        other.find(&[Fingerprint(1)]).await,
        Some((0, "a".to_owned()))
    );
}

/// How many milliseconds the print 1 lasts.
fn lasts(redis: &Redis) -> i64 {
    let answer = redis.ask(&format!("PTTL hookgate:3:fingerprint:{:032x}", 1));
    let line = answer.lines().next().unwrap();
    line.trim_start_matches(':').parse().unwrap()
}

#[tokio::test]
async fn a_redis_may_want_a_password() {
    let redis = Redis::with(&["--save", "", "--requirepass", "s3cr3t"]);
    let url = redis.url().replace("redis://", "redis://:s3cr3t@");
    let failures = Metrics::default().session_store_failures.clone();
    let with = RedisStore::new(&Secret::from(url), (9, IDLE), failures).unwrap();
    let with = SessionStore::Redis(Box::new(with));
    let without = store(&redis);

    with.save(&key("a"), denying(1), &[]).await;
    without.save(&key("b"), denying(1), &[]).await;

    assert_eq!(with.newest(9).await.len(), 1);
    assert_eq!(without.newest(9).await[0].0, key("b"));
}

#[tokio::test]
async fn a_store_in_memory_says_the_same() {
    let redis = Redis::start();
    let memory = SessionStore::Memory(Box::new(MemoryStore::new(9, IDLE)));
    let redis = store(&redis);
    for store in [&memory, &redis] {
        store.save(&key("a"), denying(1), &[Fingerprint(1)]).await;
        store.save(&key("a"), denying(2), &[Fingerprint(2)]).await;

        assert_eq!(denied(store, "a").await, [1, 2]);
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
