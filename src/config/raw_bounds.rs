//! Bounds as written.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Limits, Timeouts,
    units::{Count, Period, Size},
};

/// Bounds of size and number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(super) struct RawLimits {
    /// The head of a request.
    pub(super) headers: Size,
    /// The body of a model call.
    pub(super) body: Size,
    /// How many bytes of a body must come in each second, on average.
    pub(super) body_rate: Size,
    /// An answer of the model API that is held as a whole.
    pub(super) response: Size,
    /// One SSE event of an answer, and the body of a reported event.
    pub(super) event: Size,
    /// What is held of requests and answers at the same time, all together.
    pub(super) memory: Size,
    /// What one hook may answer; a process, on stdout and on stderr.
    pub(super) hook_output: Size,
    /// Hook processes at the same time.
    pub(super) hook_processes: Count,
    /// Requests at the same time.
    pub(super) in_flight: Count,
    /// Connections of agents at the same time; never more than half of the files
    /// that may be open. That, and at most 20000, if absent.
    pub(super) connections: Option<Count>,
}

/// Bounds of time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub(super) struct RawTimeouts {
    /// For an agent to send the head of a request.
    pub(super) header: Period,
    /// For an agent to send the next piece of a body; and for all of it, beyond the
    /// time that it takes at `limits.body_rate`.
    pub(super) body: Period,
    /// For a connection without a request.
    pub(super) idle: Period,
    /// For an agent to take what it is sent.
    pub(super) write: Period,
    /// To connect to the model API.
    pub(super) upstream_connect: Period,
    /// For the head of the model API's answer.
    pub(super) first_byte: Period,
    /// Between two pieces of a streamed answer.
    pub(super) stream_idle: Period,
    /// At shutdown, for agents to be still served while `/readyz` says no; not at
    /// all if absent.
    pub(super) lame_duck: Option<Period>,
    /// For requests under way to end at shutdown.
    pub(super) drain: Period,
    /// Between two keep-alives while an agent waits for hooks.
    pub(super) keep_alive: Period,
}

/// How many requests may be under way if nobody says otherwise.
pub(super) const DEFAULT_IN_FLIGHT: usize = 10_000;

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            headers: Size::kib(64),
            body: Size::mib(32),
            body_rate: Size::kib(8),
            response: Size::mib(256),
            event: Size::mib(16),
            memory: Size::mib(1024),
            hook_output: Size::mib(1),
            hook_processes: Count(64),
            in_flight: Count(DEFAULT_IN_FLIGHT),
            connections: None,
        }
    }
}

impl Default for RawTimeouts {
    fn default() -> Self {
        let seconds = |it| Period(Duration::from_secs(it));
        Self {
            header: seconds(30),
            body: seconds(60),
            idle: seconds(300),
            write: seconds(60),
            upstream_connect: seconds(5),
            first_byte: seconds(300),
            stream_idle: seconds(120),
            lame_duck: None,
            drain: seconds(30),
            keep_alive: seconds(10),
        }
    }
}

impl From<RawLimits> for Limits {
    fn from(raw: RawLimits) -> Self {
        Self {
            headers: raw.headers.0,
            body: raw.body.0,
            body_rate: raw.body_rate.0,
            response: raw.response.0,
            event: raw.event.0,
            memory: raw.memory.0,
            hook_output: raw.hook_output.0,
            hook_processes: raw.hook_processes.0,
            in_flight: raw.in_flight.0,
            connections: raw.connections.map(|it| it.0),
        }
    }
}

impl From<RawTimeouts> for Timeouts {
    fn from(raw: RawTimeouts) -> Self {
        Self {
            header: raw.header.0,
            body: raw.body.0,
            idle: raw.idle.0,
            write: raw.write.0,
            upstream_connect: raw.upstream_connect.0,
            first_byte: raw.first_byte.0,
            stream_idle: raw.stream_idle.0,
            lame_duck: raw.lame_duck.map(|it| it.0).unwrap_or_default(),
            drain: raw.drain.0,
            keep_alive: raw.keep_alive.0,
        }
    }
}
