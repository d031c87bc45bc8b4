//! Replay of calls that come one by one, with a report at any time.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{
    comparison::Comparison,
    gateway::ReplayedHooks,
    replayer::{RecordedSessionKey, ReplayConfigs, Replayer},
    report::ReplayReport,
    session_order::{OrderedCall, SessionOrder},
};
use crate::{config::Config, recording::RecordedExchange, state::BuildError};

/// Maximum number of sessions with a difference that are kept. Beyond it all are removed, and content of their
/// later calls counts as a difference.
const MAX_DIVERGED_SESSIONS: usize = 100_000;

/// Replays calls that come one by one, and compares them with what was recorded.
pub struct SerialReplay {
    replayer: Arc<Replayer>,
    order: SessionOrder,
    /// Callers and ids of sessions.
    diverged: HashSet<RecordedSessionKey>,
}

/// The report of a [`SerialReplay`], which another thread may read.
#[derive(Clone)]
pub struct LiveReport(Arc<Replayer>);

impl SerialReplay {
    /// Builds the gateway of a config. Hooks with `shadow: true` run.
    ///
    /// # Errors
    ///
    /// Returns an error if something that the config asks for cannot be built.
    pub async fn new(config: Config, hooks: ReplayedHooks) -> Result<Self, BuildError> {
        let configs = ReplayConfigs {
            after: config,
            before: None,
            hooks,
        };
        let replayer = Box::pin(Replayer::new(configs, Arc::default())).await?;
        Ok(Self {
            replayer: Arc::new(replayer),
            order: SessionOrder::default(),
            diverged: HashSet::new(),
        })
    }

    /// Adds a call. Returns the calls whose turn it is.
    pub fn push(&mut self, exchange: RecordedExchange) -> Vec<OrderedCall> {
        self.order.push(exchange)
    }

    /// Returns the calls that wait for earlier ones of their sessions.
    pub fn release(&mut self) -> Vec<OrderedCall> {
        self.order.finish()
    }

    /// Returns the calls that have waited in vain for this time. Their sessions are unknown.
    pub fn release_stalled(&mut self, timeout: Duration) -> Vec<OrderedCall> {
        self.order.release_stalled(timeout)
    }

    /// Replays a call whose turn it is, and compares it; `None` if it is a request that is no call.
    pub async fn compare(&mut self, call: &OrderedCall) -> Option<Comparison> {
        if self.diverged.len() > MAX_DIVERGED_SESSIONS {
            self.diverged.clear();
        }
        self.replayer.compare(call, &mut self.diverged).await
    }

    /// Returns the report, which grows with each call.
    pub fn live_report(&self) -> LiveReport {
        LiveReport(Arc::clone(&self.replayer))
    }
}

impl LiveReport {
    /// Returns the report of the calls so far.
    pub fn report(&self) -> ReplayReport {
        ReplayReport {
            before: ReplayReport::LIVE.to_owned(),
            ..self.0.report()
        }
    }
}
