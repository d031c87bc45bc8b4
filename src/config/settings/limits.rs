//! Limits of size, number and time.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{
    schema::scalars::CountSchema,
    units::{DurationText, Size},
};

/// Limits of size (in bytes) and number. None but `http2_streams` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum size of a request's headers.
    #[serde(with = "Size")]
    pub headers: usize,
    /// Maximum size of the body of a model call.
    #[serde(with = "Size")]
    pub body: usize,
    /// Minimum rate of a request body in bytes per second, on average.
    #[serde(with = "Size")]
    pub body_rate: usize,
    /// Maximum size of a buffered response of the model API.
    #[serde(with = "Size")]
    pub response: usize,
    /// Maximum size of one SSE event of a response, and of a reported event's body.
    #[serde(with = "Size")]
    pub event: usize,
    /// Maximum memory for all requests and responses that are buffered at the same
    /// time.
    #[serde(with = "Size")]
    pub memory: usize,
    /// Maximum output of a hook; of a process, on stdout and on stderr each.
    #[serde(with = "Size")]
    pub hook_output: usize,
    /// Maximum number of concurrent hook processes.
    #[schemars(with = "CountSchema")]
    pub hook_processes: usize,
    /// Maximum number of concurrent requests.
    #[schemars(with = "CountSchema")]
    pub in_flight: usize,
    /// Maximum number of concurrent connections of agents, and never more than half
    /// of the file descriptor limit. Default: half of that limit, at most 20000.
    #[schemars(with = "Option<CountSchema>")]
    pub connections: Option<usize>,
    /// Maximum number of concurrent requests of one HTTP/2 connection. 0 disables HTTP/2
    /// for agents and operators.
    #[schemars(range(max = 1000), extend("errorMessage" = "must be a whole number from 0 to 1000"))]
    pub http2_streams: u32,
}

/// Timeouts. None but `lame_duck` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Time for an agent to send the headers of a request.
    #[serde(with = "DurationText")]
    pub header: Duration,
    /// Time between two reads of a request body; and for the whole body, beyond the
    /// time that it takes at `limits.body_rate`.
    #[serde(with = "DurationText")]
    pub body: Duration,
    /// Idle timeout of a connection without a request.
    #[serde(with = "DurationText")]
    pub idle: Duration,
    /// Time for an agent to read what it is sent.
    #[serde(with = "DurationText")]
    pub write: Duration,
    /// Time to connect to the model API.
    #[serde(with = "DurationText")]
    pub upstream_connect: Duration,
    /// Time to the headers of the model API's response.
    #[serde(with = "DurationText")]
    pub first_byte: Duration,
    /// Time between two reads of a streamed response.
    #[serde(with = "DurationText")]
    pub stream_idle: Duration,
    /// Time at shutdown in which agents are still served while `/readyz` reports
    /// that the gateway is not ready. Default: none.
    #[serde(with = "DurationText", skip_serializing_if = "Duration::is_zero")]
    pub lame_duck: Duration,
    /// Time for in-flight requests to complete at shutdown.
    #[serde(with = "DurationText")]
    pub drain: Duration,
    /// Interval of keep-alives to an agent that waits for hooks.
    #[serde(with = "DurationText")]
    pub keep_alive: Duration,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            headers: 64 * KIB,
            body: 32 * MIB,
            body_rate: 8 * KIB,
            response: 256 * MIB,
            event: 16 * MIB,
            memory: 1024 * MIB,
            hook_output: MIB,
            hook_processes: 64,
            in_flight: 10_000,
            connections: None,
            http2_streams: 100,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(30),
            body: Duration::from_mins(1),
            idle: Duration::from_mins(5),
            write: Duration::from_mins(1),
            upstream_connect: Duration::from_secs(5),
            first_byte: Duration::from_mins(5),
            stream_idle: Duration::from_mins(2),
            lame_duck: Duration::ZERO,
            drain: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
        }
    }
}
