//! The live trace: the last exchanges in memory, and what is kept of their content.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::units::{DurationText, Size};

/// The live trace of exchanges, in memory.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Trace")]
pub struct TraceSettings {
    /// Number of exchanges to keep; 0 disables the trace.
    #[schemars(range(max = 1_000_000))]
    pub exchanges: usize,
    /// Memory for records of exchanges, those in flight included. At least 4MiB.
    #[serde(with = "Size")]
    pub memory: usize,
    /// Content to keep beside the records. Default: none.
    pub content: ContentSettings,
}

/// Content that the live trace keeps. Secrets in it are masked by all detectors first.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "TraceContent")]
pub struct ContentSettings {
    /// Keep the content of calls that policies or hooks denied or edited.
    pub denied_or_edited: bool,
    /// Share of inspected calls whose content is kept, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0), extend("errorMessage" = "must be a share from 0 to 1"))]
    pub sample: f64,
    /// Keep the reasons that hooks give, not only their hashes. Only investigators see them.
    pub reasons: bool,
    /// Memory for content, in bytes.
    #[serde(with = "Size")]
    pub memory: usize,
    /// Time after which content is removed.
    #[serde(rename = "for", with = "DurationText")]
    pub retention: Duration,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self {
            exchanges: 2000,
            memory: 16 * 1024 * 1024,
            content: ContentSettings::default(),
        }
    }
}

impl Default for ContentSettings {
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
