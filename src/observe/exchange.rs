//! A model call is over.

use std::{sync::Arc, time::Duration};

use super::metrics::Metrics;

/// A model call is over: its answer is sent, refused or given up.
#[derive(Debug, Default)]
pub struct ExchangeFinished {
    /// The id in `x-hookgate-request-id`.
    pub request_id: Arc<str>,
    /// The session, if the agent named one.
    pub session_id: String,
    /// Who called, by the config; empty if nobody is asked.
    pub caller: String,
    /// What was asked, such as `generateContent`; `unknown` for other paths.
    pub operation: &'static str,
    /// The model called in the end.
    pub model: String,
    /// The HTTP status told to the agent.
    pub status: u16,
    /// What became of it, in one word.
    pub action: &'static str,
    /// Chunks handed to hooks.
    pub chunks: u64,
    /// Since the request's head was read.
    pub elapsed: Duration,
    /// How the answer's body ended.
    pub ended: Ended,
    /// Which address of the model API was asked last: `first` or `fallback`;
    /// empty if none was.
    pub upstream: &'static str,
}

/// How an answer's body ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ended {
    /// The agent left before the end.
    #[default]
    Left,
    /// It was sent to its end.
    Complete,
    /// It broke off: upstream did, or it could not be read.
    Broken,
    /// hookgate ended, and could not wait any longer.
    CutOff,
}

impl Ended {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Left => "client_disconnected",
            Self::Complete => "complete",
            Self::Broken => "truncated",
            Self::CutOff => "aborted",
        }
    }
}

impl ExchangeFinished {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.record_request(self.operation, self.status, self.action, self.elapsed);
        metrics.record_chunks(self.chunks);
        let duration_ms = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            request.id = &*self.request_id,
            session.id = self.session_id,
            caller.name = self.caller,
            operation = self.operation,
            model = self.model,
            upstream = self.upstream,
            status = self.status,
            action = self.action,
            chunks = self.chunks,
            ended = self.ended.as_str(),
            duration_ms,
            "exchange finished"
        );
    }
}
