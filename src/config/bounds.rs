//! Bounds of size, number and time.

use std::time::Duration;

/// Bounds of size (in bytes) and number. None is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The head of a request.
    pub headers: usize,
    /// The body of a model call.
    pub body: usize,
    /// How many bytes of a body must come in each second, on average.
    pub body_rate: usize,
    /// An answer of the model API that is held as a whole.
    pub response: usize,
    /// One SSE event of an answer, and the body of a reported event.
    pub event: usize,
    /// What is held of requests and answers at the same time, all together.
    pub memory: usize,
    /// What one hook may answer; a process, on stdout and on stderr.
    pub hook_output: usize,
    /// Hook processes at the same time.
    pub hook_processes: usize,
    /// Requests at the same time.
    pub in_flight: usize,
    /// Connections of agents at the same time; never more than half of the files
    /// that may be open. If nobody says, as many as that, and not too many.
    pub connections: Option<usize>,
}

/// Bounds of time. None but `lame_duck` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For an agent to send the head of a request.
    pub header: Duration,
    /// For an agent to send the next piece of a body; and for all of it, beyond the
    /// time that it takes at `Limits::body_rate`.
    pub body: Duration,
    /// For a connection without a request.
    pub idle: Duration,
    /// For an agent to take what it is sent.
    pub write: Duration,
    /// To connect to the model API.
    pub upstream_connect: Duration,
    /// For the head of the model API's answer.
    pub first_byte: Duration,
    /// Between two pieces of a streamed answer.
    pub stream_idle: Duration,
    /// At shutdown, for agents to be still served while readiness says no.
    pub lame_duck: Duration,
    /// For requests under way to end at shutdown.
    pub drain: Duration,
    /// Between two keep-alives while an agent waits for hooks.
    pub keep_alive: Duration,
}
