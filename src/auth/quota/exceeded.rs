//! Limits that a request would exceed.

use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;

/// `Retry-After` for limits whose end cannot be known.
pub(super) const RETRY_SOON: Duration = Duration::from_secs(1);

/// Quota that a request would exceed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaExceeded {
    /// Rate limit in requests per minute.
    #[error("rate limit exceeded for caller `{caller}`: {per_minute} requests per minute")]
    Rate {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        per_minute: NonZeroU32,
        /// Time until the next request is allowed.
        retry_after: Duration,
    },
    /// Quota of tokens per day.
    #[error("daily token quota exceeded for caller `{caller}`: {per_day} tokens per day")]
    Tokens {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        per_day: NonZeroU64,
        /// Time until the tokens are reset: at midnight in UTC, but at least an hour after the last
        /// reset.
        retry_after: Duration,
    },
    /// Quota of tokens per day, of which the rest is reserved.
    #[error(
        "daily token quota of caller `{caller}` is reserved by its requests in flight: {per_day} tokens per day"
    )]
    TokensReserved {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        per_day: NonZeroU64,
    },
    /// Limit of concurrent requests.
    #[error("concurrency limit exceeded for caller `{caller}`: {limit} requests at the same time")]
    Concurrency {
        /// Name of the caller.
        caller: Arc<str>,
        /// Limit that was exceeded.
        limit: usize,
    },
    /// The shared limits are unavailable, and requests are refused until they are back.
    #[error("limits of caller `{caller}` are unavailable: Redis does not answer")]
    Unavailable {
        /// Name of the caller.
        caller: Arc<str>,
    },
}

/// Limit of a caller that a request exceeds, before it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitRefusal {
    /// The calls of all replicas are too many.
    Calls,
    /// The tokens of the day are spent. They are reset after this time.
    TokensSpent(Duration),
    /// The rest of the tokens is reserved by calls in flight.
    TokensReserved,
    /// The next request is allowed after this time.
    Rate(Duration),
}

impl QuotaExceeded {
    /// Returns the value of the metric label `outcome`.
    pub(in crate::auth) const fn as_str(&self) -> &'static str {
        match self {
            Self::Rate { .. } => "rate_limit",
            Self::Tokens { .. } | Self::TokensReserved { .. } => "token_quota",
            Self::Concurrency { .. } => "concurrency_limit",
            Self::Unavailable { .. } => "limits_unavailable",
        }
    }

    /// Returns the delay for `Retry-After`.
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::Rate { retry_after, .. } | Self::Tokens { retry_after, .. } => *retry_after,
            Self::TokensReserved { .. } | Self::Concurrency { .. } | Self::Unavailable { .. } => {
                RETRY_SOON
            }
        }
    }
}
