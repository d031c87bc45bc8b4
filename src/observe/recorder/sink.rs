//! The interface of sinks.

use std::fmt;

use futures_util::future::BoxFuture;
use thiserror::Error;

use super::{event::ExchangeEvent, exchange_summary::ExchangeSummary};

/// Resolves when a durable sink has stored all events so far.
pub type CommitFuture = BoxFuture<'static, Result<(), Unavailable>>;

/// A durable sink that cannot store events, so that nothing may happen that it must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("decision log not writable")]
pub struct Unavailable;

/// Events and parts of events that are recorded only if a sink needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkNeed {
    /// Each [`ExchangeEvent::BodyPiece`] of a request and its response.
    Bodies,
    /// Heads and bytes of upstream's responses, as [`ExchangeEvent::UpstreamPiece`].
    Upstream,
    /// Input of hook events in [`EventDecision`](super::EventDecision).
    Inputs,
    /// Policies and hooks that run on an event, as [`ExchangeEvent::Planned`].
    Plans,
    /// The steps of a call: what was edited, and its chunks.
    Steps,
    /// Bodies that policies and hooks inspect, as [`ExchangeEvent::BodyInspected`].
    Content,
    /// Token counts of responses, as [`ExchangeEvent::UsageReported`].
    Usage,
}

/// Receives the events of one request, in order. Called with a lock held, so it must not block.
pub trait Sink: fmt::Debug + Send {
    /// Receives an event. `exchange` includes it.
    fn record(&mut self, exchange: &ExchangeSummary, event: &ExchangeEvent<'_>);

    /// Returns a future that waits until all events so far are stored; `None` if the sink is not
    /// durable.
    fn commit(&self) -> Option<CommitFuture> {
        None
    }

    /// Returns whether the sink needs something that is recorded only for sinks that need it.
    fn needs(&self, _what: SinkNeed) -> bool {
        false
    }
}
