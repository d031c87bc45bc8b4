//! Limits that a request would exceed.

use std::{error::Error, fmt, sync::Arc, time::Duration};

/// `Retry-After` for limits whose end cannot be known.
pub(super) const RETRY_SOON: Duration = Duration::from_secs(1);

/// Limit of a caller that a request would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// Name of the caller.
    pub(super) caller: Arc<str>,
    /// Number of requests or tokens that the caller may have.
    pub(super) limit: u64,
    /// Reason of the refusal.
    pub refusal: LimitRefusal,
}

/// Reason why a limit refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitRefusal {
    /// Too many requests at the same time.
    Calls,
    /// The tokens of the day are spent. They are reset after this time: at midnight in UTC, but
    /// at least an hour after the last reset.
    TokensSpent(Duration),
    /// The rest of the tokens is reserved by calls in flight.
    TokensReserved,
    /// Too many requests in a minute. The next one is allowed after this time.
    Rate(Duration),
    /// The shared limits are unavailable, and requests are refused until they are back.
    Unavailable,
}

impl QuotaExceeded {
    /// Returns the value of the metric label `outcome`.
    pub(in crate::auth) const fn as_str(&self) -> &'static str {
        match self.refusal {
            LimitRefusal::Rate(_) => "rate_limit",
            LimitRefusal::TokensSpent(_) | LimitRefusal::TokensReserved => "token_quota",
            LimitRefusal::Calls => "concurrency_limit",
            LimitRefusal::Unavailable => "limits_unavailable",
        }
    }

    /// Returns the delay for `Retry-After`.
    pub const fn retry_after(&self) -> Duration {
        match self.refusal {
            LimitRefusal::Rate(delay) | LimitRefusal::TokensSpent(delay) => delay,
            LimitRefusal::TokensReserved | LimitRefusal::Calls | LimitRefusal::Unavailable => {
                RETRY_SOON
            }
        }
    }
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caller, limit) = (&self.caller, self.limit);
        match self.refusal {
            LimitRefusal::Rate(_) => {
                write!(
                    f,
                    "rate limit exceeded for caller `{caller}`: {limit} requests per minute"
                )
            }
            LimitRefusal::TokensSpent(_) => {
                write!(
                    f,
                    "daily token quota exceeded for caller `{caller}`: {limit} tokens per day"
                )
            }
            LimitRefusal::TokensReserved => {
                write!(
                    f,
                    "daily token quota of caller `{caller}` is reserved by its requests in flight: {limit} tokens per day"
                )
            }
            LimitRefusal::Calls => {
                write!(
                    f,
                    "concurrency limit exceeded for caller `{caller}`: {limit} requests at the same time"
                )
            }
            LimitRefusal::Unavailable => {
                write!(
                    f,
                    "limits of caller `{caller}` are not shared at present: see `/readyz`"
                )
            }
        }
    }
}

impl Error for QuotaExceeded {}
