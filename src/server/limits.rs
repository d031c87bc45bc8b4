//! Limits of a listener and its connections.

use std::time::Duration;

use super::min_body_rate::MinRate;
use crate::config::{Config, Timeouts};

/// Smallest head limit that hyper supports.
const MIN_HEAD_BYTES: usize = 8192;

/// Bytes read beyond the head limit, so that a head slightly above it gets an error with a
/// reason. hyper itself only sends a status.
const HEAD_OVERREAD_BYTES: usize = 64 * 1024;

/// Time for a client beyond the limit of connections to receive an error.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListenerLimits {
    /// Maximum number of concurrent connections.
    pub(super) connections: usize,
    /// Maximum size of request line and headers, in bytes.
    pub(super) max_head_bytes: usize,
    /// Maximum number of concurrent streams of an HTTP/2 connection; 0 for HTTP/1.1 only.
    pub(super) http2_streams: u32,
    pub(super) timeouts: Timeouts,
    pub(super) min_body_rate: MinRate,
}

impl ListenerLimits {
    /// Reads the limits of a config, for this number of connections.
    pub(super) fn from_config(config: &Config, connections: usize) -> Self {
        let (limits, timeouts) = (&config.limits, &config.timeouts);
        Self {
            connections,
            max_head_bytes: limits.headers.max(MIN_HEAD_BYTES) + HEAD_OVERREAD_BYTES,
            http2_streams: limits.http2_streams,
            timeouts: *timeouts,
            min_body_rate: MinRate {
                grace: timeouts.body,
                bytes_per_second: limits.body_rate,
            },
        }
    }

    /// Returns the limits of a connection that only receives an error.
    pub(super) fn for_rejection(self) -> Self {
        Self {
            timeouts: Timeouts {
                header: REJECTION_TIMEOUT.min(self.timeouts.header),
                idle: Duration::ZERO,
                write: REJECTION_TIMEOUT.min(self.timeouts.write),
                ..self.timeouts
            },
            ..self
        }
    }
}
