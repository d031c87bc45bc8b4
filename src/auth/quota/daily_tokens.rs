//! Tokens of one caller: spent in the day, and reserved by its calls in flight. Pure.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use super::exceeded::LimitRefusal;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Shortest time between two resets, so that a clock that jumps back and forth resets once.
const MIN_DAY: Duration = Duration::from_hours(1);

/// A day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UtcDay {
    /// Number of days since 1970-01-01.
    pub(super) number: u64,
    /// Time until the day ends.
    pub(super) rest: Duration,
}

/// Usage of tokens, as far as this process has seen it.
#[derive(Debug, Default)]
pub(super) struct DailyTokens {
    shared: SeenTokens,
    own: OwnTokens,
    /// Tokens reserved by calls in flight of this process.
    reserved: u64,
    day: u64,
    /// Time of the last reset, unless none was seen.
    reset_at: Option<Instant>,
}

/// Tokens that all replicas had spent at the last answer of the shared store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SeenTokens {
    /// Day in which they were spent, by the clock of the store.
    pub(super) day: u64,
    pub(super) total: u64,
    /// Identity of the count in the store.
    pub(super) count: u64,
}

/// Tokens that this process has spent on a day. The shared store is sent their sum, so that it
/// counts none twice if its answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnTokens {
    /// Identity of the sum.
    pub(super) source: Uuid,
    pub(super) spent: u64,
    /// Tokens up to which the store has counted them, according to its answers.
    pub(super) settled: u64,
}

impl Default for OwnTokens {
    fn default() -> Self {
        Self {
            source: Uuid::new_v4(),
            spent: 0,
            settled: 0,
        }
    }
}

impl OwnTokens {
    /// Returns the tokens that the shared store may not have.
    pub(super) const fn unsettled(&self) -> u64 {
        self.spent.saturating_sub(self.settled)
    }
}

impl UtcDay {
    /// Returns the day of a wall-clock time.
    pub(super) fn at(now: SystemTime) -> Self {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            number: seconds / SECONDS_PER_DAY,
            rest: Duration::from_secs(SECONDS_PER_DAY - seconds % SECONDS_PER_DAY),
        }
    }
}

impl DailyTokens {
    /// Resets the usage at the begin of another day.
    pub(super) fn begin_day(&mut self, day: u64, now: Instant) {
        let is_recent = |reset_at: Instant| now.saturating_duration_since(reset_at) < MIN_DAY;
        if self.day != day && !self.reset_at.is_some_and(is_recent) {
            *self = Self {
                reserved: self.reserved,
                day,
                reset_at: Some(now),
                ..Self::default()
            };
        }
    }

    /// Returns the time until the usage is reset, which is at midnight, but not before the day
    /// has lasted [`MIN_DAY`].
    pub(super) fn time_to_reset(&self, today: UtcDay, now: Instant) -> Duration {
        let end_of_hour = self.reset_at.map_or(now, |reset_at| reset_at + MIN_DAY);
        let until_reset = end_of_hour.saturating_duration_since(now);
        if self.day == today.number {
            until_reset.max(today.rest)
        } else {
            until_reset
        }
    }

    /// Checks that a call may keep the tokens that it has reserved, of what is left for this
    /// process, which is one of `replicas`. A call alone may reserve more than is left. The tokens
    /// are reset after `rest`.
    pub(super) fn check(
        &self,
        per_day: NonZeroU64,
        replicas: u64,
        own: u64,
        rest: Duration,
    ) -> Result<(), LimitRefusal> {
        let left = per_day.get().saturating_sub(self.shared.total) / replicas.max(1);
        let unsettled = self.own.unsettled();
        if unsettled >= left {
            return Err(LimitRefusal::TokensSpent(rest));
        }
        let others = self.reserved.saturating_sub(own);
        let used = unsettled.saturating_add(others);
        if others > 0 && (used >= left || used.saturating_add(own) > left) {
            return Err(LimitRefusal::TokensReserved);
        }
        Ok(())
    }

    pub(super) const fn reserve(&mut self, amount: u64) {
        self.reserved = self.reserved.saturating_add(amount);
    }

    pub(super) const fn release(&mut self, amount: u64) {
        self.reserved = self.reserved.saturating_sub(amount);
    }

    pub(super) const fn spend(&mut self, amount: u64) {
        self.own.spent = self.own.spent.saturating_add(amount);
    }

    /// Returns the tokens that this process has spent.
    pub(super) const fn own(&self) -> OwnTokens {
        self.own
    }

    /// Marks tokens of this process as counted by the shared store, unless they are of a day
    /// before this one.
    pub(super) fn settle(&mut self, sent: OwnTokens) {
        if sent.source == self.own.source {
            self.own.settled = self.own.settled.max(sent.spent);
        }
    }

    /// Returns the tokens that all replicas had spent at the last answer of the store.
    pub(super) const fn seen(&self) -> SeenTokens {
        self.shared
    }

    /// Takes over the tokens that all replicas have spent, unless the store counted them in a day
    /// before this one: its answer was late, or its clock is.
    pub(super) const fn see(&mut self, tokens: SeenTokens) {
        if tokens.day >= self.day {
            self.shared = tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn check(
        usage: &DailyTokens,
        per_day: u64,
        replicas: u64,
        own: u64,
    ) -> Result<(), LimitRefusal> {
        usage.check(per_day.try_into().unwrap(), replicas, own, HOUR)
    }

    const fn seen(day: u64, total: u64) -> SeenTokens {
        let count = 1;
        SeenTokens { day, total, count }
    }

    #[test]
    fn tokens_of_a_day_are_not_those_of_the_next_one() {
        let start = Instant::now();
        let mut usage = DailyTokens::default();
        usage.begin_day(100, start);
        usage.see(seen(100, 69));
        usage.begin_day(101, start + 2 * HOUR);

        // The answer to a request of the day before.
        usage.see(seen(100, 70));

        assert_eq!(usage.seen().total, 0);
        assert_eq!(check(&usage, 60, 1, 0), Ok(()));
        usage.see(seen(101, 1));
        assert_eq!(usage.seen(), seen(101, 1));
    }

    #[test]
    fn tokens_are_unsettled_until_the_store_has_counted_them() {
        let mut usage = DailyTokens::default();
        usage.spend(5);
        let first = usage.own();
        usage.spend(3);
        let second = usage.own();

        usage.settle(second);
        usage.settle(first);
        usage.spend(1);

        assert_eq!(usage.own().unsettled(), 1);
        usage.begin_day(101, Instant::now());
        usage.spend(7);
        usage.settle(second);
        assert_eq!(usage.own().unsettled(), 7);
    }

    #[test]
    fn a_clock_jump_neither_resets_the_usage_nor_locks_the_caller_out() {
        let start = Instant::now();
        let mut usage = DailyTokens::default();
        let on_day = |usage: &mut DailyTokens, day, now| {
            usage.begin_day(day, now);
            usage.own().unsettled()
        };
        assert_eq!(on_day(&mut usage, 100, start), 0);
        usage.spend(7);

        // Back and forth around midnight.
        let soon = start + Duration::from_secs(5);
        for day in [101, 100, 101, 99, 10_000] {
            assert_eq!(on_day(&mut usage, day, soon), 7, "{day}");
        }
        // The next day resets the usage.
        assert_eq!(on_day(&mut usage, 101, start + 2 * HOUR), 0);
        usage.spend(7);
        // A year ahead by mistake, and corrected.
        assert_eq!(on_day(&mut usage, 466, start + 4 * HOUR), 0);
        usage.spend(7);
        assert_eq!(on_day(&mut usage, 101, start + 4 * HOUR + HOUR / 2), 7);
        assert_eq!(on_day(&mut usage, 101, start + 6 * HOUR), 0);
    }

    #[test]
    fn a_day_that_begins_late_is_reset_after_an_hour() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut usage = DailyTokens::default();
        let last_second = UtcDay::at(UNIX_EPOCH + 100 * 24 * HOUR - second);
        let midnight = UtcDay::at(UNIX_EPOCH + 100 * 24 * HOUR);
        usage.begin_day(last_second.number, start);

        assert_eq!(usage.time_to_reset(last_second, start), HOUR);
        usage.begin_day(midnight.number, start + second);
        let rest = usage.time_to_reset(midnight, start + second);

        assert_eq!(rest, Duration::from_secs(3599));
        usage.spend(7);
        usage.begin_day(midnight.number, start + second + rest);
        assert_eq!(usage.own().unsettled(), 0);
        let rest = usage.time_to_reset(midnight, start + HOUR);
        assert_eq!(rest, midnight.rest);
    }

    #[test]
    fn a_day_ends_at_midnight_in_utc() {
        let at = |seconds| {
            let day = UtcDay::at(UNIX_EPOCH + Duration::from_secs(seconds));
            (day.number, day.rest)
        };
        assert_eq!(at(0), (0, Duration::from_secs(SECONDS_PER_DAY)));
        assert_eq!(at(SECONDS_PER_DAY - 1), (0, Duration::from_secs(1)));
        let day = Duration::from_secs(SECONDS_PER_DAY);
        assert_eq!(at(SECONDS_PER_DAY), (1, day));
    }

    #[test]
    fn calls_reserve_what_is_left_and_one_alone_may_exceed_it() {
        let mut usage = DailyTokens::default();
        usage.reserve(5000);
        assert_eq!(check(&usage, 100, 1, 5000), Ok(()));
        usage.release(4960);
        usage.reserve(60);
        assert_eq!(check(&usage, 100, 1, 60), Ok(()));
        usage.reserve(1);
        let refused = Err(LimitRefusal::TokensReserved);
        assert_eq!(check(&usage, 100, 1, 61), refused);
        assert_eq!(check(&usage, 100, 1, 0), refused);
        usage.release(101);
        usage.spend(u64::MAX);
        assert_eq!(
            check(&usage, 100, 1, 0),
            Err(LimitRefusal::TokensSpent(HOUR))
        );
    }

    #[test]
    fn a_share_is_a_part_of_what_was_left() {
        let mut usage = DailyTokens::default();
        usage.spend(10);
        usage.settle(usage.own());
        usage.see(seen(0, 40));
        assert_eq!(check(&usage, 100, 3, 0), Ok(()));
        usage.spend(19);
        assert_eq!(check(&usage, 100, 3, 0), Ok(()));
        usage.spend(1);
        assert_eq!(
            check(&usage, 100, 3, 0),
            Err(LimitRefusal::TokensSpent(HOUR))
        );
        assert_eq!(check(&usage, 100, 1, 0), Ok(()));
    }
}
