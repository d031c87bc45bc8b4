//! Order of recorded calls within their sessions, and gaps in it.
//!
//! A recording has calls in the order in which they ended. Those of one session are replayed in
//! the order in which they began.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use lru::LruCache;

use super::comparison::UnknownReason;
use crate::recording::{RecordedBody, RecordedExchange, RecordedSession};

/// Most calls that wait for an earlier one of their session.
const MAX_WAITING_CALLS: usize = 256;

/// Most memory of calls that wait, in KiB.
const MAX_WAITING_KIB: u64 = 64 * 1024;

/// Most places of a known session that a call waits for. More are a gap.
const MAX_OVERLAPPING_CALLS: u64 = MAX_WAITING_CALLS as u64;

/// Most places that the first call of an unknown session waits for. Behind more of them, the begin
/// of the session is not recorded.
const MAX_CALLS_BEFORE_BEGIN: u64 = 8;

/// Sessions whose place is known. Of more, that without calls for the longest time begins anew.
const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();

/// Time without a call after which a gateway has dropped the counters of a session.
const COUNTERS_TIMEOUT: SignedDuration = SignedDuration::from_hours(24);

/// A call whose turn it is.
#[derive(Debug)]
pub struct OrderedCall {
    /// The call as recorded.
    pub exchange: RecordedExchange,
    /// Reason why its session is not known.
    pub(super) caveat: Option<UnknownReason>,
    /// True if its gateway had no counters of its session any more.
    pub(super) resets_counters: bool,
}

/// Sessions of a recording so far.
#[derive(Debug)]
pub struct SessionOrder {
    hasher: RandomState,
    sessions: LruCache<u64, SessionProgress>,
    /// Waiting calls by session. None is marked as used, so that the oldest is the first to go.
    waiting: LruCache<u64, WaitingCalls>,
    waiting_calls: usize,
    waiting_kib: u64,
    /// Number of calls that have waited so far.
    number: u64,
}

/// Calls of a session that wait for an earlier one.
#[derive(Debug)]
struct WaitingCalls {
    /// The calls by place and number.
    calls: BTreeMap<(u64, u64), RecordedExchange>,
    /// Time since which no call of the session has had its turn.
    since: Instant,
}

/// Calls of a session that have had their turn.
#[derive(Debug, Default)]
struct SessionProgress {
    /// Place behind the last one.
    next_place: u64,
    /// Latest end of a call.
    end: Timestamp,
    /// Number of earlier places without a call so far.
    missing: u64,
    /// True if calls are missing that cannot come any more.
    is_incomplete: bool,
    /// True if the begin of the session is known.
    has_begun: bool,
}

impl Default for SessionOrder {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            sessions: LruCache::sparse(MAX_SESSIONS),
            waiting: LruCache::unbounded(),
            waiting_calls: 0,
            waiting_kib: 0,
            number: 0,
        }
    }
}

impl SessionOrder {
    /// Adds the next call of a recording. Returns the calls whose turn it is.
    pub fn push(&mut self, exchange: RecordedExchange) -> Vec<OrderedCall> {
        let Some(session) = &exchange.session else {
            return vec![OrderedCall {
                exchange,
                caveat: None,
                resets_counters: false,
            }];
        };
        let key = session_key(&self.hasher, &exchange, &session.id);
        let (place, is_new) = (session.place, session.match_kind == "new");
        let mut calls = Vec::new();
        if is_new && self.waiting_ended_before(key, begin(&exchange)) {
            // The session begins anew, so what they wait for does not come.
            calls = self.release(key);
        }
        let next = self.next_place(key);
        let max_overlapping = match next {
            0 => MAX_CALLS_BEFORE_BEGIN,
            _ => MAX_OVERLAPPING_CALLS,
        };
        if place > next && place - next <= max_overlapping && !is_new {
            self.wait(key, place, exchange);
            calls.extend(self.release_surplus());
            return calls;
        }
        // Those that wait for a call which the recording does not have.
        while let Some(earlier) = self.take_waiting(key, place) {
            calls.push(self.start(key, earlier));
        }
        calls.push(self.start(key, exchange));
        while let Some(next) = self.take_waiting(key, self.next_place(key)) {
            calls.push(self.start(key, next));
        }
        calls
    }

    /// Returns the calls that still wait for earlier ones of their sessions.
    pub fn finish(&mut self) -> Vec<OrderedCall> {
        let mut calls = Vec::new();
        while let Some((&key, _)) = self.waiting.peek_lru() {
            calls.extend(self.release(key));
        }
        calls
    }

    /// Returns the calls of sessions in which no call has had its turn for this time: one that
    /// they wait for is lost.
    pub fn release_stalled(&mut self, timeout: Duration) -> Vec<OrderedCall> {
        let waiting = self.waiting.iter();
        let stalled = waiting.filter(|(_, waiting)| waiting.since.elapsed() >= timeout);
        let stalled: Vec<u64> = stalled.map(|(key, _)| *key).collect();
        let calls = stalled.into_iter().flat_map(|key| self.release(key));
        calls.collect()
    }

    fn wait(&mut self, key: u64, place: u64, exchange: RecordedExchange) {
        self.waiting_calls += 1;
        self.waiting_kib += u64::from(kib(&exchange));
        // Replicas that record into one folder count the places of a session separately.
        let place = (place, self.number);
        self.number += 1;
        if let Some(waiting) = self.waiting.peek_mut(&key) {
            waiting.calls.insert(place, exchange);
            return;
        }
        let (calls, since) = (BTreeMap::from([(place, exchange)]), Instant::now());
        self.waiting.put(key, WaitingCalls { calls, since });
    }

    fn release_surplus(&mut self) -> Vec<OrderedCall> {
        let mut calls = Vec::new();
        while (self.waiting_calls > MAX_WAITING_CALLS || self.waiting_kib > MAX_WAITING_KIB)
            && let Some((&key, _)) = self.waiting.peek_lru()
        {
            calls.extend(self.release(key));
        }
        calls
    }

    fn release(&mut self, key: u64) -> Vec<OrderedCall> {
        let Some(WaitingCalls { calls, .. }) = self.waiting.pop(&key) else {
            return Vec::new();
        };
        self.waiting_calls -= calls.len();
        self.waiting_kib -= calls.values().map(|call| u64::from(kib(call))).sum::<u64>();
        let calls = calls.into_values();
        calls.map(|exchange| self.start(key, exchange)).collect()
    }

    fn waiting_ended_before(&self, key: u64, time: Timestamp) -> bool {
        let waiting = self.waiting.peek(&key);
        waiting.is_some_and(|waiting| waiting.calls.values().all(|call| end(call) < time))
    }

    fn next_place(&self, key: u64) -> u64 {
        let progress = self.sessions.peek(&key);
        progress.map_or(0, |progress| progress.next_place)
    }

    /// Takes the first waiting call of a session, unless it is behind the place `last`.
    fn take_waiting(&mut self, key: u64, last: u64) -> Option<RecordedExchange> {
        let waiting = &mut self.waiting.peek_mut(&key)?.calls;
        let first = waiting.first_entry();
        let first = first.filter(|entry| entry.key().0 <= last)?;
        let exchange = first.remove();
        if waiting.is_empty() {
            self.waiting.pop(&key);
        }
        self.waiting_calls -= 1;
        self.waiting_kib -= u64::from(kib(&exchange));
        Some(exchange)
    }

    /// Records that a call begins.
    fn start(&mut self, key: u64, exchange: RecordedExchange) -> OrderedCall {
        if let Some(waiting) = self.waiting.peek_mut(&key) {
            waiting.since = Instant::now();
        }
        let lacks_parent = self.lacks_parent(&exchange);
        let sessions = &mut self.sessions;
        let progress = sessions.get_or_insert_mut(key, SessionProgress::default);
        let (session, begin) = (exchange.session.as_ref(), begin(&exchange));
        let resets_counters =
            session.is_some_and(|session| progress.resets_counters(session, begin));
        let is_known = session.is_none_or(|session| progress.add(session, begin, end(&exchange)));
        progress.is_incomplete |= lacks_parent;
        let is_unknown = lacks_parent || !is_known;
        OrderedCall {
            exchange,
            caveat: is_unknown.then_some(UnknownReason::SessionIncomplete),
            resets_counters,
        }
    }

    /// Returns whether a call continues the conversation of another session whose calls are not
    /// all known.
    fn lacks_parent(&self, exchange: &RecordedExchange) -> bool {
        let session = exchange.session.as_ref();
        let Some(forked) = session.filter(|session| session.match_kind == "forked") else {
            return false;
        };
        // Recordings of earlier versions do not name it.
        let parent = forked.parent.as_ref();
        parent.is_none_or(|parent| {
            let key = session_key(&self.hasher, exchange, parent);
            let progress = self.sessions.peek(&key);
            progress.is_none_or(|progress| !progress.is_known()) || self.waiting.contains(&key)
        })
    }
}

impl SessionProgress {
    /// Returns whether the gateway has no counters before the next call: it has restarted, or the
    /// session was idle.
    fn resets_counters(&self, session: &RecordedSession, begin: Timestamp) -> bool {
        let has_restarted = session.place == 0 && is_first(session) && begin > self.end;
        let is_idle = begin.duration_since(self.end) > COUNTERS_TIMEOUT;
        self.next_place > 0 && (has_restarted || is_idle)
    }

    /// Adds the next call. Returns whether all calls before it are known.
    fn add(&mut self, session: &RecordedSession, begin: Timestamp, end: Timestamp) -> bool {
        let (place, is_first) = (session.place, is_first(session));
        // A gateway that has restarted counts from 0, but only after its calls have ended.
        let is_late = place < self.next_place && begin <= self.end;
        self.end = self.end.max(end);
        if is_late {
            let is_known = self.is_known();
            let lacks_begin = place == 0 && !is_first && !self.has_begun;
            self.is_incomplete |= self.missing > 0 && lacks_begin;
            self.missing = self.missing.saturating_sub(1);
            return is_known;
        }
        if is_first {
            (self.missing, self.is_incomplete, self.has_begun) = (0, false, true);
        } else if place < self.next_place {
            self.is_incomplete |= self.missing > 0;
            self.missing = place;
        } else {
            self.missing = self.missing.saturating_add(place - self.next_place);
            self.is_incomplete |= place == 0;
        }
        self.next_place = place.saturating_add(1);
        self.is_known()
    }

    const fn is_known(&self) -> bool {
        self.missing == 0 && !self.is_incomplete
    }
}

/// Returns whether a call does not need an earlier one of its session.
fn is_first(session: &RecordedSession) -> bool {
    match session.match_kind.as_str() {
        "new" | "forked" | "transient" => true,
        // Nothing needed the state of a session that the agent names.
        "named" => session.place == 0,
        _ => false,
    }
}

/// Returns the key of a session of the caller of a call.
pub(super) fn session_key(hasher: &RandomState, exchange: &RecordedExchange, id: &str) -> u64 {
    hasher.hash_one((&exchange.caller, &exchange.caller_key, id))
}

/// Returns the time at which a call arrived.
fn begin(exchange: &RecordedExchange) -> Timestamp {
    exchange.time.parse().unwrap_or_default()
}

/// Returns the time at which a call ended.
fn end(exchange: &RecordedExchange) -> Timestamp {
    let duration = i64::try_from(exchange.outcome.ms).unwrap_or(i64::MAX);
    let end = begin(exchange).checked_add(SignedDuration::from_millis(duration));
    end.unwrap_or(Timestamp::MAX)
}

/// Returns the memory of a call, at least 1 KiB.
pub(super) fn kib(exchange: &RecordedExchange) -> u32 {
    let bytes = |body: &RecordedBody| match body {
        RecordedBody::Text(text) | RecordedBody::Base64(text) => text.len(),
        RecordedBody::Same | RecordedBody::Omitted(_) => 0,
    };
    let rounds = exchange.rounds.iter().map(|round| {
        let chunks = round.response.iter().flat_map(|response| &response.chunks);
        bytes(&round.sent) + chunks.map(|chunk| bytes(&chunk.bytes)).sum::<usize>()
    });
    // The answer to the agent is about as long as that of the model, and each is copied once.
    let bytes = bytes(&exchange.request) + 2 * rounds.sum::<usize>();
    u32::try_from(2 * bytes / 1024 + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(session: &str, place: u64, match_kind: &str) -> RecordedExchange {
        let line = serde_json::json!({
            "v": 1, "id": format!("{session}{place}"), "time": "2026-11-22T00:00:00.000Z",
            "revision": "", "caller": "",
            "session": {"id": session, "place": place, "source": "history", "match": match_kind},
            "dialect": "gemini", "operation": "", "method": "POST", "target": "", "headers": [],
            "request": "same", "rounds": [], "events": [],
            "outcome": {"action": "pass", "end": "complete", "ms": 0},
        });
        serde_json::from_value(line).unwrap()
    }

    /// The ids of overlapping calls in the order of their replay; `?` marks those of unknown
    /// sessions.
    fn order(calls: &[(&str, u64, &str)]) -> String {
        let calls = calls.iter().map(|(id, place, kind)| call(id, *place, kind));
        replay_order(calls)
    }

    /// The same of calls each of which begins after the end of the one before it.
    fn sequential_order(calls: &[(&str, u64, &str)]) -> String {
        let calls = calls.iter().zip(0..);
        replay_order(calls.map(|((id, place, kind), second)| RecordedExchange {
            time: format!("2026-11-22T00:00:{second:02}.000Z"),
            ..call(id, *place, kind)
        }))
    }

    fn replay_order(calls: impl Iterator<Item = RecordedExchange>) -> String {
        let mut order = SessionOrder::default();
        let mut ordered: Vec<OrderedCall> = calls.flat_map(|call| order.push(call)).collect();
        ordered.extend(order.finish());
        let ids = ordered.iter().map(|call| {
            let mark = call.caveat.map_or("", |_| "?");
            format!("{}{mark}", call.exchange.id)
        });
        ids.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn calls_that_overlapped_are_replayed_in_the_order_in_which_they_began() {
        let calls = [
            ("a", 1, "continued"),
            ("b", 0, "new"),
            ("a", 2, "continued"),
            ("a", 0, "new"),
            ("a", 3, "rolled_back"),
        ];
        assert_eq!(order(&calls), "b0 a0 a1 a2 a3");
    }

    #[test]
    fn a_session_with_a_gap_or_without_its_begin_is_unknown_until_it_begins_again() {
        let calls = [
            ("a", 0, "new"),
            ("a", 1, "continued"),
            ("a", 20, "continued"),
            ("a", 21, "continued"),
            ("b", 40, "continued"),
            ("a", 0, "new"),
            ("c", 0, "continued"),
            ("d", 3, "continued"),
            ("b", 0, "new"),
            ("b", 1, "continued"),
        ];
        assert_eq!(
            sequential_order(&calls),
            "a0 a1 b40? a20? a21? a0 c0? b0 b1 d3?"
        );
    }

    #[test]
    fn a_forked_session_is_known_if_all_earlier_calls_of_its_parent_are() {
        let fork = |id: &str, parent: Option<&str>| {
            let mut fork = call(id, 0, "forked");
            fork.session.as_mut().unwrap().parent = parent.map(str::to_owned);
            fork
        };
        let calls = [
            call("a", 0, "new"),
            fork("b", Some("a")),
            call("b", 1, "continued"),
            fork("c", Some("missing")),
            call("c", 1, "continued"),
            fork("d", Some("c")),
            call("a", 2, "continued"),
            fork("e", Some("a")),
            fork("f", None),
        ];

        assert_eq!(
            replay_order(calls.into_iter()),
            "a0 b0 b1 c0? c1? d0? e0? f0? a2?"
        );
    }

    #[test]
    fn a_gateway_that_has_restarted_counts_places_from_0() {
        let continued = |place| ("a", place, "continued");
        let calls = [("a", 0, "new"), continued(1), continued(2)];
        let restarted = [continued(0), continued(1), continued(3), continued(2)];
        let calls = [&calls[..], &restarted].concat();
        assert_eq!(sequential_order(&calls), "a0 a1 a2 a0 a1 a2 a3");
    }

    #[test]
    fn the_first_calls_after_a_restart_leave_a_gap_if_they_are_missing() {
        let continued = |place| ("a", place, "continued");
        let calls = [("a", 0, "new"), continued(1), continued(2)];
        let restarted = [continued(1), continued(2), ("a", 0, "new")];
        let calls = [calls, restarted].concat();
        assert_eq!(sequential_order(&calls), "a0 a1 a2 a1? a2? a0");
    }

    #[test]
    fn calls_after_a_restart_that_overlapped_leave_no_gap() {
        let mut order = SessionOrder::default();
        let mut push = |place, match_kind, second| {
            let calls = order.push(RecordedExchange {
                time: format!("2026-11-22T00:00:{second:02}.000Z"),
                ..call("a", place, match_kind)
            });
            let known = calls.iter().map(|call| call.caveat.is_none());
            known.collect::<Vec<_>>()
        };

        assert_eq!(push(0, "new", 0), [true]);
        assert_eq!(push(1, "continued", 1), [true]);
        assert_eq!(push(1, "continued", 11), [false]);
        assert_eq!(push(0, "continued", 10), [false]);
        assert_eq!(push(2, "continued", 12), [true]);
    }

    #[test]
    fn calls_beside_a_slow_one_wait_for_it() {
        let continued = |place| ("a", place, "continued");
        let mut calls = vec![("a", 0, "new")];
        calls.extend((2..40).map(continued));
        calls.extend([continued(1), continued(40)]);

        let expected: Vec<String> = (0..41).map(|place| format!("a{place}")).collect();
        assert_eq!(order(&calls), expected.join(" "));
    }

    #[test]
    fn a_session_is_known_again_once_the_calls_of_its_gap_have_come() {
        let mut order = SessionOrder::default();
        let mut push = |place, match_kind| {
            let mut calls = order.push(call("a", place, match_kind));
            calls.extend(order.finish());
            let known = calls.iter().map(|call| call.caveat.is_none());
            known.collect::<Vec<_>>()
        };

        assert_eq!(push(0, "new"), [true]);
        assert_eq!(push(3, "continued"), [false]);
        assert_eq!(push(1, "continued"), [false]);
        assert_eq!(push(4, "continued"), [false]);
        assert_eq!(push(2, "continued"), [false]);
        assert_eq!(push(5, "continued"), [true]);
    }

    #[test]
    fn calls_behind_gaps_are_replayed_in_the_order_in_which_they_began() {
        let continued = |place| ("a", place, "continued");
        let calls = [
            ("a", 0, "new"),
            continued(3),
            continued(5),
            continued(14),
            continued(15),
        ];
        assert_eq!(order(&calls), "a0 a3? a5? a14? a15?");
    }

    #[test]
    fn a_named_session_without_lookup_is_known_from_its_first_call() {
        let calls = [("a", 0, "named"), ("a", 1, "named"), ("b", 40, "named")];
        assert_eq!(order(&calls), "a0 a1 b40?");
    }

    #[test]
    fn counters_are_reset_by_a_restart_and_by_a_day_without_a_call() {
        let mut order = SessionOrder::default();
        let mut resets = |place, match_kind, time: &str| {
            let calls = order.push(RecordedExchange {
                time: format!("2026-11-{time}:00.000Z"),
                ..call("a", place, match_kind)
            });
            let resets = calls.iter().map(|call| call.resets_counters);
            resets.collect::<Vec<_>>()
        };

        assert_eq!(resets(0, "new", "22T00:00"), [false]);
        assert_eq!(resets(1, "continued", "22T01:00"), [false]);
        assert_eq!(resets(0, "new", "22T02:00"), [true]);
        assert_eq!(resets(0, "continued", "22T03:00"), [false]);
        assert_eq!(resets(0, "named", "22T04:00"), [true]);
        assert_eq!(resets(1, "named", "23T04:01"), [true]);
        assert_eq!(resets(2, "named", "23T04:02"), [false]);
    }

    #[test]
    fn calls_of_one_place_are_all_replayed() {
        let calls = [
            ("a", 1, "continued"),
            ("a", 1, "continued"),
            ("a", 2, "continued"),
            ("a", 0, "new"),
            ("b", 1, "continued"),
            ("b", 1, "continued"),
        ];
        assert_eq!(order(&calls), "a0 a1 a1 a2 b1? b1?");
    }

    #[test]
    fn sessions_with_waiting_calls_are_bounded() {
        let mut order = SessionOrder::default();
        for number in 0..1000 {
            let id = number.to_string();
            order.push(call(&id, 1, "continued"));
            order.push(call(&id, 0, "new"));
        }
        assert_eq!(order.waiting.len(), 0);
        assert_eq!(order.waiting_calls, 0);
    }

    #[test]
    fn calls_that_wait_are_bounded() {
        let mut order = SessionOrder::default();
        let mut replayed = 0;
        for number in 0..1000 {
            replayed += order.push(call(&number.to_string(), 1, "continued")).len();
        }
        assert_eq!(replayed, 1000 - MAX_WAITING_CALLS);
        assert_eq!(order.finish().len(), MAX_WAITING_CALLS);
    }

    #[test]
    fn the_memory_of_calls_that_wait_is_bounded() {
        let mut order = SessionOrder::default();
        let mut replayed = 0;
        for number in 0..100 {
            let exchange = RecordedExchange {
                request: RecordedBody::Text("x".repeat(1024 * 1024)),
                ..call(&number.to_string(), 1, "continued")
            };
            replayed += order.push(exchange).len();
        }
        assert_eq!(replayed, 69, "each counts as 2,049 KiB");
        assert_eq!(order.finish().len(), 100 - replayed);
        assert_eq!(order.waiting_kib, 0);
    }

    #[test]
    fn sessions_of_two_callers_with_the_same_id_are_different_ones() {
        let mut order = SessionOrder::default();
        let mut push = |caller: &str, place, match_kind| {
            let exchange = RecordedExchange {
                caller_key: caller.to_owned(),
                ..call("main", place, match_kind)
            };
            let calls = order.push(exchange);
            calls.iter().map(|call| call.caveat).collect::<Vec<_>>()
        };
        let incomplete = Some(UnknownReason::SessionIncomplete);

        assert_eq!(push("a", 40, "continued"), [incomplete]);
        assert_eq!(push("b", 0, "new"), [None]);
        assert_eq!(push("a", 41, "continued"), [incomplete]);
    }

    #[test]
    fn the_last_possible_place_is_followed_by_none() {
        let calls = [("a", u64::MAX, "new"), ("a", u64::MAX, "continued")];

        assert_eq!(order(&calls).split(' ').count(), 2);
    }
}
