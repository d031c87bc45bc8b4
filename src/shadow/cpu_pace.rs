//! Pauses of a thread that keep it within its share of a core.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::config::CpuShare;

/// Shorter pauses are added up.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// Measures the CPU time of the thread that creates it.
#[derive(Debug)]
pub(super) struct CpuPace {
    share: CpuShare,
    used: Duration,
    since: Instant,
    debt: Duration,
}

impl CpuPace {
    pub(super) fn new(share: CpuShare) -> Self {
        Self {
            share,
            used: thread_cpu_time(),
            since: Instant::now(),
            debt: Duration::ZERO,
        }
    }

    /// Begins a piece of work. What the thread did not use before is not saved up.
    pub(super) fn begin(&mut self) {
        (self.used, self.since) = (thread_cpu_time(), Instant::now());
    }

    /// Ends a piece of work, and returns the pause after it.
    pub(super) fn pause(&mut self) -> Duration {
        let used = thread_cpu_time().saturating_sub(self.used);
        self.debt += pause_after(used, self.since.elapsed(), self.share);
        if self.debt < MIN_PAUSE {
            return Duration::ZERO;
        }
        std::mem::take(&mut self.debt)
    }
}

/// Returns the pause after which `used` of the whole time is within the share.
fn pause_after(used: Duration, elapsed: Duration, CpuShare(percent): CpuShare) -> Duration {
    let whole = used.saturating_mul(100).checked_div(percent);
    whole.unwrap_or(Duration::MAX).saturating_sub(elapsed)
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_keep_the_share() {
        let ms = Duration::from_millis;

        assert_eq!(pause_after(ms(10), ms(10), CpuShare(10)), ms(90));
        assert_eq!(pause_after(ms(10), ms(60), CpuShare(10)), ms(40));
        assert_eq!(pause_after(ms(10), ms(200), CpuShare(10)), ms(0));
        assert_eq!(pause_after(ms(10), ms(10), CpuShare(100)), ms(0));
    }

    #[test]
    fn the_cpu_time_of_this_thread_is_measured() {
        let mut pace = CpuPace::new(CpuShare(50));
        pace.begin();
        let until = Instant::now() + Duration::from_millis(200);
        while thread_cpu_time() < pace.used + Duration::from_millis(20) {
            assert!(
                Instant::now() < until + Duration::from_secs(10),
                "no progress"
            );
        }

        assert!(pace.debt.is_zero());
        let elapsed = pace.since.elapsed();
        let pause = pace.pause();
        assert!(pause <= Duration::from_millis(60), "{pause:?}");
        assert!(elapsed + pause >= Duration::from_millis(35), "{pause:?}");
    }
}
