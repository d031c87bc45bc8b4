//! The interface of sinks.

use std::fmt;

use futures_util::future::BoxFuture;
use thiserror::Error;

use super::{event::ExchangeEvent, exchange::Exchange};

/// Resolves when a durable sink has stored all events so far.
pub type CommitFuture = BoxFuture<'static, Result<(), Unavailable>>;

/// A durable sink that cannot store events, so that nothing may happen that it must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("decision log not writable")]
pub struct Unavailable;

/// Receives the events of one request, in order. Called with a lock held, so it must not block.
pub trait Sink: fmt::Debug + Send {
    /// Receives an event. `exchange` includes it.
    fn record(&mut self, exchange: &Exchange, event: &ExchangeEvent<'_>);

    /// Returns a future that waits until all events so far are stored; `None` if the sink is not
    /// durable.
    fn commit(&self) -> Option<CommitFuture> {
        None
    }

    /// Returns whether the sink needs [`ExchangeEvent::BodyPiece`].
    fn wants_bodies(&self) -> bool {
        false
    }

    /// Returns whether the sink needs [`ExchangeEvent::UpstreamHead`] and
    /// [`ExchangeEvent::UpstreamPiece`].
    fn wants_upstream(&self) -> bool {
        false
    }

    /// Returns whether the sink needs [`EventDecision::input`](super::EventDecision::input).
    fn wants_inputs(&self) -> bool {
        false
    }

    /// Returns whether the sink needs [`ExchangeEvent::Planned`].
    fn wants_plans(&self) -> bool {
        false
    }

    /// Returns whether the sink needs the steps of a call: what was edited, and its chunks.
    fn wants_steps(&self) -> bool {
        false
    }

    /// Returns whether the sink needs [`ExchangeEvent::BodyInspected`].
    fn wants_content(&self) -> bool {
        false
    }
}
