//! Limits of the trace, and what it keeps of contents.

use std::time::Duration;

/// Limits of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceLimits {
    /// Number of records; 0 disables the trace.
    pub exchanges: usize,
    /// Bytes of records and of exchanges in flight.
    pub memory: usize,
    /// Content that is kept.
    pub content: ContentLimits,
}

/// Content that the trace keeps. It is masked before it is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContentLimits {
    /// Whether content of denied and edited calls is kept.
    pub denied_or_edited: bool,
    /// Share of all inspected calls whose content is kept, from 0 to 1.
    pub sample: f64,
    /// Whether reasons of hooks are kept as text.
    pub reasons: bool,
    /// Maximum bytes of content.
    pub memory: usize,
    /// Time after which content is removed.
    pub retention: Duration,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self {
            exchanges: 2000,
            memory: 16 * 1024 * 1024,
            content: ContentLimits::default(),
        }
    }
}

impl Default for ContentLimits {
    fn default() -> Self {
        Self {
            denied_or_edited: false,
            sample: 0.0,
            reasons: false,
            memory: 64 * 1024 * 1024,
            retention: Duration::from_hours(1),
        }
    }
}
