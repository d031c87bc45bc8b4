use std::time::{Duration, UNIX_EPOCH};

use futures_util::FutureExt;

use super::*;
use crate::auth::{
    MAX_RESERVED_OUTPUT,
    quota::{caller_usage::MAX_ENDED, daily_tokens::SeenTokens},
};

const HALF_DAY: Duration = Duration::from_hours(12);

fn quota() -> Arc<Quota> {
    Arc::new(Quota::new("key", &Arc::from("ci")))
}

/// Enters without a shared store, which never waits.
fn enter(
    quota: &Arc<Quota>,
    grant: &Grant,
    cost: RequestCost,
) -> Result<CallerInFlightGuard, QuotaExceeded> {
    let noon = UNIX_EPOCH + HALF_DAY;
    let entered = quota.enter(grant, cost, None, noon).now_or_never();
    entered.unwrap()
}

#[test]
fn spent_tokens_count_until_the_day_is_over() {
    let grant = Grant {
        tokens_per_day: 10.try_into().ok(),
        in_flight: 1,
        ..Grant::default()
    };
    let (quota, noon) = (quota(), UNIX_EPOCH + HALF_DAY);
    let call = enter(&quota, &grant, RequestCost::Bytes(1)).unwrap();

    call.0.spend(9, noon);
    drop(call);
    let call = enter(&quota, &grant, RequestCost::Bytes(1)).unwrap();
    call.0.spend(u64::MAX, noon);
    drop(call);

    assert!(enter(&quota, &grant, RequestCost::Free).is_ok());
    let refused = enter(&quota, &grant, RequestCost::Bytes(1)).unwrap_err();
    let message = "daily token quota exceeded for caller `ci`: 10 tokens per day";
    assert_eq!(refused.to_string(), message);
    assert_eq!(refused.retry_after(), HALF_DAY);
}

#[test]
fn calls_in_flight_reserve_what_they_are_expected_to_cost() {
    let grant = Grant {
        tokens_per_day: NonZeroU64::new(2 * (1000 + MAX_RESERVED_OUTPUT)),
        in_flight: 9,
        ..Grant::default()
    };
    let (quota, noon) = (quota(), UNIX_EPOCH + HALF_DAY);
    let request = RequestCost::Bytes(4000);
    let first = enter(&quota, &grant, request).unwrap();
    let second = enter(&quota, &grant, request).unwrap();

    let refused = enter(&quota, &grant, request).unwrap_err();
    assert!(refused.to_string().contains("reserved"), "{refused}");
    assert_eq!(refused.retry_after(), Duration::from_secs(1));
    assert!(enter(&quota, &grant, RequestCost::Free).is_ok());

    // The maximum of an answer frees the rest of what was reserved for it.
    first.0.estimate(4000, Some(0));
    assert!(enter(&quota, &grant, RequestCost::Bytes(4)).is_err());
    second.0.estimate(4000, Some(0));
    drop(enter(&quota, &grant, request).unwrap());

    // Later calls reserve what earlier ones have cost.
    first.0.spend(1100, noon);
    second.0.spend(1100, noon);
    drop((first, second));
    let calls: Vec<_> = (0..9).map(|_| enter(&quota, &grant, request)).collect();
    assert!(calls.iter().all(Result::is_ok));
}

#[test]
fn only_admitted_calls_are_renewed() {
    let (mut usage, id) = (CallerUsage::default(), Uuid::new_v4());
    usage.begin_call(id, 0, Lease::Requested);
    assert!(usage.take_sync(SyncScope::All).is_empty());

    usage.share_call(id);

    assert_eq!(usage.take_sync(SyncScope::All).live, [(id, 0)]);
}

#[test]
fn tokens_are_sent_until_the_store_has_answered() {
    let (mut usage, id) = (CallerUsage::default(), Uuid::new_v4());
    usage.spend(id, 7);
    let sync = usage.take_sync(SyncScope::Changes);
    usage.undo_sync(&sync);

    let again = usage.take_sync(SyncScope::Changes);

    assert_eq!((sync.own, again.own.unsettled()), (again.own, 7));
    usage.finish_sync(&again, SeenTokens::default());
    assert!(usage.take_sync(SyncScope::Changes).is_empty());
}

#[test]
fn calls_are_sent_again_if_the_store_does_not_answer() {
    let (mut usage, ids) = (CallerUsage::default(), [Uuid::new_v4(), Uuid::new_v4()]);
    for id in ids {
        usage.begin_call(id, 9, Lease::Requested);
        usage.share_call(id);
        usage.spend(id, 1);
    }
    usage.end_call(ids[0]);
    let sync = usage.take_sync(SyncScope::Changes);
    assert!(usage.take_sync(SyncScope::Changes).live.is_empty());

    usage.undo_sync(&sync);

    let again = usage.take_sync(SyncScope::Changes);
    assert_eq!((again.ended, again.live), (vec![ids[0]], sync.live));
}

#[test]
fn a_refused_call_ends_like_others_if_the_store_may_have_it() {
    for (is_shared, ended) in [(false, 0), (true, 1)] {
        let (mut usage, id) = (CallerUsage::default(), Uuid::new_v4());
        usage.begin_call(id, 5, Lease::Requested);
        if is_shared {
            usage.share_call(id);
        }

        usage.cancel_call(id);
        usage.end_call(id);

        assert_eq!(usage.take_sync(SyncScope::Changes).ended.len(), ended);
        assert_eq!(usage.reserved_by(id), 0);
    }
}

#[test]
fn calls_without_a_shared_store_leave_nothing_behind() {
    let (mut usage, id) = (CallerUsage::default(), Uuid::new_v4());
    usage.begin_call(id, 5, Lease::None);
    usage.estimate_call(id, 9, None);
    usage.spend(id, 7);
    usage.end_call(id);

    assert_eq!(usage.changed_calls(), 0);
}

#[test]
fn a_call_that_ends_while_it_is_renewed_ends_once_more() {
    let (mut usage, id) = (CallerUsage::default(), Uuid::new_v4());
    usage.begin_call(id, 0, Lease::Requested);
    usage.share_call(id);
    let renewal = usage.take_sync(SyncScope::All);
    usage.end_call(id);
    assert_eq!(usage.take_sync(SyncScope::Changes).ended, [id]);

    usage.finish_sync(&renewal, SeenTokens::default());

    assert_eq!(usage.take_sync(SyncScope::Changes).ended, [id]);
}

#[test]
fn ended_calls_that_wait_for_the_shared_store_are_bounded_while_it_is_unavailable() {
    let mut usage = CallerUsage::default();
    for _ in 0..10 * MAX_ENDED {
        let id = Uuid::new_v4();
        usage.begin_call(id, 0, Lease::Requested);
        usage.fall_behind();
        usage.share_call(id);
        usage.end_call(id);
    }

    assert_eq!(usage.take_sync(SyncScope::Changes).ended.len(), MAX_ENDED);
    assert!(usage.take_sync(SyncScope::Changes).ended.is_empty());
}

#[test]
fn parallel_requests_share_a_rate() {
    let grant = Grant {
        requests_per_minute: 1.try_into().ok(),
        in_flight: 4,
        ..Grant::default()
    };
    for _ in 0..200 {
        let quota = quota();
        let barrier = std::sync::Barrier::new(4);
        let admitted = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                scope.spawn(|| {
                    barrier.wait();
                    enter(&quota, &grant, RequestCost::Free).is_ok()
                })
            });
            let results = threads.map(|thread| thread.join().unwrap());
            results
                .into_iter()
                .filter(|is_admitted| *is_admitted)
                .count()
        });
        assert_eq!(admitted, 1);
    }
}
